"""How large each of our files may be. What is written is never more than what is read.

Every ``to_bytes`` ends in ``within``. Of files that are written after a job's commit point,
``magicfs.transaction.prepare`` asks before it whether they will fit.

A value of JSON may take two bytes in a file and a hundred in memory, so values are limited, too. They are
counted in the bytes, before anything is made of them.
"""

from __future__ import annotations

import re
from typing import Final

from magicfs.errors import UsageError

_MIB: Final = 1024**2

BUNDLE_SIZE_LIMIT: Final = 16 * _MIB
"""Bytes of all bodies of small files in one object."""
DELETIONS_SIZE_LIMIT: Final = 8 * _MIB
"""Bytes: 1,000 of the longest keys, each byte escaped."""
FOOTERS_SIZE_LIMIT: Final = 256 * _MIB
"""Bytes: many more than any list of footers has."""
JOB_LOCATION_SIZE_LIMIT: Final = 64 * 1024
JOB_OBJECT_SIZE_LIMIT: Final = 16 * _MIB
"""Bytes: chunk names of some 50 million files."""
LOG_SIZE_LIMIT: Final = 64 * _MIB
"""Bytes: many more than any part of a log has."""
MANIFEST_SIZE_LIMIT: Final = 256 * _MIB
"""Bytes: about a million files."""
PENDING_SIZE_LIMIT: Final = 16 * _MIB
PENDINGSET_SIZE_LIMIT: Final = 256 * _MIB
POINTER_SIZE_LIMIT: Final = 16 * _MIB
REGISTRATION_SIZE_LIMIT: Final = 64 * 1024
SUCCESS_SIZE_LIMIT: Final = 16 * _MIB
TAG_SIZE_LIMIT: Final = 64 * 1024
TASK_MANIFEST_SIZE_LIMIT: Final = 256 * _MIB

VALUE_LIMIT: Final = 4_000_000
"""Values of a file: a pending set of 130,000 files, or of 100 files of 10,000 parts with their checksums."""
MANIFEST_VALUE_LIMIT: Final = 10_000_000
"""Values of a manifest: the million files that one listed before it had parts, or as many replaced ones."""
FOOTERS_VALUE_LIMIT: Final = 8_000_000
"""Values of a list of footers: 2,000 files with statistics of 1,000 columns each."""

ROOM: Final = 64 * 1024
"""Bytes that a file which is written again, or only after the commit point, must leave free before it: for
other hosts, states and reasons."""


_TEXT: Final = re.compile(rb'"[^"\\,\[{]*+"|("(?:[^"\\]++|\\.)*+(?:"|\\?\Z))', re.DOTALL)
"""A text of JSON; a group if a comma or a bracket may be in it."""
_AT_ONCE: Final = _MIB
_TEXTS_OF_VALUE: Final = 2
"""Most texts to a value: its name, and itself."""


def has_more_values(raw: bytes, limit: int) -> bool:
    """Whether a JSON document has more values than so many. Small documents are not looked at."""
    if len(raw) <= limit:
        return False
    values = sum(_values(raw, start, start + _AT_ONCE) for start in range(0, len(raw), _AT_ONCE))
    if values <= limit:
        return False
    for texts, text in enumerate(_TEXT.finditer(raw)):
        if text.lastindex:
            values -= _values(raw, *text.span())
        if texts > _TEXTS_OF_VALUE * limit:
            return True
    return values > limit


def _values(raw: bytes, start: int, end: int) -> int:
    """How many values begin there, if none of it is text."""
    piece = raw[start:end]
    return len(piece) - len(piece.translate(None, b",[{"))


def within(raw: bytes, size_limit: int, what: str, advice: str, *, value_limit: int = VALUE_LIMIT) -> bytes:
    """The bytes of a file, if it may be so large. Raises UsageError if nobody would read it."""
    if len(raw) > size_limit:
        raise UsageError(
            f"{what} would have {len(raw):,} bytes, and the limit is {size_limit:,}; it was not written; "
            f"{advice}"
        )
    if has_more_values(raw, value_limit):
        raise UsageError(
            f"{what} would have more than the limit of {value_limit:,} values; it was not written; {advice}"
        )
    return raw
