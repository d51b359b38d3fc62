"""Models of stores that rename in one step: local files, and stores with folders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from magicfs.errors import ObjectExists, ObjectNotFound, StoreError
from magicfs.stores.conditions import assume
from magicfs.stores.port import Capabilities, PutMode, Store
from magicfs.stores.tree_port import Entry, Renamed, in_order, rename_one_by_one
from magicfs.testing.faulty_store import FaultyStore, FaultyTree, Traffic
from magicfs.testing.store_faults import Actor
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.crash.store_models import MODELS, store_of

__all__ = ["Tree", "tree_store"]


class Tree:
    """Keys of a world as files and directories; a rename of many is one step.

    Directories above a key are there; the world remembers those in which nothing lies.
    """

    name = "model"
    bucket = BUCKET

    def __init__(self, world: SnapshotWorld, model: str, store: Store) -> None:
        self.world = world
        self.store = store
        self.is_local = model == "local"  # there uploads are hidden among files

    async def is_atomic(self) -> bool:
        return True

    async def look(self, path: str) -> Entry | None:
        if path in self.world.objects:
            return self._file(path)
        return Entry(path, "directory") if self._is_directory(path) else None

    async def make_directory(self, path: str) -> None:
        self._make_room("make_directory", path)
        self.world.directories.add(path)

    async def rename(self, source: str, destination: str) -> None:
        found, there = await self.look(source), await self.look(destination)
        if found is None:
            raise ObjectNotFound("rename", source, "nothing is there")
        if not self._is_directory(_parent(destination)):
            raise ObjectNotFound("rename", destination, "its parent is not there")
        if there is not None and (found.kind, there.kind) != ("file", "file"):
            if found.kind == "file" or there.kind == "file" or self._below(destination):
                raise ObjectExists("rename", destination, "something is there")
            self.world.directories.discard(destination)
        self._move(source, destination)
        self._keep(_parent(source))

    async def rename_all(self, files: Sequence[tuple[str, str]], concurrency: int) -> Renamed:
        return await rename_one_by_one(self, files, concurrency)

    async def entries(self, path: str) -> AsyncIterator[Entry]:
        if not self._is_directory(path):
            raise ObjectNotFound("entries", path, "no such directory")
        start = len(path) + 1 if path else 0
        found: dict[str, Entry] = {}
        for key in self._below(path):
            name, slash, _ = key[start:].partition("/")
            child = key[:start] + name
            if slash or key not in self.world.objects:
                found[child] = Entry(child, "directory")
            else:
                found[child] = self._file(key)
        for entry in in_order(found.values()):
            yield entry

    async def write(self, path: str, body: bytes, *, if_absent: bool = False) -> None:
        self._make_room("write", _parent(path))
        if self._is_directory(path):
            raise ObjectExists("write", path, "a directory is there")
        await self.store.put(path, body, mode=PutMode.CREATE if if_absent else PutMode.OVERWRITE)

    async def read(self, path: str, *, size_max: int | None = None) -> bytes:
        return await self.store.get(path, size_max=size_max)

    async def delete(self, path: str) -> bool:
        if self._below(path):
            raise StoreError("delete", path, "not empty")
        was_there = await self.look(path) is not None
        self.world.directories.discard(path)
        self.world.objects.pop(path, None)
        self._keep(_parent(path))
        return was_there

    async def delete_tree(self, path: str) -> bool:
        found = [key for key in self.world.objects if key == path or key.startswith(f"{path}/")]
        for key in found:
            del self.world.objects[key]
        was_there = bool(found) or self._is_directory(path)
        self.world.directories = {one for one in self.world.directories if not _is_in(one, path)}
        self._keep(_parent(path))
        if self.is_local:
            for upload_id, upload in [*self.world.uploads.items()]:
                if upload.key.startswith(f"{path}/"):
                    del self.world.uploads[upload_id]
        return was_there

    def _file(self, path: str) -> Entry:
        info = self.world.objects[path].info
        return Entry(path, "file", info.size, info.etag)

    def _is_directory(self, path: str) -> bool:
        return not path or path in self.world.directories or bool(self._below(path))

    def _below(self, path: str) -> list[str]:
        prefix = f"{path}/" if path else ""
        return [one for one in (*self.world.objects, *self.world.directories) if one.startswith(prefix)]

    def _keep(self, path: str) -> None:
        """What is taken out of a directory leaves an empty one."""
        if path and not self._below(path):
            self.world.directories.add(path)

    def _make_room(self, operation: str, path: str) -> None:
        while path:
            if path in self.world.objects:
                raise ObjectExists(operation, path, "a file has the name of a directory")
            path = _parent(path)

    def _move(self, source: str, destination: str) -> None:
        def moved(key: str) -> str:
            return destination + key[len(source) :] if _is_in(key, source) else key

        for key in [key for key in self.world.objects if moved(key) != key]:
            one = self.world.objects.pop(key)
            self.world.objects[moved(key)] = replace(one, info=replace(one.info, key=moved(key)))
        self.world.directories = {moved(one) for one in self.world.directories}
        if self.is_local:
            for upload in self.world.uploads.values():
                upload.key = moved(upload.key)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


class _FaultyStore(FaultyStore):
    def tree(self) -> Any:
        tree: Any = Tree(self.world, self.model, self.inner)
        return FaultyTree(tree, self.traffic, self.actor)

    world: SnapshotWorld
    model: str

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.inner.capabilities, rename="atomic")  # type: ignore[no-any-return]


def tree_store(world: SnapshotWorld, model: str, traffic: Traffic, actor: Actor) -> Store:
    """The store of a process: a model, with a tree whose every step passes the traffic."""
    made = _FaultyStore(store_of(world, model), traffic, actor)
    made.world, made.model = world, model
    found: Any = made
    assume(found, MODELS[model].honoured)
    return found  # type: ignore[no-any-return]
