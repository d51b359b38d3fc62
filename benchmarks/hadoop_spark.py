"""Spark's writes by S3A's committers and by ours: the same frames, one session, one server.

Before every write that counts the same writer does a tiny one: Spark ends Python workers that have been idle
for a minute, as ours are while the others have their turns, and starting them again would be measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import fsspec.config

import magicfs.spark
from benchmarks.hadoop_directly import s3a_options
from benchmarks.hadoop_jars import Jars
from benchmarks.hadoop_turns import Seconds, Turns, check_and_clear, processor_s
from examples.flights.session import local_session
from proofs.doubles.servers import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OURS", "SHAPES", "WRITERS", "Shape", "config", "measure", "write"]

_ALGORITHM: Final = "mapreduce.fileoutputcommitter.algorithm.version"
_S3A: Final[Mapping[str, Mapping[str, str]]] = {
    "s3a-magic": {"fs.s3a.committer.name": "magic"},
    "s3a-directory": {"fs.s3a.committer.name": "directory"},
    "s3a-file": {"fs.s3a.committer.name": "file", _ALGORITHM: "1"},
}
OURS: Final = ("format", "write")
"""``format("magic")``, and ``magicfs.spark.write``."""

WRITERS: Final = (*_S3A, *OURS)
"""All writers."""

_ENDING: Final = ".parquet"
PAUSE_S: Final = 5.0
"""After a write of ours, so that its look for late writers, 4.5 s later, disturbs nobody."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A frame.

    Attributes:
        name: What the figures call it.
        partitions: Of the frame.
        rows: Of each partition.
        values: How many values of the column ``p`` each partition has, which the files are partitioned by;
            0 for none.
    """

    name: str
    partitions: int
    rows: int
    values: int = 0

    @property
    def files(self) -> int:
        """How many files it makes."""
        return self.partitions * max(self.values, 1)

    @property
    def by(self) -> list[str]:
        """The columns that its files are partitioned by."""
        return ["p"] if self.values else []

    def frame(self, spark: SparkSession) -> DataFrame:
        """Make it. The values of ``p`` come in order, so that every writer has one file open at a time."""
        each = self.rows // max(self.values, 1)
        value = f"CAST((id DIV {each}) % {self.values} AS INT)" if self.values else "CAST(id % 7 AS INT)"
        return spark.range(0, self.partitions * self.rows, 1, self.partitions).selectExpr(
            "id", "id * 0.5D AS x", "concat('row ', id % 1000) AS s", f"{value} AS p"
        )


SHAPES: Final = {
    "tiny": Shape("tiny", 200, 100),
    "rows": Shape("rows", 8, 1_000_000),
    "many": Shape("many", 4, 5000, 500),
}
"""200 tiny partitions; 8 of a million rows; 2,000 files of 10 rows."""

QUICK: Final = {
    "tiny": Shape("tiny", 10, 100),
    "rows": Shape("rows", 2, 20_000),
    "many": Shape("many", 2, 200, 20),
}
"""The same, small, to see that it runs."""

_PRIME: Final = Shape("prime", 4, 100)


def config(server: Server, jars: Jars, directory: Path) -> dict[str, str]:
    """Spark's configuration for both sides."""
    options = {
        **s3a_options(server, directory),
        # Else a directory of that name comes into being in the user's home.
        "fs.s3a.committer.staging.tmp.path": (directory / "staging").as_uri(),
    }
    cloud = "org.apache.spark.internal.io.cloud"
    return {
        "spark.driver.memory": "4g",
        "spark.driver.extraClassPath": jars.class_path,
        "spark.local.dir": str(directory / "spark"),
        # As docs/spark.md recommends.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.sql.sources.commitProtocolClass": f"{cloud}.PathOutputCommitProtocol",
        "spark.sql.parquet.output.committer.class": f"{cloud}.BindingParquetOutputCommitter",
        **{f"spark.hadoop.{name}": value for name, value in options.items()},
    }


def write(spark: SparkSession, writer: str, frame: DataFrame, by: Sequence[str], place: str) -> None:
    """Write a frame.

    Args:
        spark: The session.
        writer: One of ``WRITERS``.
        frame: What to write.
        by: Columns that its files are partitioned by.
        place: Bucket and directory.
    """
    if writer == "write":
        magicfs.spark.write(frame, f"s3://{place}", mode="append", partition_by=list(by))
        return
    if writer == "format":
        ours = frame.write.format("magic").mode("append")
        (ours.option("partitionCols", ",".join(by)) if by else ours).save(f"s3://{place}")
        return
    context: Any = spark.sparkContext
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no other way to it
    hadoop.unset(_ALGORITHM)
    for name, value in _S3A[writer].items():
        hadoop.set(name, value)
    theirs = frame.write.mode("append")
    (theirs.partitionBy(*by) if by else theirs).parquet(f"s3a://{place}")


def measure(
    server: Server,
    jars: Jars,
    directory: Path,
    *,
    shapes: Mapping[str, Shape] = SHAPES,
    rounds: int = 5,
    pause_s: float = PAUSE_S,
) -> dict[str, Turns]:
    """Measure all writers on all shapes in one session.

    Returns:
        What was measured, by shape.
    """
    os.environ.update(server.environment())  # for our workers, which inherit it
    fsspec.config.set_conf_env(fsspec.config.conf)  # and here, where fsspec has read it already
    spark = local_session(name="hadoop", log=directory / "spark.log", config=config(server, jars, directory))
    session = _Session(spark, server, server.create_bucket("spark"), pause_s)
    try:
        return {name: session.measure(shape, rounds) for name, shape in shapes.items()}
    finally:
        spark.stop()


class _Session:
    """A warm session."""

    def __init__(self, spark: SparkSession, server: Server, bucket: str, pause_s: float) -> None:
        self._spark, self._server, self._bucket, self._pause_s = spark, server, bucket, pause_s
        self._prime = _PRIME.frame(spark)

    def measure(self, shape: Shape, rounds: int) -> Turns:
        """All writers on one shape."""
        frame = shape.frame(self._spark)
        counted: set[str] = set()
        sides = {writer: partial(self._turn, writer, shape, frame, counted) for writer in WRITERS}
        turns = Turns(sides, rounds, self._pause_s)
        turns.run(shape.name)
        return turns

    def _turn(self, writer: str, shape: Shape, frame: DataFrame, counted: set[str]) -> dict[str, Seconds]:
        write(self._spark, writer, self._prime, (), f"{self._bucket}/prime-{uuid4().hex[:8]}")
        time.sleep(self._pause_s if writer in OURS else 0)
        where = f"{shape.name}-{uuid4().hex[:8]}"
        place = f"{self._bucket}/{where}"
        seconds = _timed(self._server, lambda: write(self._spark, writer, frame, shape.by, place))
        if writer not in counted:
            _count(self._spark, place, shape)
            counted.add(writer)
        check_and_clear(self._server, self._bucket, where, _ENDING, shape.files)
        return {"write": seconds}


def _timed(server: Server, work: Callable[[], None]) -> Seconds:
    ours, theirs = processor_s(os.getpid(), {server.pid}), processor_s(server.pid)
    began = time.perf_counter()
    work()
    wall = time.perf_counter() - began
    return Seconds(wall, processor_s(os.getpid(), {server.pid}) - ours, processor_s(server.pid) - theirs)


def _count(spark: SparkSession, place: str, shape: Shape) -> None:
    rows = spark.read.parquet(f"s3a://{place}").count()
    if rows != shape.partitions * shape.rows:
        raise RuntimeError(f"{place}: {rows} rows instead of {shape.partitions * shape.rows}")
