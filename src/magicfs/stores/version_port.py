"""The port of versions: what buckets can do that keep what is deleted or written over.

S3 has such buckets and others; ``ObjectInfo.version`` tells of each object that was written which kind its
bucket is. Keys, errors and what each docstring says are as in ``stores.port``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from magicfs.stores.port import ObjectInfo, Part, Store

__all__ = ["UNVERSIONED", "Version", "VersionStore", "Versions"]

UNVERSIONED = "null"
"""What a listing calls the version of an object that was written while the bucket kept none."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object, as a listing shows it.

    Attributes:
        key: Its key.
        version: Its id.
        size: Length in bytes; 0 of a marker.
        etag: As the store gives it, quotes included; empty of a marker.
        is_marker: Whether it says that the object was deleted, and holds nothing.
        is_latest: Whether it is what is at the key now.
    """

    key: str
    version: str
    size: int
    etag: str
    is_marker: bool = False
    is_latest: bool = False


class Versions(Protocol):
    """The versions of the objects of one bucket. Each is written once, and goes when it is deleted by its id.

    Where the bucket keeps versions, ``put``, ``copy`` and ``complete_upload`` of the store add one, and its
    ways to delete add a marker above the others, which they leave.
    """

    async def are_kept(self) -> bool:
        """Whether versions are kept of what is deleted or written over from now on.

        Raises:
            ObjectNotFound: No such bucket.
        """

    async def head(self, key: str, version: str) -> ObjectInfo:
        """Describe a version, its metadata included.

        Raises:
            ObjectNotFound: No such version, or it is a marker.
        """

    async def get_range(self, key: str, version: str, start: int, size: int) -> bytes:
        """Read so many bytes of a version, at least 1, from one that it has.

        Raises:
            ObjectNotFound: No such version, or it is a marker.
        """

    async def copy_part(
        self, key: str, upload_id: str, number: int, source: tuple[str, str], start: int, size: int
    ) -> Part:
        """Make a part of an upload of so many bytes of a version; none of them passes through this process.

        ``source``: key and version, which is empty for what is there now. Afterwards the part is part of the
        upload, as after ``put_part``. A second call replaces the part.

        Raises:
            ObjectNotFound: No such version, or it is a marker; nothing changed.
            UploadNotFound: Aborted or completed already.
        """

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        """Delete versions by key and id, markers among them, at most ``bulk_delete_max``, in one request.

        Afterwards none of them exists, for good. If one was what its key held, the key holds what lies below.
        Missing ones count as deleted, so a second call does nothing.

        Raises:
            StoreError: Some could not be deleted; the message names the first; the others are gone. Or
                there are too many; nothing changed.
        """

    def list(self, prefix: str) -> AsyncIterator[Version]:
        """Every version of every object whose key starts with the prefix. Those of a key follow one another,
        and the first is what is there now.

        Raises:
            ObjectNotFound: No such bucket.
        """


class VersionStore(Store, Protocol):
    """A store whose capabilities say that some buckets keep versions."""

    def versions(self) -> Versions:
        """The versions of the bucket. Makes no request."""
