"""Our front ends: one job that replaces the dataset, a task for each partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs
from proofs.faults.place import Place
from proofs.faults.rows import PARTITIONS, SCHEMA, Rows

__all__ = ["duckdb_copy", "fsspec_file", "pandas_to_parquet", "polars_write_parquet", "write_dataset"]


@contextmanager
def _job(place: Place) -> Iterator[magicfs.Job]:
    options = place.storage_options
    with magicfs.Job(place.url, conflict="replace", storage_options=options) as job:
        yield job


def fsspec_file(place: Place, rows: Rows) -> None:
    """``Job`` and files of fsspec."""
    with _job(place) as job:
        for partition in range(PARTITIONS):
            with job.task(partition) as task:
                path = f"{task.path}/p={partition}/part.parquet"
                with task.filesystem.open(path, "wb") as file, pq.ParquetWriter(file, SCHEMA) as writer:
                    for batch in rows.part(partition):
                        writer.write_batch(batch)


def write_dataset(place: Place, rows: Rows) -> None:
    """``pyarrow.dataset.write_dataset``, in one task."""
    import pyarrow.dataset as ds

    with _job(place) as job, job.task(0) as task:
        ds.write_dataset(
            pa.RecordBatchReader.from_batches(SCHEMA, rows.whole()),
            task.path,
            filesystem=task.filesystem,
            format="parquet",
            partitioning=["p"],
            partitioning_flavor="hive",
        )


def pandas_to_parquet(place: Place, rows: Rows) -> None:
    """``DataFrame.to_parquet`` to a URL."""
    with _job(place) as job:
        for partition in range(PARTITIONS):
            with job.task(partition) as task:
                frame = rows.table(partition).to_pandas()
                url = task.url(f"p={partition}/part.parquet")
                frame.to_parquet(url, storage_options=task.storage_options)


def polars_write_parquet(place: Place, rows: Rows) -> None:
    """``DataFrame.write_parquet`` to a file."""
    import polars as pl

    with _job(place) as job:
        for partition in range(PARTITIONS):
            with job.task(partition) as task:
                frame: Any = pl.from_arrow(rows.table(partition))
                with task.filesystem.open(f"{task.path}/p={partition}/part.parquet", "wb") as file:
                    frame.write_parquet(file)


def duckdb_copy(place: Place, rows: Rows) -> None:
    """``COPY`` through the registered filesystem."""
    import duckdb

    with _job(place) as job:
        for partition in range(PARTITIONS):
            with job.task(partition) as task:
                connection = duckdb.connect()
                connection.register_filesystem(task.filesystem)
                connection.register("given", rows.table(partition))
                target = f"magic://{task.path}/p={partition}/part.parquet"
                connection.execute(f"COPY given TO '{target}' (FORMAT parquet)")
