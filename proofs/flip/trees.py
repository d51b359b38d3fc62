"""Models of stores whose directories are exchanged: in one step, as on local files, or by renames."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from magicfs.errors import ObjectExists, ObjectNotFound, StoreError
from magicfs.stores import exchange_by_renames
from magicfs.stores.conditions import assume
from magicfs.stores.port import Capabilities, Store
from magicfs.stores.tree_port import Entry, Exchange
from magicfs.testing.faulty_store import FaultyStore, FaultyTree, Traffic
from magicfs.testing.store_faults import Actor
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.crash.store_models import MODELS, store_of

__all__ = ["KINDS", "Tree", "tree_store"]

KINDS: Final[dict[str, Exchange]] = {"local": "one step", "gcs": "renames", "azure": "renames"}
"""How directories are exchanged on each model of a store."""


class Tree:
    """Keys of a world as files and directories; a rename of many is one step."""

    name = "model"
    bucket = BUCKET

    def __init__(self, world: SnapshotWorld, how: Exchange) -> None:
        self.world = world
        self.how = how

    async def is_atomic(self) -> bool:
        return True

    async def look(self, path: str) -> Entry | None:
        if path in self.world.objects:
            return Entry(path, "file")
        there = any(key.startswith(f"{path}/") for key in self.world.objects)
        return Entry(path, "directory") if there else None

    async def rename(self, source: str, destination: str) -> None:
        if await self.look(source) is None:
            raise ObjectNotFound("rename", source, "nothing is there")
        if await self.look(destination) is not None:
            raise ObjectExists("rename", destination, "something is there")
        self._move({source: destination})

    async def entries(self, path: str) -> AsyncIterator[Entry]:
        names = {key[len(path) + 1 :] for key in self.world.objects if key.startswith(f"{path}/")}
        for name, slash in sorted({name.partition("/")[:2] for name in names}):
            yield Entry(f"{path}/{name}", "directory" if slash else "file")

    async def how_exchanged(self, _path: str) -> Exchange:
        return self.how

    async def exchange(
        self,
        one: str,
        other: str,
        *,
        leaving: str,
        bringing: str,  # noqa: ARG002 - for renames
    ) -> bool:
        if f"{one}/{leaving}" not in self.world.objects:
            return False
        if await self.look(other) is None:
            raise ObjectNotFound("exchange", other, "nothing is there")
        self._move({one: other, other: one})
        return True

    async def forbid_exchange(self, one: str, other: str, *, leaving: str) -> bool:
        self.world.objects.pop(f"{one}/{leaving}", None)
        return f"{other}/{leaving}" not in self.world.objects

    async def delete(self, path: str) -> bool:
        if any(key.startswith(f"{path}/") for key in self.world.objects):
            raise StoreError("delete", path, "not empty")
        return self.world.objects.pop(path, None) is not None

    async def delete_tree(self, path: str) -> bool:
        found = [key for key in self.world.objects if key == path or key.startswith(f"{path}/")]
        for key in found:
            del self.world.objects[key]
        if self.how == "one step":  # uploads of local files are hidden among them
            for upload_id, upload in [*self.world.uploads.items()]:
                if upload.key.startswith(f"{path}/"):
                    del self.world.uploads[upload_id]
        return bool(found)

    def _move(self, moves: dict[str, str]) -> None:
        def moved(key: str) -> str:
            for source, destination in moves.items():
                if key == source or key.startswith(f"{source}/"):
                    return destination + key[len(source) :]
            return key

        objects = {moved(key): one for key, one in self.world.objects.items()}
        self.world.objects.clear()
        for key, one in objects.items():
            self.world.objects[key] = replace(one, info=replace(one.info, key=key))
        if self.how == "one step":
            for upload in self.world.uploads.values():
                upload.key = moved(upload.key)


class _FaultyTree(FaultyTree):
    """A tree whose exchange by renames is the real one, every rename of it a request."""

    async def exchange(self, one: str, other: str, *, leaving: str, bringing: str) -> bool:
        if self.inner.how == "one step":  # type: ignore[attr-defined]
            found: bool = await self.traffic.send(
                self.actor,
                "exchange",
                one,
                lambda: self.inner.exchange(one, other, leaving=leaving, bringing=bringing),
            )
            return found
        tree: Any = self
        return await exchange_by_renames.exchange(tree, one, other, leaving, bringing)

    async def forbid_exchange(self, one: str, other: str, *, leaving: str) -> bool:
        if self.inner.how == "one step":  # type: ignore[attr-defined]
            found: bool = await self.traffic.send(
                self.actor,
                "forbid_exchange",
                one,
                lambda: self.inner.forbid_exchange(one, other, leaving=leaving),
            )
            return found
        tree: Any = self
        return await exchange_by_renames.forbid(tree, one, other, leaving)


class _FaultyStore(FaultyStore):
    def tree(self) -> Any:
        return _FaultyTree(Tree(self.world, self.how), self.traffic, self.actor)  # type: ignore[arg-type]

    world: SnapshotWorld
    how: Exchange

    @property
    def capabilities(self) -> Capabilities:
        inner: Capabilities = self.inner.capabilities
        return replace(inner, rename="atomic", exchanges=self.how == "one step")


def tree_store(world: SnapshotWorld, model: str, traffic: Traffic, actor: Actor) -> Store:
    """The store of a process: a model, with a tree whose every step passes the traffic."""
    made = _FaultyStore(store_of(world, model), traffic, actor)
    made.world, made.how = world, KINDS[model]
    found: Any = made
    assume(found, MODELS[model].honoured)
    return found  # type: ignore[no-any-return]
