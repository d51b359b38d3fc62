"""Other jobs at a destination: how they are found, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

import magicfs
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory import World
from magicfs.stores.memory_filesystem import MemoryFileSystem
from magicfs.stores.port import Store

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


def publish(url: str, how: dict[str, Any]) -> magicfs.Job:
    with magicfs.Job(url, **how) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.txt", b"1")
    return job


@pytest.mark.parametrize("layout", ["__magic_job", "__magic"])
def test_what_other_jobs_have_written_is_not_listed(layout: Any) -> None:
    filesystem = WatchedFileSystem()
    url = "memory://bucket/sales"
    how: dict[str, Any] = {"conflict": "append", "filesystem": filesystem, "layout": layout}
    publish(url, how)
    other = magicfs.Job(url, **how).setup()
    task = other.task(0).setup()
    task.filesystem.pipe({f"{task.path}/{n}.txt": b"1" for n in range(FILES)})
    filesystem.entries.clear()

    assert [one.job_id for one in publish(url, how).found.jobs] == [other.id]
    # The pending uploads themselves are listed twice: once to tell of them, once to find the job's own.
    assert filesystem.entries.pop("list_uploads") >= FILES
    assert filesystem.entries.total() < 40

    assert [one.action for one in magicfs.recover(url, filesystem=filesystem).jobs] == ["left"]


@pytest.mark.parametrize("honours", [True, False], ids=["If-Match", "numbered versions"])
@pytest.mark.parametrize("layout", ["__magic_job", "__magic"])
def test_unfinished_job_is_found_in_its_newest_state(layout: Any, honours: bool) -> None:
    filesystem = MemoryFileSystem(world=World(ignores=frozenset() if honours else {"put_if_match"}))
    filesystem.world.create_bucket("bucket")
    how: dict[str, Any] = {"conflict": "append", "filesystem": filesystem, "layout": layout}
    url = "memory://bucket/a b/sales"
    first = magicfs.Job(url, **how).setup()
    second = magicfs.Job(url, job_id=first.id, attempt=1, **how).setup()
    found = magicfs.Job(url, **how).setup().found.jobs
    assert [(one.job_id, one.state) for one in found] == [(second.id, "open")]
    assert found[0].changed >= found[0].created > 0
