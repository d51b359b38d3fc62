"""The same dataset by other writers: pyarrow, pandas from several processes, a pandas UDF in Spark."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet

from examples.flights.buckets import Bucket
from examples.flights.fingerprint import fingerprint
from examples.flights.process_engine import MONTHS, PARTITIONING
from examples.flights.proof import Publication
from examples.flights.readback import read_back
from examples.flights.watcher import Look, Watcher
from magicfs.job.job import Job
from magicfs.job.task import Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["by_pandas", "by_pandas_udf", "by_pyarrow"]

_TASKS = 4
_PROCESSES = 2
_SMALL_CARRIERS: Final = ("AS", "F9", "HA", "OO", "YV")

OnLook = Callable[[Look], None]


def by_pyarrow(bucket: Bucket, dataset: pa.Table, on_look: OnLook) -> Publication:
    """Write the dataset with ``pyarrow.dataset.write_dataset``, in several tasks of this process."""

    def write(job: Job) -> None:
        for number in range(_TASKS):
            share = dataset.filter(pc.field("month").isin(list(MONTHS[number::_TASKS])))
            with job.task(number) as task:
                pyarrow.dataset.write_dataset(
                    share,
                    task.path,
                    filesystem=task.filesystem,
                    format="parquet",
                    partitioning=PARTITIONING,
                )

    return _published("pyarrow.dataset.write_dataset", bucket, "by-pyarrow", dataset, write, on_look)


def by_pandas(bucket: Bucket, dataset: pa.Table, directory: Path, on_look: OnLook) -> Publication:
    """Write the dataset with ``DataFrame.to_parquet`` and chained URLs, from several processes.

    ``on_look``: called after every look.
    """
    path = directory / "dataset.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, dataset.schema) as writer:
        writer.write_table(dataset)

    def write(job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(_PROCESSES, mp_context=context) as pool:
            job.map(partial(_write_month, str(path)), MONTHS, executor=pool)

    return _published("pandas.DataFrame.to_parquet", bucket, "by-pandas", dataset, write, on_look)


def by_pandas_udf(bucket: Bucket, dataset: pa.Table, frame: DataFrame, on_look: OnLook) -> Publication:
    """Write the flights of five small carriers in ``mapInPandas``.

    ``dataset``: what must come out, for all carriers. ``frame``: the same as Spark computes it. ``on_look``:
    called after every look.
    """
    from magicfs.spark.writers import COMMIT_SCHEMA, collect_commits

    small = frame.where(frame.carrier.isin(*_SMALL_CARRIERS)).repartition(_TASKS)

    def write(job: Job) -> None:
        for commit in collect_commits(
            small.mapInPandas(partial(_write_frames, job, dataset.schema), COMMIT_SCHEMA)
        ):
            job.add(commit)

    part = dataset.filter(pc.field("carrier").isin(_SMALL_CARRIERS))
    return _published("DataFrame.mapInPandas", bucket, "by-pandas-udf", part, write, on_look)


def _published(
    how: str, bucket: Bucket, directory: str, dataset: pa.Table, write: Callable[[Job], None], on_look: OnLook
) -> Publication:
    job = Job(bucket.url(directory), mode="append", storage_options=bucket.storage_options)
    with Watcher(bucket, directory, on_look=on_look) as watcher, job:
        write(job)
        watcher.last_look()
    expected = fingerprint(dataset.to_batches())
    found = read_back(bucket, directory)
    return Publication.seen(how, expected, found, watcher, len(bucket.pending(directory)))


def _write_month(path: str, task: Task) -> None:
    with pa.memory_map(path) as source:
        dataset = pa.ipc.open_file(source).read_all()
        month = dataset.filter(pc.field("month") == int(task.id)).drop_columns(["month"])
        frame = month.to_pandas(types_mapper=pd.ArrowDtype)
    frame.to_parquet(
        task.url(f"month={int(task.id)}/flights.parquet"),
        index=False,
        storage_options=task.storage_options,
    )


def _write_frames(job: Job, schema: pa.Schema, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    from magicfs.spark.writers import commit_row, current_task

    with current_task(job) as task:
        for number, frame in enumerate(frames):
            # Whole numbers with missing ones among them come as floats.
            table = pa.Table.from_pandas(frame, schema, preserve_index=False)
            with task.filesystem.open(f"{task.path}/part-{number}.parquet", "wb") as file:
                pyarrow.parquet.write_table(table, file)
    yield commit_row(task)
