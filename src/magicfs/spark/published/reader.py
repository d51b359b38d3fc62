"""The reader behind ``spark.read.format("magic")``.

Spark asks for the schema in one process, for the tasks in another, and reads in yet others. The instant at
which the dataset is read is fixed where the schema is found, so that all actions on a frame see the same
files, as they do with Spark's own formats.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from magicfs.spark.published import schema as schemas
from magicfs.spark.published import snapshot
from magicfs.spark.published.options import ReadOptions, parse
from magicfs.spark.published.snapshot import FilesOfTask

_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


def find_schema(given: Mapping[str, str]) -> tuple[StructType, str]:
    """The columns of a dataset, and what ``make_reader`` finds the same instant by.

    Raises ObjectNotFound if nothing was published, UsageError for a wrong option or an empty dataset.
    """
    options = parse(given, streaming=None)  # Spark does not say for which of the two it asks
    destination = snapshot.connect(options)
    job = _job(destination, options) or snapshot.head(destination)
    found = snapshot.snapshot(destination, job or None)
    return snapshot.columns(destination, found, options), job


def make_reader(given: Mapping[str, str], schema: StructType, job: str | None) -> DataSourceReader:
    """A reader of the dataset as of a job, or as it is when the query is planned.

    Files of other partitions are left out if Spark hands filters over, which
    ``spark.sql.python.filterPushdown.enabled`` turns on; without it Spark refuses readers that take any.
    """
    options = parse(given)
    schema = schemas.chosen(schema, options.columns)
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_asked = _PUSHING in sys.modules or (main is not None and main.name == _PUSHING)
    return (PruningReader if is_asked else MagicReader)(options, schema, job)


def _job(destination: Any, options: ReadOptions) -> str | None:
    if options.release is not None:
        from magicfs.releases.reading import job_in

        return job_in(options.release, destination, {"storage_options": options.storage_options or None})
    return None if options.job is None else snapshot.job_named(destination, options.job)


class MagicReader(DataSourceReader):
    """Reads the files that were published at one instant. Spark pickles it to every task."""

    def __init__(self, options: ReadOptions, schema: StructType, job: str | None) -> None:
        schemas.arrow_schema(schema)
        self.options = options
        self.frame = schema
        self.filters: Sequence[object] = ()
        self._job = job

    def partitions(self) -> list[InputPartition]:
        """What each task reads; called once for every query, on the driver's machine."""
        destination = snapshot.connect(self.options)
        job = self._job or _job(destination, self.options)
        found = snapshot.snapshot(destination, job)
        return list(snapshot.share(found, self.frame, self.options, self.filters))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task; called on an executor. Where there are no files, Spark makes a task up."""
        if isinstance(partition, FilesOfTask):
            yield from snapshot.rows(partition, self.frame, self.options)


class PruningReader(MagicReader):
    """One that leaves files out by their directories."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's
        """Keep the filters; Spark applies all of them to the rows, too."""
        self.filters: Sequence[object] = tuple(filters)
        return filters
