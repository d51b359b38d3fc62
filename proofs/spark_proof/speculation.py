"""Slow attempts that lose to faster ones, on a cluster of two hosts: nothing of them is seen or left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.flights.session import local_session
from proofs.doubles.servers import Server
from proofs.spark_proof.alongside import Alongside
from proofs.spark_proof.cluster import Cluster
from proofs.spark_proof.executor_kills import wait_for_executors
from proofs.spark_proof.orders import Order
from proofs.spark_proof.witness import Judge, Lane, Witness
from proofs.spark_proof.writing import perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LOSER", "Loser", "run", "slow_source"]

LOSER = 3
"""The task whose first attempt is slow."""

_SLOW_SECONDS = 60.0
_POLL_SECONDS = 0.05
_CONFIG = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "1s",
}


def run(writes: int, server: Server, directory: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Let attempts lose; returns the figures.

    Args:
        writes: How many writes.
        server: The store.
        directory: For logs and scratch files.
        say: Told what is going on, in lines.
    """
    judge = Judge(Witness(server), say)
    judge.figures.update(speculation_losers=0, speculation_uploads=0)
    with Cluster(directory / "cluster") as cluster:
        spark = local_session(
            name="speculation",
            log=directory / "driver.log",
            config={**cluster.config, **_CONFIG, "spark.local.dir": str(directory / "scratch")},
        )
        try:
            spark.dataSource.register(slow_source(directory))
            bucket = server.create_bucket("speculation")
            for number in range(writes):
                _write(spark, number, Lane(bucket, f"d{number}"), server, directory, judge)
        finally:
            spark.stop()
    return judge.to_dict()


def _write(
    spark: SparkSession, number: int, lane: Lane, server: Server, directory: Path, judge: Judge
) -> None:
    """Two kinds take turns: a loser whose uploads are done, and one in the middle of its work."""
    wait_for_executors(spark)
    done = number % 2 == 0
    order = Order(number, "format" if done else "write", "append")
    frame = None
    if not done:
        numbers = spark.range(order.first, order.first + order.rows, 1, order.tasks)
        rows = numbers.selectExpr("id", f"cast({order.partition} as int) p")
        frame = rows.mapInArrow(Loser(str(directory), order.number), "id bigint, p int")
    watch = _Watch(server, lane, directory / f"loser-{order.number}")
    started = time.monotonic()
    with watch:
        name = "magic_slow" if done else "magic"
        perform(spark, order, lane.url, server.storage_options(), name=name, frame=frame)
    seconds = time.monotonic() - started
    lane.rows, lane.ended = order.after(lane.rows), time.monotonic()
    judge.published(lane, f"{order} with a slow attempt")
    lost = (directory / f"loser-{order.number}").exists() and seconds < _SLOW_SECONDS
    judge.figures["speculation_losers"] += lost
    judge.figures["speculation_uploads"] += watch.most
    if not lost:
        judge.trouble(f"{order}: no attempt was slow, or it was waited for: {seconds:.1f} s")
    if done and not watch.most:
        judge.trouble(f"{order}: the slow attempt has uploaded nothing")
    judge.say(f"a slow attempt lost after {seconds:.1f} s, {watch.most} uploads of its task were pending")
    lane.settle()
    judge.leftovers(lane, f"{order} with a slow attempt")


@dataclass(frozen=True)
class Loser:
    """Hands rows on, and makes the first attempt of one task slow; for ``mapInArrow``.

    Attributes:
        directory: Where a file tells that it happened.
        number: Of the order.
    """

    directory: str
    number: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Hand batches on."""
        yield from batches
        dawdle(self.directory, self.number)


def dawdle(directory: str, number: int) -> None:
    """Sleep in the first attempt of one task, long enough to lose."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.partitionId() == LOSER and context.attemptNumber() == 0:
        Path(directory, f"loser-{number}").touch()
        time.sleep(_SLOW_SECONDS)


def slow_source(directory: Path) -> type[Any]:
    """The data source under the name ``magic_slow``, whose loser sleeps when its uploads are done.

    Args:
        directory: Where files tell that it happened.
    """
    # Local classes travel to Spark's processes by value.
    from pyspark.sql.datasource import DataSourceArrowWriter

    from pyspark_magic import DefaultSource

    where = str(directory)

    class Writer(DataSourceArrowWriter):
        def __init__(self, inner: Any, number: int) -> None:
            self.inner, self.number = inner, number

        def write(self, iterator: Iterator[Any]) -> Any:
            message = self.inner.write(iterator)
            dawdle(where, self.number)
            return message

        def commit(self, messages: Any) -> None:
            self.inner.commit(messages)

        def abort(self, messages: Any) -> None:
            self.inner.abort(messages)

    class Source(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return "magic_slow"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            inner = super().writer(schema, overwrite)
            return Writer(inner, int(self.options["runId"].rpartition("-")[2]))

    return Source


class _Watch(Alongside):
    """Sees how many uploads of the slow task are pending while the job runs."""

    def __init__(self, server: Server, lane: Lane, mark: Path) -> None:
        super().__init__()
        self._server, self._lane, self._mark = server, lane, mark
        self.most = 0

    def _run(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            if self._mark.exists():
                uploads = self._server.pending_uploads(self._lane.bucket, f"{self._lane.key}/")
                found = Counter(f"part-{LOSER:05d}" in one["Key"] for one in uploads)
                self.most = max(self.most, found[True])
