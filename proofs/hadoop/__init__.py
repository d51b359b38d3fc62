"""Hadoop's own S3A committers and ours finish each other's work, on a real S3 server."""
