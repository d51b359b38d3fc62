"""Job commits whose files Spark tasks complete, against a real S3 server."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import magicfs
from examples.flights.session import PANDAS_WARNING
from magicfs.errors import UsageError
from magicfs.formats.job_object import Chunk
from magicfs.job.workers import CompleteFiles
from magicfs.spark.executor_commit import commit, grouped
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.transaction import facts
from magicfs.transaction.delegate import CompletionRequest, CompletionResult, FileRange
from proofs.doubles.servers import Server

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

FILES = 7
ATTEMPTS = 2


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


def test_the_driver_completes_none_of_them(spark: SparkSession, ministack: Server, bucket: str) -> None:
    with FaultProxy(ministack.endpoint) as proxy:
        options = {**ministack.storage_options(), "endpoint_url": proxy.endpoint}
        job = written(ministack, bucket, storage_options=options)
        report = commit(job, spark=spark, files_per_task=2, storage_options=ministack.storage_options())
        completes = [one.path for one in proxy.requests if one.operation == "CompleteMultipartUpload"]
    assert (report.files, report.warnings) == (FILES, ())
    assert job.report is report
    assert [path for path in completes if "__magic" not in path] == []
    assert_whole(ministack, bucket)


def test_executors_find_their_own_credentials(
    spark: SparkSession, ministack: Server, bucket: str, own_credentials: Path
) -> None:
    job = written(ministack, bucket)
    assert commit(job, spark=spark, files_per_task=2).warnings == ()
    assert_whole(ministack, bucket)


class DyingJob(magicfs.Job):
    """Its files are completed by processes that are killed in the middle of a range, in so many attempts."""

    deaths = 1

    def commit(self, commits: Any = None, *, tasks: int | None = None, completer: Any = None) -> Any:
        deaths = self.deaths

        # Defined here, so that it travels by value: workers cannot import this module.
        class Dies(CompleteFiles):
            def __call__(self, file_range: FileRange, *, first: bool = False) -> CompletionResult:
                if TaskContext.get().attemptNumber() < deaths:
                    start = file_range.start
                    super().__call__(FileRange(file_range.chunk, start, start + 1), first=first)
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().__call__(file_range, first=first)

        def dying(work: CompleteFiles, ranges: Any) -> Any:
            return completer(Dies(work.spec, work.request), ranges)

        return super().commit(commits, tasks=tasks, completer=dying)


@pytest.mark.parametrize("deaths", [1, ATTEMPTS])
def test_a_task_that_is_killed_is_repeated_and_leaves_the_rest_to_the_driver_in_the_end(
    spark: SparkSession, ministack: Server, bucket: str, deaths: int
) -> None:
    job = written(ministack, bucket, of=DyingJob)
    job.deaths = deaths  # type: ignore[attr-defined]
    report = commit(job, spark=spark, storage_options=ministack.storage_options())
    assert report.files == FILES
    left = f"{FILES} of {FILES} files were left to the driver"
    assert [left in one for one in report.warnings] == ([] if deaths < ATTEMPTS else [True])
    assert_whole(ministack, bucket)


DRIVER = """
import os, pickle, signal, sys

import magicfs
from magicfs.transaction import facts
from magicfs.job.workers import CompleteFiles
from magicfs.spark.executor_commit import commit
from examples.flights.session import local_session

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


def test_tasks_without_files_are_refused() -> None:
    job = magicfs.Job("memory://executor-commit/d", conflict="append").setup()
    with pytest.raises(UsageError, match="choose 1 or more"):
        commit(job, files_per_task=0)
