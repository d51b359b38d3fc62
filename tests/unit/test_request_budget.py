"""How many requests each operation makes, counted at the port: the tables of the documents, exactly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from magicfs.errors import CommitFailed
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Store
from magicfs.testing.counting_store import CountingStore
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended, forget_files, forget_job

PAGE = 1000
JOB_ID = str(UUID(int=7))
DOCUMENT = Path(__file__).parents[2] / "docs" / "architecture.md"

SETUP = Counter({"list": 3, "head": 2, "put": 2, "list_uploads": 1})
"""Two places of table formats and the magic directories; a file at the destination, and the manifest of the
job; the job object, twice; that of every unfinished job, ours included."""

TRIALS = Counter(
    {
        "list": 1,
        "head": 2,
        "put": 5,
        "create_upload": 1,
        "put_part": 1,
        "complete_upload": 1,
        "abort_upload": 1,
        "delete_all_matching": 1,
        "delete_matching": 2,
        "delete": 1,
    }
)
"""What the store honours; before that a look for a job object of either kind, and after it one for a driver
that came to another verdict: once for each bucket in a process."""

COMMIT = Counter(
    {"list": 3, "head": 5, "get": 2, "put": 6, "list_uploads": 1, "delete": 1, "delete_all_matching": 1}
)
"""Of the first job at a destination, which appends, besides its completes.

HEAD and GET of the job object; the chunk, which is read back; twice whether there is a ``_SUCCESS``; twice
the pointer; a listing for data that no manifest knows; two states, manifest, pointer and ``_SUCCESS``; the
work objects listed, deleted and listed again, the uploads listed; the job object deleted."""


class CountingFileSystem(MemoryFileSystem):
    """Files in a world of their own; every request to it is counted by its name at the port."""

    def __init__(self) -> None:
        super().__init__(world=World())
        self.world.create_bucket("bucket")
        self.counts: Counter[str] = Counter()

    def store(self, bucket: str) -> Store:
        return CountingStore(super().store(bucket), self.counts)

    def since(self) -> dict[str, int]:
        """What was counted since the last call, all that was closed included."""
        all_ended()
        counted = {name: number for name, number in self.counts.items() if number}
        self.counts.clear()
        return counted


@pytest.fixture
def filesystem() -> CountingFileSystem:
    return CountingFileSystem()


def make(filesystem: CountingFileSystem, **options: Any) -> Job:
    job = Job(
        "memory://bucket/sales", mode="append", filesystem=filesystem, job_id=JOB_ID, **arranged(**options)
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


def test_task_in_another_process_looks_at_its_job_twice_and_not_for_each_file(
    filesystem: CountingFileSystem,
) -> None:
    job = make(filesystem, tracking="memory")
    counted = []
    for task in (job.task(0), Task(job.spec, job.task(1).id, is_elsewhere=True)):
        with task:
            counted.append(filesystem.since())
            write(task, 3)
            filesystem.since()
        counted.append(filesystem.since())
    assert counted == [{}, {}, {"head": 1}, {"head": 1, "get": 1}]


def new(filesystem: CountingFileSystem, url: str = "memory://bucket/sales", **options: Any) -> Job:
    """A job that is not set up yet."""
    return Job(url, filesystem=filesystem, **arranged(**{"mode": "append", **options}))


def plus(*counts: dict[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return {name: number for name, number in total.items() if number}


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions", "error"])
def test_job_setup_looks_and_writes_the_job_object(filesystem: CountingFileSystem, mode: str) -> None:
    job = new(filesystem, mode=mode)
    assert filesystem.since() == {}
    job.setup()
    looks = {} if mode == "append" else {"list": 1}  # for data; for others, in what would be deleted
    assert filesystem.since() == plus(SETUP, TRIALS, looks)
    job.setup()
    assert filesystem.since() == {}
    new(filesystem, "memory://bucket/other", mode=mode).setup()
    assert filesystem.since() == plus(SETUP, looks)


def test_job_setup_of_a_whole_bucket_needs_no_look_for_a_file(filesystem: CountingFileSystem) -> None:
    new(filesystem, "memory://bucket").setup()
    assert filesystem.since() == plus(SETUP, TRIALS, {"head": -1})


def test_each_unfinished_job_costs_one_get_at_setup(filesystem: CountingFileSystem) -> None:
    for number in range(3):
        new(filesystem).setup()
        assert filesystem.since() == plus(SETUP, {} if number else TRIALS, {"get": number})


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
        file.write(b"x" * (1024 * (parts - 1) + 1))
    records = {"put": 2} if tracking == "store" else {}
    assert filesystem.since() == {"create_upload": 1, "put_part": parts, **records}


def test_process_that_does_not_know_the_job_reads_its_object_once(filesystem: CountingFileSystem) -> None:
    job = make(filesystem)
    tasks = [job.task(number).setup() for number in range(3)]
    forget_job(job)
    for number, task in enumerate(tasks):
        write(task, 5)
        once = {} if number else {"get": 1}
        assert filesystem.since() == {"create_upload": 5, "put_part": 5, "put": 10, **once}


def test_empty_file_has_one_part(filesystem: CountingFileSystem) -> None:
    task = make(filesystem, tracking="memory").task(0).setup()
    task.filesystem.pipe_file(f"{task.path}/a.txt", b"")
    assert filesystem.since() == {"create_upload": 1, "put_part": 1}


@pytest.mark.sample(most=4)
@pytest.mark.slow
@pytest.mark.parametrize("files", [0, 1, 7, 499, 500, 501, 1001])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_task_commit_reads_what_another_process_wrote_and_writes_one_set(
    filesystem: CountingFileSystem, files: int, elsewhere: bool
) -> None:
    task = make(filesystem).task(0).setup()
    write(task, files)
    if elsewhere:
        forget_files(task)
    filesystem.since()
    task.commit()
    pages = math.ceil(2 * files / PAGE)
    read = {"get": files} if files and elsewhere else {}
    deleted = {"delete": pages} if files else {}
    assert filesystem.since() == {"list": max(pages, 1), "put": 1, **read, **deleted}


def test_task_commit_with_a_copy_for_hadoop_writes_two_sets(filesystem: CountingFileSystem) -> None:
    task = make(filesystem, hadoop="3.4.1").task(0).setup()
    write(task, 2)
    filesystem.since()
    task.commit()
    assert filesystem.since() == {"list": 1, "put": 2, "delete": 1}


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


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "files"), [(1, 1), (3, 4), (1, 0), (2, 501)])
def test_job_commit_of_carried_sets_completes_each_file(
    filesystem: CountingFileSystem, tasks: int, files: int
) -> None:
    job = make(filesystem)
    commits = run_tasks(job, tasks, files)
    filesystem.since()
    job.commit(commits)
    more = math.ceil(tasks * files / PAGE) - 1
    chunks = {"put": more, "get": more}
    assert filesystem.since() == plus(COMMIT, {"complete_upload": tasks * files}, chunks)


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "files"), [(1, 1), (3, 4), (1001, 1)])
def test_job_commit_by_listing_reads_each_set_once_more(
    filesystem: CountingFileSystem, tasks: int, files: int
) -> None:
    job = make(filesystem)
    run_tasks(job, tasks, files)
    filesystem.since()
    job.commit()
    sets, chunks = math.ceil(tasks / PAGE), math.ceil(tasks * files / PAGE)
    work = math.ceil((tasks + chunks + 1) / PAGE)
    assert filesystem.since() == plus(
        COMMIT,
        {"complete_upload": tasks * files, "get": tasks},
        {"put": chunks - 1, "get": chunks - 1},
        # Sets and job object; data that no manifest knows, which hides behind them; the work objects.
        {"list": math.ceil((tasks + 1) / PAGE) + sets - 1 + work - 1, "delete": work - 1},
    )


def test_job_commit_of_memory_tracking_has_only_its_facts_to_delete(filesystem: CountingFileSystem) -> None:
    job = make(filesystem, tracking="memory")
    commits = run_tasks(job, 3, 4)
    filesystem.since()
    job.commit(commits)
    assert filesystem.since() == plus(COMMIT, {"complete_upload": 12})


@pytest.mark.slow
@pytest.mark.parametrize("losers", [1, 1001])
def test_loser_costs_one_abort_each(filesystem: CountingFileSystem, losers: int) -> None:
    job = make(filesystem, tracking="memory")
    write(job.task(0).setup(), losers)
    commits = run_tasks(job, 1, 1)
    filesystem.since()
    job.commit(commits)
    # A full page may be all that a server lists, so after one it is asked again.
    pages = 1 if losers < PAGE else math.ceil(losers / PAGE) + 1
    more = {"complete_upload": 1, "abort_upload": losers, "list_uploads": pages - 1}
    assert filesystem.since() == plus(COMMIT, more)


def test_plain_names_cost_reading_every_record_of_the_job(filesystem: CountingFileSystem) -> None:
    job = make(filesystem, unique_names=False)
    write(job.task(9).setup(), 5)
    for number in range(2):
        with job.task(number) as task:
            task.filesystem.pipe_file(f"{task.path}/task-{number}.txt", b"")
    filesystem.since()
    job.commit(job.commits)
    # Five records, two sets and the chunk.
    more = {"complete_upload": 2, "get": 5 + 2 + 1, "abort_upload": 5}
    assert filesystem.since() == plus(COMMIT, more)


def test_with_block_lists_the_sets_once_more(filesystem: CountingFileSystem) -> None:
    with make(filesystem) as job:
        run_tasks(job, 2, 3)
        filesystem.since()
    assert filesystem.since() == plus(COMMIT, {"list": 1, "complete_upload": 6})


def test_one_part_file_of_memory_tracking_is_three_paid_writes(filesystem: CountingFileSystem) -> None:
    """From open to visible; what the job adds is the same for any number of files."""
    counted = []
    make(filesystem, tracking="memory").commit([])
    for files in (10, 11):
        job = new(filesystem, f"memory://bucket/{files}", tracking="memory").setup()
        filesystem.since()
        job.commit(run_tasks(job, 1, files))
        counted.append(Counter(filesystem.since()))
    assert counted[1] - counted[0] == {"create_upload": 1, "put_part": 1, "complete_upload": 1}


def test_small_file_is_one_paid_write_and_a_bundle_is_one_more(filesystem: CountingFileSystem) -> None:
    """From open to visible. The job looks at a bundle, reads it once, and tells once that it goes forward."""
    make(filesystem, tracking="memory").commit([])
    counted = []
    for kept, tasks, files in ((None, 1, 10), (1024, 1, 10), (1024, 1, 11), (1024, 2, 5)):
        url = f"memory://bucket/{kept}/{tasks}/{files}"
        job = new(filesystem, url, tracking="memory", small_files=kept).setup()
        filesystem.since()
        commits = run_tasks(job, tasks, files)
        job.commit(commits)
        counted.append(Counter(filesystem.since()))
    uploads, ten, eleven, two_tasks = counted
    assert eleven - ten == {"put": 1}
    assert uploads - ten == {"create_upload": 10, "put_part": 10, "complete_upload": 10}
    bundle = Counter({"put": 1, "head": 1, "get": 1})
    # One version more of the job object: from there on the job only goes forward.
    assert ten - uploads == plus(bundle, {"put": 10 + 1})
    assert two_tasks - ten == bundle


# -- the table of the documents --------------------------------------------------------------------------

COLUMNS = {
    "list": "LIST",
    "list_uploads": "LIST of uploads",
    "head": "HEAD",
    "get": "GET",
    "put": "PUT",
    "delete": "bulk DELETE",
    "delete_all_matching": "conditional bulk DELETE",
}


def counted_setup(filesystem: CountingFileSystem, mode: str, jobs_before: int) -> dict[str, int]:
    warm_up(filesystem, jobs_before)
    new(filesystem, mode=mode).setup()
    return filesystem.since()


def counted_commit(
    filesystem: CountingFileSystem, mode: str, jobs_before: int, listed: bool = False
) -> dict[str, int]:
    warm_up(filesystem, jobs_before)
    job = new(filesystem, mode=mode).setup()
    commits = run_tasks(job, 3, 4)
    filesystem.since()
    report = job.commit(None if listed else commits)
    counts = filesystem.since()
    assert counts.pop("complete_upload") == report.files == 12
    return counts


def counted_abort(filesystem: CountingFileSystem) -> dict[str, int]:
    warm_up(filesystem, 0)
    job = new(filesystem).setup()
    run_tasks(job, 3, 4)
    filesystem.since()
    job.abort()
    counts = filesystem.since()
    assert counts.pop("abort_upload") == 12
    return counts


def warm_up(filesystem: CountingFileSystem, jobs: int) -> None:
    """Let the process know the bucket, and publish so many jobs at the destination."""
    new(filesystem, "memory://bucket/warm").setup().abort()
    for _ in range(jobs):
        job = new(filesystem).setup()
        job.commit(run_tasks(job, 3, 4))
    filesystem.since()


ROWS: dict[str, Callable[[CountingFileSystem], dict[str, int]]] = {
    "`job.setup()`": lambda fs: counted_setup(fs, "append", 0),
    '`job.setup()`, `mode="error"`': lambda fs: counted_setup(fs, "error", 0),
    '`job.setup()`, `mode="overwrite"`, the first': lambda fs: counted_setup(fs, "overwrite", 0),
    '`job.setup()`, `mode="overwrite"`, a later one': lambda fs: counted_setup(fs, "overwrite", 1),
    "`job.commit`, `append`, the first": lambda fs: counted_commit(fs, "append", 0),
    "`job.commit`, `append`, a later one": lambda fs: counted_commit(fs, "append", 1),
    "`job.commit`, `error`": lambda fs: counted_commit(fs, "error", 0),
    "`job.commit`, `overwrite`, the first": lambda fs: counted_commit(fs, "overwrite", 0),
    "`job.commit`, `overwrite`, a later one": lambda fs: counted_commit(fs, "overwrite", 1),
    "`job.commit`, `overwrite_partitions` of 3, a later one": (
        lambda fs: counted_commit(fs, "overwrite_partitions", 1)
    ),
    "`job.commit()` by listing, `append`, the first": lambda fs: counted_commit(fs, "append", 0, True),
    "`job.abort()`": counted_abort,
}


def test_table_of_the_documents_is_what_is_counted() -> None:
    lines = [f"| | {' | '.join(COLUMNS.values())} |", f"| --- |{' ---: |' * len(COLUMNS)}"]
    for name, count in ROWS.items():
        counts = count(CountingFileSystem())
        assert counts.keys() <= COLUMNS.keys(), name
        lines.append(f"| {name} | {' | '.join(str(counts.get(column, 0)) for column in COLUMNS)} |")
    table = "\n".join(lines)
    assert table in DOCUMENT.read_text(), f"docs/architecture.md must hold:\n{table}"


@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_each_directory_above_is_listed_once_where_something_is_deleted(
    filesystem: CountingFileSystem, mode: str, depth: int
) -> None:
    counts = []
    for url in ("memory://bucket", "memory://bucket" + "/d" * depth):
        new(filesystem, url).setup().abort()
        job = new(filesystem, url).setup()
        job.commit(run_tasks(job, 1, 2))
        filesystem.since()
        job = new(filesystem, url, mode=mode).setup()
        setup = filesystem.since()["list"]
        job.commit(run_tasks(job, 1, 2))
        counts.append((setup, filesystem.since()["list"]))
        filesystem.world = World()
        filesystem.world.create_bucket("bucket")
    more = 0 if mode == "append" else depth
    assert counts[1] == (counts[0][0] + more, counts[0][1] + more)


@pytest.mark.slow
@pytest.mark.parametrize("files", [3, 501])
def test_task_abort_aborts_each_upload_and_deletes_in_bulk(
    filesystem: CountingFileSystem, files: int
) -> None:
    task = make(filesystem).task(0).setup()
    write(task, files)
    filesystem.since()
    task.abort()
    pages = math.ceil(2 * files / PAGE)
    assert filesystem.since() == {"list": pages, "abort_upload": files, "delete": pages}


def test_job_abort_aborts_each_upload_once(filesystem: CountingFileSystem) -> None:
    job = make(filesystem)
    write(job.task(9).setup(), 5)
    run_tasks(job, 2, 3)
    filesystem.since()
    job.abort()
    assert filesystem.since() == {
        "head": 1,
        "get": 1 + 5 + 2,
        "put": 1,
        "list": 2,
        "list_uploads": 1,
        "abort_upload": 5 + 6,
        "delete": 1,
        "delete_all_matching": 1,
    }


def test_failed_job_commit_looks_at_each_file_until_nothing_is_left(filesystem: CountingFileSystem) -> None:
    job = make(filesystem, concurrency=1)
    commits = run_tasks(job, 3, 2)
    upload = sorted((u.key, i) for i, u in filesystem.world.find("bucket").uploads.items())[2][1]
    del filesystem.world.find("bucket").uploads[upload]
    filesystem.since()
    with pytest.raises(CommitFailed, match="could not be published") as caught:
        job.commit(commits)
    counted = Counter(filesystem.since())
    assert len(caught.value.done) == counted["complete_upload"] - 1
    files = 6
    # Each file is looked at: removed ones twice; and all again, before the job object goes.
    assert counted["head"] <= 4 * files + 5
    assert counted["abort_upload"] <= 2 * files
    assert counted["delete_all_matching"] <= 3
    assert sum(counted.values()) < 80
    assert not filesystem.world.find("bucket").uploads
    assert not filesystem.world.find("bucket").objects
