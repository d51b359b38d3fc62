"""Spark's reads of a published dataset: ``magicfs.spark.read`` against ``spark.read.parquet``.

Both sides have the same session, and the same files in the page cache or on the same server. In a turn a
frame is made, which is a phase of its own, and then asked for all columns, one column, and ``count()``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import fsspec.config

import magicfs.spark
from benchmarks.hadoop_jars import Jars
from benchmarks.hadoop_spark import QUICK, SHAPES, Shape, config
from benchmarks.hadoop_turns import Seconds, Turns, processor_s
from examples.flights.session import local_session
from proofs.doubles.servers import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ACTIONS", "PHASES", "PLACES", "READ_SHAPE", "measure"]

PLACES: Final = ("local", "s3")
READ_SHAPE: Final = {False: SHAPES["rows"], True: QUICK["rows"]}
"""What is read, by whether the run is a quick one."""


def _all(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _one(frame: DataFrame) -> None:
    frame.agg({"x": "sum"}).collect()


def _count(frame: DataFrame) -> None:
    frame.count()


ACTIONS: Final[Mapping[str, Callable[[DataFrame], None]]] = {"all": _all, "one": _one, "count": _count}

PHASES: Final = ("open", *ACTIONS)
"""What a turn consists of."""


def measure(server: Server, jars: Jars, directory: Path, *, shape: Shape, rounds: int) -> dict[str, Turns]:
    """Measure both sides on local files and on the server.

    Returns:
        What was measured, by place; a phase is the making of a frame or an action.

    Raises:
        RuntimeError: Ours was not read by Spark's own reader, or the sides count different rows.
    """
    os.environ.update(server.environment())
    fsspec.config.set_conf_env(fsspec.config.conf)
    spark = local_session(name="reads", log=directory / "reads.log", config=config(server, jars, directory))
    try:
        bucket, name = server.create_bucket("reads"), f"rows-{uuid4().hex[:8]}"
        here = directory / name
        places = {
            "local": (here.as_uri(), str(here)),
            "s3": (f"s3://{bucket}/{name}", f"s3a://{bucket}/{name}"),
        }
        found = {}
        for place in PLACES:
            ours, theirs = places[place]
            magicfs.spark.write(shape.frame(spark), ours, options={"footers": True})
            _check(spark, ours, theirs)
            frames = {
                "ours": partial(magicfs.spark.read, ours, spark=spark),
                "spark": partial(spark.read.parquet, theirs),
            }
            turns = Turns({side: partial(_turn, server, frame) for side, frame in frames.items()}, rounds)
            turns.run(f"reads, {place}")
            found[place] = turns
        return found
    finally:
        spark.stop()


def _check(spark: SparkSession, ours: str, theirs: str) -> None:
    frame = magicfs.spark.read(ours, spark=spark)
    plan = frame._jdf.queryExecution().toString()  # noqa: SLF001 - PySpark has no other way to it
    if "FileScan parquet" not in plan:
        raise RuntimeError(f"{ours} is not read by Spark's own reader: {plan}")
    if (rows := frame.count()) != spark.read.parquet(theirs).count() or rows != frame.select("x").count():
        raise RuntimeError(f"{ours}: {rows} rows are not those that Spark counts")


def _turn(server: Server, make: Callable[[], DataFrame]) -> dict[str, Seconds]:
    frames: list[DataFrame] = []
    steps: dict[str, Callable[[], object]] = {"open": lambda: frames.append(make())}
    steps |= {name: partial(_on_first, action, frames) for name, action in ACTIONS.items()}
    found = {}
    for name, step in steps.items():
        ours, theirs = processor_s(os.getpid(), {server.pid}), processor_s(server.pid)
        began = time.perf_counter()
        step()
        wall = time.perf_counter() - began
        client = processor_s(os.getpid(), {server.pid}) - ours
        found[name] = Seconds(wall, client, processor_s(server.pid) - theirs)
    return found


def _on_first(action: Callable[[DataFrame], None], frames: list[DataFrame]) -> None:
    action(frames[0])
