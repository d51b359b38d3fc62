"""The commands about the past, one module each."""
