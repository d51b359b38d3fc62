"""The reader behind ``spark.readStream.format("magic")``: what jobs publish, one after the other.

An offset is a place in the chain of manifests: the newest job that has been read. A batch is whole jobs, so
what one job published is never split. A stream only adds rows: what to do about a job that takes rows away,
``onReplace`` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from magicfs.errors import UsageError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.past import publications
from magicfs.past.publications import NOTHING
from magicfs.protocol.modes import is_data
from magicfs.spark.published import schema as schemas
from magicfs.spark.published import snapshot
from magicfs.spark.published.options import ReadOptions, parse
from magicfs.spark.published.snapshot import FilesOfTask

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before pyspark 4.2, which asks for no more than all there is
    SupportsTriggerAvailableNow = object


def make_stream_reader(given: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """A reader of new publications. Raises UsageError if the options or the schema cannot be right."""
    options = parse(given, streaming=True)
    return MagicStreamReader(options, schemas.chosen(schema, options.columns))


class MagicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads jobs in the order in which they were published; one batch has one job at least."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        schemas.arrow_schema(schema)
        self.options = options
        self.frame = schema
        self._last: str | None = None  # where a stream of what is available now ends

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's
        """Where a new stream begins: before the first job, or behind all that is there."""
        new = self.options.start_from == "new"
        return {"job": snapshot.head(snapshot.connect(self.options)) if new else NOTHING}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Note what is available now; called once at the start of such a query."""
        self._last = snapshot.head(snapshot.connect(self.options))

    def latestOffset(  # noqa: N802 - Spark's
        self, start: dict[str, str] | None = None, limit: Any = None
    ) -> dict[str, str]:
        """The newest job, or an earlier one where ``maxFilesPerTrigger`` is reached there.

        Before pyspark 4.2 Spark gives no arguments, and there is no limit.
        """
        destination = snapshot.connect(self.options)
        newest = snapshot.head(destination) if self._last is None else self._last
        most = getattr(limit, "max_files", None)
        if start is None or (start["job"] == NOTHING and most is None):
            return {"job": newest}
        jobs = destination.run(publications.published_since, start["job"], newest)
        return {"job": end_of_batch(jobs, most)} if jobs else start

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's
        """``maxFilesPerTrigger``, or no limit."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

        most = self.options.files_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """What each task reads of a batch: the same however often a batch is planned."""
        destination = snapshot.connect(self.options)
        if start["job"] == NOTHING:
            # A new stream begins with what the dataset is, whatever was replaced before.
            found = snapshot.snapshot(destination, end["job"]) if end["job"] else {}
        else:
            jobs = destination.run(publications.published_since, start["job"], end["job"])
            found = new_files(jobs, self.options.on_replace, destination.location.url)
        for job in destination.run(publications.published_since, end["job"], snapshot.head(destination)):
            # What is gone meanwhile cannot be read any more.
            found = _shown(found, job, destination.location.url)
        return snapshot.share(found, self.frame, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task; called on an executor."""
        if isinstance(partition, FilesOfTask):
            yield from snapshot.rows(partition, self.frame, self.options)


def end_of_batch(jobs: Sequence[Manifest], most: int | None) -> str:
    """The last job of a batch that begins with the first of these.

    ``most``: how many files it may have, or as many as its first job has; None for no limit. Rows that a
    later job took away are gone, so a batch goes on to that job at least.
    """
    taken = max((number for number, job in enumerate(jobs) if _takes_away(job)), default=0)
    files = 0
    for number, job in enumerate(jobs[:-1]):
        files += job.count
        if most is not None and files >= most and number >= taken:
            return job.job_id
    return jobs[-1].job_id


def new_files(jobs: Sequence[Manifest], on_replace: str, url: str) -> dict[str, ManifestFile]:
    """The data files that jobs, the oldest first, have brought, and that the last of them still shows.

    ``on_replace``: what to do about a job that takes rows away: ``error``, ``read`` what it brings, or
    ``skip`` it.

    Raises UsageError for such a job if it is to fail.
    """
    found: dict[str, ManifestFile] = {}
    for job in jobs:
        if job.mode == "rewrite":
            found = _shown(found, job, url)
            continue
        if _takes_away(job):
            if on_replace == "error":
                raise UsageError(
                    f"job {job.job_id} removed rows of {url}, which a stream cannot do; use "
                    "option('onReplace', 'read') to read the job's rows as new ones, or 'skip' to leave "
                    "them out, or start with a new checkpointLocation"
                )
            found = {} if job.hides == "all" else {k: one for k, one in found.items() if k not in job.deleted}
            if on_replace == "skip":
                continue
        found |= {file.key: file for file in job.files if is_data(file.key, "")}
    return found


def _shown(found: Mapping[str, ManifestFile], job: Manifest, url: str) -> dict[str, ManifestFile]:
    """What of some files is left when a later job has been published.

    Raises UsageError for one that has put some of them together with others, and has not kept them: their
    rows are still there, but not alone.
    """
    if job.mode == "rewrite":
        if job.kept is None and any(key in found for key in job.deleted):
            raise UsageError(
                f"job {job.job_id} rewrote files of {url} that this stream had not read; begin with a new "
                "checkpointLocation, and rewrite with keep so that streams can read on"
            )
        return dict(found)
    if job.hides == "all" and job.replaced is not None:
        return {}
    deleted = frozenset(job.deleted)
    return {key: one for key, one in found.items() if key not in deleted}


def _takes_away(job: Manifest) -> bool:
    if job.mode == "rewrite":
        return False  # its rows were there before
    return bool(job.deleted) or (job.hides == "all" and job.replaced is not None)
