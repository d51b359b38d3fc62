"""Functions of users that Spark runs: each gets a task and writes what it likes; winners are published."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf

import magicfs
from examples.flights.session import PANDAS_WARNING
from magicfs.errors import ProtocolViolation, UsageError
from magicfs.job.spec import JobSpec
from magicfs.protocol.ids import task_id
from magicfs.spark import (
    COMMIT_SCHEMA,
    arrow_function,
    collect_commits,
    commit_text,
    current_task,
    group_function,
    pandas_function,
)
from magicfs.spark.writers import INLINE_LIMIT
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


def job_on(server: Server, url: str, **options: Any) -> magicfs.Job:
    given = {"tracking": "memory", "storage_options": server.storage_options()} | options
    return magicfs.Job(url, mode="append", **arranged(**given))


def lines(server: Server, bucket: str) -> list[str]:
    """The lines of all visible files, sorted."""
    client = server.s3_client()
    bodies = [
        client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in server.visible_keys(bucket, "d/")
    ]
    return sorted(line for body in bodies for line in body.decode().splitlines())


def test_map_in_pandas_with_a_task_as_argument(spark: SparkSession, ministack: Server, bucket: str) -> None:
    def write(task: magicfs.Task, frames: Iterator[pd.DataFrame]) -> None:
        for number, frame in enumerate(frames):
            name = task.url(f"part-{number}.csv")
            frame.to_csv(name, storage_options=task.storage_options, index=False, header=False)
            task.count("records_written", len(frame))

    with job_on(ministack, f"s3://{bucket}/d") as job:
        function = pandas_function(job, write, storage_options=ministack.storage_options())
        for commit in collect_commits(spark.range(0, 100, 1, 3).mapInPandas(function, COMMIT_SCHEMA)):
            job.add(commit)
    assert (job.report.rows, job.report.tasks) == (100, 3)
    assert lines(ministack, bucket) == sorted(str(number) for number in range(100))
    assert ministack.pending_uploads(bucket) == []


def test_map_in_arrow_with_a_task_as_argument(spark: SparkSession, ministack: Server, bucket: str) -> None:
    def write(task: magicfs.Task, batches: Iterator[pa.RecordBatch]) -> None:
        import pyarrow.csv as csv

        table = pa.Table.from_batches(list(batches))
        with task.filesystem.open(f"{task.path}/x.csv", "wb") as file:
            csv.write_csv(table, file, csv.WriteOptions(include_header=False))

    with job_on(ministack, f"s3://{bucket}/d") as job:
        function = arrow_function(job, write, storage_options=ministack.storage_options())
        for commit in collect_commits(spark.range(0, 10, 1, 2).mapInArrow(function, COMMIT_SCHEMA)):
            job.add(commit)
    assert (job.report.rows, job.report.files) == (None, 2)
    assert lines(ministack, bucket) == [str(number) for number in range(10)]


def test_every_group_of_apply_in_pandas_is_a_task(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    def write(task: magicfs.Task, key: tuple[Any, ...], frame: pd.DataFrame) -> None:
        if key[0] == 3 and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("once")
        with task.filesystem.open(f"{task.path}/p={key[0]}/same name", "wb") as file:
            file.write("".join(f"{one}\n" for one in frame["id"]).encode())

    frame = spark.range(100).selectExpr("id", "id % 5 as p")
    with job_on(ministack, f"s3://{bucket}/d") as job:
        function = group_function(job, write, storage_options=ministack.storage_options())
        for commit in collect_commits(frame.groupBy("p").applyInPandas(function, COMMIT_SCHEMA)):
            job.add(commit)
    assert job.report.tasks == job.report.files == 5
    assert sorted(key.split("/")[1] for key in ministack.visible_keys(bucket, "d/")) == [
        f"p={number}" for number in range(5)
    ]
    assert lines(ministack, bucket) == sorted(str(number) for number in range(100))
    assert ministack.pending_uploads(bucket) == []


def test_a_pandas_udf_writes_images(spark: SparkSession, ministack: Server, bucket: str) -> None:
    options = ministack.storage_options()
    with job_on(ministack, f"s3://{bucket}/d") as job:

        @pandas_udf("string")
        def save(numbers: pd.Series) -> pd.Series:
            with current_task(job, storage_options=options) as task:
                for number in numbers:
                    with task.filesystem.open(f"{task.path}/{number}.png", "wb") as file:
                        Image.new("RGB", (number + 1, 2)).save(file, "PNG")
            return pd.Series([commit_text(task), *[None] * (len(numbers) - 1)])

        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "4")
        try:
            commits = collect_commits(spark.range(0, 20, 1, 2).select(save("id")))
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        for commit in commits:
            job.add(commit)
    # Ten rows of each partition came in batches of four, each a task.
    assert sorted(commit.task_id for commit in commits) == sorted(
        f"{partition:06d}{suffix}" for partition in range(2) for suffix in ("", "-1", "-2")
    )
    client = ministack.s3_client()
    keys = ministack.visible_keys(bucket, "d/")
    bodies = [client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys]
    sizes = sorted(Image.open(io.BytesIO(body)).size for body in bodies)
    assert sizes == [(number + 1, 2) for number in range(20)]
    assert ministack.pending_uploads(bucket) == []


def test_a_pandas_udf_that_aggregates_writes_one_file_for_each_group(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    options = ministack.storage_options()
    with job_on(ministack, f"s3://{bucket}/d") as job:

        @pandas_udf("string")
        def save(numbers: pd.Series) -> str:
            with current_task(job, storage_options=options) as task:
                numbers.to_csv(
                    task.url("x.csv"), storage_options=task.storage_options, index=False, header=False
                )
            return commit_text(task)

        frame = spark.range(30).selectExpr("id", "id % 3 as p")
        for commit in collect_commits(frame.groupBy("p").agg(save("id").alias("commit")).select("commit")):
            job.add(commit)
    assert job.report.files == 3
    assert lines(ministack, bucket) == sorted(str(number) for number in range(30))


def test_a_text_that_is_no_commit_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"'\[1\]' is not a commit; return commit_text\(task\)"):
        collect_commits(spark.sql("select '[1]' as commit"))


def test_a_task_counts_only_while_it_writes() -> None:
    with magicfs.Job("memory://spark-functions/d", mode="append") as job:
        task = job.task(0)
        with pytest.raises(ProtocolViolation, match="is not set up"):
            task.count("records_written")
        with task:
            task.count("records_written", 2)
            task.count("records_written")
            with pytest.raises(UsageError, match="cannot go down by 1"):
                task.count("records_written", -1)
        with pytest.raises(ProtocolViolation, match="is already committed; count before it commits"):
            task.count("records_written")
        assert task.committed is not None
        assert task.committed.rows == 3
    assert job.report.rows == 3


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("committer", ["magic", "directory", "file", "manifest", "direct"])
def test_every_committer_tells_the_rows(committer: str, tmp_path: Path) -> None:
    options = {"work_directory": str(tmp_path)} if committer == "directory" else {}
    url = f"file://{tmp_path}/d" if committer == "manifest" else f"memory://spark-functions/{committer}"
    job = magicfs.Job(url, mode="append", committer=committer, options={**options, "single_driver": True})
    with job:
        for number in range(2):
            with job.task(number) as task:
                task.filesystem.pipe_file(f"{task.path}/x", b"x")
                task.count("records_written", 5)
    assert job.report.rows == 10
    assert [(one.task_id, one.rows, one.files) for one in job.report.task_figures] == [
        ("000000", 5, 1),
        ("000001", 5, 1),
    ]


def _with_limit(job: magicfs.Job, limit: int) -> JobSpec:
    return replace(job.spec, options=replace(job.spec.options, inline_limit=limit))


@pytest.mark.parametrize("tracking", ["memory", "store"])
def test_above_the_limit_only_the_key_of_a_pending_set_travels(tracking: str) -> None:
    with magicfs.Job(
        f"memory://spark-functions/{tracking}", mode="append", options={"tracking": tracking}
    ) as job:
        for number, limit in enumerate((0, INLINE_LIMIT)):
            with magicfs.Task(_with_limit(job, limit), task_id(number)) as task:
                task.filesystem.pipe_file(f"{task.path}/x", b"x")
                task.count("records_written", 7)
            assert task.committed is not None
            assert (task.committed.content is None) is (limit == 0)
            assert (task.committed.set_key is None) is (limit > 0 and tracking == "memory")
            job.add(task.committed)
    assert (job.report.files, job.report.rows) == (2, 14)
