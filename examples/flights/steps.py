"""The demo, step by step."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from examples.flights import flights, other_ways, process_engine
from examples.flights.buckets import Bucket
from examples.flights.expected import expected_dataset
from examples.flights.fingerprint import fingerprint
from examples.flights.progress import ProgressDisplay
from examples.flights.proof import Attempts, Publication, Report
from examples.flights.readback import read_back
from examples.flights.server import given_server, own_server
from examples.flights.victim import Hunter, Killed
from examples.flights.watcher import Look, Watcher
from magicfs.job.job import Job

__all__ = ["perform"]

_DIRECTORY = "flights"


@dataclass(frozen=True)
class _Scene:
    """What every step needs."""

    bucket: Bucket
    files: Mapping[str, Path]
    dataset: pa.Table
    directory: Path
    display: ProgressDisplay


@dataclass(frozen=True)
class _Outcome:
    main: Publication
    killed: Killed | None
    attempts: Attempts
    also: tuple[Publication, ...]


def perform(engine: str, engine_reason: str, server_url: str | None, store: str = "s3") -> Report:
    """Run everything and report what was seen. Nothing is left behind.

    ``engine``: ``spark`` or ``processes``. ``engine_reason``: why it is not Spark; goes into the report.
    ``server_url``: an S3 endpoint; None for a server of its own. ``store``: what that one is.
    """
    started = time.monotonic()
    with ExitStack() as stack:
        display = stack.enter_context(ProgressDisplay())
        scratch = tempfile.TemporaryDirectory(prefix="magicfs-demo-", ignore_cleanup_errors=True)
        directory = Path(stack.enter_context(scratch))
        display.begin("joining the tables by pyarrow, to know what must come out")
        files = {table.file: flights.unpack(table, directory) for table in flights.TABLES}
        dataset = expected_dataset(files)
        display.begin("starting the store")
        bucket = stack.enter_context(own_server(store) if server_url is None else given_server(server_url))
        scene = _Scene(bucket, files, dataset, directory, display)
        outcome = _by_spark(scene) if engine == "spark" else _by_processes(scene)
        display.begin("stopping the store")
    return Report(
        engine=engine,
        engine_reason=engine_reason,
        server=bucket.server,
        main=outcome.main,
        killed=outcome.killed,
        attempts=outcome.attempts,
        also=outcome.also,
        seconds=time.monotonic() - started,
    )


def _by_spark(scene: _Scene) -> _Outcome:
    # Without pyspark the demo runs on processes.
    from examples.flights import spark_engine

    bucket, display = scene.bucket, scene.display
    display.begin("starting Spark")
    with spark_engine.running(scene.directory) as spark:
        frame = spark_engine.joined_flights(spark, scene.files)
        watch = spark_engine.StageWatch(spark)

        def on_look(look: Look) -> None:
            display.show_look(look)
            display.advance(*watch.progress())

        display.begin("Spark joins and writes, and loses a worker")
        watcher = Watcher(bucket, _DIRECTORY, before_commit=watch.before_commit, on_look=on_look)
        hunter = Hunter(
            bucket, _DIRECTORY, is_worker=spark_engine.is_worker, attempts_lost=watch.attempts_lost
        )
        with watcher, hunter:
            spark_engine.write(spark, frame, bucket.url(_DIRECTORY), bucket.storage_options)
        main = _read_main(scene, 'df.write.format("magic")', watcher)
        also = _also(scene)
        display.begin("Spark writes a part in mapInPandas")
        udf = other_ways.by_pandas_udf(bucket, scene.dataset, frame, display.show_look)
    return _Outcome(main, hunter.killed, spark_engine.read_attempts(scene.directory), (*also, udf))


def _by_processes(scene: _Scene) -> _Outcome:
    bucket, display = scene.bucket, scene.display
    display.begin("processes join and write, and one is lost")
    job = Job(bucket.url(_DIRECTORY), mode="append", storage_options=bucket.storage_options)
    watcher = Watcher(bucket, _DIRECTORY, on_look=display.show_look)
    with watcher, job:
        runner = process_engine.Runner(job, scene.files, display.advance)
        hunter = Hunter(
            bucket, _DIRECTORY, is_worker=process_engine.is_worker, attempts_lost=runner.attempts_lost
        )
        with hunter:
            commits = runner.run()
        watcher.last_look()
        job.commit(commits)
    main = _read_main(scene, "magicfs.Job on processes", watcher)
    return _Outcome(main, hunter.killed, runner.attempts, _also(scene))


def _read_main(scene: _Scene, how: str, watcher: Watcher) -> Publication:
    scene.display.begin("reading the dataset back by pyarrow")
    found = read_back(scene.bucket, _DIRECTORY)
    expected = fingerprint(scene.dataset.to_batches())
    pending_after = len(scene.bucket.pending(_DIRECTORY))
    return Publication.seen(how, expected, found, watcher, pending_after)


def _also(scene: _Scene) -> tuple[Publication, ...]:
    bucket, display = scene.bucket, scene.display
    display.begin("pyarrow writes the dataset in four tasks")
    by_pyarrow = other_ways.by_pyarrow(bucket, scene.dataset, display.show_look)
    display.begin("pandas writes the dataset from two processes")
    by_pandas = other_ways.by_pandas(bucket, scene.dataset, scene.directory, display.show_look)
    return by_pyarrow, by_pandas
