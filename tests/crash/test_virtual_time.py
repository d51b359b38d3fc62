"""The virtual loop: no waiting, the same order for the same seed, no threads."""

from __future__ import annotations

import asyncio
import gc
import secrets
import threading
import time
from collections.abc import AsyncGenerator
from uuid import uuid4

import pytest

from proofs.doubles.virtual_time import Deadlock, VirtualLoop, deterministic, run


def test_time_jumps_to_the_next_timer_and_orders_what_waits() -> None:
    async def whole() -> list[tuple[str, float]]:
        seen = []
        loop = asyncio.get_running_loop()

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, loop.time()))

        await asyncio.gather(sleeper("week", 7 * 86400), sleeper("now", 0), sleeper("hour", 3600))
        return seen

    assert run(whole()) == [("now", 0.0), ("hour", 3600.0), ("week", 7 * 86400.0)]


def test_timeouts_run_out_in_virtual_time() -> None:
    async def whole() -> None:
        async with asyncio.timeout(10**6):
            await asyncio.sleep(10**6 - 1)
        async with asyncio.timeout(10**6):
            await asyncio.sleep(10**6 + 1)

    with pytest.raises(TimeoutError):
        run(whole())


def order_of(seed: int | None) -> list[int]:
    async def whole() -> list[int]:
        order = []

        async def one(number: int) -> None:
            for _ in range(3):
                await asyncio.sleep(0)
                order.append(number)

        await asyncio.gather(*(one(number) for number in range(6)))
        return order

    return run(whole(), seed=seed)


def test_a_seed_is_an_order() -> None:
    assert order_of(None) == [0, 1, 2, 3, 4, 5] * 3
    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)) for seed in range(20)}) > 10
    assert sorted(order_of(1)) == sorted(order_of(None))


def test_callbacks_of_one_loop_keep_their_order_whatever_the_seed() -> None:
    async def whole() -> list[int]:
        seen: list[int] = []
        for number in range(20):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.sleep(1)
        return seen

    assert run(whole(), seed=3) == list(range(20))


def test_waiting_for_nothing_is_told() -> None:
    async def whole() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        run(whole())


def test_what_is_left_behind_is_cancelled() -> None:
    ended = []

    async def left() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append(True)

    async def whole() -> None:
        whole.task = asyncio.ensure_future(left())  # type: ignore[attr-defined]
        await asyncio.sleep(1)

    run(whole())
    assert ended == [True]


def test_work_for_threads_is_done_inline_where_that_is_wanted() -> None:
    told: list[str] = []

    async def program() -> str:
        other = asyncio.ensure_future(wait())
        found = await asyncio.to_thread(lambda: told.append("work") or "done")  # type: ignore[func-returns-value]
        with pytest.raises(FileNotFoundError):
            await asyncio.to_thread(open, "/no such file")
        await other
        return found

    async def wait() -> None:
        told.append("meanwhile")

    assert run(program(), inline=lambda: told.append("asked")) == "done"
    assert told == ["meanwhile", "asked", "work", "asked"]


def test_there_are_no_threads() -> None:
    async def whole() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="threads"):
        run(whole())
    loop = VirtualLoop()
    errors: list[BaseException] = []

    def other() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    loop.finish()
    assert "threads" in str(errors)


def test_randomness_and_the_clock_are_the_seeds() -> None:
    def draw(seed: int) -> tuple[object, ...]:
        with deterministic(seed, lambda: 1234.5):
            return uuid4(), secrets.token_hex(8), time.time()

    assert draw(1) == draw(1)
    assert draw(1)[:2] != draw(2)[:2]
    assert draw(1)[2] == 1234.5
    assert uuid4() != uuid4()
    assert time.time() > 1e9


def test_a_generator_in_a_cycle_takes_no_turn_of_its_own() -> None:
    closed = []

    async def left() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            closed.append("left")

    async def whole() -> list[str]:
        generator = left()
        await anext(generator)
        cycle = [generator]
        cycle.append(cycle)  # type: ignore[arg-type]
        del generator, cycle
        kept.extend([] for _ in range(5000))  # more than the collector lets pass
        for _ in range(5):
            await asyncio.sleep(0)
        return list(closed)

    kept: list[list[object]] = []
    assert run(whole()) == []
    assert gc.isenabled()
