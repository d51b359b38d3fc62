"""Uploads that are written at their place while the file is open, where a store can do that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeGuard

from magicfs.stores.port import Part, Store

__all__ = ["PlacedPart", "PlacingStore", "can_place"]


class PlacedPart(Protocol):
    """All of a file as the first and only part of its upload."""

    @property
    def size(self) -> int:
        """Bytes written so far."""

    def write(self, data: memoryview) -> None:
        """Add bytes at the end; blocks as a file does. StoreError as ``put_part`` raises it."""

    def close(self) -> None:
        """End it, and wait for what the filesystem has to say; blocks. A second call does the same.

        StoreError as ``put_part`` raises it.
        """

    def read(self, start: int, size: int) -> bytes:
        """Bytes of it, once it is closed; fewer at its end. StoreError as ``put_part`` raises it."""

    def reader(self) -> Callable[[], bytes]:
        """What reads all of it back once it is put, until its upload ends; then it raises OSError.

        It holds nothing open.
        """


class PlacingStore(Store, Protocol):
    """A store whose capabilities say ``uploads.placed``."""

    def place_part(self, key: str, upload_id: str) -> PlacedPart | None:
        """Begin part 1 of an upload that has no parts; None if it cannot be written at its place."""

    async def put_placed_part(self, key: str, upload_id: str, part: PlacedPart) -> Part:
        """As ``put_part``, of what has been written; nothing may be written to it afterwards."""


def can_place(store: Store) -> TypeGuard[PlacingStore]:
    """Whether a store can; one upload may have to do without all the same."""
    return store.capabilities.uploads.placed and hasattr(store, "place_part")
