"""What tells an object from all others that its key has held: its ETag, and its version where there is one.

One text, for a job keeps one for each of its files, and processes report them to each other.
"""

from __future__ import annotations

__all__ = ["etag_and_version", "object_id"]

_BETWEEN = "\t"


def object_id(etag: str, version: str) -> str:
    """Both in one text; empty without an ETag, as of an answer that had none: a HEAD has to tell."""
    return f"{etag}{_BETWEEN}{version}" if etag and version else etag


def etag_and_version(text: str) -> tuple[str, str]:
    """The ETag, and the version; each is empty if it is not known."""
    etag, _, version = text.partition(_BETWEEN)
    return etag, version
