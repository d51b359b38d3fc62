"""How many requests are in flight, on stores far away and on stores that throttle, in virtual time."""

from __future__ import annotations

import asyncio
import random
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, Unavailable
from magicfs.filesystem.tracking import StoreRecorder
from magicfs.filesystem.upload import AsyncDelayedFile, Upload
from magicfs.protocol.magic import locate
from magicfs.protocol.steps import Abort, Batch, Complete
from magicfs.runtime import parallel
from magicfs.runtime.parallel import REQUESTS_MAX, START, Pace, drained
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.store import World
from magicfs.stores.port import Capabilities, Store
from magicfs.stores.retrying import RetryingStore
from proofs.doubles import virtual_time

_T = TypeVar("_T")
LATENCY_S = 0.15
LIMIT = 3500
BURST_S = 0.25
"""So much of what a store lets pass in a second may come at once."""


class FarStore(DelegatingStore):
    """Answers every request after a while, so many in a second; others wait, or are refused."""

    def __init__(
        self, inner: Store, *, a_second: float, throttles: bool, latency_s: float = LATENCY_S
    ) -> None:
        super().__init__(inner)
        self.a_second = a_second
        self.throttles = throttles
        self.latency_s = latency_s
        self.most = 0
        self.refused = 0
        self._in_flight = 0
        self._next = 0.0

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, requests_max=REQUESTS_MAX)

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        self._in_flight += 1
        self.most = max(self.most, self._in_flight)
        try:
            loop = asyncio.get_running_loop()
            turn = max(self._next, loop.time())
            wait = turn - loop.time()
            if self.throttles and wait > BURST_S:
                await asyncio.sleep(self.latency_s)
                self.refused += 1
                error = Unavailable(operation, key, "SlowDown")
                error.throttled = True
                raise error
            self._next = turn + 1 / self.a_second
            await asyncio.sleep(self.latency_s + (0 if self.throttles else wait))
            return await request()
        finally:
            self._in_flight -= 1


async def uploads(store: Store, number: int) -> list[Complete]:
    steps = []
    for name in range(number):
        key = f"d/{name:05d}"
        upload = await store.create_upload(key, metadata={})
        part = await store.put_part(key, upload, 1, b"x")
        steps.append(Complete(key, upload, (part.etag,), 1, f"id-{name}"))
    return steps


def completed_s(number: int, concurrency: int = START, **how: Any) -> tuple[float, FarStore]:
    """Virtual seconds in which so many files are completed."""

    async def whole() -> tuple[float, FarStore]:
        plain = World(create_buckets=True).store("bucket")
        steps = await uploads(plain, number)
        far = FarStore(plain, **how)
        engine = Engine(RetryingStore(far, share=lambda: 0.5), concurrency)
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await engine.run(Batch("complete", steps))
        assert result.ok, result.failures[0]
        assert result.done == number
        return loop.time() - began, far

    return virtual_time.run(whole())


@pytest.mark.slow
def test_a_store_far_away_is_kept_busy() -> None:
    seconds, far = completed_s(10_000, a_second=LIMIT, throttles=False)
    assert seconds < 1.3 * 10_000 / LIMIT
    assert far.most <= REQUESTS_MAX


@pytest.mark.slow
@pytest.mark.parametrize("a_second", [3500, 1000, 300])
def test_a_store_that_throttles_gets_little_more_than_it_lets_pass(a_second: int) -> None:
    number = 4 * a_second
    seconds, far = completed_s(number, a_second=a_second, throttles=True)
    assert seconds < 1.5 * number / a_second
    assert 0 < far.refused < number / 4


def test_more_in_flight_is_not_held_where_it_is_of_no_use() -> None:
    _, far = completed_s(3000, a_second=1000, throttles=False, latency_s=0.01)
    assert far.most < 4 * START


@pytest.mark.slow
@pytest.mark.parametrize(("latency_s", "first"), [(0.15, 262), (0.01, START)])
def test_a_store_that_is_known_to_be_far_away_is_asked_for_more_from_the_start(
    latency_s: float, first: int
) -> None:
    async def whole() -> tuple[int, float]:
        plain = World(create_buckets=True).store("bucket")
        steps = await uploads(plain, 10_000)
        far = FarStore(plain, a_second=LIMIT, throttles=False, latency_s=latency_s)
        store = RetryingStore(far, share=lambda: 0.5)
        for key in ("d/00000", "d/00001"):
            with pytest.raises(ObjectNotFound):
                await store.head(key)
        running = asyncio.ensure_future(Engine(store, START).run(Batch("complete", steps)))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(latency_s / 2)
        most = far.most
        assert (await running).ok
        return most, loop.time() - began

    most, seconds = virtual_time.run(whole())
    assert most == first
    assert seconds < 1.15 * 10_000 / LIMIT


def uploaded_s(files: int, at_once: int, **how: Any) -> tuple[float, FarStore]:
    """Virtual seconds in which so many files are written and recorded."""

    async def whole() -> tuple[float, FarStore]:
        far = FarStore(World(create_buckets=True).store("bucket"), **how)
        store = RetryingStore(far, share=random.Random(7).random)

        async def write(number: int) -> bool:
            path = locate(f"bucket/d/__magic/job/task/__base/part %+#{number}.é")
            upload = Upload(
                store, f"d/part %+#{number}.é", 5 * 1024**2, StoreRecorder(store, path, etag_format="object")
            )
            async with await AsyncDelayedFile(upload).open() as file:
                await file.write(b"x")
            return True

        loop = asyncio.get_running_loop()
        began = loop.time()
        await drained(range(files), write, at_once)
        return loop.time() - began, far

    return virtual_time.run(whole())


@pytest.mark.slow
@pytest.mark.parametrize(("files", "at_once", "a_second"), [(400, 128, 100), (1000, 500, 300)])
def test_uploads_to_a_store_that_throttles_all_arrive(files: int, at_once: int, a_second: int) -> None:
    seconds, far = uploaded_s(files, at_once, a_second=a_second, throttles=True)
    requests = 4 * files  # create, part, marker, record
    assert seconds < 1.3 * requests / a_second
    assert 0 < far.refused < requests / 2


def test_uploads_are_bounded_only_where_a_store_throttles() -> None:
    _, far = uploaded_s(600, 150, a_second=LIMIT, throttles=False)
    assert far.most == 150


@pytest.mark.parametrize("concurrency", [1, 7, 64])
def test_a_number_that_somebody_has_chosen_is_a_bound(concurrency: int) -> None:
    _, far = completed_s(700, concurrency, a_second=LIMIT, throttles=False)
    assert far.most == concurrency


def test_all_who_use_a_store_share_its_pace_first_come_first_served() -> None:
    async def whole() -> None:
        far = FarStore(World(create_buckets=True).store("bucket"), a_second=1000, throttles=False)
        ended: dict[str, float] = {}

        async def one(name: str, number: int) -> None:
            steps = [Abort(f"{name}{n}", "upload") for n in range(number)]
            await Engine(far, START).run(Batch(name, steps))
            ended[name] = asyncio.get_running_loop().time()

        await asyncio.gather(one("many", 3000), one("few", 100))
        assert ended["few"] < ended["many"] / 3

    virtual_time.run(whole())


def test_slots_are_given_back_whatever_ends_their_user() -> None:
    async def whole() -> None:
        slots = Pace(START)

        async def work(item: int) -> bool:
            await asyncio.sleep(0.1)
            if item == 3:
                raise ValueError("no")
            return item != 50

        async def broken() -> AsyncIterator[int]:
            yield 1
            raise ValueError("no")

        sources: list[Any] = [range(10), range(40, 90), broken(), []]
        for items in sources:
            waiting = asyncio.ensure_future(drained(items, work, slots))
            await asyncio.wait([waiting])
            waiting.exception()
        for after_s in (0, 0.05, 0.1, 0.15, 0.35):
            users = [asyncio.ensure_future(drained(range(60, 160), work, slots)) for _ in range(2)]
            await asyncio.sleep(after_s)
            for user in users:
                user.cancel()
            await asyncio.wait(users)
        assert slots.in_flight == 0
        assert not [one for one in slots._waiting if not one.done()]
        await asyncio.wait_for(slots.acquire(), 1)

    virtual_time.run(whole())


def test_a_store_is_asked_for_no_more_than_its_client_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    async def most(files: int) -> int:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
        far = FarStore(World(create_buckets=True).store("bucket"), a_second=1, throttles=False)
        slots = parallel.limit_of(far, START)
        assert isinstance(slots, Pace)
        assert parallel.limit_of(far, START) is slots
        return slots._limit_max

    assert [virtual_time.run(most(files)) for files in (1024, 100, -1)] == [512, 50, REQUESTS_MAX]
