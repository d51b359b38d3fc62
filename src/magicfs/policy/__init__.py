"""Least-privilege policies for each role, made from the requests that the roles were seen to make."""
