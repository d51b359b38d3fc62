"""Publish one dataset from several processes: ``python examples/process_pool.py s3://bucket/measurements``.

Credentials and endpoint come from where s3fs looks for them (``AWS_…``, ``FSSPEC_S3_ENDPOINT_URL``, a
profile, a role). A task that fails is tried again; what its first attempt wrote is never seen.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs

SENSORS = 8


def write(task: magicfs.Task) -> None:
    """Write one sensor's file; runs in a process of the pool."""
    sensor = int(task.id)
    table = pa.table({"sensor": [sensor] * 1000, "value": [sensor * n for n in range(1000)]})
    pq.write_table(table, f"{task.path}/sensor={sensor}/part.parquet", filesystem=task.filesystem)


def main(url: str) -> None:
    """Run the job and print its report."""
    with (
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
        magicfs.Job(url, mode="append", progress=print) as job,
    ):
        job.map(write, range(SENSORS), executor=pool)
    print(job.report)


if __name__ == "__main__":
    main(sys.argv[1])
