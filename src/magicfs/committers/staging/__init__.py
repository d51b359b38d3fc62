"""The staging committers: local files first, uploaded when their task commits."""
