"""Other jobs at a destination: how they are found, and what that costs."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

import magicfs
from magicfs.engine import Engine
from magicfs.stores.conditions import Conditions, assume
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Body, ObjectInfo, Store
from magicfs.transaction.others import find_unfinished_jobs
from proofs.scenes.arranged import arranged

_T = TypeVar("_T")
FILES = 300


class Watching(DelegatingStore):
    """Counts the entries that listings give."""

    def __init__(self, inner: Store, entries: Counter[str]) -> None:
        super().__init__(inner)
        self.entries = entries

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        found = await request()
        if operation.startswith("list") and found is not None:
            self.entries[operation] += 1
        return found


class WatchedFileSystem(MemoryFileSystem):
    """A bucket whose listings are watched."""

    def __init__(self) -> None:
        super().__init__(world=World())
        self.world.create_bucket("bucket")
        self.entries: Counter[str] = Counter()

    def store(self, bucket: str) -> Store:
        return Watching(super().store(bucket), self.entries)


class RecordingStore(DelegatingStore):
    """Remembers the bodies that are put."""

    def __init__(self, inner: Store, written: list[bytes]) -> None:
        super().__init__(inner)
        self.written = written

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        self.written.append(bytes(body))
        return await super().put(key, body, **options)


class Recording(MemoryFileSystem):
    """A bucket that remembers what was put into it."""

    def __init__(self) -> None:
        super().__init__(world=World(create_buckets=True))
        self.written: list[bytes] = []

    def store(self, bucket: str) -> Store:
        return RecordingStore(super().store(bucket), self.written)


def publish(url: str, how: dict[str, Any]) -> magicfs.Job:
    with magicfs.Job(url, **arranged(**how)) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.txt", b"1")
    return job


@pytest.mark.parametrize("hadoop", [None, "3.3"])
def test_what_other_jobs_have_written_is_not_listed(hadoop: str | None) -> None:
    filesystem = WatchedFileSystem()
    url = "memory://bucket/sales"
    how: dict[str, Any] = {"mode": "append", "filesystem": filesystem, "hadoop": hadoop}
    publish(url, how)
    other = magicfs.Job(url, **arranged(**how)).setup()
    task = other.task(0).setup()
    task.filesystem.pipe({f"{task.path}/{n}.txt": b"1" for n in range(FILES)})
    filesystem.entries.clear()

    assert [one.job_id for one in publish(url, how).found.jobs] == [other.id]
    # The pending uploads themselves are listed twice: once to tell of them, once to find the job's own.
    assert filesystem.entries.pop("list_uploads") >= FILES
    assert filesystem.entries.total() < 40

    assert [one.action for one in magicfs.Dataset(url, filesystem=filesystem).recover().jobs] == ["left"]


@pytest.mark.parametrize("honours", [True, False], ids=["If-Match", "numbered versions"])
@pytest.mark.parametrize("hadoop", [None, "3.3"])
def test_unfinished_job_is_found_in_its_newest_state(hadoop: str | None, honours: bool) -> None:
    filesystem = MemoryFileSystem(world=World(ignores=frozenset() if honours else {"put_if_match"}))
    filesystem.world.create_bucket("bucket")
    how: dict[str, Any] = {"mode": "append", "filesystem": filesystem, "hadoop": hadoop}
    url = "memory://bucket/a b/sales"
    first = magicfs.Job(url, **arranged(**how)).setup()
    second = magicfs.Job(url, job_id=first.id, **arranged(attempt=1, **how)).setup()
    found = magicfs.Job(url, **arranged(**how)).setup().found.jobs
    assert [(one.job_id, one.state) for one in found] == [(second.id, "open")]
    assert found[0].changed >= found[0].created > 0


@pytest.mark.parametrize("tried", [True, False])
def test_newest_version_is_read_where_its_driver_saw_another_store(tried: bool) -> None:
    """A trial that meets faults may come to another verdict than that of the next process."""
    filesystem = MemoryFileSystem(world=World(create_buckets=True))
    store = filesystem.store("bucket")
    url = "memory://bucket/sales"
    how: dict[str, Any] = {"mode": "append", "filesystem": filesystem}
    if tried:
        assume(store, Conditions(put_if_match=False))
    first = magicfs.Job(url, **arranged(**how)).setup()
    assume(store, Conditions(put_if_match=False))
    magicfs.Job(url, job_id=first.id, **arranged(attempt=1, **how)).setup()
    assume(store, Conditions())
    found = asyncio.run(find_unfinished_jobs(Engine(store, 4), "sales"))
    assert [one.job and one.job.attempt for one in found] == [1]


def test_cold_driver_says_no_longer_that_versions_may_be_numbered() -> None:
    filesystem = Recording()
    how: dict[str, Any] = {"mode": "append", "filesystem": filesystem}
    magicfs.Job("memory://bucket/sales", **arranged(**how)).setup()
    first, second = (
        json.loads(body).get("numberedVersions") for body in filesystem.written if b"magicfs.job/1" in body
    )
    assert (first, second) == (True, None)
