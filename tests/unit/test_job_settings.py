"""What a path of a job means is told by the path and by what setup left, not by options."""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import fsspec
import pytest

import magicfs
from magicfs.errors import CommitFailed, FormatError, ProtocolViolation, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.formats.pending import Pending
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol.magic import PENDING
from proofs.scenes.arranged import arranged
from proofs.scenes.known import forget_job
from proofs.scenes.memory_scene import MemoryScene

URL = "memory://bucket/sales"


@pytest.fixture
def scene() -> MemoryScene:
    return MemoryScene()


def job_on(scene: MemoryScene, **options: Any) -> Job:
    return Job(URL, **arranged(**{"mode": "append", "filesystem": scene.wrapped, **options})).setup()


def published(scene: MemoryScene) -> dict[str, bytes]:
    return {key: body for key, body in scene.objects().items() if key.endswith(".csv")}


# -- the path tells ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
@pytest.mark.parametrize("known", [True, False])
def test_chained_url_without_options_loses_nothing_when_the_same_is_written_every_day(
    mode: Any, known: bool
) -> None:
    url = f"memory://{uuid4().hex}/sales"
    for _day in range(2):
        with magicfs.Job(url, mode=mode) as job, job.task(0) as task:
            if not known:
                forget_job(job)
            with fsspec.open(task.url("day=1/a.csv"), "wb") as file:
                file.write(b"row\n")
        assert job.report.filenames == (f"{url}/day=1/a-000000-{job.id}.csv",)
        assert magicfs.Dataset(url).verify().ok
    store = magicfs.MagicFileSystem(target_protocol="memory").fs
    files = store.find(f"{url.removeprefix('memory://')}/day=1")
    assert len(files) == (2 if mode == "append" else 1)
    assert all(store.cat_file(file) == b"row\n" for file in files)


@pytest.mark.parametrize("hadoop", [None, "3.3", "3.4.1", "3.5"])
@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("part_size", [None, 3])
def test_other_process_writes_as_the_job_was_told(
    scene: MemoryScene, hadoop: str | None, unique: bool, part_size: int | None
) -> None:
    job = job_on(scene, hadoop=hadoop, unique_names=unique, part_size=part_size)
    task = job.task(0).setup()
    forget_job(job)
    scene.filesystem.pipe_file(f"{task.path}/a.csv", b"12345678")
    [raw] = [body for key, body in scene.objects().items() if key.endswith(PENDING)]
    pending = Pending.from_bytes("", raw)
    assert pending.destination_key == f"sales/a-000000-{job.id}.csv" if unique else "sales/a.csv"
    assert (b'"etag"' in raw) is (hadoop == "3.5")
    assert len(pending.parts) == (3 if part_size else 1)
    job.commit([task.commit()])
    assert list(published(scene).values()) == [b"12345678"]


@pytest.mark.parametrize("release", ["3.3", "3.4"])
@pytest.mark.parametrize("hadoop", [None, "3.3"])
def test_release_of_hadoop_does_not_make_ordinary_files_of_a_tasks_files(
    scene: MemoryScene, release: str, hadoop: str | None
) -> None:
    job = job_on(scene, hadoop=hadoop)
    with job, job.task(0) as task:
        MagicFileSystem(scene.wrapped, hadoop=release).pipe_file(f"{task.path}/a.csv", b"row\n")
    assert list(published(scene)) == [f"sales/a-000000-{job.id}.csv"]


def test_options_that_differ_change_nothing_and_are_told_once(
    scene: MemoryScene, caplog: pytest.LogCaptureFixture
) -> None:
    job = job_on(scene)
    filesystem = MagicFileSystem(scene.wrapped, unique_names=False, tracking="memory", part_size=3)
    with caplog.at_level(logging.WARNING, "magicfs"), job, job.task(0) as task:
        for name in "abc":
            filesystem.pipe_file(f"{task.path}/{name}.csv", b"row\n")
    assert sorted(published(scene)) == [f"sales/{name}-000000-{job.id}.csv" for name in "abc"]
    [told] = [record.getMessage() for record in caplog.records]
    assert "the filesystem was given part_size=3, tracking='memory', unique_names=False" in told
    assert "part_size=8388608, tracking='store', unique_names=True, which applies" in told


def test_options_of_the_task_are_no_reason_to_warn(
    scene: MemoryScene, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "magicfs"):
        for options in ({}, {"unique_names": False, "part_size": 8 * 2**20}, {"tracking": "memory"}):
            with job_on(scene, **options) as job, job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/{uuid4().hex}.csv", b"row\n")
    assert caplog.records == []


# -- what it costs -------------------------------------------------------------------------------------------


def test_process_that_does_not_know_the_job_reads_its_object_once(scene: MemoryScene) -> None:
    job = job_on(scene)
    tasks = [job.task(n).setup() for n in range(4)]
    forget_job(job)
    scene.requests()
    write = scene.filesystem.pipe
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda task: write({f"{task.path}/{n}.csv": b"" for n in range(10)}), tasks))
    assert scene.requests() == {"get": 1, "create_upload": 40, "put_part": 40, "put": 80}


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_process_in_which_a_task_is_set_up_reads_nothing(scene: MemoryScene, tracking: Any) -> None:
    job = job_on(scene, tracking=tracking)
    forget_job(job)
    task = job.task(0).setup()
    scene.requests()
    scene.filesystem.pipe_file(f"{task.path}/a.csv", b"")
    assert "get" not in scene.requests()


def test_path_of_hadoops_reads_nothing_and_is_written_as_the_options_say(scene: MemoryScene) -> None:
    job = uuid4()
    attempt = "attempt_202601010000_0001_m_000003_0"
    path = f"bucket/sales/__magic_job-{job}/job-{job}/00/tasks/{attempt}/__base/a.csv"
    scene.filesystem.pipe_file(path, b"row\n")
    assert scene.requests() == {"create_upload": 1, "put_part": 1, "put": 2}
    assert scene.uploads() == ["sales/a.csv"]


# -- nobody would publish it ---------------------------------------------------------------------------------


def gone(job: Job, task: Task) -> None:
    job.abort()


def finished(job: Job, task: Task) -> None:
    job.commit([])


@pytest.mark.parametrize("end", [gone, finished])
def test_path_of_a_job_that_has_ended_is_refused_before_an_upload_begins(
    scene: MemoryScene, end: Any
) -> None:
    job = job_on(scene, allow_empty=True)
    task = job.task(0).setup()
    path = f"{task.path}/a.csv"
    end(job, task)
    before = scene.objects()
    for write in (
        lambda: scene.filesystem.pipe_file(path, b"row\n"),
        lambda: scene.filesystem.open(path, "wb"),
        lambda: scene.filesystem.open(path, "w"),
        lambda: scene.filesystem.touch(path),
    ):
        with pytest.raises(ProtocolViolation, match=r"has ended or was never set up.*nothing was written"):
            write()
    assert scene.objects() == before
    assert scene.uploads() == []


def test_path_of_a_job_that_is_published_at_the_moment_is_refused(scene: MemoryScene) -> None:
    job = job_on(scene)
    task = job.task(0).setup()
    forget_job(job)
    key = job.spec.work_layout.job_object_key
    scene.put(key, scene.objects()[key].replace(b'"state":"open"', b'"state":"committing"'))
    with pytest.raises(ProtocolViolation, match="is already committing; nothing was written"):
        scene.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
    assert scene.uploads() == []


def test_job_object_that_cannot_be_read_is_no_reason_to_guess(scene: MemoryScene) -> None:
    job = job_on(scene)
    task = job.task(0).setup()
    forget_job(job)
    scene.put(job.spec.work_layout.job_object_key, b"{}")
    with pytest.raises(FormatError):
        scene.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
    assert scene.uploads() == []


def test_job_object_that_was_copied_from_elsewhere_is_refused(scene: MemoryScene) -> None:
    job, other = job_on(scene), job_on(scene)
    task = job.task(0).setup()
    forget_job(job)
    scene.put(job.spec.work_layout.job_object_key, scene.objects()[other.spec.work_layout.job_object_key])
    with pytest.raises(FormatError, match="it was copied here"):
        scene.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")


# -- tracking in memory --------------------------------------------------------------------------------------


def test_file_that_only_another_process_could_commit_is_refused(scene: MemoryScene) -> None:
    job = job_on(scene, tracking="memory")
    task = job.task(0).setup()
    forget_job(job)
    with pytest.raises(ProtocolViolation, match="only the process that set a task up"):
        scene.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
    assert scene.uploads() == []


def test_file_of_a_task_that_has_committed_in_memory_is_refused(scene: MemoryScene) -> None:
    job = job_on(scene, tracking="memory")
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
    with pytest.raises(ProtocolViolation, match="was already committed or aborted"):
        task.filesystem.pipe_file(f"{task.path}/b.csv", b"row\n")
    assert job.commit(job.commits).files == 1


@pytest.mark.process
def test_forked_child_does_not_take_files_that_its_parent_will_not_commit() -> None:
    url = f"memory://{uuid4().hex}/sales"
    job = Job(url, mode="append", options={"tracking": "memory"}).setup()
    task = job.task(0).setup()
    child = os.fork()
    if not child:
        try:
            task.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
        except ProtocolViolation:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    job.abort()


# -- the task commit -----------------------------------------------------------------------------------------


def leave(scene: MemoryScene, task: Task, **changes: Any) -> Pending:
    """Write one file and change what is recorded of it."""
    task.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
    key = f"{task.path}/a.csv{PENDING}".partition("/")[2]
    raw = scene.objects()[key]
    for old, new in changes.items():
        raw = raw.replace(*new) if isinstance(new, tuple) else raw.replace(old.encode(), new)
    scene.put(key, raw)
    return Pending.from_bytes("", raw)


def test_task_commit_refuses_a_file_that_lacks_its_unique_name_and_says_what_to_write(
    scene: MemoryScene,
) -> None:
    job = job_on(scene)
    task = job.task(0).setup()
    leave(scene, task, name=(f"a-000000-{job.id}.csv".encode(), b"a.csv"))
    with pytest.raises(CommitFailed) as caught:
        task.commit()
    assert "would be published as 'sales/a.csv'" in str(caught.value)
    assert f"its final name is 'sales/a-000000-{job.id}.csv'" in str(caught.value)
    assert "storage_options=task.storage_options" in str(caught.value)
    assert published(scene) == {}


@pytest.mark.parametrize("unique", [True, False])
def test_task_commit_refuses_a_file_that_lies_elsewhere_and_leaves_its_upload(
    scene: MemoryScene, unique: bool
) -> None:
    job = job_on(scene, unique_names=unique)
    task, other = job.task(0).setup(), job.task(1).setup()
    other.filesystem.pipe_file(f"{other.path}/b.csv", b"row\n")
    [raw] = [body for key, body in scene.objects().items() if key.endswith(PENDING)]
    scene.put(f"{task.path}/a.csv{PENDING}".partition("/")[2], raw)
    with pytest.raises(CommitFailed, match="would be published as"):
        task.commit()
    assert len(scene.uploads()) == 1
    assert job.commit([other.commit()]).files == 1


def test_task_commit_refuses_a_file_of_another_attempt(scene: MemoryScene) -> None:
    job = job_on(scene, unique_names=False)
    task = job.task(0).setup()
    leave(scene, task, owner=(b'"taskId":""', b'"taskId":"attempt-0-else"'))
    with pytest.raises(CommitFailed, match="belongs to attempt-0-else"):
        task.commit()


def test_task_commit_refuses_a_file_beside_the_work_directory(scene: MemoryScene) -> None:
    job = job_on(scene)
    task = job.task(0).setup()
    scene.filesystem.pipe_file(f"{task.path.removesuffix('/__base')}/a.csv", b"row\n")
    with pytest.raises(CommitFailed, match=r"would be published as 'sales/a\.csv'"):
        task.commit()


def test_files_of_extra_destinations_are_taken(scene: MemoryScene) -> None:
    extra = "memory://bucket/other"
    job = job_on(scene, extra_destinations=[extra])
    with job.task(0) as task:
        forget_job(job)
        scene.filesystem.pipe_file(f"{task.path_to(extra)}/b.csv", b"row\n")
    job.commit(job.commits)
    assert list(published(scene)) == [f"other/b-000000-{job.id}.csv"]


# -- who takes a job over ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"unique_names": False}, {}),
        ({}, {"unique_names": False}),
        ({"tracking": "memory"}, {}),
        ({}, {"tracking": "memory"}),
    ],
)
def test_later_attempt_with_other_settings_is_refused(
    scene: MemoryScene, first: dict[str, Any], second: dict[str, Any]
) -> None:
    job = job_on(scene, **first)
    before = scene.objects()
    with pytest.raises(UsageError, match=r"was set up with .*nothing was changed"):
        job_on(scene, job_id=job.id, attempt=1, **second)
    assert scene.objects() == before
    job.commit([])


def test_two_threads_may_learn_of_a_job_at_once(scene: MemoryScene) -> None:
    job = job_on(scene)
    barrier = threading.Barrier(8)

    def run(number: int) -> Any:
        task = job.task(number)
        barrier.wait()
        with task:
            task.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
        return task.committed

    with ThreadPoolExecutor(8) as pool:
        commits = list(pool.map(run, range(8)))
    assert job.commit(commits).files == 8
