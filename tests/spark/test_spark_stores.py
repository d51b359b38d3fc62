"""PySpark on stores that are not S3: the same format, modes and rows, nothing left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import magicfs
import magicfs.spark
from examples.flights.session import PANDAS_WARNING

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning"),
    pytest.mark.nightly,  # in the gate Spark writes to files and to S3
]

# What the others do otherwise than these is the exams' own subject.
STORES = ("local", "gcs with folders", "azurite", "gcs", "adls")
FOLDERS: dict[str, Any] = {"hierarchicalNamespace": {"enabled": True}}


@dataclass
class Place:
    """Where a dataset is written."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    pending: Callable[[], int] = lambda: 0


@pytest.fixture(params=STORES)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, server: Callable[[str], Any], bucket_factory: Any
) -> Iterator[Place]:
    name = request.param
    if name == "local":
        (tmp_path / "lake 1").mkdir()
        yield Place(
            f"file://{tmp_path}/lake 1/sales", pending=lambda: len(list(tmp_path.rglob(".magicfs-uploads/*")))
        )
        return
    running = server(name.partition(" ")[0])
    bucket = bucket_factory(running, **(FOLDERS if "folders" in name else {}))
    options = running.storage_options()
    url = f"{running.scheme}://{bucket}/lake 1/sales"
    yield Place(url, options, lambda: len(running.uploads(bucket)))


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(40, numPartitions=2).selectExpr("id", "concat('c', id % 3) AS city")


def rows(place: Place) -> int:
    return magicfs.Dataset(place.url, storage_options=place.options).to_arrow().count_rows()


def save(frame: DataFrame, place: Place, mode: str, **options: str) -> None:
    writer = frame.write.format("magic").option("storageOptions", json.dumps(place.options))
    for name, value in {"partitionCols": "city", "lateWriters": "wait", **options}.items():
        writer = writer.option(name, value)
    writer.mode(mode).save(place.url)


def test_format_appends_and_replaces(place: Place, frame: DataFrame) -> None:
    save(frame, place, "append")
    save(frame, place, "append")
    assert rows(place) == 80
    save(frame.where("city = 'c1'"), place, "overwrite", mode="overwrite_partitions")
    assert rows(place) == 80 - 13
    save(frame, place, "overwrite", mode="overwrite")
    assert rows(place) == 40
    assert magicfs.Dataset(place.url, storage_options=place.options).verify().missing == ()
    assert place.pending() == 0


def test_function_reports_its_rows_and_publishes_a_run_once(place: Place, frame: DataFrame) -> None:
    how: dict[str, Any] = {
        "partition_by": "city",
        "run_id": "monday",
        "late_writers": "wait",
        "storage_options": place.options,
    }
    report = magicfs.spark.write(frame, place.url, mode="append", **how)
    assert report.rows == 40
    assert magicfs.spark.write(frame, place.url, mode="append", **how).published_before
    assert (rows(place), place.pending()) == (40, 0)
