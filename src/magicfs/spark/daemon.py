"""PySpark's daemon, which imports what tasks need before it forks them; ``docs/spark.md`` says how to use it.

Each of an executor's workers is a fork of its daemon. Without this each of them imports for half a second of
processor time before it sends its first byte.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

import pyspark.daemon

_OF_TASKS = (
    *("magicfs.spark.datasource", "magicfs.tables.partition_writer", "magicfs.spark.schema"),
    *(
        "magicfs.spark.published.reader",
        "magicfs.filesystem.chained",
        "magicfs.committers.magic",
        "magicfs.manifests.chain",
    ),
    *("pyarrow.parquet", "pyarrow.compute"),
)
# Of S3 alone: clients of other stores begin threads, or cannot be forked, as gRPC's cannot.
_OF_STORES = ("s3fs", "magicfs.stores.s3.store")


def preload() -> None:
    """Import what the first file of a task needs. Nothing is opened, and no thread is begun."""
    for name in _OF_TASKS:
        import_module(name)
    with suppress(ImportError):  # without the extra s3
        for name in _OF_STORES:
            import_module(name)


if __name__ == "__main__":
    preload()
    pyspark.daemon.manager()
