"""How many requests each operation makes, counted at the port: DESIGN's table, exactly."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from magicfs.job import Job
from magicfs.stores.memory import World
from magicfs.stores.memory_filesystem import MemoryFileSystem
from magicfs.stores.port import Store
from magicfs.stores.wrappers import CountingStore
from magicfs.task import Task
from magicfs.task_commit import TaskCommit

PAGE = 1000
JOB_ID = str(UUID(int=7))


class CountingFileSystem(MemoryFileSystem):
    """Files in a world of their own; every request to it is counted by its name at the port."""

    def __init__(self) -> None:
        super().__init__(world=World())
        self.world.create_bucket("bucket")
        self.counts: Counter[str] = Counter()

    def store(self, bucket: str) -> Store:
        return CountingStore(super().store(bucket), self.counts)

    def since(self) -> dict[str, int]:
        """What was counted since the last call."""
        counted = {name: number for name, number in self.counts.items() if number}
        self.counts.clear()
        return counted


@pytest.fixture
def filesystem() -> CountingFileSystem:
    return CountingFileSystem()


def make(filesystem: CountingFileSystem, **options: Any) -> Job:
    job = Job(
        "memory://bucket/sales", conflict="append", filesystem=filesystem, job_id=JOB_ID, **options
    ).setup()
    filesystem.since()
    return job


def write(task: Task, files: int) -> None:
    task.filesystem.pipe({f"{task.path}/d={n % 3}/part-{n}.txt": b"row\n" for n in range(files)})


def run_tasks(job: Job, tasks: int, files: int) -> list[TaskCommit]:
    for number in range(tasks):
        with job.task(number) as task:
            write(task, files)
    return list(job.commits)


def test_job_setup_is_one_list_and_one_head(filesystem: CountingFileSystem) -> None:
    job = Job("memory://bucket/sales", conflict="append", filesystem=filesystem)
    assert filesystem.since() == {}
    job.setup()
    assert filesystem.since() == {"list": 1, "head": 1}
    job.setup()
    assert filesystem.since() == {}


def test_job_setup_of_a_whole_bucket_is_one_list(filesystem: CountingFileSystem) -> None:
    Job("memory://bucket", conflict="append", filesystem=filesystem).setup()
    assert filesystem.since() == {"list": 1}


def test_task_setup_makes_no_request(filesystem: CountingFileSystem) -> None:
    make(filesystem).task(0).setup()
    assert filesystem.since() == {}


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_directories_make_no_request(filesystem: CountingFileSystem, tracking: Any) -> None:
    task = make(filesystem, tracking=tracking).task(0).setup()
    task.filesystem.mkdir(f"{task.path}/a")
    task.filesystem.makedirs(f"{task.path}/a/b/c", exist_ok=True)
    assert filesystem.since() == {}


@pytest.mark.parametrize("tracking", ["store", "memory"])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_file_is_one_create_its_parts_and_two_puts_or_none(
    filesystem: CountingFileSystem, tracking: Any, parts: int
) -> None:
    """``ITestCommitOperationCost``: no HEAD and no LIST at open and close."""
    task = make(filesystem, tracking=tracking, part_size=1024).task(0).setup()
    with task.filesystem.open(f"{task.path}/a.txt", "wb") as file:
        assert filesystem.since() == {"create_upload": 1}
        file.write(b"x" * (1024 * (parts - 1) + 1))
    records = {"put": 2} if tracking == "store" else {}
    assert filesystem.since() == {"put_part": parts, **records}


def test_empty_file_has_one_part(filesystem: CountingFileSystem) -> None:
    task = make(filesystem, tracking="memory").task(0).setup()
    task.filesystem.pipe_file(f"{task.path}/a.txt", b"")
    assert filesystem.since() == {"create_upload": 1, "put_part": 1}


@pytest.mark.parametrize("files", [0, 1, 7, 499, 500, 501, 1001])
def test_task_commit_reads_each_pending_file_once_and_writes_one_set(
    filesystem: CountingFileSystem, files: int
) -> None:
    task = make(filesystem).task(0).setup()
    write(task, files)
    filesystem.since()
    task.commit()
    pages = math.ceil(2 * files / PAGE)
    read = {"get": files, "delete": pages} if files else {}
    assert filesystem.since() == {"list": max(pages, 1), "put": 1, **read}


def test_task_commit_with_a_copy_for_hadoop_writes_two_sets(filesystem: CountingFileSystem) -> None:
    task = make(filesystem, hadoop_sets=True).task(0).setup()
    write(task, 2)
    filesystem.since()
    task.commit()
    assert filesystem.since() == {"list": 1, "get": 2, "put": 2, "delete": 1}


def test_task_commit_of_memory_tracking_makes_no_request(filesystem: CountingFileSystem) -> None:
    task = make(filesystem, tracking="memory").task(0).setup()
    write(task, 50)
    filesystem.since()
    task.commit()
    assert filesystem.since() == {}


def test_task_commit_of_memory_tracking_puts_a_set_that_is_too_large_to_travel(
    filesystem: CountingFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magicfs.committers.magic.INLINE_LIMIT", 100)
    task = make(filesystem, tracking="memory").task(0).setup()
    write(task, 50)
    filesystem.since()
    task.commit()
    assert filesystem.since() == {"put": 1}


@pytest.mark.parametrize(("tasks", "files"), [(1, 1), (3, 4), (1, 0), (2, 501)])
def test_job_commit_of_carried_sets_completes_each_file_and_looks_once(
    filesystem: CountingFileSystem, tasks: int, files: int
) -> None:
    job = make(filesystem)
    commits = run_tasks(job, tasks, files)
    filesystem.since()
    job.commit(commits)
    completes = {"complete_upload": tasks * files} if files else {}
    # _SUCCESS; then the work objects (the sets), and the uploads that are still open.
    assert filesystem.since() == {**completes, "put": 1, "list": 1, "list_uploads": 1, "delete": 1}


@pytest.mark.parametrize(("tasks", "files"), [(1, 1), (3, 4), (1001, 1)])
def test_job_commit_by_listing_reads_each_set_once_more(
    filesystem: CountingFileSystem, tasks: int, files: int
) -> None:
    job = make(filesystem)
    run_tasks(job, tasks, files)
    filesystem.since()
    job.commit()
    pages = math.ceil(tasks / PAGE)
    assert filesystem.since() == {
        "list": 2 * pages,
        "get": tasks,
        "complete_upload": tasks * files,
        "put": 1,
        "list_uploads": 1,
        "delete": pages,
    }


def test_job_commit_of_memory_tracking_deletes_nothing(filesystem: CountingFileSystem) -> None:
    job = make(filesystem, tracking="memory")
    commits = run_tasks(job, 3, 4)
    filesystem.since()
    job.commit(commits)
    assert filesystem.since() == {"complete_upload": 12, "put": 1, "list": 1, "list_uploads": 1}


@pytest.mark.parametrize("losers", [1, 1001])
def test_loser_costs_one_abort_each(filesystem: CountingFileSystem, losers: int) -> None:
    job = make(filesystem, tracking="memory")
    write(job.task(0).setup(), losers)
    commits = run_tasks(job, 1, 1)
    filesystem.since()
    job.commit(commits)
    # A full page may be all that a server lists, so after one it is asked again.
    pages = 1 if losers < PAGE else math.ceil(losers / PAGE) + 1
    assert filesystem.since() == {
        "complete_upload": 1,
        "put": 1,
        "list": 1,
        "list_uploads": pages,
        "abort_upload": losers,
    }


def test_plain_names_cost_reading_every_record_of_the_job(filesystem: CountingFileSystem) -> None:
    job = make(filesystem, unique_names=False)
    write(job.task(9).setup(), 5)
    for number in range(2):
        with job.task(number) as task:
            task.filesystem.pipe_file(f"{task.path}/task-{number}.txt", b"")
    filesystem.since()
    job.commit(job.commits)
    assert filesystem.since() == {
        "complete_upload": 2,
        "put": 1,
        "list": 1,
        "list_uploads": 1,
        "get": 5 + 2,
        "abort_upload": 5,
        "delete": 1,
    }


def test_with_block_lists_the_sets_once_more(filesystem: CountingFileSystem) -> None:
    with make(filesystem) as job:
        run_tasks(job, 2, 3)
        filesystem.since()
    assert filesystem.since() == {
        "list": 2,
        "complete_upload": 6,
        "put": 1,
        "list_uploads": 1,
        "delete": 1,
    }


def test_one_part_file_of_memory_tracking_is_three_paid_writes(filesystem: CountingFileSystem) -> None:
    """From open to visible; what the job adds is the same for any number of files."""
    counted = []
    for files in (10, 11):
        job = Job(
            "memory://bucket/sales", conflict="append", filesystem=filesystem, tracking="memory"
        ).setup()
        filesystem.since()
        job.commit(run_tasks(job, 1, files))
        counted.append(Counter(filesystem.since()))
    assert counted[1] - counted[0] == {"create_upload": 1, "put_part": 1, "complete_upload": 1}


@pytest.mark.parametrize("files", [3, 501])
def test_task_abort_aborts_each_upload_and_deletes_in_bulk(
    filesystem: CountingFileSystem, files: int
) -> None:
    task = make(filesystem).task(0).setup()
    write(task, files)
    filesystem.since()
    task.abort()
    pages = math.ceil(2 * files / PAGE)
    assert filesystem.since() == {"list": pages, "get": files, "abort_upload": files, "delete": pages}


def test_job_abort_aborts_each_upload_once(filesystem: CountingFileSystem) -> None:
    job = make(filesystem)
    write(job.task(9).setup(), 5)
    run_tasks(job, 2, 3)
    filesystem.since()
    job.abort()
    # The first listing tells whether any of the uploads that were handed over is visible already.
    assert filesystem.since() == {
        "list": 1,
        "list_uploads": 2,
        "get": 5 + 2,
        "abort_upload": 11,
        "delete": 1,
    }


def test_failed_job_commit_looks_at_each_completed_file_and_aborts_the_rest(
    filesystem: CountingFileSystem,
) -> None:
    job = make(filesystem, concurrency=1)
    commits = run_tasks(job, 3, 2)
    (key, upload) = sorted((u.key, i) for i, u in filesystem.world.find("bucket").uploads.items())[2]
    del filesystem.world.find("bucket").uploads[upload]
    filesystem.since()
    with pytest.raises(Exception, match="could not be published"):
        job.commit(commits)
    counted = filesystem.since()
    done = counted["complete_upload"] - 1
    assert key
    assert counted == {
        "complete_upload": done + 1,
        "head": 1 + done,
        "delete": 2,
        "abort_upload": 6 - done,
        "list": 1,
        "get": 3,
        "list_uploads": 1,
    }
    assert not filesystem.world.find("bucket").uploads
    assert not filesystem.world.find("bucket").objects
