"""Attempts that outlive their job, and tasks that are told to exit."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import magicfs
from examples.flights.session import PANDAS_WARNING
from magicfs.spark import late_writers
from magicfs.spark.exiting import ExitSignals, ToldToExit
from magicfs.spark.late_writers import sweep_late
from magicfs.spark.writers import COMMIT_SCHEMA, collect_commits, commit_row, current_task
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what ends the time for which a sweep waits."""
    opened = threading.Event()

    class Clock:
        @staticmethod
        def sleep(seconds: float) -> None:
            assert opened.wait(60)

    monkeypatch.setattr(late_writers, "time", Clock)
    return opened


def job_on(server: Server, url: str, **options: Any) -> magicfs.Job:
    given = {"tracking": "memory", "storage_options": server.storage_options()} | options
    return magicfs.Job(url, mode="append", **arranged(**given))


@pytest.mark.parametrize("ended", ["committed", "aborted"])
def test_what_is_uploaded_after_the_end_is_discarded_and_nothing_else(
    ministack: Server, bucket: str, gate: threading.Event, ended: str
) -> None:
    url = f"s3://{bucket}/d"
    other = job_on(ministack, url).setup()
    job = job_on(ministack, url).setup()
    late = [magicfs.Task(one.spec, one.task(7).id) for one in (job, other)]
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/x", b"x")
    if ended == "committed":
        job.commit(job.commits)
    else:
        job.abort()
    thread = sweep_late(job, "background")
    assert thread is not None
    for one in late:
        one.setup()  # in a process that has not heard of the end
        one.filesystem.pipe_file(f"{one.path}/y", b"y")
    all_ended()
    assert len(ministack.pending_uploads(bucket)) == 2
    gate.set()
    thread.join(60)
    assert [one for one in ministack.pending_uploads(bucket) if job.id in str(one)] == []
    assert len(ministack.pending_uploads(bucket)) == 1
    assert len(ministack.visible_keys(bucket, "d/")) == (ended == "committed")
    other.abort()


def test_what_is_to_be_left_is_left(ministack: Server, bucket: str) -> None:
    job = job_on(ministack, f"s3://{bucket}/d").setup()
    late = magicfs.Task(job.spec, job.task(7).id)
    job.abort()
    late.setup()
    late.filesystem.pipe_file(f"{late.path}/y", b"y")
    all_ended()
    assert sweep_late(job, "leave") is None
    assert len(ministack.pending_uploads(bucket)) == 1


def test_a_job_that_somebody_took_over_is_theirs(
    ministack: Server, bucket: str, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    first = job_on(ministack, f"s3://{bucket}/d").setup()
    first.abort()
    second = job_on(ministack, f"s3://{bucket}/d", job_id=first.id).setup()
    with second.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/x", b"x")
    gate.set()
    with caplog.at_level(logging.INFO):
        sweep_late(first, "wait")
    assert f"job {first.id} was taken over" in caplog.text
    assert second.commit(second.commits).files == 1


AT_EXIT = """
import json, sys
import magicfs
from magicfs.spark import late_writers
late_writers.LATE_WRITERS_SECONDS = 0.5
job = magicfs.Job(sys.argv[1], mode="append", storage_options=json.loads(sys.argv[2]),
                  options={"tracking": "memory"})
late = magicfs.Task(job.spec, job.setup().task(7).id)
job.abort()
late_writers.sweep_late(job, "background")
late.setup()
late.filesystem.pipe_file(late.path + "/y", b"y")
print("the end")
"""


def test_a_process_waits_for_the_sweep_before_it_exits(ministack: Server, bucket: str) -> None:
    storage = json.dumps(ministack.storage_options())
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", AT_EXIT, f"s3://{bucket}/d", storage],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (shown.returncode, shown.stdout) == (0, "the end\n"), shown.stderr
    assert ministack.pending_uploads(bucket) == []


def test_a_task_of_spark_that_is_told_to_exit_aborts_its_uploads_first(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    options = ministack.storage_options()
    with job_on(ministack, f"s3://{bucket}/d") as job:

        def write(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            context = TaskContext.get()
            with current_task(job, storage_options=options) as task:
                pd.concat(frames).to_parquet(task.url("x.parquet"), storage_options=task.storage_options)
                if context.attemptNumber() == 0:
                    os.kill(os.getpid(), (signal.SIGTERM, signal.SIGHUP)[context.partitionId()])
            yield commit_row(task)

        for commit in collect_commits(spark.range(0, 100, 1, 2).mapInPandas(write, COMMIT_SCHEMA)):
            job.add(commit)
        # Of those that are killed two more are left.
        assert len(ministack.pending_uploads(bucket)) == 2
    assert job.report.uploads_aborted == 0
    assert job.report.files == 2


def test_signals_wait_while_a_task_ends() -> None:
    before = signal.getsignal(signal.SIGTERM)
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: received.append(1))
    try:
        with ExitSignals():
            os.kill(os.getpid(), signal.SIGTERM)
            assert received == []
        assert received == [1]
        with pytest.raises(ToldToExit) as told, ExitSignals() as signals, signals.writing():
            os.kill(os.getpid(), signal.SIGTERM)
        assert told.value.code == 128 + signal.SIGTERM
        assert received == [1]
    finally:
        signal.signal(signal.SIGTERM, before)
