"""Every type of Spark, in every format that keeps it, reads back as itself; the rest is refused by name."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

import magicfs
from examples.flights.session import PANDAS_WARNING
from magicfs.errors import UsageError
from magicfs.spark import schema
from magicfs.spark.options import build
from magicfs.spark.writers import COMMIT_SCHEMA, collect_commits, commit_batch, current_task
from magicfs.spark.writing import task_files
from magicfs.tables.formats import FORMATS, FileSettings, open_writer

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

# Neither the zone of this machine nor that of the JVM, and one that has summer time.
CONFIG = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
POINT = "X'0101000000000000000000F03F0000000000000040'"
COLUMNS = {
    "flag": "id % 2 = 0",
    "tiny": "cast(id as tinyint)",
    "small": "cast(-id as smallint)",
    "whole": "cast(id * 100000 as int)",
    "large": "id * 1000000000000",
    "single": "cast(id / 3 as float)",
    "double": "id / 7",
    "not_finite": "case id when 0 then double('NaN') when 2 then double('inf') else id / 7 end",
    "less_than_all": "if(id = 0, double('-inf'), id / 7)",
    "price": "cast(id / 7 as decimal(9, 2))",
    "amount": "cast(-id / 7 as decimal(18, 9))",
    "huge": "cast(id / 7 as decimal(38, 18))",
    "name": r"""concat('"é", 😀 \\ ', char(10), char(13), char(9), char(1), ';\\"', id)""",
    "collated": "cast(id as string) collate UNICODE_CI",
    "fixed": "cast('a' as char(4))",
    "raw": "cast(concat('x', id) as binary)",
    "day": "date_add(date'1583-01-31', cast(id as int) * 100000)",
    "moment": "timestamp_micros(id * 1000003)",
    "summer_ends": "timestamp'2026-11-01 00:30:00' + make_dt_interval(0, cast(id as int))",
    "local": "cast(timestamp_micros(id * 1000003) as timestamp_ntz)",
    "lasting": "make_dt_interval(1, 2, 3, id + 0.5)",
    "days": "interval '5' day",
    "months": "make_ym_interval(1, cast(id as int))",
    "calendar": "make_interval(1, 2, 3)",
    "clock": "time'12:34:56.123456'",
    "clocks": "array(time'12:34:56', null)",
    "never": "null",
    "nevers": "array(null)",
    "numbers": "array(id, null)",
    "names": """array('a"', null, '')""",
    "moments": "array(timestamp_micros(id))",
    "mapped": "map('k', id, 'n', null)",
    "numbered": "map(id, 'v')",
    "nested": "named_struct('a', id, 'b', named_struct('c', array(named_struct('d', if(id=2, null, 'x')))))",
    "empty": "named_struct()",
    "variant": """parse_json('{"a": [1, null]}')""",
    "variants": "map('v', parse_json('1'))",
    "geometry": f"st_geomfromwkb({POINT})",
    "geometries": f"array(named_struct('g', st_geomfromwkb({POINT})), null)",
    "geography": f"st_geogfromwkb({POINT})",
}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    before = {name: spark.conf.get(name) for name in CONFIG}
    for name, value in CONFIG.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        if value is not None:
            spark.conf.set(name, value)


def frame_of(session: SparkSession, names: list[str]) -> DataFrame:
    """Each column once as it is, and once with a null in it."""
    with_null = [f"if(id = 1, null, {COLUMNS[name]}) {name}_or_null" for name in names]
    return session.range(0, 4, 1, 1).selectExpr(*[f"{COLUMNS[name]} {name}" for name in names], *with_null)


def kept(session: SparkSession, file_format: str, without: Sequence[str] = ()) -> DataFrame:
    """The columns that the format keeps; which types those are is the document's, and held beside it."""
    names = []
    for field in session.range(1).selectExpr(*[f"{sql} {name}" for name, sql in COLUMNS.items()]).schema:
        try:
            schema.check(StructType([field]), [], file_format)
        except UsageError:
            continue
        names.append(field.name)
    assert len(names) > 15
    return frame_of(session, [name for name in names if name not in without])


def write(frame: DataFrame, place: Path, **attributes: Any) -> magicfs.JobReport:
    url = f"file://{place}"
    chosen = build(frame.columns, path=url, **attributes)
    columns = frame.schema
    schema.check(columns, chosen.partition_cols, chosen.file_format)
    job = magicfs.Job(url, mode="append", committer="manifest").setup()

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        with (
            current_task(job) as task,
            task_files(chosen, columns, task, context.partitionId()) as files,
        ):
            for batch in batches:
                files.write(batch)
        yield commit_batch(task)

    return job.commit(collect_commits(frame.mapInArrow(run, COMMIT_SCHEMA)))


def read(session: SparkSession, place: Path, file_format: str, frame: DataFrame) -> DataFrame:
    reader = session.read
    if file_format == "csv":
        options = {"header": True, "multiLine": True, "escape": '"'}
        return reader.schema(frame.schema).options(**options).csv(str(place))
    if file_format == "json":
        return reader.schema(frame.schema).json(str(place))
    return reader.format(file_format).load(str(place))


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "json", "csv"])
def test_every_type_that_is_not_refused_reads_back_equal(
    session: SparkSession, tmp_path: Path, file_format: str
) -> None:
    frame = kept(session, file_format)
    write(frame, tmp_path / "d", file_format=file_format)
    found = read(session, tmp_path / "d", file_format, frame)
    assert found.dtypes == frame.dtypes
    expected, rows = frame.collect(), found.collect()
    for name in frame.columns:
        assert [str(row[name]) for row in rows] == [str(row[name]) for row in expected], name


def test_arrow_files_hold_the_types_of_sparks_batches(session: SparkSession, tmp_path: Path) -> None:
    frame = kept(session, "arrow")
    write(frame, tmp_path / "d", file_format="arrow", compression="zstd", row_group_size=3)
    [path] = (tmp_path / "d").rglob("*.zstd.arrow")
    with pa.ipc.open_file(path) as file:
        table = file.read_all()
        assert file.num_record_batches == 2
    assert table.column_names == frame.columns
    assert json.loads(table.schema.metadata[schema.ROW_METADATA.encode()]) == frame.schema.jsonValue()
    assert table.schema.field("moment").type == pa.timestamp("us", "America/New_York")
    assert table["name"].to_pylist() == [row["name"] for row in frame.select("name").collect()]


def test_parquet_files_have_the_schema_of_sparks_own(session: SparkSession, tmp_path: Path) -> None:
    # Spark takes voids for booleans and splits variants up; of geometries it says what they are.
    frame = kept(
        session, "parquet", ["variant", "variants", "geometry", "geometries", "geography", "never", "nevers"]
    )
    write(frame, tmp_path / "ours")
    frame.write.parquet(str(tmp_path / "sparks"))
    [ours], [sparks] = [
        [pq.read_metadata(path) for path in (tmp_path / place).rglob("*.parquet")]
        for place in ("ours", "sparks")
    ]
    # The first line names an object of this process, the second the root, which is named by the writer.
    assert str(ours.schema).split("\n", 2)[2] == str(sparks.schema).split("\n", 2)[2]
    key = schema.ROW_METADATA.encode()
    assert json.loads(ours.metadata[key]) == json.loads(sparks.metadata[key])
    assert ours.metadata[schema.SPARK_VERSION.encode()] == sparks.metadata[schema.SPARK_VERSION.encode()]
    assert (
        session.read.parquet(str(tmp_path / "ours")).schema
        == session.read.parquet(str(tmp_path / "sparks")).schema
    )


def test_days_before_the_gregorian_calendar_are_kept(session: SparkSession, tmp_path: Path) -> None:
    frame = session.range(0, 1, 1, 1).selectExpr(
        "date'0001-01-01' day", "array(timestamp'1500-02-28 00:00:00') moments"
    )
    write(frame, tmp_path / "d")
    found = session.read.parquet(str(tmp_path / "d"))
    assert [str(row) for row in found.collect()] == [str(row) for row in frame.collect()]


def test_csv_of_empty_text_reads_back_as_that_of_spark_does(session: SparkSession, tmp_path: Path) -> None:
    frame = session.range(0, 3, 1, 1).selectExpr("id", "if(id = 0, '', if(id = 1, null, 'x')) name")
    write(frame, tmp_path / "ours", file_format="csv")
    frame.write.csv(str(tmp_path / "sparks"), header=True)
    ours, sparks = [read(session, tmp_path / place, "csv", frame).collect() for place in ("ours", "sparks")]
    assert ours == sparks
    assert [row["name"] for row in ours] == [None, None, "x"]


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "json", "csv"])
def test_spark_reads_every_codec(session: SparkSession, tmp_path: Path, file_format: str) -> None:
    kind = FORMATS[file_format]
    day = dt.date(2026, 1, 31)
    table = pa.table({"id": list(range(1000)), "day": [day] * 1000})
    for codec, (pyarrows, _) in kind.codecs.items():
        with (tmp_path / f"{codec}{kind.extension(codec)}").open("wb") as file:
            writer = open_writer(kind, file, table.schema, FileSettings(compression=pyarrows))
            writer.write(table)
            writer.close()
    expected = session.createDataFrame([(0, day)], "id long, day date")
    found = read(session, tmp_path, file_format, expected).groupBy("id", "day").count().collect()
    assert sorted(found) == [(number, day, len(kind.codecs)) for number in range(1000)]


@pytest.mark.nightly
def test_a_type_of_the_users_reads_back(session: SparkSession, tmp_path: Path) -> None:
    from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

    kind = StructType([StructField("point", ExamplePointUDT())])
    frame = session.createDataFrame([(ExamplePoint(1.0, 2.0),)], kind).coalesce(1)
    write(frame, tmp_path / "d")
    found = session.read.parquet(str(tmp_path / "d"))
    assert found.schema == frame.schema
    assert found.collect() == frame.collect()
    with pytest.raises(UsageError, match=r"column point has type .* cannot be written as json"):
        write(frame, tmp_path / "json", file_format="json")


def test_the_format_hands_its_options_to_the_files(session: SparkSession, tmp_path: Path) -> None:
    frame = session.range(0, 10, 1, 1).selectExpr("id", "id % 2 p")
    options = {"fileFormat": "json", "compression": "gzip", "maxRecordsPerFile": 2, "partitionCols": "p"}
    write = frame.write.format("magic").mode("append").options(committer="manifest", **options)
    write.save(f"file://{tmp_path}/d")
    assert len(list((tmp_path / "d/p=0").glob("part-*.json.gz"))) == 3
    assert len(list((tmp_path / "d/p=1").glob("part-*.json.gz"))) == 3
    found = session.read.schema("id long, p long").json(str(tmp_path / "d"))
    assert sorted(found.collect()) == sorted(frame.collect())
