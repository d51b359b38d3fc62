"""The tree of a bucket with a hierarchical namespace: objects in folders, a rename is one step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress

from magicfs.errors import ObjectExists, ObjectNotFound, PermissionDenied, StoreError
from magicfs.protocol import paths
from magicfs.protocol.magic import MAGIC
from magicfs.runtime.parallel import gathered
from magicfs.stores.folder_port import Folders
from magicfs.stores.port import PutMode, Store
from magicfs.stores.tree_port import Entry, Renamed, Tree, check_path, in_order, rename_one_by_one

__all__ = ["BucketTree", "FolderTree", "prune"]

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
