"""How Hadoop writes a path into a ``uri`` field: ``Path.toUri().toString()``, and the way back.

Only ``uri`` fields and manifests are encoded; ``bucket``, ``destinationKey`` and the file names of a
``_SUCCESS`` are raw.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote, unquote

_NOT_RAW = re.compile(r"[^!$&'()*+,\-./0-9:;=@A-Z_a-z~]")
_ESCAPED_CATEGORIES = frozenset({"Cc", "Zl", "Zp", "Zs"})
_SCHEME_AND_AUTHORITY = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://[^/]*)?")
_SLASHES = re.compile("/{2,}")


def encode(path: str) -> str:
    """Escape a path, with or without ``scheme://authority``, as Hadoop's ``Path`` does.

    Percent signs are always escaped; letters of any script stay raw, spaces and control characters of any
    script do not. Runs of slashes become one and a slash at the end goes, as in Hadoop, so
    the URI does not show them. Unlike Hadoop, elements ``.`` and ``..`` are names like any other.
    """
    head = _SCHEME_AND_AUTHORITY.match(path)
    start = head.end() if head else 0
    below = _SLASHES.sub("/", path[start:])
    if len(below) > 1:
        below = below.removesuffix("/")
    return _NOT_RAW.sub(_escaped, path[:start] + below)


def decode(uri: str) -> str:
    """Undo every percent escape. What is none stays; bytes that are no UTF-8 become U+FFFD, as in Java."""
    return unquote(uri, errors="replace")


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character.isascii() or unicodedata.category(character) in _ESCAPED_CATEGORIES:
        return quote(character, safe="")
    return character
