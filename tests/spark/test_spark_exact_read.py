"""``magicfs.spark.read``: exactly the published files, by Spark's own reader or ours, with the same rows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

import magicfs
import magicfs.spark
from examples.flights.session import PANDAS_WARNING
from magicfs.errors import ObjectNotFound, UsageError
from proofs.doubles.servers import Server
from tests.spark.test_spark_read import frame, rows

CACHE = "spark.sql.hive.filesourcePartitionFileCacheSize"

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a destination on this disk with a hostile name."""
    return f"file://{tmp_path}/a b%20c+#é"


def by_spark(found: DataFrame) -> bool:
    return "FileScan parquet" in found._jdf.queryExecution().toString()


def by_python(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("magic").options(**options).load(url)


@pytest.fixture
def reasons(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.INFO, "magicfs.spark.reading")
    return lambda: " ".join(caplog.messages)


def test_both_readers_give_the_same_frame(spark: SparkSession, url: str) -> None:
    magicfs.spark.write(frame(spark), url, partition_by=["p", "q"])
    ours, python = magicfs.spark.read(url), by_python(spark, url)
    assert by_spark(ours)
    assert not by_spark(python)
    assert ours.schema == python.schema
    assert rows(ours, ours.columns) == rows(python, python.columns)
    assert ours.count() == 40
    assert ours.where("q = 1").count() == 20
    assert rows(magicfs.spark.read(url, columns=["q", "id"]), ["id"]) == rows(python, ["id"])
    assert magicfs.spark.read(url, columns=["q", "id"]).columns == ["q", "id"]
    with pytest.raises(UsageError, match="'nobody'"):
        magicfs.spark.read(url, columns=["nobody"])


def test_it_sees_what_the_manifests_name_and_nothing_else(spark: SparkSession, url: str) -> None:
    data = pd.DataFrame({"day": ["mon", "tue"], "x": [1, 2]})
    magicfs.write(data, url, partition_by="day", run_id="first")
    first = magicfs.spark.read(url)
    magicfs.write(
        data.assign(x=[3, 4]), url, partition_by="day", mode="overwrite", keep="7d", run_id="second"
    )
    top = Path(url.removeprefix("file://"))
    pq.write_table(pa.table({"x": [99]}), top / "day=mon" / "foreign.parquet")

    assert rows(magicfs.spark.read(url), ["x"]) == ["Row(x=3)", "Row(x=4)"]
    assert rows(magicfs.spark.read(url, as_of="first"), ["x"]) == ["Row(x=1)", "Row(x=2)"]
    with pytest.raises(Py4JJavaError, match="FILE_NOT_EXIST"):
        rows(first, ["x"])  # Spark's reader has the old places, and never other rows
    assert not by_spark(magicfs.spark.read(url, as_of="first")), "its files lie aside"
    with pytest.raises(ObjectNotFound, match="nobody"):
        magicfs.spark.read(url, as_of="nobody")


def test_files_in_plain_directories_of_a_dataset_without_partitions(spark: SparkSession, url: str) -> None:
    with magicfs.Job(url) as job, job.task(0) as task:
        for name in ("a/b c/x.parquet", "_hidden/y.parquet", "z.parquet"):
            pq.write_table(pa.table({"x": [len(name)]}), f"{task.path}/{name}", filesystem=task.filesystem)
    found = magicfs.spark.read(url)
    assert by_spark(found)
    assert rows(found, ["x"]) == rows(by_python(spark, url), ["x"])


def test_a_column_that_came_later_is_null_before(spark: SparkSession, url: str) -> None:
    magicfs.write(pd.DataFrame({"x": [1]}), url)
    magicfs.write(pd.DataFrame({"x": [2], "y": ["a"]}), url, mode="append")
    found = magicfs.spark.read(url)
    assert by_spark(found)
    assert rows(found, ["x", "y"]) == ["Row(x=1, y=None)", "Row(x=2, y='a')"]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"x": pa.array([1], pa.timestamp("ns"))}), "timestamp[ns]"),
        (pa.table({"x": pa.array([1], pa.uint32())}), "uint32"),
        (pa.table({"x": pa.array([{"y": 1}], pa.struct([("y", pa.timestamp("ns"))]))}), "struct<y"),
    ],
    ids=["nanoseconds", "unsigned", "nested"],
)
def test_types_that_the_readers_see_otherwise_are_read_by_ours(
    spark: SparkSession, url: str, table: pa.Table, reason: str, reasons: Callable[[], str]
) -> None:
    magicfs.write(table, url)
    found = magicfs.spark.read(url)
    assert not by_spark(found)
    assert reason in reasons()
    assert rows(found, ["x"]) == rows(by_python(spark, url), ["x"])


def test_types_that_differ_between_jobs_are_read_by_ours(
    spark: SparkSession, url: str, reasons: Callable[[], str]
) -> None:
    magicfs.write(pa.table({"x": pa.array([1], pa.int32())}), url)
    magicfs.write(pa.table({"x": pa.array([2], pa.int64())}), url, mode="append", check_schema=False)
    assert rows(magicfs.spark.read(url), ["x"]) == ["Row(x=1)", "Row(x=2)"]
    assert "different types in different files" in reasons()


def test_what_can_be_written_over_or_is_no_parquet_is_read_by_ours(
    spark: SparkSession, url: str, reasons: Callable[[], str]
) -> None:
    magicfs.write(pd.DataFrame({"x": [1]}), f"{url}/csv", format="csv")
    assert not by_spark(magicfs.spark.read(f"{url}/csv"))
    assert "not have the name of a Parquet file" in reasons()
    with magicfs.Job(f"{url}/names", options={"unique_names": False}) as job, job.task(0) as task:
        pq.write_table(pa.table({"x": [1]}), f"{task.path}/x.parquet", filesystem=task.filesystem)
    assert not by_spark(magicfs.spark.read(f"{url}/names"))
    assert "could be overwritten" in reasons()


@pytest.mark.parametrize("size", ["0", "1"])
def test_a_cache_of_listings_that_is_too_small_leads_to_our_reader(
    spark: SparkSession, url: str, reasons: Callable[[], str], size: str
) -> None:
    magicfs.write(pd.DataFrame({"x": [1]}), url)
    spark.conf.set(CACHE, size)
    try:
        assert rows(magicfs.spark.read(url), ["x"]) == ["Row(x=1)"]
    finally:
        spark.conf.unset(CACHE)
    if size == "0":  # otherwise the cache of an earlier session may be there
        assert "does not hold so many files" in reasons()


def test_a_store_that_the_jvm_does_not_reach_is_read_by_ours(
    spark: SparkSession, ministack: Server, bucket_factory: Callable[..., str], reasons: Callable[[], str]
) -> None:
    there = f"s3://{bucket_factory(ministack)}/sales"
    magicfs.write(pd.DataFrame({"x": [1]}), there, storage_options=ministack.storage_options())
    found = magicfs.spark.read(there, storage_options=ministack.storage_options())
    assert rows(found, ["x"]) == ["Row(x=1)"]
    assert "endpoint" in reasons()


def test_a_dataset_of_nothing_and_no_session_are_errors(
    spark: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ObjectNotFound):
        magicfs.spark.read(url)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(UsageError, match="no Spark session is active"):
        magicfs.spark.read(url)
