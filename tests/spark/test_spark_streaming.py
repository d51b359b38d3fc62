"""Streams with Spark: every batch exactly once, however often the query dies, by either route."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter

import magicfs
import magicfs.spark
from examples.flights.session import PANDAS_WARNING
from magicfs.spark.batch_jobs import job_id_of
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import Server
from pyspark_magic import DefaultSource

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

ROWS = 10
"""Of each batch; the ids are ten times the batch and what follows."""

Foreach = Callable[[DataFrame, int], None]


class Stream:
    """Files that come in, one for each batch, and a query that writes them to a destination."""

    def __init__(self, spark: SparkSession, server: Server, bucket: str, directory: Path) -> None:
        self.spark, self.server, self.bucket = spark, server, bucket
        self.source, self.checkpoint = directory / "in", directory / "checkpoint"
        self.source.mkdir()
        self.url = f"s3://{bucket}/d"
        self.storage = server.storage_options()

    def drop(self, *numbers: int) -> None:
        """Let files come in."""
        for number in numbers:
            rows = [json.dumps({"id": number * ROWS + one, "even": one % 2 == 0}) for one in range(ROWS)]
            path = self.source / f"{number}.json"
            path.write_text("\n".join(rows), encoding="utf-8")
            os.utime(path, (time.time() + number, time.time() + number))

    def frame(self) -> DataFrame:
        reader = self.spark.readStream.schema("id long, even boolean").option("maxFilesPerTrigger", "1")
        # Two tasks a batch.
        return reader.json(str(self.source)).repartition(2)

    def foreach(self, function: Foreach) -> None:
        """Write all that has come in with ``foreachBatch``."""
        writer = self.frame().writeStream.foreachBatch(function).trigger(availableNow=True)
        self._run(writer)

    def write(self, name: str = "magic", **options: str) -> None:
        """Write all that has come in with ``writeStream.format``."""
        writer = self.frame().writeStream.format(name).trigger(availableNow=True)
        writer = writer.options(storageOptions=json.dumps(self.storage), path=self.url, **options)
        self._run(writer)

    def _run(self, writer: Any) -> None:
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            assert query.awaitTermination(250)
        finally:
            query.stop()

    @contextmanager
    def compacted_all_the_time(self) -> Iterator[None]:
        """Compact while batches join."""
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(0.05):
                magicfs.Dataset(self.url, storage_options=self.server.storage_options()).compact()

        with ThreadPoolExecutor(1) as pool:
            working = pool.submit(work)
            try:
                yield
            finally:
                ended.set()
            working.result()

    def sink(self, **options: Any) -> Foreach:
        return magicfs.spark.sink(
            self.url, "s", storage_options=self.storage, late_writers="leave", **options
        )

    def batches(self, sink_id: str = "s") -> list[int]:
        options = self.server.storage_options()
        return [one.batch_id for one in magicfs.spark.batches(self.url, sink_id, storage_options=options)]

    def ids(self) -> list[int]:
        """The ids that a reader of manifests finds, sorted."""
        found = magicfs.Dataset(self.url, storage_options=self.server.storage_options()).to_arrow()
        return sorted(found.to_table(columns=["id"]).column("id").to_pylist())

    def assert_holds(self, *numbers: int) -> None:
        """Exactly the rows of these batches are there, and nothing is left."""
        assert self.ids() == [n * ROWS + one for n in sorted(numbers) for one in range(ROWS)]
        assert magicfs.Dataset(self.url, storage_options=self.server.storage_options()).verify().ok
        assert self.server.pending_uploads(self.bucket) == []
        assert [key for key in self.server.all_keys(self.bucket) if "/__magic" in key] == []


@pytest.fixture
def stream(
    spark: SparkSession, ministack: Server, bucket_factory: Callable[..., str], tmp_path: Path
) -> Iterator[Stream]:
    made = Stream(spark, ministack, bucket_factory(ministack), tmp_path)
    yield made
    for query in spark.streams.active:
        query.stop()


def source_of(name: str, commit: Callable[[Any, Any, int], None]) -> type[DefaultSource]:
    """The data source under another name, with a function of the test around its streams' commits.

    Everything is local to this function, so that it travels to Spark's processes by value.
    """

    class Writer(DataSourceStreamArrowWriter):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def write(self, iterator: Iterator[Any]) -> Any:
            return self.inner.write(iterator)

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's
            commit(self.inner, messages, batchId)

        def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's
            self.inner.abort(messages, batchId)

    class Source(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return name

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's
            return Writer(super().streamWriter(schema, overwrite))

    return Source


def refused(skip: int) -> Rule:
    """The store refuses to publish one file, after so many."""
    name, code = "CompleteMultipartUpload", "AccessDenied"
    return Rule(name, Action.ERROR, skip=skip, match="/part-", times=1, status=403, code=code)


@pytest.mark.nightly
def test_foreach_batch_is_exact_however_its_function_fails(stream: Stream) -> None:
    failed, raised = [], []
    with FaultProxy(stream.server.endpoint) as proxy:
        proxy.add(refused(1))
        stream.storage = stream.server.storage_options() | {"endpoint_url": proxy.endpoint}
        sink = stream.sink()

        def write(frame: DataFrame, batch_id: int) -> None:
            try:
                sink(frame, batch_id)
            except magicfs.errors.CommitFailed:
                failed.append(batch_id)
                sink(frame, batch_id)
            starts = proxy.counts["CreateMultipartUpload"]
            sink(frame, batch_id)  # once more, for no reason: no task runs
            assert proxy.counts["CreateMultipartUpload"] == starts
            if batch_id == 1 and not raised:
                raised.append(batch_id)
                raise RuntimeError("after the commit")

        stream.drop(0, 1)
        with pytest.raises(Exception, match="after the commit"):
            stream.foreach(write)
        stream.assert_holds(0, 1)
        stream.drop(2)
        with stream.compacted_all_the_time():
            stream.foreach(write)
    assert failed == [0]
    stream.assert_holds(0, 1, 2)
    assert stream.batches() == [0, 1, 2]


@pytest.mark.nightly
def test_a_stream_is_exact_however_its_commits_fail(stream: Stream, tmp_path: Path) -> None:
    mark = tmp_path / "raised"

    def commit(inner: Any, messages: Any, batch_id: int) -> None:
        inner.commit(messages, batch_id)
        if batch_id == 1 and not mark.exists():
            mark.touch()
            raise RuntimeError("after the commit")

    stream.spark.dataSource.register(source_of("magic_stream_done", commit))
    options = {"sinkId": "s", "lateWriters": "leave", "partitionCols": "even"}
    stream.drop(0, 1)
    with FaultProxy(stream.server.endpoint) as proxy:
        # Each batch has two tasks, and each of them two files.
        proxy.add(refused(5))
        stream.storage = stream.server.storage_options() | {"endpoint_url": proxy.endpoint}
        with pytest.raises(Exception, match="CommitFailed"):
            stream.write("magic_stream_done", **options)
    stream.assert_holds(0)
    stream.storage = stream.server.storage_options()
    with pytest.raises(Exception, match="after the commit"):
        stream.write("magic_stream_done", **options)
    stream.assert_holds(0, 1)
    partitions = {key.split("/")[1] for key in stream.server.visible_keys(stream.bucket, "d/")}
    assert partitions == {"even=true", "even=false"}
    summed = magicfs.Dataset(stream.url, storage_options=stream.storage).compact()
    assert (summed.manifests, summed.runs) == (2, 2)
    # And the other route goes on where this one ended, with the same checkpoint.
    stream.drop(2)
    stream.foreach(stream.sink(partition_by="even"))
    stream.assert_holds(0, 1, 2)
    assert stream.batches() == [0, 1, 2]


VICTIM = """
import json, sys
from pathlib import Path
from examples.flights.session import local_session

source, checkpoint, url, storage, log = sys.argv[1:]
spark = local_session(cores=2, attempts=1, log=Path(log))
print(spark.sparkContext._gateway.proc.pid, flush=True)
frame = spark.readStream.schema("id long, even boolean").option("maxFilesPerTrigger", "1").json(source)
writer = frame.repartition(2).writeStream.format("magic").trigger(availableNow=True)
writer = writer.options(storageOptions=storage, sinkId="s", checkpointLocation=checkpoint)
writer.start(url).awaitTermination()
"""


@pytest.mark.nightly
def test_a_stream_whose_jvm_is_killed_between_the_steps_of_a_commit_is_exact_after_a_restart(
    stream: Stream, tmp_path: Path
) -> None:
    server = stream.server
    stream.drop(0, 1)
    with FaultProxy(server.endpoint) as proxy:
        # Of batch 1 one file is visible, and the other's complete is never answered.
        proxy.add(Rule("CompleteMultipartUpload", Action.HANG, skip=3, match="/part-"))
        storage = server.storage_options() | {"endpoint_url": proxy.endpoint}
        arguments = [stream.source, stream.checkpoint, stream.url, json.dumps(storage), tmp_path / "log"]
        victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert victim.stdout is not None
            jvm = int(victim.stdout.readline())
            deadline = time.monotonic() + 200
            while completes(proxy) < 4:
                assert victim.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            os.kill(jvm, signal.SIGKILL)
        finally:
            victim.kill()
            victim.communicate()
    assert len(server.visible_keys(stream.bucket, "d/part-")) == 3
    assert len(server.pending_uploads(stream.bucket)) == 1
    options = server.storage_options()
    [left] = magicfs.Dataset(stream.url, storage_options=options).recover(dry_run=True).jobs
    assert (left.job_id, left.found) == (str(job_id_of(stream.url, "s", 1)), "committing")
    stream.drop(2)
    stream.write(sinkId="s", lateWriters="leave")
    stream.assert_holds(0, 1, 2)
    assert stream.batches() == [0, 1, 2]


def completes(proxy: FaultProxy) -> int:
    """Files whose complete has arrived; requests that hang are not settled, but counted."""
    # The job's setup completes one upload in its own directory, to see what the store honours.
    probes = sum(
        one.operation == "CompleteMultipartUpload" and "/probe-" in one.path for one in proxy.requests
    )
    return proxy.counts["CompleteMultipartUpload"] - probes


def test_a_query_of_output_mode_complete_replaces_the_whole_result_each_time(stream: Stream) -> None:
    stream.drop(0, 1)
    counts = stream.frame().groupBy("even").count().withColumnRenamed("count", "id")
    writer = counts.writeStream.format("magic").outputMode("complete").trigger(availableNow=True)
    writer = writer.options(
        storageOptions=json.dumps(stream.storage), path=stream.url, sinkId="s", lateWriters="leave"
    )
    stream._run(writer)
    assert stream.ids() == [ROWS, ROWS]
    assert magicfs.Dataset(stream.url, storage_options=stream.storage).verify().ok
    assert stream.batches() == [0, 1]


# -- what is refused, and what nobody tells us --------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "error"}, "would refuse every batch but the first"),
        ({"committer": "directory"}, "needs a job that is set up before its tasks"),
        ({"tracking": "store"}, "are for batch writes"),
        ({"runId": "x"}, "runId"),
        ({"partitionCols": "nope"}, "nope"),
        ({"sinkId": ""}, "sinkId"),
    ],
)
def test_options_that_cannot_be_right_are_refused(options: dict[str, str], message: str) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from magicfs.errors import UsageError

    given = {"path": "s3://bucket/x", "sinkId": "s", **options}
    frame = StructType([StructField("id", LongType()), StructField("x", LongType())])
    with pytest.raises(UsageError, match=message):
        DefaultSource(given).streamWriter(frame, overwrite=False)


def test_a_stream_without_a_name_is_refused_and_the_checkpoint_gives_one() -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from magicfs.errors import UsageError

    frame = StructType([StructField("id", LongType())])
    with pytest.raises(UsageError, match="the stream has no name"):
        DefaultSource({"path": "s3://bucket/x"}).streamWriter(frame, overwrite=False)
    given = {"path": "s3://bucket/x", "checkpointlocation": "/c"}
    one, two = (DefaultSource(given).streamWriter(frame, overwrite=False) for _ in range(2))
    assert one.sink_id == two.sink_id  # type: ignore[attr-defined]
    other = DefaultSource(given | {"checkpointlocation": "/d"}).streamWriter(frame, overwrite=False)
    assert other.sink_id != one.sink_id  # type: ignore[attr-defined]


def test_output_mode_update_is_refused_by_spark(stream: Stream) -> None:
    stream.drop(0)
    counts = stream.frame().groupBy("even").count()
    writer = counts.writeStream.format("magic").outputMode("update")
    with pytest.raises(Exception, match="does not support Update"):
        stream._run(writer.options(path=stream.url, sinkId="s"))
