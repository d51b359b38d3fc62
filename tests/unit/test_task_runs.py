"""Running tasks again, or failing the job where the committer cannot repeat a task commit."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from magicfs.errors import CommitFailed, CommitOutcomeUnknown, PermissionDenied, StoreError
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault, Kind
from magicfs.transaction.task_manifests import TaskManifests

JOB = "0d6a2c1e-7d55-4a0e-9a3b-2f1f6f0c9b11"


class Files(MemoryFileSystem):
    """Files in a world of their own, where requests fail as told."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(world=World(create_buckets=True))
        self.traffic = Traffic(faults)

    def store(self, bucket: str) -> Store:
        return faulty(super().store(bucket), self.traffic, Actor("process"))


def job_of(algorithm: int, *faults: Fault) -> Job:
    options = {"algorithm": algorithm}
    return Job(
        f"memory://bucket-{uuid4().hex[:8]}/data",
        committer="file",
        mode="append",
        filesystem=Files(*faults),
        job_id=JOB,
        options={**options},
    )


def rows(job: Job) -> Counter[str]:
    """What is visible, by content."""
    files = job.spec.wrapped()
    found = files.find(job.spec.location.path)
    return Counter(files.cat_file(path).decode() for path in found if "/_" not in path)


class Body:
    """Writes two files; remembers the attempts."""

    def __init__(self, fails: Callable[[Task, int], None] = lambda task, attempt: None) -> None:
        self.attempts: list[str] = []
        self.fails = fails

    def __call__(self, task: Task) -> None:
        self.attempts.append(task.id)
        for name in ("a.txt", "b.txt"):
            task.filesystem.pipe_file(f"{task.path}/{name}", f"{task.id} {name}".encode())
        self.fails(task, self.attempts.count(task.id))


def whole(*tasks: int) -> Counter[str]:
    return Counter(f"{n:06d} {name}" for n in tasks for name in ("a.txt", "b.txt"))


def test_body_that_fails_before_its_commit_is_run_again() -> None:
    def once(task: Task, attempt: int) -> None:
        if attempt == 1:
            raise ZeroDivisionError

    body = Body(once)
    with job_of(2) as job, ThreadPoolExecutor(2) as pool:
        job.map(body, range(3), executor=pool, retries=1)
    assert Counter(body.attempts) == Counter({f"{n:06d}": 2 for n in range(3)})
    assert rows(job) == whole(0, 1, 2)


FAILING = [
    Fault(Kind.ERROR_BEFORE, operation="copy", skip=1),
    Fault(Kind.REPLY_LOST, operation="copy", skip=1),
]


@pytest.mark.parametrize("fault", FAILING, ids=lambda fault: f"{fault.kind} {fault.operation}")
def test_commit_that_fails_is_run_again_only_where_it_may_be(fault: Fault) -> None:
    body = Body()
    saved = Fault(fault.kind, operation="put", prefix=f"data/_temporary/{JOB}/00/manifests")
    with job_of(1, saved) as job, ThreadPoolExecutor(1) as pool:
        job.map(body, range(2), executor=pool)
    assert len(body.attempts) == 3
    assert rows(job) == whole(0, 1)

    body, job = Body(), job_of(2, fault).setup()
    with ThreadPoolExecutor(1) as pool, pytest.raises(CommitFailed, match="the job has failed") as failed:
        job.map(body, range(2), executor=pool)
    assert failed.value.failed == ("000000",)
    assert Counter(body.attempts) == {"000000": 1, "000001": 1}
    # What the attempt has claimed, the job commit moves.
    assert job.commit(tasks=2).files == 4
    assert rows(job) == whole(0, 1)


def test_name_that_is_refused_at_the_commit_fails_the_job(caplog: pytest.LogCaptureFixture) -> None:
    def bad(task: Task, attempt: int) -> None:
        if attempt == 1 and task.id == "000001":
            task.filesystem.pipe_file(f"{task.path}/_temporary/x", b"")

    body = Body(bad)
    with (
        pytest.raises(CommitFailed, match="such names are reserved"),
        job_of(2) as job,
        ThreadPoolExecutor(1) as pool,
    ):
        job.map(body, range(3), executor=pool)
    assert len(body.attempts) == 3
    assert "4 files of its tasks stay visible" in caplog.text


def test_body_that_commits_by_itself_and_then_fails_is_not_run_again() -> None:
    def commits(task: Task, attempt: int) -> None:
        task.commit()
        raise ZeroDivisionError

    body, job = Body(commits), job_of(2).setup()
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(CommitFailed, match="the job has failed"),
    ):
        job.map(body, [0], executor=pool)
    assert len(body.attempts) == 1


class Losing(Executor):
    """Runs what it is given, and loses the answer of each first attempt, as an engine whose worker dies."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        future: Future[Any] = Future()
        result = fn(*args, **kwargs)
        if self.submitted == 1:
            future.set_exception(ConnectionError("the worker is gone"))
        else:
            future.set_result(result)
        return future


def test_task_whose_worker_was_lost_is_run_again_only_where_it_may_be() -> None:
    with job_of(1) as job:
        job.map(Body(), [0], executor=Losing())
    assert rows(job) == whole(0)
    assert len(job.commits) == 1

    job = job_of(2).setup()
    with pytest.raises(CommitFailed, match="its process died") as failed:
        job.map(Body(), [0], executor=Losing())
    assert isinstance(failed.value.__cause__, ConnectionError)
    assert rows(job) == whole(0)


def die_while_moving(task: Task) -> None:
    """Runs in a process of its own, and dies in its commit."""
    from magicfs.stores.local.tree import LocalTree

    def die(*args: object) -> None:
        os._exit(1)

    task.filesystem.pipe_file(f"{task.path}/a.txt", b"a")
    LocalTree.rename = LocalTree._rename_into = die  # type: ignore[method-assign,assignment]


@pytest.mark.process
@pytest.mark.parametrize("algorithm", [1, 2])
def test_process_that_dies_in_its_commit(algorithm: int, tmp_path: Path) -> None:
    job = Job(f"file://{tmp_path}/data", committer="file", mode="append", options={"algorithm": algorithm})
    expected = CommitFailed if algorithm == 2 else BrokenProcessPool
    context = multiprocessing.get_context("spawn")
    with pytest.raises(expected), job, ProcessPoolExecutor(1, mp_context=context) as pool:
        job.map(die_while_moving, [0], executor=pool)
    assert list(tmp_path.glob("data/*.txt")) == []


def test_task_tells_that_its_commit_failed_whoever_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that drives ``Task`` itself gets the same error."""

    async def denied(*_: object) -> None:
        raise PermissionDenied("put", "claims", "403 AccessDenied")

    monkeypatch.setattr(TaskManifests, "claim", denied)
    job = job_of(2).setup()
    task = job.task(0).setup()
    Body()(task)
    with pytest.raises(CommitFailed, match="cannot repeat that") as failed:
        task.commit()
    assert isinstance(failed.value.__cause__, StoreError)
    assert task.began_commit


def test_silence_in_a_commit_lets_the_same_attempt_commit_again() -> None:
    job = job_of(2, Fault(Kind.THROTTLE, operation="copy", skip=1)).setup()
    task = job.task(0).setup()
    Body()(task)
    with pytest.raises(CommitOutcomeUnknown, match="commit the same attempt again"):
        task.commit()
    job.commit([task.commit()])
    assert rows(job) == whole(0)
