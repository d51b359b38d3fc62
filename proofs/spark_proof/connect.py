"""The same writes through a classic session and through Spark Connect."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import magicfs
import magicfs.spark
from examples.flights.session import local_session
from magicfs.errors import OutputExists
from proofs.doubles.servers import Server
from proofs.spark_proof.cluster import ConnectServer
from proofs.spark_proof.orders import Mode, Order, Route, batch_rows
from proofs.spark_proof.witness import Judge, Lane, Witness
from proofs.spark_proof.writing import SINK, frame_of, perform, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["remote_session", "run", "same_writes"]

_WRITES: tuple[tuple[Route, Mode], ...] = (
    ("format", "append"),
    ("write", "append"),
    ("format", "overwrite_partitions"),
    ("write", "overwrite_partitions"),
    ("write", "overwrite"),
    ("format", "overwrite"),
)


def run(server: Server, directory: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Write through both kinds of sessions; returns the figures.

    Args:
        server: The store.
        directory: For logs and scratch files.
        say: Told what is going on, in lines.
    """
    judge = Judge(Witness(server), say)
    classic = local_session(log=directory / "classic.log")
    try:
        writes = same_writes(classic, Lane(server.create_bucket("classic"), "d"), server, judge)
        batches = same_streams(classic, Lane("classic", "s"), server, judge, directory / "classic")
    finally:
        classic.stop()
    with ConnectServer(directory / "connect") as connect:
        remote = remote_session(connect.url)
        try:
            found = same_writes(remote, Lane(server.create_bucket("connect"), "d"), server, judge)
            seen = same_streams(remote, Lane("connect", "s"), server, judge, directory / "remote")
        finally:
            remote.stop()
    counts = {"classic_writes": writes, "connect_writes": found}
    return judge.to_dict() | counts | {"classic_batches": batches, "connect_batches": seen}


def remote_session(url: str) -> SparkSession:
    """A session on a Connect server. No classic session may be active in this process.

    Args:
        url: Of the server, ``sc://…``.
    """
    from pyspark.sql import SparkSession as Session

    session: SparkSession = Session.builder.remote(url).getOrCreate()
    return session


def same_writes(spark: SparkSession, lane: Lane, server: Server, judge: Judge) -> int:
    """Write in every way that there is, and compare; returns how many writes there were.

    Args:
        spark: The session, classic or Connect.
        lane: An empty destination.
        server: Where that is.
        judge: Compares.
    """
    storage = server.storage_options()
    done = 0
    for number, (route, mode) in enumerate(_WRITES):
        order = Order(number, route, mode)
        perform(spark, order, lane.url, storage)
        lane.rows = order.after(lane.rows)
        judge.published(lane, f"{type(spark)} {order}")
        done += 1
    done += _own_function(spark, lane, storage, judge)
    _refused(spark, lane, storage, judge)
    lane.ended = time.monotonic()
    lane.settle()
    judge.leftovers(lane, f"{type(spark)}")
    return done


def same_streams(spark: SparkSession, lane: Lane, server: Server, judge: Judge, directory: Path) -> int:
    """Write batches by either route, compare, compact, and compare; returns how many batches are published.

    Args:
        spark: The session, classic or Connect.
        lane: An empty destination.
        server: Where that is.
        judge: Compares.
        directory: For files that come in and for the checkpoint.
    """
    storage, source = server.storage_options(), directory / "in"
    source.mkdir(parents=True)
    routes: tuple[Route, ...] = ("write", "format", "write")
    for number, route in enumerate(routes):
        rows = [json.dumps({"id": one, "p": p}) for one, p in batch_rows(number)]
        (source / f"{number}.json").write_text("\n".join(rows), encoding="utf-8")
        stream(spark, route, str(source), str(directory / "checkpoint"), lane.url, storage)
        lane.rows += batch_rows(number)
        judge.published(lane, f"{type(spark)} batch {number} by {route}")
    magicfs.Dataset(lane.url, storage_options=storage).compact()
    judge.published(lane, f"{type(spark)} compacted batches")
    lane.ended = time.monotonic()
    lane.settle()
    judge.leftovers(lane, f"{type(spark)} batches")
    return len(magicfs.spark.batches(lane.url, SINK, storage_options=storage))


def _own_function(spark: SparkSession, lane: Lane, storage: dict[str, Any], judge: Judge) -> int:
    """A user's function."""
    order = Order(len(_WRITES), "write", "append")
    job = magicfs.Job(lane.url, mode="append", storage_options=storage).setup()

    def write(task: magicfs.Task, batches: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        table = pa.Table.from_batches(list(batches))
        for partition in table.column("p").unique().to_pylist():
            rows = table.filter(pc.equal(table.column("p"), partition)).select(["id"])
            pq.write_table(rows, f"{task.path}/p={partition}/own.parquet", filesystem=task.filesystem)

    frame = frame_of(spark, order)
    mapped = frame.mapInArrow(
        magicfs.spark.arrow_function(job, write, storage_options=storage), magicfs.spark.COMMIT_SCHEMA
    )
    job.commit(magicfs.spark.collect_commits(mapped))
    lane.rows = order.after(lane.rows)
    judge.published(lane, f"{type(spark)} a function")
    return 1


def _refused(spark: SparkSession, lane: Lane, storage: dict[str, Any], judge: Judge) -> None:
    """An error of ours comes out as itself, and changes nothing."""
    order = Order(len(_WRITES) + 1, "write", "append")
    try:
        magicfs.spark.write(frame_of(spark, order), lane.url, storage_options=storage)
    except OutputExists:
        judge.published(lane, f"{type(spark)} refused")
    else:
        judge.trouble("a write to a destination with data was not refused")
