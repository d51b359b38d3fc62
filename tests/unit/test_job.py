"""``Job`` and ``Task`` in memory: order of calls, refused arguments, pickles, retries, progress, reports."""

from __future__ import annotations

import json
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fsspec.asyn import sync

import magicfs
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    CommitUnfinished,
    PermissionDenied,
    ProtocolViolation,
    StoreError,
    Unavailable,
    UsageError,
)
from magicfs.filesystem import MagicFileSystem
from magicfs.formats.task_commit import INLINE_LIMIT, TaskCommit
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.report import Progress
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World, default_world
from magicfs.stores.port import Capabilities, ObjectInfo, Uploads
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended

SECRET = "s3cr3t-never-to-be-seen"


@pytest.fixture
def url() -> Iterator[str]:
    bucket = f"job-{uuid4().hex[:12]}"
    yield f"memory://{bucket}/sales"
    default_world().delete_bucket(bucket)


class FaultyStore(MemoryStore):
    """A memory store that fails before a request takes place, as ``faults`` says by operation.

    Requests for keys that hold a text of ``spared`` pass.
    """

    faults: dict[str, Exception]
    spared: list[str]

    async def abort_upload(self, key: str, upload_id: str) -> None:
        self._fail("abort_upload", key)
        await super().abort_upload(key, upload_id)

    async def complete_upload(self, key: str, upload_id: str, parts: Any, **options: Any) -> ObjectInfo:
        self._fail("complete_upload", key)
        return await super().complete_upload(key, upload_id, parts, **options)

    async def head(self, key: str) -> ObjectInfo:
        self._fail("head", key)
        return await super().head(key)

    async def put(self, key: str, body: Any, **kwargs: Any) -> ObjectInfo:
        self._fail("put", key)
        return await super().put(key, body, **kwargs)

    async def list(self, prefix: str, *, limit: int | None = None) -> Any:
        self._fail("list", prefix)
        async for info in super().list(prefix, limit=limit):
            yield info

    async def list_uploads(self, prefix: str) -> Any:
        self._fail("list_uploads", prefix)
        async for info in super().list_uploads(prefix):
            yield info

    def _fail(self, operation: str, key: str) -> None:
        if operation in self.faults and not any(text in key for text in self.spared):
            raise self.faults[operation]


class FaultyFileSystem(MemoryFileSystem):
    """Files in a world of their own, behind faulty stores."""

    def __init__(self) -> None:
        super().__init__(world=World())
        self.world.create_bucket("bucket")
        self.faults: dict[str, Exception] = {}
        self.spared: list[str] = []

    def store(self, bucket: str) -> FaultyStore:
        store = FaultyStore(bucket, self.world)
        store.faults = self.faults
        store.spared = self.spared
        return store

    def keys(self) -> list[str]:
        return sorted(self.world.find("bucket").objects)

    def work(self) -> list[str]:
        """All but the job object."""
        return [key for key in self.keys() if not key.endswith("/job.json")]

    def state(self) -> str:
        """What the only job object says."""
        (key,) = [key for key in self.keys() if key.endswith("/job.json")]
        state: str = json.loads(self.world.find("bucket").objects[key].body)["state"]
        return state

    def uploads(self) -> int:
        return len(self.world.find("bucket").uploads)


def denied(operation: str) -> PermissionDenied:
    return PermissionDenied(operation, "bucket/key", "no")


def silent(operation: str) -> Unavailable:
    return Unavailable(operation, "bucket/key", "no answer")


def make(url: str, **options: Any) -> Job:
    return Job(url, mode="append", **arranged(**options))


def faulty_job(filesystem: MemoryFileSystem, **options: Any) -> Job:
    return make("memory://bucket/sales", filesystem=filesystem, **options)


def write(task: Task, name: str = "part-0.txt", body: bytes = b"row\n") -> None:
    task.filesystem.pipe_file(f"{task.path}/{name}", body)
    all_ended()


def keys(url: str) -> list[str]:
    bucket = url.split("/")[2]
    contents = default_world().find(bucket)
    assert contents is not None
    return sorted(contents.objects)


def uploads(url: str) -> int:
    contents = default_world().find(url.split("/")[2])
    assert contents is not None
    return len(contents.uploads)


# -- calls out of order --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda job: job.task(0),
        lambda job: job.commit(),
        lambda job: job.commit([]),
        lambda job: job.add(None),
        lambda job: job.map(print, [1], executor=None),
    ],
    ids=["task", "commit", "commit-nothing", "add", "map"],
)
def test_job_that_is_not_set_up_says_so(url: str, call: Callable[[Job], Any]) -> None:
    with pytest.raises(ProtocolViolation, match=r"is new, too early to call \w+\(\); call setup\(\) first"):
        call(make(url))


@pytest.mark.parametrize("end", ["committed", "aborted"])
@pytest.mark.parametrize(
    "call",
    [
        lambda job: job.setup(),
        lambda job: job.task(0),
        lambda job: job.commit(),
        lambda job: job.add(None),
        lambda job: job.map(print, [1], executor=None),
    ],
    ids=["setup", "task", "commit", "add", "map"],
)
def test_job_that_has_ended_says_so(url: str, end: str, call: Callable[[Job], Any]) -> None:
    job = make(url).setup()
    job.commit([]) if end == "committed" else job.abort()
    with pytest.raises(ProtocolViolation, match=rf"is {end}, too late to call \w+\(\); create a new Job"):
        call(job)


def test_second_setup_of_a_job_does_nothing(url: str) -> None:
    job = make(url).setup()
    assert job.setup() is job


def test_job_without_a_commit_has_no_report(url: str) -> None:
    with pytest.raises(ProtocolViolation, match="has no report: it was not committed"):
        _ = make(url).report


@pytest.mark.parametrize("name", ["attempt_id", "path", "url", "commit", "needs_commit"])
def test_task_that_is_not_set_up_says_so(url: str, name: str) -> None:
    task = make(url).setup().task(0)
    with pytest.raises(ProtocolViolation, match="task 000000 is not set up"):
        value = getattr(task, name)
        value()


def test_task_is_set_up_once(url: str) -> None:
    task = make(url).setup().task(7).setup()
    with pytest.raises(ProtocolViolation, match=r"task 000007 is open; use a new job.task\('000007'\)"):
        task.setup()


def test_task_is_committed_once(url: str) -> None:
    job = make(url).setup()
    with job.task(0) as task:
        write(task)
    with pytest.raises(ProtocolViolation, match="task 000000 is already committed"):
        task.commit()
    assert len(job.commits) == 1


def test_committed_task_is_not_aborted(url: str) -> None:
    task = make(url).setup().task(0).setup()
    task.commit()
    with pytest.raises(ProtocolViolation, match=r"is committed; leave its commit out of job\.commit"):
        task.abort()


def test_task_that_is_not_set_up_has_nothing_to_abort(url: str) -> None:
    make(url).setup().task(0).abort()


@pytest.mark.parametrize("call", ["setup", "commit"])
def test_task_does_nothing_after_its_job(url: str, call: str) -> None:
    job = make(url).setup()
    task = job.task(0)
    if call == "commit":
        write(task.setup())
    job.abort()
    with pytest.raises(ProtocolViolation, match=rf"is aborted, too late to call task\.{call}\(\)"):
        getattr(task, call)()


def test_commit_of_another_job_is_not_taken(url: str) -> None:
    job, other = make(url).setup(), make(url).setup()
    with other.task(0) as task:
        write(task)
    with pytest.raises(ProtocolViolation, match=rf"committed for job {other.id}, not {job.id}"):
        job.add(other.commits[0])


def test_task_that_was_set_up_in_another_process_is_not_committed_from_memory(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make(url, tracking="memory").setup()
    task = job.task(0).setup()
    write(task)
    monkeypatch.setattr("magicfs.job.task.os.getpid", lambda: 1)
    with pytest.raises(ProtocolViolation, match="set up in another process"):
        task.commit()


# -- with blocks ---------------------------------------------------------------------------------------


def test_error_of_the_body_is_not_hidden_by_an_abort_that_fails() -> None:
    filesystem = FaultyFileSystem()
    with pytest.raises(ZeroDivisionError) as caught, faulty_job(filesystem) as job:
        write(job.task(0).setup())
        filesystem.faults["abort_upload"] = denied("abort_upload")
        raise ZeroDivisionError
    (note,) = caught.value.__notes__
    assert note.startswith(f"and job {job.id} could not be fully aborted: abort_upload of bucket/key: no;")
    assert filesystem.uploads() == 1
    filesystem.faults.clear()
    job.abort()
    assert (filesystem.uploads(), filesystem.keys()) == (0, [])


def test_error_of_a_task_is_not_hidden_by_an_abort_that_fails() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem).setup()
    with pytest.raises(ZeroDivisionError) as caught, job.task(0) as task:
        write(task)
        filesystem.faults["abort_upload"] = denied("abort_upload")
        raise ZeroDivisionError
    assert caught.value.__notes__[0].startswith("and task 000000 could not be fully aborted: abort_upload")
    assert filesystem.uploads() == 1
    assert len(filesystem.work()) == 2, "the .pending stays so that the job finds the upload"
    filesystem.faults.clear()
    job.abort()
    assert (filesystem.uploads(), filesystem.keys()) == (0, [])


def test_task_whose_files_cannot_be_listed_fails_and_is_aborted() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem).setup()
    task = job.task(0).setup()
    write(task)
    filesystem.faults["list"] = denied("list")
    with pytest.raises(PermissionDenied) as caught:
        task.commit()
    assert "could not be fully aborted: list of" in caught.value.__notes__[0]
    assert filesystem.uploads() == 0, "this process knows the upload without a listing"


def test_task_whose_set_is_refused_is_aborted() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem).setup()
    task = job.task(0).setup()
    write(task)
    filesystem.faults["put"] = denied("put")
    with pytest.raises(PermissionDenied):
        task.commit()
    assert (filesystem.uploads(), filesystem.work(), filesystem.state()) == (0, [], "open")


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_task_commit_of_unknown_outcome_aborts_nothing_and_can_be_repeated(
    tracking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magicfs.committers.magic.INLINE_LIMIT", 0)
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem, tracking=tracking).setup()
    task = job.task(0).setup()
    write(task)
    filesystem.faults["put"] = silent("put")
    with pytest.raises(CommitOutcomeUnknown, match=r"did not say whether its pending set .* was written"):
        task.commit()
    assert filesystem.uploads() == 1
    filesystem.faults.clear()
    assert task.commit().files == 1
    assert job.commit(job.commits).files == 1


def test_with_block_whose_listing_fails_aborts_and_raises_that() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem)
    with pytest.raises(PermissionDenied) as caught, job:
        with job.task(0) as task:
            write(task)
        filesystem.faults["list"] = denied("list")
    assert "could not be fully aborted" in caught.value.__notes__[0]
    filesystem.faults.clear()
    job.abort()
    assert (filesystem.uploads(), filesystem.keys()) == (0, [])


def test_with_block_that_was_handed_two_attempts_of_a_task_leaves_nothing(url: str) -> None:
    with pytest.raises(ProtocolViolation, match="by two attempts"), make(url, tracking="memory") as job:
        for _ in range(2):
            with job.task(0) as task:
                write(task)
    assert (keys(url), uploads(url)) == ([], 0)


def test_unknown_outcome_of_a_with_block_removes_nothing_and_a_second_commit_succeeds() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem, tracking="memory")
    told = r"nothing was removed; commit again, or run magicfs recover memory://bucket/sales"
    with pytest.raises(CommitOutcomeUnknown, match=told) as caught, job:
        with job.task(0) as task:
            write(task)
        filesystem.spared += ["/__magic", "/_"]
        filesystem.faults |= {"complete_upload": silent("complete_upload"), "head": silent("head")}
    assert (caught.value.done, len(caught.value.failed), caught.value.not_started) == ((), 1, ())
    assert (filesystem.uploads(), filesystem.state()) == (1, "committing")
    filesystem.faults.clear()
    assert job.commit(job.commits).files == 1
    assert filesystem.uploads() == 0


def test_job_commit_that_is_refused_publishes_nothing_and_leaves_nothing() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem, concurrency=1)
    with pytest.raises(CommitFailed, match="could not be published") as caught, job:
        for number in range(3):
            with job.task(number) as task:
                write(task)
        filesystem.faults["complete_upload"] = denied("complete_upload")
    assert (caught.value.done, len(caught.value.failed), len(caught.value.not_started)) == ((), 1, 2)
    assert (filesystem.uploads(), filesystem.keys()) == (0, [])


def test_store_that_is_silent_before_the_commit_point_changes_nothing() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem).setup()
    with job.task(0) as task:
        write(task)
    before = filesystem.keys()
    filesystem.faults["put"] = silent("put")
    with pytest.raises(Unavailable):
        job.commit(job.commits)
    assert (filesystem.keys(), filesystem.state()) == (before, "open")
    filesystem.faults.clear()
    assert job.commit(job.commits).files == 1


def test_published_job_that_cannot_be_finished_says_so_and_is_finished_by_recover() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem).setup()
    with job.task(0) as task:
        write(task)
    filesystem.spared.append("/__magic")
    filesystem.faults["put"] = denied("put")
    with pytest.raises(CommitUnfinished) as caught:
        job.commit(job.commits)
    report = caught.value.report
    assert (report, report.files) == (job.report, 1)
    (warning,) = report.warnings
    assert warning.startswith("the files are published but the job could not be finished: put of bucket/key")
    assert warning.endswith("run magicfs recover memory://bucket/sales")
    assert (warning in str(report), warning) == (True, str(caught.value))
    assert filesystem.state() == "completed"
    filesystem.faults.clear()
    assert [one.action for one in magicfs.Dataset(job.url, filesystem=filesystem).recover().jobs] == [
        "finished"
    ]
    assert set(filesystem.keys()) == {
        "sales/_SUCCESS",
        f"sales/_magicfs/{job.id}.json",
        "sales/_magicfs/current.json",
        f"sales/part-0-000000-{job.id}.txt",
    }


def test_upload_that_could_not_be_aborted_stays_on_record_for_the_next_abort() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem, unique_names=False).setup()
    with job.task(0) as task:
        write(task)
    filesystem.faults["abort_upload"] = denied("abort_upload")
    with pytest.raises(PermissionDenied):
        job.abort()
    assert (filesystem.uploads(), filesystem.state()) == (1, "aborting")
    assert len(filesystem.work()) == 1, "the pending set"
    filesystem.faults.clear()
    job.abort()
    assert (filesystem.uploads(), filesystem.keys()) == (0, [])


# -- refused arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "replace"}, "mode='replace' is unknown; choose one of error, append, overwrite"),
        ({"committer": "staging"}, "committer='staging' is unknown; choose one of magic"),
        ({"tracking": "disk"}, "is not one of store, memory"),
        (
            {"run_id": ""},
            "run_id is ''; give a name of 1 to 1024 characters, such as '2026-11-25', or leave it out",
        ),
        ({"run_id": 20261125}, "run_id is 20261125; give a name of 1 to 1024 characters"),
        ({"job_id": "current"}, "'current' cannot be the id of a job with a manifest: 'current' is"),
        ({"job_id": "current.5"}, "'current.5' cannot be the id of a job with a manifest"),
        ({"job_id": "daily.00001"}, "'daily.00001' cannot be the id of a job with a manifest"),
        ({"extra_destinations": ["memory://b/x"]}, "'memory://b/x' is outside memory://bucket"),
        ({"attempt": -1}, "attempt=-1 is not a job attempt; number them from 0"),
        ({"concurrency": 0}, "concurrency=0 is out of range; choose 1 to 1024"),
        ({"concurrency": 1025}, "concurrency=1025 is out of range"),
        ({"part_size": 0}, "{'part_size': 0}: outside 1 to"),
        ({"part_size": 6 * 2**30}, "part_size=6442450944 is outside the limits of the store"),
        ({"job_id": "a/b"}, "'a/b' is not a job id; use at most 100 letters"),
        ({"job_id": ""}, "'' is not a job id"),
        ({"tracking": "memory", "unique_names": False}, "needs unique_names=True and a job id that contains"),
        (
            {"tracking": "memory", "job_id": "daily"},
            "needs unique_names=True and a job id that contains a UUID",
        ),
        (
            {"filesystem": MemoryFileSystem(), "storage_options": {"a": 1}},
            "give either filesystem or storage",
        ),
        ({"filesystem": MagicFileSystem(MemoryFileSystem())}, "is already a MagicFileSystem; give the one"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_argument_that_cannot_be_right_is_refused_by_name(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        Job("memory://bucket/sales", **arranged(**{"mode": "append"} | options))
    assert told in str(caught.value)


def test_conflict_that_is_left_out_is_fail() -> None:
    assert Job("memory://bucket/sales").spec.options.mode == "error"


@pytest.mark.parametrize("size", [5 * 2**20 - 1, 5 * 2**30 + 1])
def test_part_size_that_s3_would_refuse_is_refused_before_any_request(size: int) -> None:
    with pytest.raises(UsageError, match=rf"part_size={size} is outside the limits of the store"):
        Job("s3://bucket/sales", mode="append", options={"part_size": size})


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("bucket/sales", "has no scheme; write 's3://bucket/sales'"),
        ("memory://", "has no bucket"),
        ("magic::memory://bucket/sales", "is a chained URL; give the plain URL of the destination"),
        ("memory://bucket/a/../b", "contains a '.' or '..' element"),
        ("file://tmp/sales", "has no absolute path"),
        ("ftp://host/sales", "no store for ftp://"),
    ],
)
def test_url_that_cannot_be_right_is_refused_by_name(url: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(url)
    assert told in str(caught.value)


def test_store_without_multipart_uploads_is_refused_by_name() -> None:
    world = World(capabilities=Capabilities(uploads=Uploads(delayed=False)))
    world.create_bucket("bucket")
    with pytest.raises(UsageError, match="the store 'memory' has no multipart uploads"):
        faulty_job(MemoryFileSystem(world=world)).setup()


@pytest.mark.parametrize("number", [-1, True, 1.5, "a/b", "", "."])
def test_task_id_that_is_not_safe_in_a_key_is_refused(url: str, number: Any) -> None:
    with pytest.raises(UsageError, match="is not a task id"):
        make(url).setup().task(number)


# -- pickles -------------------------------------------------------------------------------------------


def secretive() -> Job:
    options = {
        "key": "AKIA-PUBLIC",
        "secret": SECRET,
        "endpoint_url": "http://127.0.0.1:9",
        "client_kwargs": {"aws_session_token": SECRET, "region_name": "eu-central-1"},
    }
    return make("s3://bucket/sales", storage_options=options, progress=print)


def test_pickles_and_texts_of_job_and_task_hold_no_secret() -> None:
    job = secretive()
    task = Task(job.spec, "000000")
    for one in (job, task, job.spec):
        assert SECRET.encode() not in pickle.dumps(one)
        assert SECRET not in repr(one)
        assert SECRET not in str(one)


def test_unpickled_job_keeps_what_is_not_secret() -> None:
    job = secretive()
    copy = pickle.loads(pickle.dumps(job))
    assert copy.id == job.id
    assert copy.spec.storage_options == {
        "endpoint_url": "http://127.0.0.1:9",
        "client_kwargs": {"region_name": "eu-central-1"},
    }


def test_filesystem_with_secrets_is_not_pickled() -> None:
    from s3fs import S3FileSystem

    job = make("s3://bucket/sales", filesystem=S3FileSystem(key="a", secret=SECRET))
    with pytest.raises(UsageError, match=r"inline secrets \(key, secret\), which would be pickled"):
        pickle.dumps(job)


def test_secrets_by_position_and_in_urls_are_not_pickled_either() -> None:
    from s3fs import S3FileSystem

    for filesystem in (
        S3FileSystem(False, "http://127.0.0.1:9", "a", SECRET),
        S3FileSystem(endpoint_url=f"http://u:{SECRET}@127.0.0.1:9"),
    ):
        with pytest.raises(UsageError, match="inline secrets") as refused:
            pickle.dumps(make("s3://bucket/sales", filesystem=filesystem))
        assert SECRET not in str(refused.value)
    options = {"endpoint_url": f"http://u:{SECRET}@127.0.0.1:9"}
    raw = pickle.dumps(make("s3://bucket/sales", storage_options=options))
    assert SECRET.encode() not in raw
    assert pickle.loads(raw).spec.storage_options == {"endpoint_url": "http://127.0.0.1:9"}


def test_filesystem_without_secrets_is_pickled() -> None:
    from s3fs import S3FileSystem

    job = make("s3://bucket/sales", filesystem=S3FileSystem(endpoint_url="http://127.0.0.1:9"))
    copy = pickle.loads(pickle.dumps(job))
    assert copy.spec.filesystem.endpoint_url == "http://127.0.0.1:9"


def test_unpickled_job_commits_what_it_was_pickled_with(url: str) -> None:
    job = make(url, progress=print).setup()
    with job.task(0) as task:
        write(task)
    copy = pickle.loads(pickle.dumps(job))
    assert copy.commit(copy.commits).files == 1


def test_unpickled_task_is_new_and_hands_its_commit_over_to_nobody(url: str) -> None:
    job = make(url).setup()
    task = job.task(0).setup()
    copy = pickle.loads(pickle.dumps(task))
    with copy:
        write(copy)
    assert copy.attempt_id != task.attempt_id
    assert job.commits == ()


def test_commit_of_a_small_task_is_small_and_pickles(url: str) -> None:
    job = make(url, tracking="memory").setup()
    with job.task(0) as task:
        write(task)
    (commit,) = job.commits
    assert pickle.loads(pickle.dumps(commit)) == commit
    assert len(pickle.dumps(commit)) < 2048
    assert commit.set_key is None


@pytest.mark.slow
@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_commit_of_a_large_task_stays_in_the_store(url: str, tracking: Any) -> None:
    job = make(url, tracking=tracking).setup()
    files = 600
    with job.task(0) as task:
        names = ("-".join(str(uuid4()) for _ in range(5)) for _ in range(files))
        task.filesystem.pipe({f"{task.path}/{name}.txt": b"" for name in names})
    (commit,) = job.commits
    assert commit.set_key is not None
    assert len(pickle.dumps(commit)) <= INLINE_LIMIT
    if tracking == "store":
        assert commit.content is None
    assert job.commit(job.commits).files == files


def test_commit_that_names_a_key_of_another_job_publishes_nothing(url: str) -> None:
    job = make(url).setup()
    with job.task(0) as task:
        write(task)
    forged = TaskCommit(job.commits[0].job_id, task.id, task.attempt_id, 1, 4, "elsewhere/x.pendingset", None)
    with pytest.raises(CommitFailed, match=r"names 'elsewhere/x\.pendingset', which does not belong to job"):
        job.commit([forged])


@pytest.mark.parametrize("content", [b"not packed", b"", b"x\x9c\x03\x00"])
def test_commit_whose_content_cannot_be_believed_publishes_nothing(url: str, content: bytes) -> None:
    job = make(url).setup()
    with job.task(0) as task:
        write(task)
    forged = TaskCommit(job.commits[0].job_id, task.id, task.attempt_id, 1, 4, None, content)
    with pytest.raises(CommitFailed, match="is malformed or inconsistent: commit of task 000000"):
        job.commit([forged])
    assert (keys(url), uploads(url)) == ([], 0), "the job is aborted, the readable uploads with it"
    with pytest.raises(CommitDenied, match="was not published: another process"):
        job.commit([forged])


def test_with_block_that_was_handed_what_cannot_be_believed_leaves_nothing(url: str) -> None:
    with (
        pytest.raises(CommitFailed, match="is malformed or inconsistent: commit of task 000000"),
        make(url) as job,
    ):
        with job.task(0) as task:
            write(task)
        job._commits[:] = [TaskCommit(job.id, task.id, task.attempt_id, 1, 4, None, b"not packed")]
    assert (keys(url), uploads(url)) == ([], 0)


# -- map -----------------------------------------------------------------------------------------------


class Flaky:
    """Fails so many times for each task, then writes."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, task: Task) -> None:
        with self._lock:
            self.calls[task.id] += 1
            fails = self.calls[task.id] <= self.failures
        write(task, body=f"{task.id}-{'lost' if fails else 'kept'}\n".encode())
        if fails:
            raise ConnectionError(f"task {task.id} failed")


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_map_retries_failed_tasks_and_publishes_each_once(url: str, tracking: Any) -> None:
    flaky = Flaky(failures=2)
    with ThreadPoolExecutor(4) as pool, make(url, tracking=tracking) as job:
        commits = job.map(flaky, range(5), executor=pool, retries=2)
        assert sorted(commits, key=lambda commit: commit.task_id) == list(commits)
        assert job.commits == tuple(commits)
    assert job.report.tasks == 5
    assert set(flaky.calls.values()) == {3}
    bodies = [MemoryFileSystem().cat_file(name.removeprefix("memory://")) for name in job.report.filenames]
    assert sorted(bodies) == [b"%06d-kept\n" % number for number in range(5)]
    assert uploads(url) == 0


def test_map_without_a_with_block_returns_what_commit_takes(url: str) -> None:
    job = make(url).setup()
    with ThreadPoolExecutor(2) as pool:
        report = job.commit(job.map(Flaky(0), ["a", "b"], executor=pool))
    assert report.tasks == 2


def test_map_raises_what_the_last_attempt_raised_after_all_tasks(url: str) -> None:
    flaky = Flaky(failures=9)
    with (
        pytest.raises(ConnectionError, match="task 000000 failed"),
        ThreadPoolExecutor(1) as pool,
        make(url) as job,
    ):
        job.map(flaky, [0], executor=pool, retries=1)
    assert flaky.calls == {"000000": 2}
    assert (keys(url), uploads(url)) == ([], 0)


def test_map_raises_many_errors_together(url: str) -> None:
    with pytest.raises(ExceptionGroup) as caught, ThreadPoolExecutor(2) as pool, make(url) as job:
        job.map(Flaky(failures=9), range(3), executor=pool, retries=0)
    assert len(caught.value.exceptions) == 3


def test_map_refuses_a_function_that_aborts_its_task_quietly(url: str) -> None:
    with (
        pytest.raises(ProtocolViolation, match="was aborted by its own function"),
        ThreadPoolExecutor(1) as pool,
        make(url) as job,
    ):
        job.map(Task.abort, [0], executor=pool, retries=0)


@pytest.mark.parametrize(("tasks", "retries"), [([0, 1, 0], 3), ([0, "000000"], 3), ([0], -1)])
def test_map_refuses_tasks_that_are_named_twice_and_negative_retries(
    url: str, tasks: list[int | str], retries: int
) -> None:
    job = make(url).setup()
    with ThreadPoolExecutor(1) as pool, pytest.raises(UsageError, match="name each task only once"):
        job.map(Flaky(0), tasks, executor=pool, retries=retries)


class DeadPool(Executor):
    """What a process pool is after one of its processes died."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(BrokenExecutor("a process died"))
        return future


def test_map_does_not_retry_on_a_broken_executor(url: str) -> None:
    with pytest.raises(BrokenExecutor, match="a process died"):
        make(url).setup().map(Flaky(0), [0], executor=DeadPool())


# -- progress and report -------------------------------------------------------------------------------


def test_progress_is_told_after_every_file_and_ends_with_everything(url: str) -> None:
    seen: list[Progress] = []
    with make(url, progress=seen.append, concurrency=1) as job:
        for number in range(3):
            with job.task(number) as task:
                write(task, body=b"1234567")
    assert [step.files_done for step in seen] == [1, 2, 3]
    assert [step.bytes_done for step in seen] == [7, 14, 21]
    assert {(step.stage, step.files_total, step.bytes_total) for step in seen} == {("complete", 3, 21)}


def test_progress_of_a_listed_job_never_shows_more_done_than_there_is(url: str) -> None:
    seen: list[Progress] = []
    job = make(url, progress=seen.append).setup()
    for number in range(3):
        with job.task(number) as task:
            write(task)
    job.commit()
    assert [step.files_done for step in seen] == [1, 2, 3]
    assert all(step.files_done <= step.files_total for step in seen)


@pytest.mark.parametrize("error", [ValueError("broken bar"), SystemExit(3), KeyboardInterrupt()])
def test_progress_callback_that_raises_breaks_nothing_and_is_told_of_once(
    url: str, error: BaseException
) -> None:
    calls = []

    def broken(progress: Progress) -> None:
        calls.append(progress)
        raise error

    with make(url, progress=broken, concurrency=1) as job:
        for number in range(3):
            with job.task(number) as task:
                write(task)
    assert len(calls) == 1
    assert job.report.files == 3
    (warning,) = job.report.warnings
    assert warning == f"the progress callback raised {error!r} and is not called again; fix the callback"
    assert uploads(url) == 0


def test_progress_callback_that_calls_the_job_is_told_of_and_breaks_nothing(url: str) -> None:
    job = make(url, progress=lambda _: job.abort()).setup()
    with job.task(0) as task:
        write(task)
    assert job.commit(job.commits).files == 1
    assert "Calling sync() from within a running loop" in job.report.warnings[0]


def test_report_tells_people_and_programs(url: str) -> None:
    with make(url) as job:
        write(job.task(1).setup())
        with job.task(0) as task:
            write(task, body=b"x" * 2048)
    report = job.report
    (warning,) = report.warnings
    assert warning.startswith("task 000001 was set up but never committed: its files are not published")
    assert str(report).splitlines() == [
        f"published   {url}",
        "files       1 (2.0 KiB) from 1 task",
        f"job         {job.id}, committer magic, mode append",
        f"job commit  {report.seconds:.2f} s",
        "discarded   1 upload of attempts not published",
        f"warning     {warning}",
    ]
    plain = json.loads(json.dumps(report.to_dict()))
    assert (plain["job_id"], plain["files"], plain["bytes"]) == (job.id, 1, 2048)
    assert plain["filenames"] == [f"{url}/part-0-000000-{job.id}.txt"]
    assert plain["statistics"]["counters"]["committer_bytes_committed"] == 2048
    assert plain["warnings"] == [warning]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 2**20, "5.0 MiB"), (2**50, "1024.0 TiB")],
)
def test_sizes_are_told_in_binary_units(size: int, text: str) -> None:
    from magicfs.report import human_bytes

    assert human_bytes(size) == text


# -- the face ------------------------------------------------------------------------------------------


def test_names_of_the_face_are_where_they_were() -> None:
    assert magicfs.Job is Job
    assert magicfs.Task is Task
    assert Task.__module__ == "magicfs.job.task"


def test_task_says_where_to_write_in_every_way(url: str, tmp_path: Path) -> None:
    job = make(url).setup()
    task = job.task(3).setup(suffix="77")
    assert task.attempt_id == "attempt-000003-77"
    assert task.url("d=1/a b.txt") == f"magic+memory://{task.path}/d=1/a b.txt"
    assert task.storage_options == {"tracking": "store", "unique_names": True}
    task.filesystem.pipe_file(f"{task.path}/a.txt", b"x")
    import fsspec

    with fsspec.open(task.url("b.txt"), "wb", **task.storage_options) as file:
        file.write(b"y")
    assert task.commit().files == 2
    assert task.filesystem is job.task(4).setup().filesystem


def test_task_of_a_job_with_a_filesystem_has_no_options_to_tell() -> None:
    task = faulty_job(FaultyFileSystem()).setup().task(0).setup()
    with pytest.raises(UsageError, match=r"write through task\.filesystem"):
        _ = task.storage_options


def test_task_that_wrote_needs_its_commit(url: str) -> None:
    for tracking in ("store", "memory"):
        task = make(url, tracking=tracking).setup().task(0).setup()
        assert not task.needs_commit()
        write(task)
        assert task.needs_commit()


def test_listing_after_a_commit_is_fresh(url: str) -> None:
    filesystem = MemoryFileSystem()
    with make(url, filesystem=filesystem) as job, job.task(0) as task:
        write(task)
    place = url.removeprefix("memory://")
    assert filesystem.find(url) == [
        f"{place}/_SUCCESS",
        *sorted([f"{place}/_magicfs/{job.id}.json", f"{place}/_magicfs/current.json"]),
        f"{place}/part-0-000000-{job.id}.txt",
    ]


def test_second_commit_of_one_attempt_returns_what_the_first_persisted(url: str) -> None:
    """Asked of the committer itself, as an engine does whose reply was lost."""
    job = make(url, hadoop="3.4.1").setup()
    task = job.task(0).setup()
    write(task)
    committer = job.spec.make_committer()
    first = sync(job.spec.loop, committer.commit_task, task.id, task.attempt_id)
    second = sync(job.spec.loop, committer.commit_task, task.id, task.attempt_id)
    assert first == second
    assert job.commit().files == 1


def test_file_named_like_a_set_stops_the_listing_by_name(url: str) -> None:
    job = make(url).setup()
    bucket, key = url.removeprefix("memory://").split("/", 1)
    strange = f"{job.spec.work_layout.sets_directory}/strange name.pendingset"
    MemoryFileSystem().pipe_file(f"{bucket}/{strange}", b"")
    with pytest.raises(CommitFailed, match=r"strange name\.pendingset is no pending set of job"):
        job.commit()
    assert isinstance(key, str)


def test_error_of_the_store_at_setup_leaves_the_job_new() -> None:
    filesystem = FaultyFileSystem()
    job = faulty_job(filesystem)
    filesystem.faults["list"] = silent("list")
    with pytest.raises(StoreError):
        job.setup()
    filesystem.faults.clear()
    assert job.setup().commit([]).files == 0
