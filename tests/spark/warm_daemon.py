"""PySpark's daemon, with what tasks import imported before it forks: each of its workers begins at once."""

from __future__ import annotations

import pandas as pd  # noqa: F401
import pyspark.daemon
import pyspark.worker
import s3fs  # noqa: F401

import magicfs.filesystem
import magicfs.spark.datasource
import magicfs.spark.partition_writer  # noqa: F401

if __name__ == "__main__":
    pyspark.daemon.manager()
