"""The commands that look at a destination or a bucket, one module each."""
