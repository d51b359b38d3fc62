"""Streams: a sink for ``foreachBatch``, and the published batches of a sink.

::

    query = frames.writeStream.foreachBatch(magicfs.spark.sink("s3://bucket/clicks", "clicks")).start()

Every batch is one job, and is published once, however often Spark runs it. Nothing here imports pyspark
or pyarrow before there is a sink.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.connection import on_destination
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.manifests.chain import READING
from magicfs.manifests.log import publications
from magicfs.protocol.paths import Location
from magicfs.spark.batch_jobs import batch_of, check_sink, log_report, run_of, settled_batch
from magicfs.stores.resolve import location_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """A published batch of a stream.

    Attributes:
        batch_id: Spark's number of the batch.
        job_id: The job that published it; ``magicfs.Dataset(url).files(job=job_id)`` lists its files.
        files: How many files it added.
        bytes: Their size.
        committed_at: When it was published.
    """

    batch_id: int
    job_id: str
    files: int
    bytes: int
    committed_at: datetime


def sink(url: str, sink_id: str, **options: Any) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that publishes every batch once, even if Spark replays it.

    The run id of a batch is ``stream/<sink_id>/<batch>``. If that run is already published, the function
    returns at once: a replay runs no task and only cleans up after the first run. If a batch died halfway,
    its next run finishes or discards it, even if the stream has since moved to or from ``writeStream``. The
    function raises errors of Spark and magicfs unchanged; nothing is visible then.

    Args:
        url: The destination directory, such as ``s3://bucket/clicks``.
        sink_id: Name of the sink: one for each query and destination, and a new one for a new checkpoint.
        options: As for ``magicfs.spark.write``. ``mode`` is ``append`` by default; for output mode
            ``complete`` use ``mode="overwrite"``: a batch without rows then leaves the dataset empty.

    Raises:
        UsageError: An argument is wrong.
    """
    check_sink(sink_id)
    location_of(url)
    from magicfs.job.checks import with_defaults
    from magicfs.spark.writing import write

    known = set(inspect.signature(write).parameters) - {"df", "url", "run_id", "job_id", "unknown"}
    if unknown := sorted(set(options) - known):
        raise UsageError(
            f"sink() has no option {', '.join(unknown)}; it sets run and job itself, and accepts the "
            f"options of magicfs.spark.write: {', '.join(sorted(known))}"
        )
    mode = options.get("mode", "append")
    if mode not in {"append", "overwrite"}:
        raise UsageError(
            f"mode={mode!r} would apply to earlier batches; use 'append', or 'overwrite' for a query of "
            "output mode complete"
        )
    options = with_defaults(options, allow_empty=mode == "overwrite")
    return _Sink(url, sink_id, options | {"mode": mode})


@dataclass(frozen=True)
class _Sink:
    """What ``foreachBatch`` calls. Pickles, for Spark Connect calls it in a process of the server."""

    url: str
    sink_id: str
    options: Mapping[str, Any] = field(repr=False)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        from magicfs.spark.writing import write

        storage = self.options.get("storage_options")
        published = on_destination(
            settled_batch, self.url, storage, None, sink_id=self.sink_id, batch_id=batch_id
        )
        if published is None:
            report = write(frame, self.url, **self.options, run_id=run_of(self.sink_id, batch_id))
            log_report(report)
            published = report.job_id if report.published_before else None
        if published is not None:
            text = "batch %s of sink %s was already published, by job %s; nothing was written"
            _LOG.warning(text, batch_id, self.sink_id, published)


def batches(
    url: str,
    sink_id: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> list[Batch]:
    """Return the batches that a sink has published so far, the oldest first.

    It does not matter whether ``foreachBatch`` or ``writeStream`` wrote them. Batches whose files have been
    replaced, as in output mode ``complete``, are included.

    Args:
        url: The destination.
        sink_id: Name of the sink.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, instead of options.

    Raises:
        UsageError: An argument is invalid.
        FormatError: The chain of manifests is broken, or a newer magicfs wrote it.
        StoreError: The store refused, or did not answer.
    """
    name = check_sink(sink_id)
    return on_destination(_batches, url, storage_options, filesystem, sink_id=name)


async def _batches(engine: Engine, location: Location, *, sink_id: str) -> list[Batch]:
    found: dict[int, Batch] = {}
    async with aclosing(publications(engine.store, location.key, READING)) as jobs:
        async for one in jobs:
            number = None if one.run_id is None else batch_of(one.run_id, sink_id)
            if number is not None:
                moment = datetime.fromtimestamp(one.committed_ms / 1000, UTC)
                found.setdefault(number, Batch(number, one.job_id, one.files, one.size, moment))
    return [found[number] for number in sorted(found)]
