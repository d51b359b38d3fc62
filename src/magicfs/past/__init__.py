"""Publications of the past: what of them is kept, and leading back to one of them."""
