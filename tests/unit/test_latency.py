"""How many requests of a job wait for one another: what a store far away costs, in virtual time.

Every request takes one tick, so the ticks that pass are the requests in a row, which no concurrency shortens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from magicfs.committers import registry
from magicfs.committers.base import Committer
from magicfs.engine import Engine
from magicfs.filesystem.tracking import MemoryRecorder, StoreRecorder
from magicfs.filesystem.upload import AsyncDelayedFile, Upload
from magicfs.formats.job_options import JobOptions
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.spec import JobSpec
from magicfs.protocol import ids
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.magic import locate
from magicfs.stores import conditions
from magicfs.stores.conditions import Conditions
from magicfs.stores.delegating import DelegatingStore, Steps
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Store
from magicfs.stores.resolve import location_of
from proofs.doubles import virtual_time

_T = TypeVar("_T")
TICK_S = 0.001
MODES = ("error", "append", "overwrite", "overwrite_partitions")


class FarStore(DelegatingStore):
    """Takes one tick for every request, and writes down which took place in which."""

    def __init__(self, inner: Store, log: list[tuple[int, str]]) -> None:
        super().__init__(inner)
        self.log = log

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        await self._travel(operation)
        return await request()

    def _steps(self, operation: str, prefix: str, items: AsyncIterator[_T]) -> AsyncIterator[_T]:
        under_way = True

        async def step(request: Callable[[], Awaitable[_T | None]]) -> _T | None:
            nonlocal under_way
            if under_way:  # one page
                under_way = False
                await self._travel(operation)
            return await request()

        return Steps(items, step)

    async def _travel(self, operation: str) -> None:
        self.log.append((ticks(), operation))
        await asyncio.sleep(TICK_S)


def ticks() -> int:
    return round(asyncio.get_running_loop().time() / TICK_S)


@dataclass
class Far:
    """One destination in a store far away, and jobs at it."""

    world: World = field(default_factory=World)
    log: list[tuple[int, str]] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.create_bucket("bucket")

    def committer(self, mode: str, **options: Any) -> Committer:
        spec = JobSpec(
            location=location_of("memory://bucket/sales"),
            job=ids.job_id(f"0{len(self.taken):07d}-0000-4000-8000-000000000000"),
            options=JobOptions(committer="magic", mode=mode, **options),
        )
        store = FarStore(MemoryStore("bucket", self.world), self.log)
        return registry.make("magic", spec.context, Engine(store, 32))

    async def timed(self, name: str, work: Coroutine[Any, Any, _T]) -> _T:
        began = ticks()
        result = await work
        self.taken[name] = ticks() - began
        return result

    async def play(self, mode: str, *, tasks: int = 3, files: int = 4, **options: Any) -> None:
        """One job from its setup to its end; ``taken`` tells how many ticks each part took."""
        one = self.committer(mode, **options)
        found = await self.timed("setup", one.setup_job())
        commits = await asyncio.gather(*(self._task(one, number, files) for number in range(tasks)))
        await self.timed("commit", one.commit_job(commits, found.driver))

    async def _task(self, one: Committer, number: int, files: int) -> TaskCommit:
        task = ids.task_id(number)
        attempt = ids.attempt_id(task, "1")
        await asyncio.gather(*(self._file(one, attempt, f"d={n}/part-{n}.txt") for n in range(files)))
        return await self.timed("task", one.commit_task(task, attempt))

    async def _file(self, one: Committer, attempt: ids.AttemptId, name: str) -> None:
        context, store = one.context, one.engine.store
        path = locate(f"bucket/{context.layout.work_directory(attempt)}/{name}")
        relative = unique_name(path.relative, ids.task_of_attempt(attempt), context.job)
        recorder = StoreRecorder(store, path, etag_format=context.options.hadoop.etag_format)
        if context.options.tracking == "memory":
            recorder = MemoryRecorder(store, path)
        upload = Upload(store, "/".join((*path.parents, *relative)), context.options.part_size, recorder)
        async with await AsyncDelayedFile(upload).open() as file:
            await file.write(b"row\n")


def play(mode: str, *, jobs: int = 1, known: bool = True, **options: Any) -> tuple[dict[str, int], Far]:
    """The ticks of the last of some jobs that come one after another."""
    far = Far()

    async def program() -> None:
        store = MemoryStore("bucket", far.world)
        for number in range(jobs):
            conditions.assume(store, Conditions() if known or number < jobs - 1 else None)
            far.log.clear()
            far.taken |= {"": number}
            await far.play("append" if number < jobs - 1 else mode, **options)

    virtual_time.run(program())
    return far.taken, far


def rows_of(far: Far, first: int, end: int) -> list[list[str]]:
    """The requests of each tick, from the first to the end."""
    return [sorted(operation for tick, operation in far.log if tick == row) for row in range(first, end)]


# The first job at a destination, and a later one: requests in a row of its setup and of its commit.
FIRST = {
    "error": (4, 16),
    "append": (4, 13),
    "overwrite": (4, 16),
    "overwrite_partitions": (4, 16),
}
LATER = {"append": (4, 15), "overwrite": (5, 20), "overwrite_partitions": (5, 20)}


@pytest.mark.parametrize("tracking", ["store", "memory"])
@pytest.mark.parametrize("mode", FIRST)
def test_requests_in_a_row_of_a_first_job(mode: str, tracking: str) -> None:
    taken, _ = play(mode, tracking=tracking)
    assert (taken["setup"], taken["commit"]) == FIRST[mode]
    # LIST, PUT of the set, DELETE of the records, which the process itself has written.
    assert taken["task"] == {"store": 3, "memory": 0}[tracking]


@pytest.mark.parametrize("mode", LATER)
def test_requests_in_a_row_of_a_later_job(mode: str) -> None:
    taken, _ = play(mode, jobs=2)
    assert (taken["setup"], taken["commit"]) == LATER[mode]


def test_setup_looks_at_everything_at_once() -> None:
    """What could refuse the job; its object; its move, beside a look for its manifest; who else is there."""
    taken, far = play("append")
    assert rows_of(far, 0, taken["setup"]) == [
        ["head", "list", "list"],
        ["put"],
        ["head", "put"],
        ["list_directories", "list_uploads"],
    ]


def test_commit_looks_at_what_comes_next_beside_what_is_done_now() -> None:
    """What must wait for its forerunner, and does: the swaps, the reading back, the files, what follows."""
    taken, far = play("overwrite", jobs=2)
    last = max(tick for tick, _ in far.log) + 1
    assert rows_of(far, last - taken["commit"], last) == [
        ["get", "head"],  # the job object
        ["head", "head", "put"],  # _SUCCESS and the pointer, beside the facts
        ["get", "get"],
        ["list", "put"],  # the scope, after the pointer; the copy of _SUCCESS
        ["put"],  # what will be deleted
        ["put"],  # prepared
        ["list_directories", "list_directories"],  # other jobs here, and above
        ["get", "head"],  # the pointer, after the jobs
        ["put"],  # committing
        ["get", "head"],  # the facts are read back, beside _SUCCESS
        ["delete_all_matching"],  # which goes once they are good
        ["complete_upload"] * 12,
        ["get", "get", "head", "put"],  # completed, beside the pointer and what will be deleted
        ["list", "put"],  # the manifest, beside the work
        ["list_uploads", "put"],  # the pointer
        ["delete_all_matching"],
        ["put"],  # _SUCCESS
        ["delete"],
        ["list"],
        ["delete_all_matching"],
    ]


def test_finding_out_what_a_store_honours_takes_six_requests_in_a_row() -> None:
    taken, _ = play("append", known=False)
    # And the look for a job object that must not be written over; after the move one for another driver's.
    assert taken["setup"] == FIRST["append"][0] + 6 + 2


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_more_files_take_no_longer_as_long_as_there_are_connections(mode: str) -> None:
    few, _ = play(mode, tasks=1, files=2)
    more, _ = play(mode, tasks=8, files=4)
    assert few == more
