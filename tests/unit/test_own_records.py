"""A task commit does not read back what its own process wrote, and believes the listing about all else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fsspec.asyn import get_loop, sync

from magicfs.errors import CommitFailed
from magicfs.formats.pending import Pending
from magicfs.job.task import Task
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import ObjectInfo
from proofs.scenes.job_scene import JobScene
from proofs.scenes.known import all_ended, files_of, forget_files


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def record_of(task: Task, name: str) -> tuple[MemoryStore, str]:
    bucket, _, key = f"{task.path}/{name}.pending".partition("/")
    return task.filesystem.store(bucket), key


def in_store(method: Callable[..., Any], *args: Any) -> Any:
    all_ended()
    return sync(get_loop(), method, *args)


def reads(task: Task, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the records that the task reads from now on."""
    read: list[str] = []
    get = MemoryStore.get

    async def told(self: MemoryStore, key: str, **options: Any) -> bytes:
        if key.endswith(".pending"):
            read.append(key.rpartition("/")[2].removesuffix(".pending"))
        return await get(self, key, **options)

    monkeypatch.setattr(MemoryStore, "get", told)
    return read


@pytest.mark.parametrize("hadoop", [None, "3.5"])
def test_what_is_remembered_is_what_would_be_read(scene: JobScene, hadoop: str | None) -> None:
    task = scene.job(hadoop=hadoop).task(0).setup()
    task.filesystem.pipe({f"{task.path}/d={n}/{n} ż%.bin": b"x" * n for n in range(5)})
    with task.filesystem.open(f"{task.path}/large", "wb") as file:
        file.write(bytes(20 * 2**20))
    scope = files_of(task)
    assert len(scope.records) == 6
    for path, pending in scope.finished.items():
        store, key = record_of(task, path.removeprefix(f"{task.path}/"))
        assert Pending.from_bytes(key, in_store(store.get, key)) == pending
        assert in_store(store.head, key).etag == scope.records[path].etag


def test_record_that_another_process_has_written_is_read(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = scene.job()
    task = job.task(0).setup()
    task.filesystem.pipe_file(f"{task.path}/theirs", b"theirs")
    forget_files(task)
    task.filesystem.pipe_file(f"{task.path}/ours", b"ours")
    read = reads(task, monkeypatch)
    commit = task.commit()
    assert read == ["theirs"]
    job.commit([commit])
    assert scene.bodies() == [b"ours", b"theirs"]


def test_record_that_another_process_has_written_over_ours_is_read_and_counts(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = scene.job()
    task = job.task(0).setup()
    task.filesystem.pipe_file(f"{task.path}/a", b"first")
    store, key = record_of(task, "a")
    first = in_store(store.get, key)
    known = files_of(task)
    task.filesystem.pipe_file(f"{task.path}/a", b"other")
    second = in_store(store.get, key)
    assert len(first) == len(second), "the size alone cannot tell"
    in_store(store.put, key, first)
    read = reads(task, monkeypatch)
    with pytest.raises(CommitFailed, match="missing, although this process wrote it"):
        task.commit()
    assert read == ["a"]
    assert known.records


def test_record_that_somebody_removed_fails_the_task(scene: JobScene) -> None:
    job = scene.job()
    task = job.task(0).setup()
    task.filesystem.pipe({f"{task.path}/{name}": b"x" for name in "ab"})
    store, key = record_of(task, "b")
    in_store(store.delete, [key, key.removesuffix(".pending")])
    with pytest.raises(CommitFailed, match="missing, although this process wrote it"):
        task.commit()


@pytest.mark.parametrize(("etag", "size"), [("", 0), ('"other"', 0), (None, 1)])
def test_record_that_is_listed_otherwise_than_it_was_written_is_read(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch, etag: str | None, size: int
) -> None:
    job = scene.job()
    task = job.task(0).setup()
    task.filesystem.pipe_file(f"{task.path}/a", b"x")
    listed = MemoryStore.list

    async def otherwise(self: MemoryStore, prefix: str, **options: Any) -> Any:
        async for one in listed(self, prefix, **options):
            shown = one.etag if etag is None else etag
            yield ObjectInfo(one.key, one.size + size, shown, one.modified)

    monkeypatch.setattr(MemoryStore, "list", otherwise)
    read = reads(task, monkeypatch)
    commit = task.commit()
    assert read == ["a"]
    monkeypatch.undo()
    job.commit([commit])
    assert scene.bodies() == [b"x"]


def test_file_that_was_removed_and_written_again_is_known_by_its_last_record(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = scene.job()
    task = job.task(0).setup()
    path = f"{task.path}/a"
    task.filesystem.pipe_file(path, b"first")
    task.filesystem.rm(path)
    assert files_of(task).records == {}
    task.filesystem.pipe_file(path, b"second")
    read = reads(task, monkeypatch)
    commit = task.commit()
    assert read == []
    job.commit([commit])
    assert scene.bodies() == [b"second"]
