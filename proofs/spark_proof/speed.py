"""How long writes take, beside Spark's own writer and beside plain s3fs, in one session."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import magicfs.spark
from examples.flights.session import local_session
from proofs.doubles.servers import Server

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LIMITS", "Speed", "run"]

LIMITS: Mapping[str, float] = {"ratio_2m_rows": 1.35, "ratio_200_partitions": 1.0, "ratio_s3": 1.15}
"""How long ours may take, as a multiple of the other side's time."""

_PARTITIONS = 8
_ROWS_PER_PARTITION = 2_000_000
_ROWS = 2_000_000
_TINY_PARTITIONS = 200
_TINY_ROWS = 20_000
_V1 = "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_LIMIT = str(2**31 - 1)
"""With any other number Spark adds up the size of the batch anew for each row that it puts in."""
_COUNTED = "rows bigint"
_COMMITTER = "manifest"


def run(
    rounds: int, rows: float, servers: Mapping[str, Server], directory: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Measure; returns the figures, ratios of medians.

    Args:
        rounds: How often each side is measured, in turn.
        rows: The fraction of the rows that is written.
        servers: The stores, by the names that their figures shall have.
        directory: For destinations, logs and scratch files.
        say: Told what is going on, in lines.
    """
    spark = local_session(
        name="speed",
        log=directory / "driver.log",
        config={
            _V1: "1",
            _BATCH_BYTES: _NO_LIMIT,
            "spark.driver.memory": "4g",
            "spark.local.dir": str(directory / "scratch"),
        },
    )
    try:
        return Speed(spark, servers, directory, rounds, rows, say).run()
    finally:
        spark.stop()


class Speed:
    """Sides that take turns.

    Args:
        spark: A session with two cores, whose tasks are fed through Unix sockets, in batches of any size.
        servers: The stores, by the names that their figures shall have.
        directory: For local destinations.
        rounds: How often each side is measured.
        rows: The fraction of the rows that is written.
        say: Told the medians.
    """

    def __init__(
        self,
        spark: SparkSession,
        servers: Mapping[str, Server],
        directory: Path,
        rounds: int,
        rows: float,
        say: Callable[[str], None],
    ) -> None:
        self._spark, self._servers, self._directory = spark, servers, directory
        self._rounds, self._rows, self._say = rounds, rows, say
        self._numbers = iter(range(10**6))

    def run(self) -> dict[str, Any]:
        """All measurements."""
        large = self.frame(int(_ROWS_PER_PARTITION * _PARTITIONS * self._rows), _PARTITIONS)
        medium = self.frame(int(_ROWS * self._rows), _PARTITIONS)
        tiny = self.frame(_TINY_ROWS, _TINY_PARTITIONS)
        figures = {
            **self._local("2m_rows", "8 partitions of 2M rows", large),
            **self._limited("2m_rows", "8 partitions of 2M rows", large),
            **self._local("2m_rows_in_all", "8 partitions, 2M rows in all", medium),
            **self._local("200_partitions", "200 partitions, 20k rows in all", tiny),
        }
        figures |= self._reads(medium)
        for name, server in self._servers.items():
            figures |= self._s3(name, f"8 partitions of 2M rows to {server.name}", large, server)
        figures["slow"] = [
            name
            for goal, limit in LIMITS.items()
            for name in (goal, f"{goal}_format")
            if figures[name] > limit
        ]
        return figures

    def frame(self, rows: int, partitions: int) -> DataFrame:
        """Four columns, of which no codec makes nothing."""
        return self._spark.range(0, rows, 1, partitions).selectExpr(
            "id", "cast(id % 1000 as int) k", "cast(id as double) / 3 x", "concat('row ', id % 5000) s"
        )

    def _local(self, name: str, what: str, frame: DataFrame) -> dict[str, Any]:
        """To this machine's disk, where a destination costs nothing."""
        seconds = self._turns(
            {
                "v1": lambda: frame.write.parquet(self._path()),
                "ours": lambda: self._write(frame, Path(self._path()).as_uri(), {}, _COMMITTER),
                "format": lambda: self._format(frame, Path(self._path()).as_uri(), {}, _COMMITTER),
                "no-op": lambda: self._nothing(frame),
            }
        )
        self._say(
            f"{what}, local: df.write.parquet with v1 {seconds['v1']:.2f} s; magicfs.spark.write "
            f"{seconds['ours']:.2f} s; format('magic') {seconds['format']:.2f} s; rows handed to Python and "
            f"dropped {seconds['no-op']:.2f} s, which no writer in Python can undercut"
        )
        return {
            f"ratio_{name}": round(seconds["ours"] / seconds["v1"], 3),
            f"ratio_{name}_format": round(seconds["format"] / seconds["v1"], 3),
            f"ratio_{name}_floor": round(seconds["no-op"] / seconds["v1"], 3),
        }

    def _limited(self, name: str, what: str, frame: DataFrame) -> dict[str, Any]:
        """As ``_local``, with the limit to the bytes of a batch that Spark has of itself."""
        conf = self._spark.conf
        conf.unset(_BATCH_BYTES)
        try:
            what = f"{what}, {_BATCH_BYTES} of {conf.get(_BATCH_BYTES)}"
            return self._local(f"{name}_limited", what, frame)
        finally:
            conf.set(_BATCH_BYTES, _NO_LIMIT)

    def _reads(self, frame: DataFrame) -> dict[str, Any]:
        """From this machine's disk, all columns and one."""
        spark, directory = self._spark, self._directory / "published"
        magicfs.spark.write(frame, directory.as_uri(), committer=_COMMITTER)

        def ours(columns: str) -> DataFrame:
            return spark.read.format("magic").options(columns=columns).load(directory.as_uri())

        every, one = ("sum(id)", "sum(k)", "sum(x)", "max(s)"), ("sum(id)",)
        seconds = self._turns(
            {
                "spark": lambda: spark.read.parquet(str(directory)).selectExpr(*every).collect(),
                "ours": lambda: ours("id,k,x,s").selectExpr(*every).collect(),
                "spark, one": lambda: spark.read.parquet(str(directory)).selectExpr(*one).collect(),
                "ours, one": lambda: ours("id").selectExpr(*one).collect(),
            }
        )
        self._say(
            f"reads of 2M rows, local: spark.read.parquet {seconds['spark']:.2f} s, format('magic') "
            f"{seconds['ours']:.2f} s; one column {seconds['spark, one']:.2f} s and "
            f"{seconds['ours, one']:.2f} s"
        )
        return {
            "ratio_read": round(seconds["ours"] / seconds["spark"], 3),
            "ratio_read_one_column": round(seconds["ours, one"] / seconds["spark, one"], 3),
        }

    def _s3(self, name: str, what: str, frame: DataFrame, server: Server) -> dict[str, Any]:
        """To an S3 server, beside the same files uploaded by plain s3fs."""
        storage, bucket = server.storage_options(), server.create_bucket("speed")

        def path() -> str:
            return f"{bucket}/{next(self._numbers)}"

        def empty() -> None:
            client = server.s3_client()
            for key in server.all_keys(bucket):
                client.delete_object(Bucket=bucket, Key=key)

        seconds = self._turns(
            {
                "s3fs": lambda: self._plain(frame, path(), storage),
                "ours": lambda: self._write(frame, f"s3://{path()}", storage, "magic"),
                "format": lambda: self._format(frame, f"s3://{path()}", storage, "magic"),
                "no-op": lambda: self._nothing(frame),
            },
            empty,
        )
        self._say(
            f"{what}: the same files by s3fs, no commit {seconds['s3fs']:.2f} s; magicfs.spark.write "
            f"{seconds['ours']:.2f} s; format('magic') {seconds['format']:.2f} s; rows handed to Python and "
            f"dropped {seconds['no-op']:.2f} s: the rest is encoding, and a server that shares the cores"
        )
        return {
            f"ratio_{name}": round(seconds["ours"] / seconds["s3fs"], 3),
            f"ratio_{name}_format": round(seconds["format"] / seconds["s3fs"], 3),
        }

    def _turns(
        self, sides: Mapping[str, Callable[[], object]], empty: Callable[[], None] = lambda: None
    ) -> dict[str, float]:
        """Medians of all sides; one round that is not counted warms them up. Making room is not counted."""
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(self._rounds + 1):
            for name, work in sides.items():
                started = time.perf_counter()
                work()
                if number:
                    seconds[name].append(time.perf_counter() - started)
                shutil.rmtree(self._directory / "destinations", ignore_errors=True)
                empty()
        return {name: statistics.median(one) for name, one in seconds.items()}

    def _write(self, frame: DataFrame, url: str, storage: Mapping[str, Any], committer: str) -> None:
        # What looks for late writers some seconds later would disturb the next measurement.
        how: dict[str, Any] = {"mode": "append", "committer": committer, "late_writers": "leave"}
        magicfs.spark.write(frame, url, storage_options=storage, **how)

    def _format(self, frame: DataFrame, url: str, storage: Mapping[str, Any], committer: str) -> None:
        options = {
            "committer": committer,
            "lateWriters": "leave",
            "storageOptions": json.dumps(dict(storage)),
        }
        frame.write.format("magic").mode("append").options(**options).save(url)

    def _plain(self, frame: DataFrame, path: str, storage: Mapping[str, Any]) -> None:
        frame.mapInArrow(_Plain(path, storage), _COUNTED).collect()

    def _nothing(self, frame: DataFrame) -> None:
        frame.mapInArrow(_count, _COUNTED).collect()

    def _path(self) -> str:
        return str(self._directory / "destinations" / f"d{next(self._numbers)}")


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": [rows]}, pa.schema([("rows", pa.int64())]))


@dataclass(frozen=True)
class _Plain:
    """Uploads what ours would, with the same encoder, by plain s3fs, straight to its final name.

    Attributes:
        path: The destination, bucket and key.
        storage: Options of s3fs.
    """

    path: str
    storage: Mapping[str, Any] = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext
        from s3fs import S3FileSystem

        from magicfs.tables.output_files import FileName
        from magicfs.tables.partition_writer import PartitionWriter

        filesystem = S3FileSystem(**self.storage)
        name = FileName(f"part-{TaskContext.get().partitionId():05d}", ".snappy.parquet")
        with PartitionWriter(lambda one: filesystem.open(f"{self.path}/{one}", "wb"), name) as files:
            for batch in batches:
                files.write(batch)
        yield pa.RecordBatch.from_pydict({"rows": [files.rows]}, pa.schema([("rows", pa.int64())]))
