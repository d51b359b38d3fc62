"""How large each of our files may be. What is written is never more than what is read.

Every ``to_bytes`` ends in ``within``. Of files that are written after a job's commit point,
``magicfs.transaction.capacity`` asks before it whether they will fit.
"""

from __future__ import annotations

from typing import Final

from magicfs.errors import UsageError

__all__ = [
    "BUNDLE_SIZE_LIMIT",
    "DELETIONS_SIZE_LIMIT",
    "FILE_LIST_SIZE_LIMIT",
    "FOOTERS_SIZE_LIMIT",
    "JOB_LOCATION_SIZE_LIMIT",
    "JOB_OBJECT_SIZE_LIMIT",
    "LOG_SIZE_LIMIT",
    "MANIFEST_SIZE_LIMIT",
    "PENDINGSET_SIZE_LIMIT",
    "PENDING_SIZE_LIMIT",
    "POINTER_SIZE_LIMIT",
    "ROOM",
    "SUCCESS_SIZE_LIMIT",
    "TAG_SIZE_LIMIT",
    "TASK_MANIFEST_SIZE_LIMIT",
    "within",
]

_MIB: Final = 1024**2

BUNDLE_SIZE_LIMIT: Final = 16 * _MIB
"""Bytes of all bodies of small files in one object."""
DELETIONS_SIZE_LIMIT: Final = 8 * _MIB
"""Bytes: 1,000 of the longest keys, each byte escaped."""
FILE_LIST_SIZE_LIMIT: Final = 64 * _MIB
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

ROOM: Final = 64 * 1024
"""Bytes that a file which is written again, or only after the commit point, must leave free before it: for
other hosts, states and reasons."""


def within(raw: bytes, size_limit: int, what: str, advice: str) -> bytes:
    """The bytes of a file, if it may be so large. Raises UsageError if nobody would read it."""
    if len(raw) > size_limit:
        raise UsageError(
            f"{what} would have {len(raw):,} bytes, and at most {size_limit:,} are read; it was not written; "
            f"{advice}"
        )
    return raw
