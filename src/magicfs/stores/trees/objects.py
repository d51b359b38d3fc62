"""The tree of a store that has only objects: directories are prefixes, renaming is copying and deleting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeGuard

from magicfs.errors import ObjectExists, ObjectNotFound, PermissionDenied, StoreError
from magicfs.protocol import paths
from magicfs.runtime.parallel import gathered
from magicfs.stores.folder_port import FolderStore
from magicfs.stores.port import ObjectInfo, PutMode, Store
from magicfs.stores.tree_port import Entry, Renamed, Tree, TreeStore, in_order, rename_one_by_one
from magicfs.stores.trees.folders import BucketTree, FolderTree

__all__ = ["ObjectTree", "tree_of"]

CONCURRENCY = 32
"""Most requests at once of one call."""


def tree_of(store: Store) -> Tree:
    """The tree of a store: its own where it can rename in one step, else one of copying and deleting.
    Where the bucket decides, the tree asks first.

    Requests of the tree pass through everything that is put around the store: they are counted, limited in
    time, and made to fail, as the store's own are.
    """
    if _has_tree(store):
        return store.tree()
    copying = ObjectTree(store)
    if not _may_have_folders(store):
        return copying
    folders = store.folders()
    return BucketTree(folders, FolderTree(store, folders), copying)


def _has_tree(store: Store) -> TypeGuard[TreeStore]:
    return store.capabilities.rename == "atomic"


def _may_have_folders(store: Store) -> TypeGuard[FolderStore]:
    return store.capabilities.rename == "by bucket"


class ObjectTree:
    """Files and directories over any store; see ``magicfs.stores.tree_port.Tree`` for the contract.

    A directory is there as long as an object lies below it: a file, or the zero-byte *marker* ``path/`` that
    ``make_directory`` leaves where nothing lies. Nothing asks for parents, so a caller need not make them,
    and spares readers the markers. Files may lie below a file, and nobody looks for that.

    ``rename`` is not atomic. A file is copied, then deleted: a crash between leaves both. A directory is
    listed, every file that was listed is copied (and every marker written anew), and when all are there those
    are deleted:

    * Readers may see any part of it at the destination, and until the end all of it at the source.
    * After a crash or an error while copying the source is whole, and some copies lie at the destination,
      which refuses a second call; ``delete_tree`` the destination first. After one while deleting the
      destination is whole, and some of the source is left.
    * What is written below the source meanwhile stays there.
    * Of two renames of one directory at once both may succeed, or both fail; no file is lost.

    The names of everything below a directory are held in memory while it is renamed or deleted.
    """

    def __init__(self, store: Store, concurrency: int = CONCURRENCY) -> None:
        self.name: str = store.name
        self.bucket: str = store.bucket
        self._store = store
        self._concurrency = concurrency

    async def is_atomic(self) -> bool:
        return False

    async def make_directory(self, path: str) -> None:
        self._check("make_directory", path)
        names = path.split("/")
        above = ["/".join(names[:depth]) for depth in range(1, len(names) + 1)] if path else []
        for file in await gathered(above, self._file, self._concurrency):
            if file is not None:
                problem = f"{file.key!r} is a file"
                raise ObjectExists("make_directory", self._place(path), problem)
        if not await self._below(path, 1) and path:
            await self._store.put(paths.prefix_of(path), b"")

    async def look(self, path: str) -> Entry | None:
        self._check("look", path)
        if path and (file := await self._file(path)):
            return _entry(file)
        return Entry(path, "directory") if await self._below(path, 1) or not path else None

    async def entries(self, path: str) -> AsyncIterator[Entry]:
        self._check("entries", path)
        prefix = paths.prefix_of(path)
        there = not prefix
        found: dict[tuple[str, str], Entry] = {}
        async for info in self._store.list(prefix):
            there = True
            name, slash, _ = info.key[len(prefix) :].partition("/")
            if slash and not name:
                problem = f"{info.key!r} has an empty element, so it cannot be named by a path"
                raise StoreError("entries", self._place(path), problem, hint="rename or delete that object")
            entry = Entry(f"{prefix}{name}", "directory") if slash else _entry(info)
            if name:
                found.setdefault((name, entry.kind), entry)
        if not there:
            raise ObjectNotFound("entries", self._place(path), "no such directory")
        for entry in in_order(found.values()):
            yield entry

    async def rename(self, source: str, destination: str) -> None:
        for path in (source, destination):
            self._check("rename", path, whole_bucket=False)
        if paths.is_under(destination, source):
            problem = f"{destination!r} lies below it"
            raise StoreError("rename", self._place(source), problem, hint="choose another destination")
        if source == destination:
            if await self.look(source) is None:
                raise self._missing(source)
            return
        try:
            await self._store.copy(source, destination)
        except ObjectNotFound:
            await self._rename_directory(source, destination)
        else:
            await self._store.delete([source])

    async def _rename_directory(self, source: str, destination: str) -> None:
        found = [info async for info in self._store.list(paths.prefix_of(source))]
        if not found:
            raise self._missing(source)
        await self._refuse_what_is_there(destination)
        keys = [info.key for info in found]
        copied = 0

        async def copy(info: ObjectInfo) -> None:
            nonlocal copied
            key = destination + info.key[len(source) :]
            if info.key.endswith("/") and not info.size:  # some servers cannot copy a marker
                await self._store.put(key, b"")
            else:
                await self._store.copy(info.key, key)
            copied += 1

        try:
            await gathered(found, copy, self._concurrency)
        except StoreError as error:
            raise _stopped(
                self._place(source),
                f"stopped when {copied} of {len(keys)} objects had been copied, and nothing was deleted",
                f"the source is complete; delete the tree {destination!r}, then rename again",
                error,
            ) from error
        try:
            await self._delete_all(keys)
        except StoreError as error:
            raise _stopped(
                self._place(source),
                f"all {len(keys)} objects were copied, but not all could be deleted at the source",
                f"the destination is complete; delete the tree {source!r}",
                error,
            ) from error

    async def _refuse_what_is_there(self, destination: str) -> None:
        if await self._file(destination):
            raise ObjectExists("rename", self._place(destination), "a file is there")
        if _children(destination, await self._below(destination, 2)):
            raise ObjectExists("rename", self._place(destination), "there is a directory that is not empty")

    async def rename_all(self, files: Sequence[tuple[str, str]], concurrency: int) -> Renamed:
        return await rename_one_by_one(self, files, concurrency)

    async def delete(self, path: str) -> bool:
        self._check("delete", path, whole_bucket=False)
        if await self._file(path):
            await self._store.delete([path])
            return True
        below = await self._below(path, 2)
        if _children(path, below):
            problem = "the directory is not empty"
            raise StoreError("delete", self._place(path), problem, hint="delete its contents first")
        await self._store.delete(below)
        return bool(below)

    async def delete_tree(self, path: str) -> bool:
        self._check("delete_tree", path, whole_bucket=False)
        keys = [info.key async for info in self._store.list(paths.prefix_of(path))]
        if await self._file(path):
            keys.append(path)
        await self._delete_all(keys)
        return bool(keys)

    async def write(self, path: str, body: bytes, *, if_absent: bool = False) -> None:
        self._check("write", path, whole_bucket=False)
        await self._store.put(path, body, mode=PutMode.CREATE if if_absent else PutMode.OVERWRITE)

    async def read(self, path: str, *, size_max: int | None = None) -> bytes:
        self._check("read", path, whole_bucket=False)
        return await self._store.get(path, size_max=size_max)

    async def _file(self, path: str) -> ObjectInfo | None:
        try:
            return await self._store.head(path)
        except ObjectNotFound:
            return None

    async def _below(self, path: str, limit: int) -> list[str]:
        """Some keys below a path, its marker among them."""
        return [info.key async for info in self._store.list(paths.prefix_of(path), limit=limit)]

    async def _delete_all(self, keys: Sequence[str]) -> None:
        size = self._store.capabilities.bulk_delete_max
        batches = [keys[start : start + size] for start in range(0, len(keys), size)]
        await gathered(batches, self._store.delete, self._concurrency)

    def _check(self, operation: str, path: str, *, whole_bucket: bool = True) -> None:
        if not path and not whole_bucket:
            raise StoreError(operation, self._place(path), "this is the bucket itself", hint="name a path")
        if path and not all(path.split("/")):
            problem = "a path must not have an empty element, or a slash at its ends"
            raise StoreError(operation, self._place(path), problem, hint="write the path without it")

    def _missing(self, path: str) -> ObjectNotFound:
        return ObjectNotFound("rename", self._place(path), "no such file or directory")

    def _place(self, path: str) -> str:
        return f"{self.bucket}/{path}"


def _stopped(place: str, done: str, hint: str, cause: StoreError) -> StoreError:
    # Never the cause's own kind where that says that the same call may help.
    kind = PermissionDenied if isinstance(cause, PermissionDenied) else StoreError
    return kind("rename", place, f"{done}: {cause.operation}: {cause.problem}", hint=hint)


def _children(path: str, keys: Sequence[str]) -> list[str]:
    marker = paths.prefix_of(path)
    return [key for key in keys if key != marker]


def _entry(info: ObjectInfo) -> Entry:
    return Entry(info.key, "file", info.size, info.etag)
