"""The site: what is made of the code, and its check in a browser."""
