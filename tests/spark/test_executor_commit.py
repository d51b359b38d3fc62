"""Job commits whose files Spark tasks complete, against a real S3 server."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import magicfs
from magicfs.demo.session import PANDAS_WARNING
from magicfs.errors import CommitFailed, UsageError
from magicfs.formats.job_object import Chunk
from magicfs.job.workers import CompleteFiles
from magicfs.spark.executor_commit import commit, grouped
from magicfs.testing.fault_proxy import Action, FaultProxy, Rule
from magicfs.testing.servers import Server
from magicfs.transaction import facts
from magicfs.transaction.delegate import CompletionRequest, CompletionResult, FileRange

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

FILES = 7


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven files make four chunks."""
    monkeypatch.setattr(facts, "CHUNK_LENGTH", 2)


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


def written(
    server: Server, bucket: str, files: int = FILES, of: type[magicfs.Job] = magicfs.Job, **options: Any
) -> magicfs.Job:
    """A job of one task that has written so many files."""
    how = {"conflict": "append", "storage_options": server.storage_options(), **options}
    job = of(f"s3://{bucket}/d", **how).setup()
    with job.task(0) as task:
        for number in range(files):
            task.filesystem.pipe_file(f"{task.path}/{number:05d}.bin", b"%d" % number)
    return job


def assert_whole(server: Server, bucket: str, files: int = FILES) -> None:
    client = server.s3_client()
    bodies = sorted(
        client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in server.visible_keys(bucket, "d/")
    )
    assert bodies == sorted(b"%d" % number for number in range(files))
    assert server.pending_uploads(bucket) == []
    assert [key for key in server.all_keys(bucket) if "__magic" in key] == []


# -- without Spark -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "files", "expected"),
    [
        ((2, 2, 1), 1, [[(0, 1)], [(1, 2)], [(0, 1)], [(1, 2)], [(0, 1)]]),
        ((2, 2, 1), 2, [[(0, 2)], [(0, 2)], [(0, 1)]]),
        ((2, 2, 1), 3, [[(0, 2)], [(0, 2), (0, 1)]]),
        ((2, 2, 1), 9, [[(0, 2), (0, 2), (0, 1)]]),
        ((5,), 3, [[(0, 3)], [(3, 5)]]),
        ((), 3, []),
    ],
)
def test_portions_of_each_task(sizes: tuple[int, ...], files: int, expected: list[Any]) -> None:
    ranges = [FileRange(Chunk(str(size), "", size, 0), 0, size) for size in sizes]
    groups = grouped(ranges, files)
    assert [[(one.start, one.stop) for one in group] for group in groups] == expected


def test_only_options_that_are_meant_for_tasks_travel(ministack: Server, bucket: str) -> None:
    job = magicfs.Job(f"s3://{bucket}/d", storage_options=ministack.storage_options())
    work = CompleteFiles(job.spec, CompletionRequest("", if_absent=False, verify=False))
    secret = ministack.secret_key
    assert secret.encode() not in pickle.dumps(work)
    told = work.with_storage_options(ministack.storage_options())
    assert secret.encode() in pickle.dumps(told)
    assert secret not in repr(told)


# -- with Spark ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("files_per_task", [1, 5])
def test_the_executors_complete_every_file(
    spark: SparkSession, ministack: Server, bucket: str, files_per_task: int
) -> None:
    job = written(ministack, bucket)
    options = ministack.storage_options()
    report = commit(job, job.commits, spark=spark, files_per_task=files_per_task, storage_options=options)
    assert (report.files, report.warnings) == (FILES, ())
    assert job.report is report
    assert_whole(ministack, bucket)


def test_the_driver_completes_none_of_them(spark: SparkSession, ministack: Server, bucket: str) -> None:
    with FaultProxy(ministack.endpoint) as proxy:
        options = {**ministack.storage_options(), "endpoint_url": proxy.endpoint}
        job = written(ministack, bucket, storage_options=options)
        report = commit(job, spark=spark, files_per_task=2, storage_options=ministack.storage_options())
        completes = [one.path for one in proxy.requests if one.operation == "CompleteMultipartUpload"]
    assert report.warnings == ()
    assert [path for path in completes if "__magic" not in path] == []
    assert_whole(ministack, bucket)


def test_executors_find_their_own_credentials(
    spark: SparkSession, ministack: Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What Spark gives its Python workers as their environment (spark.executorEnv).
    environment = spark.sparkContext.environment
    monkeypatch.setitem(environment, "AWS_ACCESS_KEY_ID", ministack.access_key)
    monkeypatch.setitem(environment, "AWS_SECRET_ACCESS_KEY", ministack.secret_key)
    job = written(ministack, bucket)
    assert commit(job, spark=spark, files_per_task=2).warnings == ()
    assert_whole(ministack, bucket)


def test_executors_without_access_leave_the_files_to_the_driver(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    nowhere = {**ministack.storage_options(), "endpoint_url": "http://127.0.0.1:9"}
    nowhere["config_kwargs"] = {"retries": {"total_max_attempts": 1}}
    job = written(ministack, bucket)
    (warning,) = commit(job, spark=spark, storage_options=nowhere).warnings
    assert f"{FILES} of {FILES} files were left to the driver" in warning
    assert "127.0.0.1:9" in warning
    assert_whole(ministack, bucket)


class DyingJob(magicfs.Job):
    """Its files are completed by processes that are killed in the middle of a file_range.

    Attributes:
        deaths: How many attempts of every task are.
    """

    deaths = 1

    def commit(self, commits: Any = None, *, tasks: int | None = None, completer: Any = None) -> Any:
        deaths = self.deaths

        # Defined here, so that it travels by value: workers cannot import this module.
        class Dies(CompleteFiles):
            def __call__(self, file_range: FileRange, *, first: bool = False) -> CompletionResult:
                if TaskContext.get().attemptNumber() < deaths:
                    super().__call__(
                        FileRange(file_range.chunk, file_range.start, file_range.start + 1), first=first
                    )
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().__call__(file_range, first=first)

        def dying(work: CompleteFiles, ranges: Any) -> Any:
            return completer(Dies(work.spec, work.request), ranges)

        return super().commit(commits, tasks=tasks, completer=dying)


def test_a_task_that_is_killed_in_the_middle_is_repeated(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    job = written(ministack, bucket, of=DyingJob)
    report = commit(job, spark=spark, files_per_task=2, storage_options=ministack.storage_options())
    assert (report.files, report.warnings) == (FILES, ())
    assert_whole(ministack, bucket)


def test_tasks_that_are_killed_each_time_leave_the_rest_to_the_driver(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    job = written(ministack, bucket, of=DyingJob)
    job.deaths = 4  # type: ignore[attr-defined]
    (warning,) = commit(job, spark=spark, storage_options=ministack.storage_options()).warnings
    assert f"{FILES} of {FILES} files were left to the driver" in warning
    assert_whole(ministack, bucket)


def test_a_lost_upload_takes_everything_back(spark: SparkSession, ministack: Server, bucket: str) -> None:
    ministack.s3_client().put_object(Bucket=bucket, Key="d/old.bin", Body=b"old")
    job = written(ministack, bucket, conflict="replace")
    lost = ministack.pending_uploads(bucket)[3]
    ministack.s3_client().abort_multipart_upload(Bucket=bucket, Key=lost["Key"], UploadId=lost["UploadId"])
    with pytest.raises(CommitFailed, match="could not be published") as caught:
        commit(job, spark=spark, files_per_task=2, storage_options=ministack.storage_options())
    assert caught.value.failed == (lost["Key"],)
    assert len(caught.value.done) + len(caught.value.not_started) == FILES - 1
    assert ministack.visible_keys(bucket, "d/") == ["d/old.bin"]
    assert ministack.pending_uploads(bucket) == []


def test_replies_that_are_lost_do_no_harm(spark: SparkSession, ministack: Server, bucket: str) -> None:
    with FaultProxy(ministack.endpoint) as proxy:
        proxy.add(Rule("CompleteMultipartUpload", Action.LOST, times=3))
        options = {**ministack.storage_options(), "endpoint_url": proxy.endpoint}
        job = written(ministack, bucket)
        report = commit(job, spark=spark, files_per_task=3, storage_options=options)
        assert proxy.counts["CompleteMultipartUpload"] > FILES
    assert report.warnings == ()
    assert_whole(ministack, bucket)


DRIVER = """
import os, pickle, signal, sys

import magicfs
from magicfs.committers import facts
from magicfs.job.workers import CompleteFiles
from magicfs.spark.executor_commit import commit
from magicfs.demo.session import local_session

facts.CHUNK_LENGTH = 2
job, options = pickle.load(sys.stdin.buffer)
job.spec.storage_options.update(options)
driver = os.getpid()


class Kills(CompleteFiles):
    def __call__(self, file_range, *, first=False):
        done = super().__call__(file_range, first=first)
        if file_range.chunk.key.endswith("00001.json"):
            os.kill(driver, signal.SIGKILL)
        return done


class KilledJob(magicfs.Job):
    def commit(self, commits=None, *, tasks=None, completer=None):
        killing = lambda work, ranges: completer(Kills(work.spec, work.request), ranges)
        return super().commit(commits, tasks=tasks, completer=killing)


job.__class__ = KilledJob
commit(job, spark=local_session(cores=1, log=None), files_per_task=2, storage_options=options)
"""


@pytest.mark.long
def test_a_driver_that_is_killed_in_the_middle_is_recovered(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    options = ministack.storage_options()
    job = written(ministack, bucket)
    given = pickle.dumps((job, options))
    command = [sys.executable, "-W", f"ignore:{PANDAS_WARNING}:FutureWarning", "-c", DRIVER]
    died = subprocess.run(command, input=given, capture_output=True, timeout=300, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    assert 0 < len(ministack.visible_keys(bucket, "d/")) <= FILES
    magicfs.recover(job.url, storage_options=options)
    assert_whole(ministack, bucket)


@pytest.mark.parametrize("files_per_task", [0, -1])
def test_tasks_without_files_are_refused(files_per_task: int) -> None:
    job = magicfs.Job("memory://executor-commit/d", conflict="append").setup()
    with pytest.raises(UsageError, match="choose 1 or more"):
        commit(job, files_per_task=files_per_task)


def test_committers_that_complete_nothing_in_the_job_commit_refuse(spark: SparkSession) -> None:
    job = magicfs.Job("memory://executor-commit/e", conflict="append", committer="direct").setup()
    with pytest.raises(UsageError, match="leave completer out"):
        commit(job, (), spark=spark)
