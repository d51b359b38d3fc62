"""Versions of objects of the memory store, which define what those of all others are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from magicfs.errors import ObjectNotFound, StoreError
from magicfs.stores.memory.buckets import Bucket, Held
from magicfs.stores.port import Capabilities, ObjectInfo, Part, PartBody
from magicfs.stores.version_port import Version

__all__ = ["MemoryVersions"]


class _Store(Protocol):
    """What is asked of the memory store."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def contents(self, operation: str, key: str) -> Bucket:
        """The bucket; ObjectNotFound if there is none."""

    def path(self, key: str) -> str:
        """What errors call a key."""

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        """As in the port."""


class MemoryVersions:
    """The versions of one bucket of a ``World``; see ``magicfs.stores.version_port.Versions``."""

    def __init__(self, store: _Store) -> None:
        self._store = store

    async def are_kept(self) -> bool:
        return self._store.contents("versions_kept", "").keeping == "Enabled"

    async def head(self, key: str, version: str) -> ObjectInfo:
        return self._held("head_version", key, version).info

    async def get_range(self, key: str, version: str, start: int, size: int) -> bytes:
        return self._held("get_version", key, version).body[start : start + size]

    async def copy_part(
        self, key: str, upload_id: str, number: int, source: tuple[str, str], start: int, size: int
    ) -> Part:
        body = self._held("copy_part", *source).body[start : start + size]
        return await self._store.put_part(key, upload_id, number, body)

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        if len(versions) > self._store.capabilities.bulk_delete_max:
            problem = f"{len(versions)} versions are too many for one request"
            raise StoreError("delete_versions", self._store.path(versions[0][0]), problem)
        contents = self._store.contents("delete_versions", versions[0][0] if versions else "")
        for key, version in versions:
            contents.forget(key, version)

    async def list(self, prefix: str) -> AsyncIterator[Version]:
        contents = self._store.contents("list_versions", prefix)
        for key in sorted({*contents.versions, *contents.objects}):
            if key.startswith(prefix):
                for one in contents.shown(key):
                    yield one

    def _held(self, operation: str, key: str, version: str) -> Held:
        contents = self._store.contents(operation, key)
        found = contents.version(key, version) if version else contents.objects.get(key)
        if found is None:
            raise ObjectNotFound(operation, self._store.path(key), f"no such version: {version}")
        return found
