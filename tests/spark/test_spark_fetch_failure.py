"""Shuffle files that are lost while a stage reads them: Spark runs stages, and tasks, a second time."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

import magicfs.spark
from examples.flights.session import PANDAS_WARNING
from proofs.doubles.servers import Server

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

ReadBack = Callable[[Server, str, str, str], DataFrame]
PARTITIONS = 6
FIRST, SLOW = 0, 1


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


@dataclass(frozen=True)
class Losing:
    """Passes rows on. In its first run, the first partition reads its rows and deletes every shuffle file.

    The second partition, which runs meanwhile, is held until it was begun again: both of its attempts write.
    """

    runs: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        runs = Path(self.runs)
        (runs / f"{partition}-{context.taskAttemptId()}").touch()
        first = len(list(runs.glob(f"{partition}-*"))) == 1
        read = list(batches)
        (runs / f"read-{partition}").touch()
        if partition == FIRST and first:
            wait_for((runs / f"read-{SLOW}").exists)
            for directory in os.environ["SPARK_LOCAL_DIRS"].split(","):
                for one in Path(directory).glob("*/shuffle_*"):
                    one.unlink()
        yield from read
        if partition == SLOW and first:
            wait_for(lambda: len(list(runs.glob(f"{SLOW}-*"))) > 1)


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.05)


def shuffled(spark: SparkSession, runs: Path) -> DataFrame:
    rows = spark.range(0, 600, 1, 3).repartition(PARTITIONS)
    return rows.mapInArrow(Losing(str(runs)), "id bigint")


@pytest.mark.nightly
@pytest.mark.parametrize("route", ["format", "write"])
def test_tasks_that_are_run_again_because_shuffle_files_are_lost_leave_one_copy_of_each_row(
    spark: SparkSession, ministack: Server, bucket: str, tmp_path: Path, read_back: ReadBack, route: str
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    # Workers cannot import this module.
    cloudpickle.register_pickle_by_value(__import__(__name__))
    frame, url, storage = shuffled(spark, runs), f"s3://{bucket}/d", ministack.storage_options()
    if route == "format":
        writer = frame.write.format("magic").mode("append").option("lateWriters", "wait")
        writer.option("storageOptions", json.dumps(storage)).save(url)
    else:
        report = magicfs.spark.write(frame, url, storage_options=storage, late_writers="wait")
        assert report.rows == 600
    begun = Counter(one.name.split("-")[0] for one in runs.glob("[0-9]-*"))
    assert begun[str(SLOW)] > 1, begun
    assert sorted(row["id"] for row in read_back(ministack, bucket, "d", "id long").collect()) == list(
        range(600)
    )
    assert len(ministack.visible_keys(bucket, "d/")) == PARTITIONS
    assert ministack.pending_uploads(bucket) == []
