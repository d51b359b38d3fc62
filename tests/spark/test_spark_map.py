from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import magicfs
from examples.flights.session import PANDAS_WARNING
from magicfs.errors import ProtocolViolation, UsageError
from magicfs.spark.writers import COMMIT_SCHEMA, collect_commits, commit_batch, commit_row, current_task
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

ReadBack = Callable[[Server, str, str, str], DataFrame]


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


def job_on(server: Server, url: str, **options: Any) -> magicfs.Job:
    return magicfs.Job(url, mode="append", storage_options=server.storage_options(), **arranged(**options))


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_the_schema_of_a_commit_is_its_fields() -> None:
    with magicfs.Job("memory://spark-map/d", mode="append") as job:
        with job.task(0) as task:
            pass
        batch, frame = commit_batch(task), commit_row(task)
    names = [column.split()[0] for column in COMMIT_SCHEMA.split(", ")]
    assert batch.schema.names == list(frame.columns) == names
    assert batch.to_pylist() == frame.to_dict("records")


def test_pandas_frames_of_the_attempts_that_won_are_published_together(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    options = ministack.storage_options()
    with job_on(ministack, f"s3://{bucket}/a b/é%20", tracking="memory") as job:

        def write(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            context = TaskContext.get()
            with current_task(job, storage_options=options) as task:
                for number, frame in enumerate(frames):
                    name = task.url(f"part %{number}.parquet")
                    frame.to_parquet(name, storage_options=task.storage_options)
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield commit_row(task)

        commits = collect_commits(spark.range(0, 100, 1, 2).mapInPandas(write, COMMIT_SCHEMA))
        for commit in commits:
            job.add(commit)
        assert [commit.task_id for commit in commits] == ["000000", "000001"]
        assert ministack.visible_keys(bucket) == []
        assert len(ministack.pending_uploads(bucket)) == 3
    assert (job.report.tasks, job.report.files, job.report.uploads_aborted) == (2, 2, 1)
    assert ids(read_back(ministack, bucket, "a b/é%20", "id long")) == list(range(100))
    assert ministack.pending_uploads(bucket) == []


def test_secrets_do_not_travel_with_the_job(ministack: Server, bucket: str) -> None:
    with job_on(ministack, f"s3://{bucket}/d") as job:
        assert ministack.secret_key.encode() not in pickle.dumps(job)


def test_outside_of_a_spark_task_it_says_where_it_belongs() -> None:
    job = magicfs.Job("memory://spark-map/d", mode="append").setup()
    with pytest.raises(ProtocolViolation, match="call it in the function that you pass to mapInPandas"):
        current_task(job).__enter__()


def test_a_task_that_is_not_committed_has_no_row() -> None:
    task = magicfs.Job("memory://spark-map/d", mode="append").setup().task(0).setup()
    with pytest.raises(ProtocolViolation, match="yield its row after the with block"):
        commit_row(task)


def test_rows_that_are_no_commits_are_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"has no column job_id, .*; yield commit_row"):
        collect_commits(spark.range(3))
