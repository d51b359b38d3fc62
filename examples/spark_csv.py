"""Publish one CSV file per region with pandas on Spark: ``python -m examples.spark_csv s3://bucket/sales``.

Every group of the frame is a task of its own. Credentials and endpoint come from where s3fs looks for them,
on the driver and on the executors alike.
"""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd

import magicfs
from examples.flights.session import local_session
from magicfs.spark import COMMIT_SCHEMA, collect_commits, group_function


def write(task: magicfs.Task, key: tuple[Any, ...], frame: pd.DataFrame) -> None:
    """Write the rows of one region; runs on an executor."""
    frame.to_csv(task.url(f"region={key[0]}/sales.csv"), storage_options=task.storage_options, index=False)
    task.count("records_written", len(frame))


def main(url: str) -> None:
    """Run the job and print its report."""
    spark = local_session(name="sales")
    sales = spark.range(1000).selectExpr("id", "concat('r', id % 4) region", "id * 1.5 price")
    with magicfs.Job(url, mode="append") as job:
        mapped = sales.groupBy("region").applyInPandas(group_function(job, write), COMMIT_SCHEMA)
        for commit in collect_commits(mapped):
            job.add(commit)
    print(job.report)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
