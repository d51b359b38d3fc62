"""The commands of the command line, one module each, and what they say it with.

A command's module is imported to describe it, so it imports what it works with only when it runs.
"""
