"""The main job by Spark: CSV files in, joins, a pandas UDF, ``format("magic")`` out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from examples.flights import delays, flights
from examples.flights.proof import Attempts
from examples.flights.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["StageWatch", "explain_delays", "is_worker", "joined_flights", "read_attempts", "running", "write"]

TASKS = 8
_ATTEMPTS = 4
_CORES = 2
_GROUP = "magicfs-demo"
_EVENTS = "events"
_LOG_TAIL_LINES = 40
_SCORES = ", ".join(f"{name} double" for name in delays.OUTPUTS)
# What Spark says of a Python worker that went away without a word.
_WORKER_GONE = "Python worker exited unexpectedly"


@contextmanager
def running(directory: Path) -> Iterator[SparkSession]:
    """Run Spark on this machine: two tasks at once, four attempts each.

    ``directory``: for its logs and its scratch files; the event log is complete at the end.
    """
    events = directory / _EVENTS
    events.mkdir()
    log = directory / "spark.log"
    spark = local_session(
        name="magicfs-demo",
        cores=_CORES,
        attempts=_ATTEMPTS,
        log=log,
        config={
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.local.dir": str(directory / "scratch"),
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
            # One job with a fixed number of tasks, so that it is known when the last one has ended.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": str(TASKS),
        },
    )
    try:
        yield spark
    except Exception:
        # Not a note of the error: what went wrong should be the last thing that is said.
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        sys.stderr.write("the log of Spark ends:\n" + "\n".join(lines[-_LOG_TAIL_LINES:]) + "\n")
        raise
    finally:
        spark.stop()


def joined_flights(spark: SparkSession, files: Mapping[str, Path]) -> DataFrame:
    """Every flight once, with its weather, its plane and its delay explained."""
    departures, weather, planes = (_read(spark, table, files[table.file]) for table in flights.TABLES)
    # A second row with the same key would double a flight.
    weather = weather.dropDuplicates(["origin", "time_hour"])
    planes = planes.dropDuplicates(["tailnum"])
    joined = departures.join(weather, ["origin", "time_hour"], "left").join(planes, ["tailnum"], "left")
    return explain_delays(joined)


def explain_delays(joined: DataFrame) -> DataFrame:
    """Flights with their weather, and what a pandas UDF makes of the delay of each."""
    from pyspark.sql.functions import pandas_udf

    explained: Column = pandas_udf(_explain_batch, _SCORES)(*delays.INPUTS)
    return joined.withColumn("explained", explained).select(*joined.columns, "explained.*")


def write(spark: SparkSession, frame: DataFrame, url: str, storage_options: Mapping[str, Any]) -> None:
    """Publish a frame, partitioned. Rows of one partition are brought to one task, which sorts them."""
    partitions = list(flights.PARTITIONS)
    spark.sparkContext.setJobGroup(_GROUP, "publish the flights")
    (
        frame.repartition(TASKS, *partitions)
        .sortWithinPartitions(*partitions)
        .write.format("magic")
        .mode("append")
        .option("partitionCols", ",".join(partitions))
        .option("storageOptions", json.dumps(storage_options))
        .save(url)
    )


def is_worker(command_line: str) -> bool:
    """Whether a command line is that of a process which runs tasks; jobs are committed by another kind."""
    return command_line.endswith("pyspark.daemon pyspark.worker")


class StageWatch:
    """What Spark's status tracker says of the stage that writes."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()

    def before_commit(self) -> bool:
        """Whether a task is still to be done: Spark commits the job after the last one."""
        stage = self._stage()
        return stage is None or stage.numCompletedTasks < stage.numTasks

    def attempts_lost(self) -> int:
        """How many attempts of tasks have failed."""
        stage = self._stage()
        return 0 if stage is None else int(stage.numFailedTasks)

    def progress(self) -> tuple[int, int]:
        """How many tasks are done, of how many, over all stages so far."""
        stages = [stage for number in self._stages() if (stage := self._tracker.getStageInfo(number))]
        return sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)

    def _stage(self) -> Any:
        """The last stage of the latest job: earlier jobs broadcast the small tables, the last one writes."""
        latest = max(self._tracker.getJobIdsForGroup(_GROUP), default=None)
        info = None if latest is None else self._tracker.getJobInfo(latest)
        return None if info is None else self._tracker.getStageInfo(max(info.stageIds))

    def _stages(self) -> Iterator[int]:
        for job in self._tracker.getJobIdsForGroup(_GROUP):
            info = self._tracker.getJobInfo(job)
            yield from info.stageIds if info is not None else ()


def read_attempts(directory: Path) -> Attempts:
    """Read the event log; Spark must have been stopped.

    ``directory``: what ``running`` was given.
    """
    killed, retried = [], 0
    for event in _events(directory / _EVENTS):
        if event["Event"] != "SparkListenerTaskEnd":
            continue
        task = event["Task Info"]
        retried += task["Attempt"] > 0
        if _WORKER_GONE in json.dumps(event["Task End Reason"]):
            killed.append((task["Index"], task["Attempt"]))
    return Attempts(tuple(killed), retried)


def _events(directory: Path) -> Iterator[dict[str, Any]]:
    for log in sorted(path for path in directory.rglob("*") if path.is_file()):
        if not log.name.startswith((".", "appstatus")):
            with log.open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)


def _read(spark: SparkSession, table: flights.Table, path: Path) -> DataFrame:
    frame = spark.read.csv(path.as_uri(), schema=table.ddl, header=True, nullValue=flights.MISSING)
    return frame.drop(*table.dropped).withColumnsRenamed(table.renamed)


def _explain_batch(*columns: pd.Series) -> pd.DataFrame:
    return delays.explain(pd.DataFrame(dict(zip(delays.INPUTS, columns, strict=True))))
