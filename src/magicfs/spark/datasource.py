"""The writer behind ``df.write.format("magic")``.

Spark makes it on the driver, pickles it to every task, and calls ``commit`` and ``abort`` each in yet another
process. What they have in common is the job, which was set up once, and the options: a job drops its secrets
when it is pickled, and gets them back where it is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from magicfs.errors import CommitOutcomeUnknown, CommitUnfinished, MagicError, ProtocolViolation
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.spark import options, schema
from magicfs.spark.late_writers import sweep_late
from magicfs.spark.writing import COMMIT_TRIES, check_rows, job_of, write_partition
from magicfs.stores.conditions import assume, remembered

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """What a task sends to the job."""

    commit: TaskCommit


def make_writer(given: Mapping[str, str], frame: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Check everything that can be checked before a task runs, the destination included.

    ``overwrite``: whether ``mode("overwrite")`` was asked for. Raises UsageError for a wrong option, column
    or mode, and for rows that do not fit those that stay, OutputExists for ``mode=error`` and old data,
    ObjectNotFound for a missing bucket, which is not created.
    """
    chosen = options.parse(given, frame.fieldNames(), overwrite=overwrite)
    schema.check(frame, chosen.partition_cols, chosen.file_format)
    job = job_of(chosen).setup()
    if job.found.published is None:
        check_rows(job, chosen, frame)
    return MagicWriter(chosen, frame, job)


class MagicWriter(DataSourceArrowWriter):
    """Writes one frame as one job; Spark calls the methods, in different processes.

    ``settings``: the options, which the executors have from Spark, credentials and all.
    """

    def __init__(self, settings: options.WriteOptions, frame: StructType, job: Job) -> None:
        self.settings = settings
        self.frame = frame
        self._job = job
        self._conditions = remembered(job.spec.store())

    @property
    def job_id(self) -> str:
        """The job's id, the same in every process."""
        return self._job.id

    def job(self) -> Job:
        """The job as it was set up, with what this process needs to reach it. No request is made."""
        job = copy(self._job)
        job.spec = replace(job.spec, storage_options=self.settings.storage_options)
        if self._conditions is not None:
            # The job's setup has tried what the store honours; Spark's other processes need not.
            assume(job.spec.store(), self._conditions)
        return job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition of the frame; called on an executor, once for every attempt of its task."""
        return TaskMessage(write_partition(self.job().spec, self.settings, self.frame, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the attempts that Spark accepted; called once, on the driver's machine.

        If an earlier write of the same ``runId`` is published already, what was written now is discarded.
        Raises ProtocolViolation if the message of a task is missing. After an error Spark calls ``abort``.
        """
        commits = _commits(messages)
        if len(commits) < len(messages):
            raise ProtocolViolation(
                f"Spark committed job {self.job_id} with only {len(commits)} messages of {len(messages)} "
                "tasks; nothing was published; run the job again"
            )
        from magicfs.spark.batch_jobs import log_report

        job = self.job()
        for left in reversed(range(COMMIT_TRIES)):
            try:
                log_report(job.commit(commits))
                break
            except (CommitOutcomeUnknown, CommitUnfinished):
                # Spark aborts a job whose commit raised; this is the last chance to learn how it went.
                if not left:
                    raise
        sweep_late(job, self.settings.late_writers)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Discard what the job wrote; called once a task failed for good, or ``commit`` raised or died.

        The job's own object says how far the commit came: a job of which not every file is visible is taken
        back; one that is published stays, which is logged, for Spark reports it as failed.
        Other tasks may still be running: what they upload until Spark has killed them is discarded by a
        second look, for which this waits if some have not answered, unless they are to be left. What cannot
        be discarded is logged.
        """
        how = self.settings.late_writers
        if how == "background" and any(message is None for message in messages):
            how = "wait"  # a script that fails stops Spark next, and this process with it
        if (job := self._discard(_commits(messages))) is not None:
            sweep_late(job, how)

    def _discard(self, commits: Iterable[TaskCommit]) -> Job | None:
        """Discard the job, and return it; None if that is out of the question because it is published."""
        job = self.job()
        # Raised, an error would hide from the user why the job failed.
        try:
            for commit in commits:
                job.add(commit)
            job.abort()
        except ProtocolViolation as error:
            _LOG.warning("Spark aborted job %s after its commit point: %s", self.job_id, error)
            return None
        except MagicError as error:
            _LOG.error("job %s could not be fully discarded: %s", self.job_id, error)
        return job


def _commits(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommit]:
    return [message.commit for message in messages if isinstance(message, TaskMessage)]
