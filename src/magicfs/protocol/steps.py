"""Steps: what to do to the store, as values.

A step names one change. The steps of a batch do not depend on each other. A batch may hold a million steps:
they are drawn from its iterator as they are carried out.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass

__all__ = ["Abort", "Batch", "Complete", "Delete", "Rename", "Step"]


@dataclass(frozen=True, slots=True)
class Complete:
    """Make a pending upload visible at its key.

    Attributes:
        key: The final key.
        upload_id: The upload.
        etags: ETags of its parts, in order.
        length: Size of the object in bytes.
        write_id: Identity in the object's metadata; None for uploads of Hadoop.
        checksums: Algorithm and value of each part; empty if the upload was opened without.
        if_absent: Whether it must not replace an object.
    """

    key: str
    upload_id: str
    etags: tuple[str, ...]
    length: int
    write_id: str | None = None
    checksums: tuple[tuple[str, str] | None, ...] = ()
    if_absent: bool = False


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


@dataclass(frozen=True, slots=True)
class Rename:
    """Move a file to its final key. Committers that rename carry it out themselves: see ``Engine.tell``.

    Attributes:
        source: Where it lies.
        key: The final key.
        length: Its size in bytes.
        etag: Its ETag; empty if that is not known.
    """

    source: str
    key: str
    length: int
    etag: str = ""


Step = Complete | Abort | Delete


@dataclass(frozen=True)
class Batch:
    """Independent steps under one name, which progress and reports show."""

    name: str
    steps: Iterable[Step] | AsyncIterable[Step]
