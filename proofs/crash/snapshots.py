"""A bucket whose state can be kept and brought back, and stores that honour less than they should."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from magicfs.protocol.parts import PartLimits
from magicfs.stores.conditions import Conditions
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory import World
from magicfs.stores.port import Body, Capabilities, ObjectInfo, Part, PutMode, Store, Update

__all__ = ["BUCKET", "PROFILES", "LimitedStore", "SnapshotWorld"]

BUCKET: Final = "bucket"
"""The bucket of every scene."""

PROFILES: Final[Mapping[str, Conditions]] = {
    "full": Conditions(),
    "write-once": Conditions(put_if_match=False, delete=False, bulk_delete=False, complete_if_absent=False),
}
"""What stores honour, by the name that reproductions give: everything, or only If-None-Match."""


_numbers = itertools.count()


class SnapshotWorld(World):
    """A world of one bucket that can be copied; a copy shares objects, which are never changed in place.

    Args:
        clock: Seconds since the epoch.
        source: The world to copy.

    Attributes:
        cluster: What lies in the cluster's filesystem: files, and directories as None, by their paths.
        local: What lay on the disk of the machine when that was looked at last, likewise.
    """

    def __init__(self, clock: Callable[[], float], source: SnapshotWorld | None = None) -> None:
        capabilities = source.capabilities if source else Capabilities(parts=PartLimits(size_min=1))
        super().__init__(capabilities=capabilities, clock=clock)
        self.create_bucket(BUCKET)
        self.opened = 0
        self.cluster: dict[str, bytes | None] = dict(source.cluster) if source else {}
        self.local: dict[str, bytes | None] = source.local if source else {}
        if source is not None:
            self.opened = source.opened
            self.contents.objects.update(source.contents.objects)
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
            and self.cluster == other.cluster
            and self.local == other.local
        )

    def copy(self) -> SnapshotWorld:
        """The same contents, from now on apart."""
        return SnapshotWorld(self.clock, self)

    def next_upload_id(self) -> str:
        self.opened += 1
        return f"upload-{self.opened}"


class LimitedStore(DelegatingStore):
    """Ignores, silently, the conditions that it does not know.

    Args:
        inner: The store.
        profile: A name from ``PROFILES``.
    """

    def __init__(self, inner: Store, profile: str) -> None:
        super().__init__(inner)
        self._honoured = PROFILES[profile]
        # Each process finds out by itself what the store honours.
        self._identity = f"scene:{next(_numbers)}"

    @property
    def identity(self) -> str:
        """Another one for every process."""
        return self._identity

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        match mode:
            case PutMode.CREATE:
                mode = self._honoured.create
            case Update(etag):
                mode = self._honoured.update(etag)
        return await self.inner.put(key, body, metadata=metadata, mode=mode)

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        if_absent = if_absent and self._honoured.complete_if_absent
        return await self.inner.complete_upload(key, upload_id, parts, if_absent=if_absent)

    async def delete_matching(self, key: str, etag: str) -> None:
        if self._honoured.delete:
            await self.inner.delete_matching(key, etag)
        else:
            await self.inner.delete([key])

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> list[str]:
        if self._honoured.bulk_delete:
            return await self.inner.delete_all_matching(objects)
        await self.inner.delete([key for key, _ in objects])
        return []
