"""What Spark keeps from a data source, and what it says before the data source is asked.

The traps of docs/spark.md. Each of these tests fails on the day Spark passes on what it keeps today: then the
data source should honour it, and the document change.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from examples.flights.session import PANDAS_WARNING
from proofs.doubles.servers import Server

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"
COLUMN = "trapped_column"


def recording(evidence: Path) -> type[DataSource]:
    """A data source that writes nothing but down what Spark tells it, the frame's schema left out.

    Everything is local to this function, so that it travels to Spark's processes by value.
    """
    place = str(evidence)

    class Writer(DataSourceWriter, DataSourceStreamWriter):
        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            for _ in iterator:
                pass
            return WriterCommitMessage()

        def commit(self, *given: Any) -> None:
            pass

        def abort(self, *given: Any) -> None:
            pass

    class Recording(DataSource):
        @classmethod
        def name(cls) -> str:
            return "recording"

        def writer(self, schema: Any, overwrite: bool, *given: Any, **named: Any) -> Writer:
            told = {"options": dict(self.options), "overwrite": overwrite, "more": repr((given, named))}
            told["own"] = repr({name: value for name, value in vars(self).items() if name != "options"})
            with open(place, "w") as file:  # noqa: PTH123 - nothing of this module is there
                json.dump(told, file)
            return Writer()

        def streamWriter(  # noqa: N802 - Spark's
            self, schema: Any, overwrite: bool, *given: Any, **named: Any
        ) -> Writer:
            return self.writer(schema, overwrite, *given, **named)

    return Recording


@pytest.fixture
def evidence(spark: SparkSession, tmp_path: Path) -> Path:
    spark.dataSource.register(recording(tmp_path / "evidence"))
    return tmp_path / "evidence"


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("id", f"id as {COLUMN}")


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    yield "recorded"
    spark.sql("drop table if exists recorded")


def told(evidence: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(evidence.read_text())
    assert found["more"] == "((), {})"
    return found


def test_the_trap_notices_a_column_that_is_passed_on(frame: DataFrame, evidence: Path) -> None:
    frame.write.format("recording").mode("append").option("by", COLUMN).save("x")
    assert told(evidence)["options"] == {"path": "x", "by": COLUMN}


def test_options_and_partitions_of_a_table_do_not_reach_a_writer(
    spark: SparkSession, evidence: Path, table: str
) -> None:
    how = f"options (path 'x', by '{COLUMN}') partitioned by ({COLUMN})"
    spark.sql(f"create table {table} (id bigint, {COLUMN} bigint) using recording {how}")
    spark.sql(f"insert into {table} values (1, 2)")
    assert told(evidence)["options"] == {}
    assert COLUMN not in str(told(evidence))


def test_partitioned_by_of_write_to_does_not_reach_a_writer(
    frame: DataFrame, evidence: Path, table: str
) -> None:
    frame.writeTo(table).using("recording").partitionedBy(COLUMN).create()
    assert COLUMN not in str(told(evidence))


def test_partition_by_of_a_stream_does_not_reach_a_writer(
    spark: SparkSession, evidence: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text(json.dumps({"id": 1, COLUMN: 2}))
    stream = spark.readStream.schema(f"id long, {COLUMN} long").json(str(tmp_path / "in"))
    writing = stream.writeStream.format("recording").partitionBy(COLUMN).trigger(availableNow=True)
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(120)
    assert COLUMN not in str(told(evidence))


def test_the_meaning_of_overwriting_partitions_does_not_reach_a_writer(
    spark: SparkSession, frame: DataFrame, evidence: Path
) -> None:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        frame.write.format("recording").mode("overwrite").save("x")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert told(evidence)["overwrite"] is True
    assert "dynamic" not in str(told(evidence)).lower()


def table_of_messages() -> list[tuple[str, str]]:
    """What the document's table says: the code, and the pattern of Spark's message."""
    _, _, after = DOCUMENT.read_text().partition("Errors that Spark raises itself")
    lines = after.strip(":\n").split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip().strip("`") for cell in line.strip("| ").split(" | ")] for line in lines]
    return [(code, ".*".join(map(re.escape, says.split(" … ")))) for code, says, _ in cells]


@pytest.mark.parametrize(("code", "says"), table_of_messages())
def test_spark_says_what_the_document_tells(frame: DataFrame, code: str, says: str) -> None:
    if code.startswith("."):
        code = f'df.write.format("magic"){code}'
    if not re.search(r"\.(save|append)\(", code):
        code += '.save("memory://traps/d")'
    with pytest.raises(Exception, match=f"(?s){says}"):
        eval(code, {"df": frame.withColumnRenamed(COLUMN, "day")})


def test_the_table_of_messages_is_there() -> None:
    assert len(table_of_messages()) >= 7


# -- what the last column of the document says to write instead ----------------------------------------------


@pytest.fixture
def magic_table(spark: SparkSession) -> Iterator[str]:
    yield "magic_table"
    spark.sql("drop table if exists magic_table")


def test_insert_overwrite_replaces_what_its_options_say(
    spark: SparkSession, magic_table: str, ministack: Server, bucket_factory: Callable[..., str]
) -> None:
    bucket = bucket_factory(ministack, "insert")
    spark.sql(f"create table {magic_table} (id bigint, day bigint) using magic")
    storage = json.dumps(ministack.storage_options())
    how = f"path 's3://{bucket}/d', partitionCols 'day', storageOptions '{storage}'"

    def partitions() -> dict[str, int]:
        return Counter(key.split("/")[1] for key in ministack.visible_keys(bucket, "d/"))

    spark.sql(f"insert into {magic_table} with ({how}) values (1, 1), (2, 2)")
    assert partitions() == {"day=1": 1, "day=2": 1}
    before = set(ministack.visible_keys(bucket, "d/day=1/"))
    spark.sql(f"insert overwrite {magic_table} with ({how}, mode 'overwrite_partitions') values (3, 2)")
    assert partitions() == {"day=1": 1, "day=2": 1}
    assert set(ministack.visible_keys(bucket, "d/day=1/")) == before
    spark.sql(f"insert overwrite {magic_table} with ({how}, mode 'overwrite') values (4, 2)")
    assert partitions() == {"day=2": 1}


def test_a_table_of_write_to_is_partitioned_by_its_options(
    spark: SparkSession, magic_table: str, tmp_path: Path
) -> None:
    path = tmp_path / "d"
    frame = spark.createDataFrame([(1, 1), (2, 2), (3, 2)], "id bigint, day bigint")
    how = {"path": path.as_uri(), "partitionCols": "day", "committer": "manifest"}
    frame.writeTo(magic_table).using("magic").options(**how).create()
    found = spark.read.parquet(str(path)).collect()
    assert sorted((row["id"], row["day"]) for row in found) == [(1, 1), (2, 2), (3, 2)]
    assert {one.name for one in path.glob("day=*")} == {"day=1", "day=2"}
