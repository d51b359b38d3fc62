"""The version of magicfs, kept apart so that any room may tell it."""

__version__ = "0.1.0"
