"""Spark: ``write``, ``df.write.format("magic")``, streams, and tasks for functions of your own.

::

    import magicfs.spark

    report = magicfs.spark.write(df, "s3://bucket/sales", partition_by="day", mode="append")

Spark finds the format by the package ``pyspark_magic``; nothing needs to be registered. Importing this
package imports neither pyspark nor pyarrow: names are loaded when first used.
"""

from typing import TYPE_CHECKING, Final

from magicfs.runtime.registered import lazy_names

if TYPE_CHECKING:
    from magicfs.spark.reading import read as read
    from magicfs.spark.streaming import Batch as Batch
    from magicfs.spark.streaming import batches as batches
    from magicfs.spark.streaming import sink as sink
    from magicfs.spark.writers import COMMIT_SCHEMA as COMMIT_SCHEMA
    from magicfs.spark.writers import arrow_function as arrow_function
    from magicfs.spark.writers import collect_commits as collect_commits
    from magicfs.spark.writers import commit_batch as commit_batch
    from magicfs.spark.writers import commit_row as commit_row
    from magicfs.spark.writers import commit_text as commit_text
    from magicfs.spark.writers import current_task as current_task
    from magicfs.spark.writers import group_function as group_function
    from magicfs.spark.writers import pandas_function as pandas_function
    from magicfs.spark.writing import write as write

_HOMES = {
    **dict.fromkeys(("Batch", "batches", "sink"), "magicfs.spark.streaming"),
    **dict.fromkeys(("COMMIT_SCHEMA", "arrow_function", "collect_commits"), "magicfs.spark.writers"),
    **dict.fromkeys(("commit_batch", "commit_row", "commit_text"), "magicfs.spark.writers"),
    **dict.fromkeys(("current_task", "group_function", "pandas_function"), "magicfs.spark.writers"),
    "read": "magicfs.spark.reading",
    "write": "magicfs.spark.writing",
}

__all__ = [
    "COMMIT_SCHEMA",
    "Batch",
    "arrow_function",
    "batches",
    "collect_commits",
    "commit_batch",
    "commit_row",
    "commit_text",
    "current_task",
    "group_function",
    "pandas_function",
    "read",
    "sink",
    "write",
]
__getattr__: Final = lazy_names(__name__, _HOMES)
