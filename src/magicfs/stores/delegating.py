"""A store around a store: everything passes through one hook."""

from __future__ import annotations

import builtins
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Self, TypeVar

from magicfs.stores import object_settings
from magicfs.stores.folder_port import Folders
from magicfs.stores.object_settings import ObjectSettings
from magicfs.stores.placing import PlacedPart, PlacingStore
from magicfs.stores.port import (
    Body,
    Capabilities,
    ObjectInfo,
    Part,
    PartBody,
    PutMode,
    Store,
    Update,
    UploadInfo,
)
from magicfs.stores.tree_port import Entry, Renamed, Tree, rename_one_by_one
from magicfs.stores.version_port import Version, Versions, VersionStore

__all__ = ["DelegatingFolders", "DelegatingStore", "DelegatingTree", "DelegatingVersions", "Steps"]

_T = TypeVar("_T")


class DelegatingStore:
    """Passes the whole port on to the store within.

    A subclass overrides ``_around``, through which every request goes, and every step of a listing.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def bucket(self) -> str:
        return self.inner.bucket

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    @property
    def object_settings(self) -> ObjectSettings:
        """Those of the store within."""
        return object_settings.of_store(self.inner)

    def with_object_settings(self, settings: ObjectSettings) -> Self:
        """The same around a store within that has these settings."""
        twin = copy.copy(self)
        twin.inner = object_settings.store_with(self.inner, settings)
        return twin

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        return await self._around(
            "create_upload",
            key,
            lambda: self.inner.create_upload(key, metadata=metadata, options=options),
        )

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        return await self._around("put_part", key, lambda: self.inner.put_part(key, upload_id, number, body))

    def place_part(self, key: str, upload_id: str) -> PlacedPart | None:
        """That of the store within; no request."""
        inner: PlacingStore = self.inner  # type: ignore[assignment]  # asked for where it is one
        return inner.place_part(key, upload_id)

    async def put_placed_part(self, key: str, upload_id: str, part: PlacedPart) -> Part:
        """That of the store within; through the hook, as ``put_part``."""
        inner: PlacingStore = self.inner  # type: ignore[assignment]
        return await self._around("put_part", key, lambda: inner.put_placed_part(key, upload_id, part))

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        return await self._around(
            "complete_upload",
            key,
            lambda: self.inner.complete_upload(key, upload_id, parts, if_absent=if_absent),
        )

    async def abort_upload(self, key: str, upload_id: str) -> None:
        await self._around("abort_upload", key, lambda: self.inner.abort_upload(key, upload_id))

    def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        return self._steps("list_uploads", prefix, self.inner.list_uploads(prefix))

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        return await self._around("put", key, lambda: self.inner.put(key, body, metadata=metadata, mode=mode))

    async def copy(self, source: str, destination: str) -> int:
        return await self._around("copy", source, lambda: self.inner.copy(source, destination))

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        return await self._around("get", key, lambda: self.inner.get(key, size_max=size_max))

    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        return await self._around("get_range", key, lambda: self.inner.get_range(key, start, size, etag=etag))

    async def head(self, key: str) -> ObjectInfo:
        return await self._around("head", key, lambda: self.inner.head(key))

    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        return await self._around("checksums", key, lambda: self.inner.checksums(key, etag=etag))

    def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        return self._steps("list", prefix, self.inner.list(prefix, limit=limit))

    def list_directories(self, prefix: str) -> AsyncIterator[str]:
        return self._steps("list_directories", prefix, self.inner.list_directories(prefix))

    async def delete(self, keys: Sequence[str]) -> None:
        await self._around("delete", keys[0] if keys else "", lambda: self.inner.delete(keys))

    async def delete_matching(self, key: str, etag: str) -> None:
        await self._around("delete_matching", key, lambda: self.inner.delete_matching(key, etag))

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        first = objects[0][0] if objects else ""
        return await self._around(
            "delete_all_matching", first, lambda: self.inner.delete_all_matching(objects)
        )

    def tree(self) -> Tree:
        """The tree of the store within; its requests go through the hook, too."""
        from magicfs.stores.trees.objects import tree_of  # few jobs need any

        return DelegatingTree(tree_of(self.inner), self)

    def folders(self) -> Folders:
        """The folders of the store within; its requests go through the hook, too."""
        inner: Folders = self.inner.folders()  # type: ignore[attr-defined]  # asked for where there are some
        return DelegatingFolders(inner, self)

    def versions(self) -> Versions:
        """The versions of the store within; their requests go through the hook, too."""
        inner: VersionStore = self.inner  # type: ignore[assignment]  # asked for where it is one
        return DelegatingVersions(inner.versions(), self)

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:  # noqa: ARG002
        """Make a request, by the port's name of it; it may be made again."""
        return await request()

    def _steps(self, operation: str, prefix: str, items: AsyncIterator[_T]) -> AsyncIterator[_T]:
        """The entries of a listing, each fetched through ``_around``."""

        async def step(request: Callable[[], Awaitable[_T | None]]) -> _T | None:
            return await self._around(operation, prefix, request)

        return Steps(items, step)


class DelegatingTree:
    """Passes the whole port of trees on to the tree within, through the hook of a store."""

    def __init__(self, inner: Tree, store: DelegatingStore) -> None:
        self.inner = inner
        self._around = store._around  # noqa: SLF001 - the hooks of this module
        self._steps = store._steps  # noqa: SLF001

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def bucket(self) -> str:
        return self.inner.bucket

    async def is_atomic(self) -> bool:
        return await self.inner.is_atomic()

    async def make_directory(self, path: str) -> None:
        await self._around("make_directory", path, lambda: self.inner.make_directory(path))

    async def look(self, path: str) -> Entry | None:
        return await self._around("look", path, lambda: self.inner.look(path))

    def entries(self, path: str) -> AsyncIterator[Entry]:
        return self._steps("entries", path, self.inner.entries(path))

    async def rename(self, source: str, destination: str) -> None:
        await self._around("rename", source, lambda: self.inner.rename(source, destination))

    async def rename_all(self, files: Sequence[tuple[str, str]], concurrency: int) -> Renamed:
        return await rename_one_by_one(self, files, concurrency)

    async def delete(self, path: str) -> bool:
        return await self._around("delete", path, lambda: self.inner.delete(path))

    async def delete_tree(self, path: str) -> bool:
        return await self._around("delete_tree", path, lambda: self.inner.delete_tree(path))

    async def write(self, path: str, body: bytes, *, if_absent: bool = False) -> None:
        await self._around("write", path, lambda: self.inner.write(path, body, if_absent=if_absent))

    async def read(self, path: str, *, size_max: int | None = None) -> bytes:
        return await self._around("read", path, lambda: self.inner.read(path, size_max=size_max))


class DelegatingFolders:
    """Passes the whole port of folders on, through the hook of a store."""

    def __init__(self, inner: Folders, store: DelegatingStore) -> None:
        self.inner = inner
        self._around = store._around  # noqa: SLF001 - the hooks of this module
        self._steps = store._steps  # noqa: SLF001

    async def exist(self) -> bool:
        return await self._around("folders_exist", "", self.inner.exist)

    async def look(self, path: str) -> Entry | None:
        return await self._around("look", path, lambda: self.inner.look(path))

    def entries(self, path: str) -> AsyncIterator[Entry]:
        return self._steps("entries", path, self.inner.entries(path))

    async def make(self, path: str) -> None:
        await self._around("make_directory", path, lambda: self.inner.make(path))

    async def move(self, source: str, destination: str) -> str | None:
        return await self._around("rename", source, lambda: self.inner.move(source, destination))

    async def rename(self, source: str, destination: str) -> None:
        await self._around("rename", source, lambda: self.inner.rename(source, destination))

    async def delete(self, path: str) -> bool:
        return await self._around("delete_directory", path, lambda: self.inner.delete(path))

    async def delete_tree(self, path: str) -> bool:
        return await self._around("delete_tree", path, lambda: self.inner.delete_tree(path))


class DelegatingVersions:
    """Passes the whole port of versions on, through the hook of a store."""

    def __init__(self, inner: Versions, store: DelegatingStore) -> None:
        self.inner = inner
        self._around = store._around  # noqa: SLF001 - the hooks of this module
        self._steps = store._steps  # noqa: SLF001

    async def are_kept(self) -> bool:
        return await self._around("versions_kept", "", self.inner.are_kept)

    async def head(self, key: str, version: str) -> ObjectInfo:
        return await self._around("head_version", key, lambda: self.inner.head(key, version))

    async def get_range(self, key: str, version: str, start: int, size: int) -> bytes:
        request = partial(self.inner.get_range, key, version, start, size)
        return await self._around("get_version", key, request)

    async def copy_part(
        self, key: str, upload_id: str, number: int, source: tuple[str, str], start: int, size: int
    ) -> Part:
        request = partial(self.inner.copy_part, key, upload_id, number, source, start, size)
        return await self._around("copy_part", key, request)

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        first = versions[0][0] if versions else ""
        await self._around("delete_versions", first, lambda: self.inner.delete(versions))

    def list(self, prefix: str) -> AsyncIterator[Version]:
        return self._steps("list_versions", prefix, self.inner.list(prefix))


class Steps(AsyncIterator[_T], Generic[_T]):
    """A listing whose every step goes through a function.

    The function is given what fetches the next entry, or None at the end, and returns what that returned.
    Unlike a generator the listing is still there after a step has failed: the same step can be asked for
    again if ``items`` allows it.
    """

    def __init__(
        self,
        items: AsyncIterator[_T],
        step: Callable[[Callable[[], Awaitable[_T | None]]], Awaitable[_T | None]],
    ) -> None:
        self.items = items
        self._step = step

    async def __anext__(self) -> _T:
        found = await self._step(self._next)
        if found is None:
            raise StopAsyncIteration
        return found

    async def _next(self) -> _T | None:
        return await anext(self.items, None)
