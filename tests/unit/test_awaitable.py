"""The awaitable twins: the same as what blocks, and a cancelled one is an interrupted one."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import magicfs
from magicfs.errors import OutputExists, ProtocolViolation
from magicfs.runtime.interrupt import awaited
from magicfs.stores.memory.store import World
from proofs.scenes.arranged import arranged
from proofs.sides.interrupts import NEW, URL, CtrlC, Files, left, visible, with_old


@pytest.fixture
def world() -> World:
    return with_old()


def make(world: World, hook: CtrlC | None = None, **options: Any) -> magicfs.Job:
    return magicfs.Job(
        URL, filesystem=Files(world, hook or CtrlC()), **arranged(**{"mode": "append", **options})
    )


async def write(job: magicfs.Job, number: int) -> None:
    async with job.task(number) as task:
        path = f"{task.path}/a{number}.bin"
        await awaited(task.filesystem.pipe_file, path, NEW[number])  # a thread of one's own would go on


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_tasks_at_once_are_published_by_one_block(world: World, tracking: str) -> None:
    async def main() -> magicfs.Job:
        async with make(world, tracking=tracking) as job:
            await asyncio.gather(write(job, 0), write(job, 1))
        return job

    job = asyncio.run(main())
    assert job.report.files == 2
    assert (visible(world), left(world)) == ([*NEW, b"old"], [])


def test_each_call_has_its_twin(world: World) -> None:
    async def main() -> None:
        job = await make(world).asetup()
        task = await job.task(0).asetup("77")
        assert task.attempt_id == "attempt-000000-77"
        await asyncio.to_thread(task.filesystem.pipe_file, f"{task.path}/a", NEW[0])
        lost = await job.task(1).asetup()
        await lost.aabort()
        report = await job.acommit([await task.acommit()], tasks=1)
        assert report.files == 1
        with pytest.raises(ProtocolViolation, match="can no longer be aborted"):
            await job.aabort()
        dropped = await make(world).asetup()
        await dropped.aabort()

    asyncio.run(main())
    assert (visible(world), left(world)) == ([NEW[0], b"old"], [])


def test_what_is_raised_is_raised_by_the_twin(world: World) -> None:
    async def main() -> None:
        with pytest.raises(OutputExists):
            await make(world, mode="error").asetup()
        with pytest.raises(ZeroDivisionError):
            async with make(world) as job:
                await write(job, 0)
                raise ZeroDivisionError
        assert repr(job).endswith("aborted>")

    asyncio.run(main())
    assert (visible(world), left(world)) == ([b"old"], [])


def test_the_loop_of_the_caller_goes_on_meanwhile() -> None:
    async def main() -> list[str]:
        go, seen = threading.Event(), []

        async def tick() -> None:
            seen.append("tick")
            go.set()

        waiting = asyncio.create_task(awaited(go.wait, 30))
        await asyncio.gather(waiting, tick())
        return seen

    assert asyncio.run(main()) == ["tick"]


def played(number: int) -> tuple[CtrlC, World, magicfs.Job, asyncio.CancelledError | None]:
    """A job whose program is cancelled at one of its requests."""
    world, hook = with_old(), CtrlC(number)
    job = make(world, hook)

    async def body() -> None:
        async with job:
            await write(job, 0)
            await write(job, 1)

    async def main() -> asyncio.CancelledError | None:
        running = asyncio.ensure_future(body())
        while not hook.reached.is_set() and not running.done():  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.sleep(0.05)
        hook.told.set()
        try:
            await running
        except asyncio.CancelledError as error:
            return error
        return None

    return hook, world, job, asyncio.run(main())


def test_cancelled_at_any_request_all_or_nothing_is_published_and_the_error_says_which() -> None:
    counted, *_ = played(0)
    ends = set()
    for number in range(1, counted.seen + 1, 4):
        hook, world, job, error = played(number)
        assert error is not None, hook.where
        assert not left(world), hook.where
        state = repr(job).rpartition(" ")[2].rstrip(">")
        assert visible(world) == ([*NEW, b"old"] if state == "committed" else [b"old"]), (hook.where, state)
        ends.add(state)
    assert ends == {"new", "aborted", "committed"}


def write_one(task: magicfs.Task) -> None:
    number = int(task.id)
    task.filesystem.pipe_file(f"{task.path}/é {number}.bin", NEW[number])


def test_tasks_of_an_executor_are_awaited_and_tried_again(world: World) -> None:
    tried: list[str] = []

    def fails_once(task: magicfs.Task) -> None:
        tried.append(task.id)
        if tried.count(task.id) == 1:
            raise ConnectionError(task.id)
        write_one(task)

    async def main() -> magicfs.Job:
        async with make(world, tracking="memory") as job:
            with ThreadPoolExecutor(2) as pool:
                commits = await job.amap(fails_once, range(2), executor=pool)
            assert [one.files for one in commits] == [1, 1]
        return job

    assert asyncio.run(main()).report.files == 2
    assert (visible(world), left(world)) == ([*NEW, b"old"], [])
    assert sorted(tried) == ["000000", "000000", "000001", "000001"]


def test_a_map_that_is_cancelled_begins_no_further_task_and_publishes_nothing(world: World) -> None:
    begun, go = threading.Event(), threading.Event()
    ran: list[str] = []

    def stands(task: magicfs.Task) -> None:
        ran.append(task.id)
        begun.set()
        assert go.wait(30)
        write_one(task)

    async def main(pool: ThreadPoolExecutor) -> None:
        async with make(world, tracking="memory") as job:
            mapping = asyncio.ensure_future(job.amap(stands, range(2), executor=pool))
            await asyncio.to_thread(begun.wait, 30)
            mapping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await mapping
            go.set()
            await asyncio.to_thread(pool.shutdown)
            await job.aabort()

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(main(pool))
    assert ran == ["000000"]
    assert (visible(world), left(world)) == ([b"old"], [])
