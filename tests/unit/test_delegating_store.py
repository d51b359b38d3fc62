"""A store around a store forgets no method of the port."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.impatience import ImpatientStore
from magicfs.stores.memory import MemoryStore, World
from magicfs.stores.port import Store
from magicfs.stores.retrying import RETRIES, RetryingStore
from magicfs.stores.s3 import S3Store
from magicfs.stores.wrappers import CountingStore

_T = TypeVar("_T")


def members(kind: type[Any]) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("_")}


def operations() -> list[str]:
    return [name for name, value in members(Store).items() if inspect.isfunction(value)]


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("kind", [DelegatingStore, MemoryStore, S3Store])
def test_every_member_of_the_port_is_defined_with_its_parameters(kind: type[Any]) -> None:
    assert len(operations()) == 12
    for name, member in members(Store).items():
        assert name in vars(kind) or name in {"name", "bucket", "capabilities"}, name
        if inspect.isfunction(member):
            assert parameters(vars(kind)[name]) == parameters(member), name


@pytest.mark.parametrize("kind", [CountingStore, ImpatientStore, RetryingStore])
def test_wrappers_pass_everything_on_as_one(kind: type[Any]) -> None:
    assert issubclass(kind, DelegatingStore)
    own = set(operations()) & set(vars(kind))
    assert own <= ({"put"} if kind is RetryingStore else set())


def test_every_operation_has_its_row_of_retries() -> None:
    assert list(RETRIES) == operations()


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
        first = await store.put("b", b"1", if_absent=True)
        second = await store.put("b", b"2", if_match=first.etag)
        assert [info.key async for info in store.list("", limit=1)] == ["a"]
        assert await store.delete_all_matching([("b", first.etag)]) == ["b"]
        await store.delete_matching("b", second.etag)
        await store.delete(["a"])
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
