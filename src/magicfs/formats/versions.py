"""Telling which version of one of our own formats a document has."""

from __future__ import annotations

import re

from magicfs.formats.document import shown
from magicfs.formats.fields import Fields

__all__ = ["check_format"]


def check_format(fields: Fields, expected: str) -> None:
    """Check ``format``, which names the format and its version, such as ``magicfs.manifest/1``.

    Raises:
        FormatError: Another one or none. One of a newer version says so.
    """
    found = fields.required_text("format")
    if found == expected:
        return
    name = expected.rpartition("/")[0]
    if re.fullmatch(rf"{re.escape(name)}/[0-9]{{1,9}}", found):
        raise fields.error("format", f"{found}, and this magicfs reads {expected}; use a newer magicfs")
    raise fields.error("format", f"{shown(found)}, where {expected} is understood")
