"""A silent store is given up, a slow one is not. On a loop whose clock jumps to the next event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, Unavailable
from magicfs.protocol.steps import Abort, Batch
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import ObjectInfo
from magicfs.stores.retrying import StallTimeoutStore
from proofs.doubles.virtual_time import VirtualLoop

STALL_TIMEOUT_S = 60.0


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        await scenario()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(whole())


class SlowStore(MemoryStore):
    """Answers after so many seconds, or never, and counts the requests that were given up."""

    def __init__(self, seconds: float | None) -> None:
        world = World()
        world.create_bucket("bucket")
        super().__init__("bucket", world)
        self.seconds = seconds
        self.given_up = 0

    async def abort_upload(self, key: str, upload_id: str) -> None:
        await self._wait()
        await super().abort_upload(key, upload_id)

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        await self._wait()
        return await super().get(key, size_max=size_max)

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        async for info in super().list(prefix, limit=limit):
            await self._wait()
            yield info

    async def _wait(self) -> None:
        try:
            if self.seconds is None:
                await asyncio.get_running_loop().create_future()
            else:
                await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.given_up += 1
            raise


def test_store_that_never_answers_is_given_up_and_named() -> None:
    async def scenario() -> None:
        inner = SlowStore(None)
        store = StallTimeoutStore(inner, STALL_TIMEOUT_S)
        with pytest.raises(Unavailable) as caught:
            await store.abort_upload("a b/ü", "upload")
        assert str(caught.value) == (
            "abort_upload of bucket/a b/ü: timed out: the store did not answer for 60 s; check that the "
            "endpoint is right and up, then abort again"
        )
        assert asyncio.get_running_loop().time() == STALL_TIMEOUT_S
        assert inner.given_up == 1

    run(scenario)


def test_any_number_of_requests_is_given_up_together() -> None:
    async def scenario() -> None:
        inner = SlowStore(None)
        engine = Engine(StallTimeoutStore(inner, STALL_TIMEOUT_S), 8)
        steps = [Abort(f"key-{n}", "upload") for n in range(1000)]
        result = await engine.run(Batch("abort", steps), stop_on_failure=False)
        assert len(result.failures) == 1000
        assert asyncio.get_running_loop().time() == STALL_TIMEOUT_S

    run(scenario)


def test_slow_store_is_waited_for_as_long_as_it_answers() -> None:
    async def scenario() -> None:
        engine = Engine(StallTimeoutStore(SlowStore(STALL_TIMEOUT_S - 1), STALL_TIMEOUT_S), 1)
        steps = [Abort(f"key-{n}", "upload") for n in range(10)]
        assert (await engine.run(Batch("abort", steps))).ok
        assert asyncio.get_running_loop().time() == 10 * (STALL_TIMEOUT_S - 1)

    run(scenario)


def test_refusal_is_an_answer() -> None:
    async def scenario() -> None:
        store = StallTimeoutStore(SlowStore(STALL_TIMEOUT_S - 1), STALL_TIMEOUT_S)
        for _ in range(5):
            with pytest.raises(ObjectNotFound):
                await store.get("missing")

    run(scenario)


def test_listing_is_waited_for_as_long_as_it_gets_on() -> None:
    async def scenario() -> None:
        inner = SlowStore(STALL_TIMEOUT_S - 1)
        for name in "abcde":
            await inner.put(name, b"")
        store = StallTimeoutStore(inner, STALL_TIMEOUT_S)
        assert [info.key async for info in store.list("")] == list("abcde")
        inner.seconds = None
        with pytest.raises(Unavailable, match="list of bucket/: timed out"):
            [info async for info in store.list("")]

    run(scenario)


def test_store_that_stops_answering_is_given_up_from_its_last_answer() -> None:
    async def scenario() -> None:
        inner = SlowStore(10.0)
        store = StallTimeoutStore(inner, STALL_TIMEOUT_S)
        await store.abort_upload("a", "upload")
        inner.seconds = None
        with pytest.raises(Unavailable):
            await store.abort_upload("b", "upload")
        assert asyncio.get_running_loop().time() == 10.0 + STALL_TIMEOUT_S

    run(scenario)


def test_everything_else_is_the_store_within() -> None:
    async def scenario() -> None:
        inner = SlowStore(0.0)
        store = StallTimeoutStore(inner, STALL_TIMEOUT_S)
        assert (store.name, store.bucket, store.capabilities) == ("memory", "bucket", inner.capabilities)
        upload = await store.create_upload("a", metadata={"x": "y"})
        part = await store.put_part("a", upload, 1, b"body")
        assert [info.upload_id async for info in store.list_uploads("")] == [upload]
        await store.complete_upload("a", upload, [part])
        assert (await store.head("a")).metadata == {"x": "y"}
        await store.put("b", b"")
        await store.delete(["a", "b"])
        assert [info async for info in store.list("")] == []

    run(scenario)
