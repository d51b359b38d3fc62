"""The commands that write tables, one module each."""
