"""The writer behind ``df.write.format("magic")``.

Spark makes it on the driver, pickles it to every task, and calls ``commit`` or ``abort`` in yet another
process. What they have in common is the options and the job's id; a ``Job`` is made of them where it is
needed, because a job drops its secrets when it is pickled.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from magicfs.committers.base import Conflict
from magicfs.errors import CommitOutcomeUnknown, MagicError, ProtocolViolation, UsageError
from magicfs.job import Job
from magicfs.spark import options, schema
from magicfs.spark.partition_writer import FileName, PartitionWriter
from magicfs.spark.writers import current_task
from magicfs.task_commit import TaskCommit

__all__ = ["COMMIT_TRIES", "LATE_WRITERS_SECONDS", "MagicWriter", "TaskMessage", "make_writer"]

# Spark kills the Python of a failed job's other tasks up to this much later, without telling it: 2 s between
# two looks, and spark.python.task.killTimeout, which is 2 s. Until then they go on uploading.
LATE_WRITERS_SECONDS = 4.5
COMMIT_TRIES = 3

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """What a task tells the job.

    Attributes:
        commit: What it committed.
    """

    commit: TaskCommit


def make_writer(given: Mapping[str, str], frame: StructType, overwrite: bool) -> MagicWriter:
    """Check everything that can be checked before a task runs, the destination included.

    Args:
        given: The options of the write.
        frame: The schema of the frame.
        overwrite: Whether ``mode("overwrite")`` was asked for.

    Raises:
        UsageError: An option, a column or the mode cannot be right.
        ObjectNotFound: No such bucket; it is not created.
        PermissionDenied: The credentials do not work.
    """
    if overwrite:
        raise UsageError(
            "mode('overwrite') is not available in this version; "
            "use mode('append'), which leaves old files as they are"
        )
    parsed = options.parse(given, frame.fieldNames())
    schema.check(frame, parsed.partition_cols)
    writer = MagicWriter(parsed, frame, str(uuid.uuid4()))
    writer.job().setup()
    return writer


class MagicWriter(DataSourceArrowWriter):
    """Writes one frame as one job; Spark calls the methods, in different processes.

    Args:
        settings: The options, which the executors have from Spark, credentials and all.
        frame: The schema of the frame.
        job_id: The job's id, the same in every process.
    """

    def __init__(self, settings: options.WriteOptions, frame: StructType, job_id: str) -> None:
        self.settings = settings
        self.frame = frame
        self.job_id = job_id

    def job(self) -> Job:
        """The job, as this process can reach it. No request is made."""
        chosen = self.settings
        return Job(
            chosen.path,
            conflict=cast("Conflict", chosen.conflict),
            unique_names=chosen.unique_names,
            tracking=chosen.tracking,
            part_size=chosen.part_size,
            concurrency=chosen.concurrency,
            storage_options=chosen.storage_options,
            job_id=self.job_id,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write one partition of the frame; called on an executor, once for every attempt of its task."""
        with current_task(self.job().spec) as task:
            filesystem = task.filesystem
            path = task.path
            context = TaskContext.get()
            assert context is not None
            chosen = self.settings
            with PartitionWriter(
                lambda name: filesystem.open(f"{path}/{name}", "wb"),
                FileName(f"part-{context.partitionId():05d}", chosen.extension),
                partition_by=chosen.partition_cols,
                compression=chosen.codec,
                metadata=schema.row_metadata(self.frame, chosen.partition_cols),
                files_max=chosen.max_open_files,
            ) as files:
                for batch in iterator:
                    files.write(batch)
        commit = task.committed
        assert commit is not None
        return TaskMessage(commit)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the attempts that Spark accepted; called once, on the driver's machine.

        Raises:
            ProtocolViolation: The message of a task is missing. Spark calls ``abort`` next.
            CommitError: The job could not be committed. Spark calls ``abort`` next.
        """
        commits = _commits(messages)
        if len(commits) < len(messages):
            raise ProtocolViolation(
                f"Spark commits job {self.job_id} and gives {len(commits)} messages of {len(messages)} "
                "tasks; nothing was published; run the job again"
            )
        job = self.job().setup()
        for _ in range(COMMIT_TRIES - 1):
            try:
                job.commit(commits)
            except CommitOutcomeUnknown:
                # Spark aborts a job whose commit raised; this is the last chance to learn how it went.
                continue
            return
        job.commit(commits)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Discard what the job wrote; called once a task failed for good, or ``commit`` did.

        Other tasks may still be running: where some have not answered, what they upload until Spark has
        killed them is discarded by a second look. What cannot be discarded is logged.
        """
        self._discard(_commits(messages))
        if any(message is None for message in messages):
            time.sleep(LATE_WRITERS_SECONDS)
            self._discard(())

    def _discard(self, commits: Iterable[TaskCommit]) -> None:
        try:
            job = self.job().setup()
            for commit in commits:
                job.add(commit)
            job.abort()
        except MagicError as error:
            # Raised, it would hide from the user why the job failed.
            _LOG.error("job %s could not be discarded whole: %s", self.job_id, error)


def _commits(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommit]:
    return [message.commit for message in messages if isinstance(message, TaskMessage)]
