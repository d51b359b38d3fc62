"""Trees, for the committers that move files.

Of a store that has only objects: directories are prefixes, renaming is copying and deleting. Of a bucket with
a hierarchical namespace: objects in folders, a rename is one step.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import TypeGuard

from magicfs.errors import ObjectExists, ObjectNotFound, PermissionDenied, StoreError
from magicfs.protocol import paths
from magicfs.protocol.magic import MAGIC
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import ObjectInfo, PutMode, Store
from magicfs.stores.tree_port import (
    Entry,
    Folders,
    FolderStore,
    Renamed,
    Tree,
    TreeStore,
    check_path,
    in_order,
    rename_one_by_one,
)

_AT_ONCE = 16
# Somebody who writes into what is deleted may be faster; nobody is so for ever.
_TRIES = 50
_ELSEWHERE = "choose another path"


class FolderTree:
    """Files and directories of objects and folders; see ``magicfs.stores.tree_port.Tree`` for the contract.

    Objects make the folders that they lie in. What the service does not refuse by itself, such as an object
    in the place of a folder, is looked for first: a writer between the look and the step is not seen.
    """

    def __init__(self, store: Store, folders: Folders) -> None:
        self.name: str = store.name
        self.bucket: str = store.bucket
        self._store = store
        self._folders = folders

    async def is_atomic(self) -> bool:
        return True

    async def make_directory(self, path: str) -> None:
        self._check("make_directory", path)
        if not path:
            await self._require_bucket()
            return
        await self._refuse_files("make_directory", path, [*_parents(path), path])
        await self._folders.make(path)

    async def look(self, path: str) -> Entry | None:
        self._check("look", path)
        if path:
            return await self._folders.look(path)
        await self._require_bucket()
        return Entry(path, "directory")

    async def entries(self, path: str) -> AsyncIterator[Entry]:
        self._check("entries", path)
        for entry in in_order([entry async for entry in self._folders.entries(path)]):
            yield entry

    async def rename(self, source: str, destination: str) -> None:
        await self._rename(source, destination)

    async def _rename(self, source: str, destination: str) -> str | None:
        """``rename``; returns another ETag that a file has now."""
        for path in (source, destination):
            self._check("rename", path, whole_bucket=False)
        if paths.is_under(destination, source):
            problem = f"{destination!r} lies below it"
            raise StoreError("rename", self._place(source), problem, hint=_ELSEWHERE)
        there = await self._folders.look(source)
        if there is None:
            raise ObjectNotFound("rename", self._place(source), "no such file or directory")
        if source == destination:
            return None
        if there.kind == "file":
            return await self._folders.move(source, destination)
        await self._rename_folder(source, destination)
        return None

    async def _rename_folder(self, source: str, destination: str) -> None:
        await self._refuse_files("rename", destination, [destination])
        for _ in range(_TRIES):
            try:
                return await self._folders.rename(source, destination)
            except ObjectExists:
                # It takes the place of an empty folder, which no service does by itself.
                try:
                    await self._folders.delete(destination)
                except ObjectExists as error:
                    problem = "there is a directory that is not empty"
                    raise ObjectExists("rename", self._place(destination), problem) from error
        raise self._busy("rename", destination)

    async def rename_all(self, files: Sequence[tuple[str, str]], concurrency: int) -> Renamed:
        return await rename_one_by_one(self, files, concurrency, self._rename)

    async def delete(self, path: str) -> bool:
        self._check("delete", path, whole_bucket=False)
        there = await self._folders.look(path)
        if there is None:
            return False
        if there.kind == "file":
            await self._store.delete([path])
            return True
        try:
            return await self._folders.delete(path)
        except ObjectExists as error:
            hint = "delete its contents first"
            raise StoreError("delete", self._place(path), "the directory is not empty", hint=hint) from error

    async def delete_tree(self, path: str) -> bool:
        self._check("delete_tree", path, whole_bucket=False)
        for turn in range(_TRIES):
            there = await self._folders.look(path)
            if there is None:
                return turn > 0
            if there.kind == "file":
                await self._store.delete([path])
            else:
                await self._folders.delete_tree(path)
        raise self._busy("delete_tree", path)

    async def write(self, path: str, body: bytes, *, if_absent: bool = False) -> None:
        self._check("write", path, whole_bucket=False)
        await self._refuse_files("write", path, _parents(path))
        there = await self._folders.look(path)
        if there is not None and there.kind == "directory":
            raise ObjectExists("write", self._place(path), "a directory is there", hint=_ELSEWHERE)
        await self._store.put(path, body, mode=PutMode.CREATE if if_absent else PutMode.OVERWRITE)

    async def read(self, path: str, *, size_max: int | None = None) -> bytes:
        self._check("read", path, whole_bucket=False)
        return await self._store.get(path, size_max=size_max)

    async def _refuse_files(self, operation: str, path: str, places: list[str]) -> None:
        """Raise ObjectExists where a file is in a place that a directory is to have."""
        for there in await gathered(places, self._folders.look, _AT_ONCE):
            if there is not None and there.kind == "file":
                problem = f"{there.path!r} is a file"
                raise ObjectExists(operation, self._place(path), problem, hint=_ELSEWHERE)

    async def _require_bucket(self) -> None:
        async for _ in self._store.list("", limit=1):
            return

    def _busy(self, operation: str, path: str) -> StoreError:
        problem = f"other processes wrote here each of {_TRIES} times"
        return StoreError(operation, self._place(path), problem, hint="stop them, then try again")

    def _check(self, operation: str, path: str, *, whole_bucket: bool = True) -> None:
        check_path(operation, self.bucket, path, whole_bucket=whole_bucket)

    def _place(self, path: str) -> str:
        return f"{self.bucket}/{path}"


class BucketTree:
    """The tree of a store some of whose buckets have folders: which it is, the first request tells."""

    def __init__(self, folders: Folders, with_folders: Tree, without: Tree) -> None:
        self._folders = folders
        self._with_folders = with_folders
        self._without = without

    @property
    def name(self) -> str:
        return self._without.name

    @property
    def bucket(self) -> str:
        return self._without.bucket

    async def is_atomic(self) -> bool:
        return await self._folders.exist()

    async def make_directory(self, path: str) -> None:
        await (await self._tree()).make_directory(path)

    async def look(self, path: str) -> Entry | None:
        return await (await self._tree()).look(path)

    async def entries(self, path: str) -> AsyncIterator[Entry]:
        async for entry in (await self._tree()).entries(path):
            yield entry

    async def rename(self, source: str, destination: str) -> None:
        await (await self._tree()).rename(source, destination)

    async def rename_all(self, files: Sequence[tuple[str, str]], concurrency: int) -> Renamed:
        return await (await self._tree()).rename_all(files, concurrency)

    async def delete(self, path: str) -> bool:
        return await (await self._tree()).delete(path)

    async def delete_tree(self, path: str) -> bool:
        return await (await self._tree()).delete_tree(path)

    async def write(self, path: str, body: bytes, *, if_absent: bool = False) -> None:
        await (await self._tree()).write(path, body, if_absent=if_absent)

    async def read(self, path: str, *, size_max: int | None = None) -> bytes:
        return await (await self._tree()).read(path, size_max=size_max)

    async def _tree(self) -> Tree:
        return self._with_folders if await self._folders.exist() else self._without


async def prune(folders: Folders, keys: Iterable[str]) -> None:
    """Delete the folders above keys that are empty, up to those of all magic paths; no others.

    Who deletes objects does it: a service keeps the folders that it has made for them.
    """
    above = {parent for key in keys for parent in _magic_parents(key)}

    async def delete(path: str) -> None:
        with suppress(ObjectExists, PermissionDenied):  # not empty; or who may delete objects may not this
            await folders.delete(path)

    for depth in sorted({path.count("/") for path in above}, reverse=True):
        await gathered([path for path in above if path.count("/") == depth], delete, _AT_ONCE)


def _magic_parents(key: str) -> list[str]:
    parents = _parents(key)
    return [path for path in parents if any(name.startswith(MAGIC) for name in path.split("/"))]


def _parents(path: str) -> list[str]:
    names = path.split("/")[:-1]
    return ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]


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
