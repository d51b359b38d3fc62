"""A bucket whose state can be kept and brought back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from magicfs.protocol.parts import PartLimits
from magicfs.stores.memory.store import World
from magicfs.stores.port import Capabilities

__all__ = ["BUCKET", "SnapshotWorld"]

BUCKET: Final = "bucket"
"""The bucket of every scene."""


class SnapshotWorld(World):
    """A world of one bucket that can be copied; a copy shares objects, which are never changed in place.

    Args:
        clock: Seconds since the epoch.
        source: The world to copy.

    Attributes:
        directories: Those in which nothing may lie, on stores that rename; others are above keys.
        cluster: What lies in the cluster's filesystem: files, and directories as None, by their paths.
        local: What lay on the disk of the machine when that was looked at last, likewise.
        touched: When something was last sent to the uploads of a key, on stores where that counts.
        expired: Ids of uploads that the store itself has dropped because they were too old.
    """

    def __init__(self, clock: Callable[[], float], source: SnapshotWorld | None = None) -> None:
        capabilities = source.capabilities if source else Capabilities(parts=PartLimits(size_min=1))
        super().__init__(capabilities=capabilities, clock=clock)
        self.create_bucket(BUCKET)
        self.opened = 0
        self.written = 0
        self.directories: set[str] = set(source.directories) if source else set()
        self.cluster: dict[str, bytes | None] = dict(source.cluster) if source else {}
        self.local: dict[str, bytes | None] = source.local if source else {}
        self.touched: dict[str, float] = dict(source.touched) if source else {}
        self.expired: set[str] = set(source.expired) if source else set()
        if source is not None:
            self.opened = source.opened
            self.written = source.written
            self.contents.objects.update(source.contents.objects)
            self.contents.keeping, self.contents.added = source.contents.keeping, source.contents.added
            self.contents.versions.update({key: [*line] for key, line in source.contents.versions.items()})
            for upload_id, upload in source.contents.uploads.items():
                self.contents.uploads[upload_id] = replace(upload, parts=dict(upload.parts))

    @property
    def contents(self) -> Any:
        """The bucket's ``objects`` and ``uploads``."""
        return self.find(BUCKET)

    @property
    def objects(self) -> dict[str, Any]:
        """Every object by its key: ``info`` and ``body``."""
        found: dict[str, Any] = self.contents.objects
        return found

    def keep_every_version(self) -> None:
        """Let the bucket keep what is deleted or written over."""
        self.capabilities = replace(self.capabilities, versions=True)
        self.keep_versions(BUCKET)

    def held(self, key: str) -> list[bytes]:
        """What the versions of a key hold, or the object where the bucket keeps none."""
        line = self.contents.versions.get(key)
        if line is None:
            return [self.objects[key].body] if key in self.objects else []
        return [one.held.body for one in line if one.held is not None]

    @property
    def uploads(self) -> dict[str, Any]:
        """Every pending upload by its id."""
        found: dict[str, Any] = self.contents.uploads
        return found

    def same(self, other: SnapshotWorld) -> bool:
        """Whether another world holds the very same."""
        return (
            self.objects == other.objects
            and self.uploads == other.uploads
            and self.contents.versions == other.contents.versions
            and self.directories == other.directories
            and self.cluster == other.cluster
            and self.local == other.local
        )

    def copy(self) -> SnapshotWorld:
        """The same contents, from now on apart."""
        return SnapshotWorld(self.clock, self)

    def next_upload_id(self) -> str:
        self.opened += 1
        return f"upload-{self.opened}"

    def next_version(self) -> int:
        """A number that no other write of this world has."""
        self.written += 1
        return self.written
