"""The writer behind ``df.writeStream.format("magic")``.

For every batch Spark makes two of them: one travels to the tasks, the other commits or aborts, in another
process. So nothing is set up here, and both find the same job by destination, sink and batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from magicfs.errors import ProtocolViolation, UsageError
from magicfs.job.job import Job
from magicfs.spark import batch_jobs, options, schema
from magicfs.spark.datasource import TaskMessage
from magicfs.spark.late_writers import sweep_late
from magicfs.spark.options import WriteOptions
from magicfs.spark.writing import check_rows, job_of, write_partition

_BATCH = "streaming.sql.batchId"


def make_stream_writer(
    given: Mapping[str, str], frame: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Check everything that can be checked without a request. Raises UsageError; no task has run.

    ``overwrite``: whether the output mode is ``complete``.
    """
    chosen = options.parse(given, frame.fieldNames(), overwrite=overwrite, streaming=True)
    schema.check(frame, chosen.partition_cols, chosen.file_format)
    _check(chosen)
    # In output mode complete a batch is all of the result, also if that has no rows.
    return MagicStreamWriter(replace(chosen, allow_empty=chosen.allow_empty or overwrite), frame)


def _check(chosen: WriteOptions) -> None:
    if chosen.committer != "magic":
        raise UsageError(
            f"committer={chosen.committer!r} needs a job that is set up before its tasks, and a stream has "
            "none; leave it out, or write each batch with magicfs.spark.sink in foreachBatch"
        )
    if chosen.mode == "error":
        raise UsageError(
            "mode='error' would refuse every batch but the first; leave it out, and choose a destination "
            "of its own for the stream"
        )
    if chosen.tracking != "memory" or not chosen.unique_names:
        raise UsageError(
            "tracking='store' and uniqueNames='false' are for batch writes: what is left of a batch of a "
            "stream is found by its names; leave them out"
        )


def _sink_of(chosen: WriteOptions) -> str:
    if chosen.sink_id is not None:
        return batch_jobs.check_sink(chosen.sink_id)
    if chosen.checkpoint is None:
        raise UsageError(
            "the stream has no name by which a replayed batch can be recognized; give .option('sinkId', "
            "'clicks') or .option('checkpointLocation', …), from which a name is derived: Spark does not "
            "pass its own checkpoint setting to the sink"
        )
    return f"checkpoint-{hashlib.sha256(chosen.checkpoint.encode()).hexdigest()[:32]}"


class MagicStreamWriter(DataSourceStreamArrowWriter):
    """Writes every batch as one job; Spark calls the methods, in different processes.

    ``settings``: the options, which the executors have from Spark, credentials and all.
    """

    def __init__(self, settings: WriteOptions, frame: StructType) -> None:
        self.settings = settings
        self.frame = frame
        self.sink_id: str = _sink_of(settings)

    def job(self, batch_id: int) -> Job:
        """The job of a batch, not set up. No request is made."""
        chosen = replace(self.settings, run_id=batch_jobs.run_of(self.sink_id, batch_id))
        return job_of(chosen, job_id=batch_jobs.job_id_of(chosen.path, self.sink_id, batch_id))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition of a batch; called on an executor, once for every attempt of its task. Raises
        ProtocolViolation if Spark does not say which batch it is.
        """
        context = TaskContext.get()
        number = None if context is None else context.getLocalProperty(_BATCH)
        if number is None:
            raise ProtocolViolation(
                f"Spark did not set {_BATCH} for this task, so its batch is unknown; nothing was written; "
                "use magicfs.spark.sink in foreachBatch"
            )
        return TaskMessage(write_partition(self.job(int(number)).spec, self.settings, self.frame, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Publish a batch; a replay of a published one discards what it wrote.

        Raises ProtocolViolation if the message of a task is missing, UsageError for rows that do not fit
        those that stay: no earlier call knows the batch. After an error Spark calls ``abort``, and runs the
        batch again when the query is started again.
        """
        commits = [one.commit for one in messages if isinstance(one, TaskMessage)]
        if len(commits) < len(messages):
            raise ProtocolViolation(
                f"Spark commits batch {batchId} of {self.sink_id} and gives {len(commits)} messages of "
                f"{len(messages)} tasks; nothing was published; start the query again"
            )
        job = self.job(batchId)
        check = partial(check_rows, chosen=self.settings, frame=self.frame)
        report = batch_jobs.commit_batch(job, self.sink_id, batchId, commits, check)
        if not report.published_before:
            sweep_late(job, self.settings.late_writers)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Discard what a batch wrote, unless it is published.

        What tasks that still live upload afterwards is discarded by the batch's next run: a second sweep
        here could meet that one's uploads, which have the same id.
        """
        commits = [one.commit for one in messages if isinstance(one, TaskMessage)]
        batch_jobs.abort_batch(self.job(batchId), self.sink_id, batchId, commits)
