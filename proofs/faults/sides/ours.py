"""Our front ends: one job that replaces the dataset, a task for each partition."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs
from proofs.faults.place import Place
from proofs.faults.rows import PARTITIONS, SCHEMA, Rows

__all__ = [
    "daft",
    "dask",
    "duckdb_copy",
    "fsspec_file",
    "pandas_to_parquet",
    "polars_write_parquet",
    "ray",
    "write",
    "write_dataset",
]


@contextmanager
def _job(place: Place) -> Iterator[magicfs.Job]:
    options = place.storage_options
    with magicfs.Job(place.url, mode="overwrite", storage_options=options) as job:
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


def write(place: Place, rows: Rows) -> None:
    """``magicfs.write``, of a stream of batches."""
    reader = pa.RecordBatchReader.from_batches(SCHEMA, rows.whole())
    magicfs.write(reader, place.url, **_frame(place))


def dask(place: Place, rows: Rows) -> None:
    """``magicfs.dask.to_parquet``, a task for each partition."""
    import dask as engine
    import dask.dataframe as dd

    engine.config.set({"dataframe.convert-string": False, "scheduler": "threads"})

    def make(partition: int) -> Any:
        return rows.table(partition).to_pandas()

    frame = dd.from_map(make, list(range(PARTITIONS)), meta=SCHEMA.empty_table().to_pandas())
    magicfs.dask.to_parquet(frame, place.url, index=False, retries=0, **_frame(place))


def ray(place: Place, rows: Rows) -> None:
    """``magicfs.ray.write_parquet``, a task for each partition."""
    import ray as engine

    how = _frame(place)  # before Ray starts: its workers take their keys from the environment
    engine.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)

    def make(batch: Any) -> Any:
        return rows.table(int(batch["id"][0]))

    frame = engine.data.range(PARTITIONS, override_num_blocks=PARTITIONS).map_batches(make, batch_size=1)
    magicfs.ray.write_parquet(frame, place.url, **how)


def daft(place: Place, rows: Rows) -> None:
    """``magicfs.daft.write_parquet``."""
    import daft as engine

    magicfs.daft.write_parquet(engine.from_arrow(rows.table()), place.url, **_frame(place))


def _frame(place: Place) -> dict[str, Any]:
    """What all calls that take a whole frame are given; workers find the keys in the environment."""
    os.environ |= {
        "AWS_ACCESS_KEY_ID": place.key,
        "AWS_SECRET_ACCESS_KEY": place.secret,
        "AWS_DEFAULT_REGION": place.region,
        "AWS_ENDPOINT_URL": place.endpoint,
    }
    return {"partition_by": "p", "mode": "overwrite", "storage_options": place.storage_options}


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
