"""The table of targets: what is measured, by which run, and what it should come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["RUNS", "TARGETS", "Run", "Target", "of_run"]

Run = Literal["bench", "bench-full", "bench-hadoop"]
RUNS: Final[tuple[Run, ...]] = ("bench", "bench-full", "bench-hadoop")


@dataclass(frozen=True, slots=True)
class Target:
    """One row. A row without limits is reported and not judged."""

    name: str  # of the figure, in the JSON line of a run
    run: Run  # also the name of its tox environment
    measure: str  # as the table says it
    unit: str = ""  # empty for a ratio
    at_most: float | None = None
    at_least: float | None = None
    must: bool = False  # whether it has to be met before a release

    def is_met(self, value: float) -> bool | None:
        """Whether a value is good enough; None if the row has no limits."""
        if self.at_most is None and self.at_least is None:
            return None
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)

    @property
    def limits(self) -> str:
        """The target as text."""
        unit = f" {self.unit}" if self.unit else ""
        told = [] if self.at_most is None else [f"≤ {self.at_most:,g}{unit}"]
        told += [] if self.at_least is None else [f"≥ {self.at_least:,g}{unit}"]
        return ", ".join(told) or "none"


_STUB: Final = "stub server"
_COMMIT: Final = "job commit of 10,000 files, stub server"
_SMALL: Final = "1 kB file, open to visible, against one PUT by `s3fs.pipe`, SeaweedFS: processor time"
_MANY: Final = "2,000 files of 100 KB from one task to visible, SeaweedFS: time against s3fs `pipe`"
_ONE_BY_ONE: Final = (
    "200 files of 100 KB one after the other, to visible, SeaweedFS at 20 ms a request: time against"
)
_FLOOR: Final = (
    "the least: Polars encodes into memory, then obstore makes three requests a file, without a job"
)
_ROWS: Final = "`write_dataset`, 6 M rows, 21 partitions, to visible, SeaweedFS: time"
_CHAIN: Final = "after 100,000 publications, memory store: processor time against that after 100"
_HADOOP: Final = "against Hadoop S3A's magic committer, driven directly: time"
_HADOOP_COMMIT: Final = "job commit alone of 1,000 and 5,000 files by 50 tasks"
_HADOOP_STUB: Final = f"job commit alone of 5,000 and 20,000 files by 50 tasks, {_STUB}"
_HADOOP_JOB: Final = "write, task commits and job commit of 1,000 and 5,000 files by 50 tasks"
_SPARK: Final = "against S3A's magic committer: time"
_READ: Final = "by `magicfs.spark.read`, 8 M rows, local and S3A, against `spark.read.parquet`: time"

TARGETS: Final[tuple[Target, ...]] = (
    # The job commit, and small files.
    Target("commit_cpu_ms", "bench", f"{_COMMIT}: processor time a complete", "ms", at_most=0.25, must=True),
    Target("commit_vs_aiobotocore", "bench", f"{_COMMIT}: rate against aiobotocore", at_least=2.5, must=True),
    Target("commit_vs_boto3", "bench", f"{_COMMIT}: rate against boto3 in threads", at_least=2.5, must=True),
    Target(
        "files_per_core_s",
        "bench",
        f"1 kB files from open to visible, {_STUB}: files a second and core",
        "files/s",
        at_least=1000,
    ),
    Target("small_memory_cpu", "bench", f"{_SMALL}, tracking in memory", at_most=1.0),
    Target("small_store_cpu", "bench", f"{_SMALL}, tracking in store", at_most=2.5),
    # Bytes.
    Target(
        "tls_stream_vs_pyarrow",
        "bench",
        "streaming 1 GiB to visible, stub server with TLS: rate against pyarrow",
        at_least=0.95,
    ),
    Target(
        "tls_stream_vs_obstore",
        "bench",
        "streaming 1 GiB to visible, stub server with TLS: rate against obstore",
        at_least=0.95,
    ),
    Target(
        "stub_stream_unsigned_vs_pyarrow",
        "bench",
        f"streaming 1 GiB to visible, {_STUB}, bodies unsigned as by the peer: rate against pyarrow",
        at_least=0.95,
    ),
    Target(
        "stub_stream_unsigned_vs_obstore",
        "bench",
        f"streaming 1 GiB to visible, {_STUB}, bodies unsigned as by the peer: rate against obstore",
        at_least=0.8,
    ),
    Target(
        "stub_stream_vs_s3fs",
        "bench",
        f"streaming 1 GiB to visible, {_STUB}: rate against s3fs",
        at_least=2.0,
    ),
    Target(
        "stream_unsigned_vs_best",
        "bench",
        "streaming 512 MiB to visible, SeaweedFS, bodies unsigned as by the peer: rate against the best peer",
        at_least=0.95,
    ),
    Target("many_memory", "bench", f"{_MANY} of the same concurrency, tracking in memory", at_most=0.7),
    Target(
        "many_memory_vs_obstore",
        "bench",
        "the same against obstore, as many at once, tracking in memory",
        at_most=1.2,
    ),
    Target("many_store", "bench", f"{_MANY} of the same concurrency, tracking in store", at_most=2.0),
    Target(
        "one_by_one_memory_vs_s3fs",
        "bench",
        f"{_ONE_BY_ONE} s3fs, tracking in memory",
        at_most=0.2,
        must=True,
    ),
    Target(
        "one_by_one_memory_vs_pyarrow",
        "bench",
        f"{_ONE_BY_ONE} pyarrow, tracking in memory",
        at_most=0.2,
        must=True,
    ),
    Target(
        "one_by_one_memory_vs_obstore",
        "bench",
        f"{_ONE_BY_ONE} obstore, tracking in memory",
        at_most=0.35,
        must=True,
    ),
    Target(
        "one_by_one_store_vs_s3fs",
        "bench",
        f"{_ONE_BY_ONE} s3fs, tracking in store",
        at_most=0.2,
        must=True,
    ),
    Target(
        "one_by_one_store_vs_pyarrow",
        "bench",
        f"{_ONE_BY_ONE} pyarrow, tracking in store",
        at_most=0.2,
        must=True,
    ),
    Target(
        "one_by_one_store_vs_obstore",
        "bench",
        f"{_ONE_BY_ONE} obstore, tracking in store",
        at_most=0.35,
        must=True,
    ),
    Target("rows_vs_s3fs", "bench", f"{_ROWS} against plain s3fs", at_most=0.5, must=True),
    Target("rows_vs_pyarrow", "bench", f"{_ROWS} against pyarrow's own S3", at_most=1.05, must=True),
    Target(
        "read_vs_s3fs", "bench", "open and read those rows by the manifest: time against s3fs", at_most=0.85
    ),
    Target("read_vs_pyarrow", "bench", "the same: time against pyarrow's own S3", at_most=0.95),
    *(
        Target(
            f"write_{shape}_vs_{engine}",
            "bench",
            f"`magicfs.write`, 2 M rows, {words}, to visible, SeaweedFS: time against the writer of {engine}",
            at_most=1.05 if engine == "polars" else 0.75,
            must=True,
        )
        for shape, words in (("partitions", "21 partitions"), ("whole", "one file"))
        for engine in ("polars", "duckdb", "pyarrow", "pandas")
    ),
    *(
        Target(
            f"write_{shape}_vs_floor",
            "bench",
            f"the same with {words}, from Polars: time against {_FLOOR}",
            at_most=1.05,
        )
        for shape, words in (("partitions", "21 partitions"), ("whole", "one file"))
    ),
    *(
        Target(
            f"write_{shape}_vs_polars_bytes",
            "bench",
            f"the same with {words}: bytes against the writer of polars",
            at_most=1.0,
            must=True,
        )
        for shape, words in (("partitions", "21 partitions"), ("whole", "one file"))
    ),
    # What grows.
    Target(
        "partitions_vs_append",
        "bench",
        "job commit of 100,000 files in 10,000 partitions, memory store: time of `overwrite_partitions` "
        "against `append`",
        at_most=1.3,
    ),
    Target("chain_view", "bench", f"readers of a dataset {_CHAIN}", at_most=2),
    Target("chain_run", "bench", f"lookup of an old run id {_CHAIN}", at_most=2),
    Target("chain_history", "bench", f"`history(limit=20)` {_CHAIN}", at_most=2),
    Target("chain_as_of", "bench", f"files as of an old run {_CHAIN}", at_most=2),
    Target(
        "chain_requests",
        "bench",
        "requests of these four after 100,000 publications against those after 100, the worst",
        at_most=2,
    ),
    Target(
        "verbs_time",
        "bench-full",
        "status, replacing partitions, rollback, expire, rewrite, drop, uploads and abort of 100,000 files, "
        "memory store: time against that of 10,000, the worst",
        at_most=13,
    ),
    Target(
        "verbs_requests",
        "bench-full",
        "requests of the same against those of 10,000, the worst",
        at_most=11,
    ),
    Target(
        "million_peak_mb",
        "bench-full",
        "job commit of 1,000,000 files, stub server: peak memory",
        "MB",
        at_most=200,
        must=True,
    ),
    Target(
        "million_vs_tenth",
        "bench-full",
        "job commit of 1,000,000 files, stub server: time against that of 100,000",
        at_most=11,
        must=True,
    ),
    # The first of everything.
    Target("import_ms", "bench", "`import magicfs`, a fresh process: processor time", "ms", at_most=60),
    Target("job_ms", "bench", "`magicfs.Job` imported, a fresh process: processor time", "ms", at_most=150),
    Target(
        "first_upload_ms",
        "bench",
        "first upload of a task that came to a fresh process, stub server: processor time",
        "ms",
        at_most=300,
    ),
    # Many tasks far away, in virtual time.
    Target(
        "latency_vs_limit",
        "bench",
        "job commit of 10,000 files at 150 ms a request, virtual time: time against 3,500 requests a second",
        at_most=1.3,
    ),
    Target(
        "throttled_vs_passed",
        "bench",
        "the same commit on a store that throttles at 1,000: time against what it lets pass",
        at_most=1.5,
    ),
    *(
        Target(
            f"latency_job_{ms}_{tracking}",
            "bench",
            f"whole job of 1,000,000 files of 8 MB by 100 workers at {ms} ms a request, virtual time, magic "
            f"tracking in {tracking}: time against `directory`{floor}",
            at_most=limit,
            must=True,
        )
        for ms in (150, 30)
        for tracking, limit, floor in (
            ("store", 1.1, " (7 writes a file against 3: 2.3 where the store lets 3,500 a second pass)"),
            ("memory", 1.0, ""),
        )
    ),
    # Beside Hadoop.
    Target(
        "hadoop_stub_commit_store",
        "bench-hadoop",
        f"{_HADOOP_STUB}, tracking in store, {_HADOOP}",
        at_most=0.5,
        must=True,
    ),
    Target(
        "hadoop_stub_commit_memory",
        "bench-hadoop",
        f"{_HADOOP_STUB}, tracking in memory, {_HADOOP}",
        at_most=0.35,
        must=True,
    ),
    Target(
        "hadoop_commit_store",
        "bench-hadoop",
        f"{_HADOOP_COMMIT}, SeaweedFS, tracking in store, {_HADOOP}",
        at_most=0.7,
    ),
    Target(
        "hadoop_commit_memory",
        "bench-hadoop",
        f"{_HADOOP_COMMIT}, SeaweedFS, tracking in memory, {_HADOOP}",
        at_most=0.5,
    ),
    Target(
        "hadoop_job_store",
        "bench-hadoop",
        f"{_HADOOP_JOB}, tracking in store, {_HADOOP}",
        at_most=0.6,
    ),
    Target("hadoop_job_memory", "bench-hadoop", f"{_HADOOP_JOB}, tracking in memory, {_HADOOP}", at_most=0.5),
    Target("spark_read_all", "bench-hadoop", f"Spark read of all columns {_READ}", at_most=1.05, must=True),
    Target("spark_read_one", "bench-hadoop", f"Spark read of one column {_READ}", at_most=1.05, must=True),
    Target("spark_read_count", "bench-hadoop", f"`count()` {_READ}", at_most=0.2, must=True),
    Target("spark_read_open", "bench-hadoop", f"making the frame {_READ}", at_most=1.05),
    Target("spark_tiny", "bench-hadoop", f"Spark write of 200 tiny partitions, warm, {_SPARK}", at_most=0.25),
    Target("spark_rows", "bench-hadoop", f"Spark write of 8 times 1 M rows, warm, {_SPARK}", at_most=0.7),
    Target(
        "spark_many", "bench-hadoop", f"Spark write of 2,000 files of 10 rows, warm, {_SPARK}", at_most=0.25
    ),
    Target(
        "spark_first",
        "bench-hadoop",
        f"first write of a new Spark session, 200 tiny partitions, {_SPARK}, in a session of its own",
        at_most=0.4,
    ),
)


def of_run(run: Run) -> Iterable[Target]:
    """The rows that one run measures."""
    return (target for target in TARGETS if target.run == run)
