"""The distributions of a release: what is in them, and what they do where nothing else is."""

import sys

__all__ = ["say"]


def say(text: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
