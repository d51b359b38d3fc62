"""``spark.read.format("magic")`` and ``spark.readStream.format("magic")``, by a real Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import magicfs
import magicfs.spark
from examples.flights.session import PANDAS_WARNING
from magicfs.tables.formats import FORMATS
from proofs.doubles.servers import Server

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
HOSTILE = "a b%20c+#é=?"
LEFT_OUT = {"csv": {"listed", "nested", "mapped", "raw"}, "orc": {"local"}}
"""The columns that a format does not keep."""


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a destination on this disk with a hostile name."""
    return f"file://{tmp_path}/a b%20c+#é"


def frame(spark: SparkSession) -> DataFrame:
    return spark.range(40).selectExpr(
        "id",
        "cast(id as double) / 0.7 real",
        "cast(id as decimal(20,3)) exact",
        "timestamp_micros(id * 1000001) moment",
        "cast(timestamp_micros(id * 1000001) as timestamp_ntz) local",
        "date_add(date'2026-01-01', cast(id as int)) day",
        "case id % 3 when 0 then null when 1 then '' else concat('\"ü\n,', id) end text",
        "array(id, null) listed",
        "struct(id as x, cast(id as string) as `y.z`) nested",
        "map(cast(id as string), id) mapped",
        "cast(cast(id as string) as binary) raw",
        "case id % 4 when 0 then 'a/b=c%20' when 1 then null when 2 then 'é +#' else 'x\"y' end p",
        "cast(id % 2 as int) q",
    )


def rows(found: DataFrame, columns: list[str]) -> list[str]:
    return sorted(map(repr, found.select(*[f"`{one}`" for one in columns]).collect()))


def load(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("magic").options(**options).load(url)


@contextmanager
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    try:
        yield
    finally:
        spark.conf.unset(PUSHDOWN)


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("file_format", list(FORMATS))
def test_every_format_reads_back_as_what_was_written(spark: SparkSession, url: str, file_format: str) -> None:
    written = frame(spark).drop(*LEFT_OUT.get(file_format, ()))
    codec = {"csv": "gzip", "json": "bzip2"}.get(file_format)
    magicfs.spark.write(written, url, partition_by=["p", "q"], format=file_format, compression=codec)
    found = spark.read.schema(written.schema).format("magic").load(url)
    assert rows(found, written.columns) == rows(written, written.columns)
    guessed = load(spark, url)
    assert sorted(guessed.columns) == sorted(written.columns)
    assert guessed.count() == 40
    if file_format not in {"csv", "json"}:
        expected = {one.name: one.dataType.simpleString() for one in written.schema.fields}
        assert {one.name: one.dataType.simpleString() for one in guessed.schema.fields} == expected


@pytest.mark.nightly
def test_it_reads_on_s3_what_it_wrote_there(spark: SparkSession, ministack: Server, bucket: str) -> None:
    options = json.dumps(ministack.storage_options())
    url = f"s3://{bucket}/{HOSTILE.replace('?', '')}"
    written = frame(spark)
    write = written.write.format("magic").mode("append").option("storageOptions", options)
    write.option("partitionCols", "p,q").save(url)
    found = load(spark, url, storageOptions=options)
    assert rows(found, written.columns) == rows(written, written.columns)


def test_a_frame_sees_one_instant_and_a_new_one_the_next(spark: SparkSession, url: str) -> None:
    first = magicfs.spark.write(spark.range(5), url)
    found = load(spark, url)
    Path(url.removeprefix("file://"), "stray.parquet").write_bytes(b"no file of any job")
    magicfs.spark.write(spark.range(5, 9), url, mode="append")
    assert found.count() == 5
    assert found.union(found).count() == 10
    assert load(spark, url).count() == 9
    assert load(spark, url, job=first.job_id).count() == 5
    magicfs.spark.write(spark.range(2), url, mode="overwrite")
    assert load(spark, url).count() == 2
    with pytest.raises(Exception, match=r"deleted or overwritten; a later job replaced it|is gone"):
        found.collect()


@pytest.mark.nightly
def test_filters_on_partition_columns_spare_the_other_files(spark: SparkSession, url: str) -> None:
    report = magicfs.spark.write(frame(spark).coalesce(1), url, partition_by=["p", "q"])
    assert report.files == 4
    [file] = Path(url.removeprefix("file://")).glob("p=x*/*/*.parquet")
    file.unlink()
    for condition, count in (
        ("p = 'a/b=c%20'", 10),
        ("p is null", 10),
        ("q = 0", 20),
        ("p <> 'x\"y' and q in (0, 1) and id >= 0", 20),
        ("p like 'é%' and not q > 0", 10),
    ):
        with pushdown(spark):
            assert load(spark, url).where(condition).count() == count, condition
        with pytest.raises(Exception, match="is gone"):
            load(spark, url).where(condition).count()


def test_columns_are_read_as_they_are_asked_for(spark: SparkSession, url: str) -> None:
    magicfs.spark.write(frame(spark), url, partition_by="q")
    assert load(spark, url, columns="q,text").columns == ["q", "text"]
    assert load(spark, url, columns="q").where("q = 1").count() == 20
    schema = "ID long NOT NULL, later string, text int, q string"
    with pytest.raises(Exception, match=r"'text' is string in the file and cannot be read as int32"):
        spark.read.schema(schema).format("magic").load(url).collect()
    found = spark.read.schema("ID long NOT NULL, later string, q string").format("magic").load(url)
    assert found.where("later is null and q in ('0', '1')").selectExpr("sum(ID)").collect()[0][0] == 780


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "ObjectNotFound: .*no job was published to file://"),
        ({"colums": "a"}, r"UsageError: .*unknown option colums \(colums looks like columns\)"),
        ({"startFrom": "new", "job": "x"}, "not among those published"),
        ({"fileFormat": "avro"}, "UsageError: .*fileFormat='avro' is unknown; choose one of parquet"),
    ],
)
def test_what_cannot_be_read_is_said_at_once(
    spark: SparkSession, url: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        load(spark, url, **options)


def test_files_that_no_job_brought_are_named(spark: SparkSession, url: str) -> None:
    spark.range(3).write.parquet(url.removeprefix("file://"))
    with pytest.raises(Exception, match=r"UsageError: .*are in no manifest.*call magicfs\.Dataset"):
        load(spark, url)
    with pytest.raises(Exception, match="the dataset is missing; name it in"):
        spark.read.format("magic").load()


def run_stream(spark: SparkSession, url: str, tmp_path: Path, out: list[list[int]], **options: str) -> Any:
    """Run a stream over what is there now, and return what it says of itself."""
    stream = spark.readStream.format("magic").options(**options).load(url).writeStream

    def keep(batch: DataFrame, _number: int) -> None:
        out.append(sorted(row.id for row in batch.select("id").collect()))

    query = (
        stream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    query.stop()
    return query.exception()


@pytest.mark.nightly
def test_a_stream_reads_each_publication_once_and_goes_on_after_a_restart(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    for start in (0, 10, 20):
        magicfs.spark.write(spark.range(start, start + 2).coalesce(1), url, mode="append")
    batches: list[list[int]] = []
    assert run_stream(spark, url, tmp_path, batches, maxFilesPerTrigger="1") is None
    assert batches == [[0, 1], [10, 11], [20, 21]]
    magicfs.Dataset(url).compact()
    assert run_stream(spark, url, tmp_path, batches) is None
    assert batches == [[0, 1], [10, 11], [20, 21]]
    magicfs.spark.write(spark.range(30, 32), url, mode="append")
    magicfs.spark.write(spark.range(40, 42), url, mode="append")
    assert run_stream(spark, url, tmp_path, batches) is None
    assert batches[3:] == [[30, 31, 40, 41]]
    magicfs.spark.write(spark.range(50, 52), url, mode="overwrite")
    with pytest.raises(Exception, match=r"removed rows of .*, which a stream cannot do"):
        run_stream(spark, url, tmp_path, batches)
    assert run_stream(spark, url, tmp_path, batches, onReplace="read") is None
    assert batches[4:] == [[50, 51]]
