"""A store around a store forgets no method of the port."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from magicfs.stores.delegating import DelegatingStore, DelegatingTree, DelegatingUpkeep, DelegatingVersions
from magicfs.stores.gcs.uploads import GcsUpkeep
from magicfs.stores.local.store import LocalStore
from magicfs.stores.local.tree import LocalTree
from magicfs.stores.memory.store import MemoryStore, MemoryUpkeep, MemoryVersions, World
from magicfs.stores.port import PutMode, Store, Update, Upkeep, Versions
from magicfs.stores.retrying import RETRIES, RetryingStore, StallTimeoutStore
from magicfs.stores.s3.store import S3Store
from magicfs.stores.s3.versions import S3Upkeep, S3Versions
from magicfs.stores.tree_port import Tree
from magicfs.stores.trees import ObjectTree, tree_of
from magicfs.testing.counting_store import CountingStore

_T = TypeVar("_T")


def members(kind: type[Any]) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("_")}


def operations(port: Any = Store) -> list[str]:
    return [name for name, value in members(port).items() if inspect.isfunction(value)]


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(
    ("port", "kind"),
    [
        *((Store, kind) for kind in (DelegatingStore, LocalStore, MemoryStore, S3Store)),
        *((Tree, kind) for kind in (DelegatingTree, LocalTree, ObjectTree)),
        *((Upkeep, kind) for kind in (DelegatingUpkeep, GcsUpkeep, MemoryUpkeep, S3Upkeep)),
        *((Versions, kind) for kind in (DelegatingVersions, MemoryVersions, S3Versions)),
    ],
)
def test_every_member_of_the_port_is_defined_with_its_parameters(port: Any, kind: type[Any]) -> None:
    assert (len(operations(Store)), len(operations(Tree))) == (16, 10)
    for name, member in members(port).items():
        assert name in vars(kind) or name in {"name", "bucket", "capabilities"}, name
        if inspect.isfunction(member):
            assert parameters(vars(kind)[name]) == parameters(member), name


@pytest.mark.parametrize("kind", [CountingStore, StallTimeoutStore, RetryingStore])
def test_wrappers_pass_everything_on_as_one(kind: type[Any]) -> None:
    assert issubclass(kind, DelegatingStore)
    own = set(operations()) & set(vars(kind))
    assert own <= ({"put"} if kind is RetryingStore else set())


def test_every_operation_has_its_row_of_retries() -> None:
    of_folders = ["folders_exist", "look", "entries", "make_directory", "delete_directory", "delete_tree"]
    of_versions = ["versions_kept", "head_version", "get_version", "copy_part", "delete_versions"]
    of_upkeep = ["list_versions", *operations(Upkeep)]
    assert sorted(RETRIES) == sorted([*operations(), *of_folders, *of_versions, *of_upkeep])
    assert len(operations(Versions)) == 6


class Noting(DelegatingStore):
    """Notes what goes through its hook."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.seen: list[tuple[str, str]] = []

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        self.seen.append((operation, key))
        return await request()


def test_every_operation_goes_through_the_hook_and_does_what_the_store_does() -> None:
    async def scenario() -> None:
        world = World()
        world.create_bucket("bucket")
        inner = MemoryStore("bucket", world)
        store = Noting(inner)
        assert (store.name, store.bucket, store.identity, store.capabilities) == (
            *("memory", "bucket", inner.identity),
            inner.capabilities,
        )
        upload = await store.create_upload("a", metadata={"x": "y"})
        part = await store.put_part("a", upload, 1, b"body")
        assert [info.upload_id async for info in store.list_uploads("")] == [upload]
        await store.complete_upload("a", upload, [part], if_absent=True)
        assert (await store.head("a")).metadata == {"x": "y"}
        assert await store.get("a", size_max=2) == b"bo"
        assert await store.get_range("a", 1, 2, etag=(await store.head("a")).etag) == b"od"
        assert await store.checksums("a", etag=(await store.head("a")).etag) == {}
        first = await store.put("b", b"1", mode=PutMode.CREATE)
        second = await store.put("b", b"2", mode=Update(first.etag))
        assert await store.copy("a", "c") == 4
        assert await inner.get("c") == b"body"
        assert [info.key async for info in store.list("", limit=1)] == ["a"]
        assert [one async for one in store.list_directories("")] == []
        assert await store.delete_all_matching([("b", first.etag)]) == ["b"]
        await store.delete_matching("b", second.etag)
        await store.delete(["a", "c"])
        await store.abort_upload("a", upload)
        assert [info async for info in store.list("")] == []
        assert {name for name, _ in store.seen} == set(operations())
        assert ("delete_all_matching", "b") in store.seen

    asyncio.run(scenario())


def test_listing_can_be_asked_again_for_a_step_that_failed() -> None:
    class FailsOnce(Noting):
        async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
            if len(self.seen) == 1:
                self.seen.append(("failed", key))
                raise ConnectionError
            self.seen.append((operation, key))
            return await request()

    async def scenario() -> None:
        world = World()
        world.create_bucket("bucket")
        store = FailsOnce(MemoryStore("bucket", world))
        for key in "abc":
            await store.inner.put(key, b"")
        items = store.list("")
        assert (await anext(items)).key == "a"
        with pytest.raises(ConnectionError):
            await anext(items)
        assert [info.key async for info in items] == ["b", "c"]

    asyncio.run(scenario())


def test_every_operation_of_a_tree_goes_through_the_hook_and_does_what_the_tree_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Noting(LocalStore(str(tmp_path)))
        tree = tree_of(store)
        assert (tree.name, tree.bucket, await tree.is_atomic()) == ("file", str(tmp_path), True)
        await tree.make_directory("a/b")
        await tree.write("a/b/c", b"body", if_absent=True)
        with pytest.raises(FileExistsError):
            await tree.write("a/b/c", b"body", if_absent=True)
        assert await tree.read("a/b/c", size_max=2) == b"bo"
        await tree.rename("a/b", "d")
        assert await tree.rename_all([("d/c", "f/c")], 2) == {0: None}
        await tree.rename("f/c", "d/c")
        assert await tree.delete("f") is True
        assert [entry.path async for entry in tree.entries("")] == ["a", "d"]
        assert await tree.delete("a") is True
        assert await tree.look("a") is None
        assert [entry.path async for entry in tree.entries("d")] == ["d/c"]
        assert await tree.delete_tree("d") is True
        assert await tree.delete_tree("d") is False
        no_requests = {"is_atomic", "rename_all"}  # which makes a request of its own for each file
        assert {name for name, _ in store.seen} == set(operations(Tree)) - no_requests
        assert ("rename", "a/b") in store.seen

    asyncio.run(scenario())


def test_tree_over_objects_goes_through_what_is_around_the_store() -> None:
    async def scenario() -> None:
        world = World()
        world.create_bucket("bucket")
        store = Noting(MemoryStore("bucket", world))
        tree = tree_of(store)
        await tree.write("a/b", b"body")
        await tree.rename("a/b", "c")
        assert not await tree.is_atomic()
        assert [name for name, _ in store.seen] == ["put", "copy", "delete"]

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", [StallTimeoutStore, RetryingStore])
def test_tree_works_through_the_wrappers_of_a_job(kind: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        inner = LocalStore(str(tmp_path))
        tree = tree_of(kind(inner, 60.0) if kind is StallTimeoutStore else kind(inner))
        await tree.write("a/b", b"body")
        assert [entry.path async for entry in tree.entries("a")] == ["a/b"]
        await tree.rename("a", "c")
        assert await tree.read("c/b") == b"body"

    asyncio.run(scenario())


def test_counting_store_counts_copies_and_their_bytes() -> None:
    async def scenario() -> None:
        world = World()
        world.create_bucket("bucket")
        counts, copied = Counter[str](), Counter[str]()
        store = CountingStore(MemoryStore("bucket", world), counts, copied)
        await store.put("a", b"12345")
        for destination in ("b", "c"):
            await store.copy("a", destination)
        await CountingStore(MemoryStore("bucket", world), counts, copied).copy("b", "d")
        assert (counts, copied, copied.total()) == ({"put": 1, "copy": 3}, {"a": 10, "b": 5}, 15)
        assert store.bytes_copied is copied
        assert CountingStore(store, Counter()).bytes_copied.total() == 0

    asyncio.run(scenario())
