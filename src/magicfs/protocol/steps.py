"""Steps: what to do to the store, as values.

A step names one change. The steps of a batch do not depend on each other. A batch may hold a million steps:
they are drawn from its iterator as they are carried out.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Complete(NamedTuple):
    """Make a pending upload visible at its key. Made by the million, so a tuple."""

    key: str  # the final one
    upload_id: str
    etags: tuple[str, ...]  # of its parts, in order
    length: int  # of the object, in bytes
    write_id: str | None = None  # identity in the object's metadata; None for uploads of Hadoop
    checksums: tuple[tuple[str, str] | None, ...] = ()
    """Algorithm and value of each part; empty if the upload was opened without."""
    if_absent: bool = False  # whether it must not replace an object


class Put(NamedTuple):
    """Make a small file visible at its key, whose bytes lie in a bundle."""

    key: str  # the final one
    length: int  # in bytes
    write_id: str  # identity in the object's metadata
    bundle: str  # key of the object that holds the bytes
    offset: int  # of the first byte there
    sha256: str  # of the bytes, in hexadecimal
    if_absent: bool = True  # whether it must not replace an object


class Rename(NamedTuple):
    """Make a file visible at its key that lies elsewhere in the bucket. Made by the million, so a tuple.

    Where the store renames in one step it may be repeated: then the source is gone, and what lies at the key
    has the file's ETag.
    """

    source: str  # where it lies
    key: str  # the final one
    length: int  # in bytes
    etag: str = ""  # of the file, which keeps it; empty if it is not known
    if_absent: bool = False  # whether it must not replace an object

    @property
    def write_id(self) -> str | None:
        """By which the file is told from all others at its key."""
        return self.etag or None


@dataclass(frozen=True, slots=True)
class Abort:
    """Discard a pending upload. One that is gone already counts as discarded."""

    key: str
    upload_id: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete objects in one request. Those that are gone already count as deleted."""

    keys: tuple[str, ...]

    @property
    def key(self) -> str:
        """The first of the keys, for messages."""
        return self.keys[0]


Publication = Complete | Put | Rename
"""What makes one file visible."""

Step = Complete | Put | Rename | Abort | Delete


@dataclass(frozen=True)
class Batch:
    """Independent steps under one name, which progress and reports show."""

    name: str
    steps: Iterable[Step] | AsyncIterable[Step]
