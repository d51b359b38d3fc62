"""The documents of a job of the file committer: whose it is, and what an attempt of a task has committed."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final

from magicfs.committers.job_record import now_ms
from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.protocol.ids import AttemptId, JobId, TaskId

__all__ = ["SIZE_LIMIT", "JobFile", "TaskRecord", "fields_of"]

JOB_FORMAT: Final = "magicfs.file-job/1"
TASK_FORMAT: Final = "magicfs.file-task/1"
SIZE_LIMIT: Final = 256 * 1024**2
"""Bytes: a task of a million files, or a job of a million tasks."""


@dataclass(frozen=True, slots=True)
class JobFile:
    """Whose a job is.

    Attributes:
        job: The job.
        algorithm: How its tasks and itself commit.
        unique_names: Whether final names carry task and job.
        attempt: Number of the job attempt that set it up last.
        driver: Token of the driver that did.
        created_ms: When the job was set up first, in milliseconds since the epoch.
        host: Where it was set up last.
    """

    job: JobId
    algorithm: int
    unique_names: bool
    attempt: int
    driver: str
    created_ms: int
    host: str

    @classmethod
    def new(cls, job: JobId, algorithm: int, unique_names: bool, attempt: int, driver: str) -> JobFile:
        """One that is set up here and now."""
        return cls(job, algorithm, unique_names, attempt, driver, now_ms(), socket.gethostname())

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, job: JobId) -> JobFile:
        """Read one.

        Raises:
            FormatError: It cannot be believed, or is another job's.
        """
        fields = fields_of(path, raw, JOB_FORMAT, job)
        return cls(
            job,
            fields.required_integer("algorithm"),
            fields.flag("uniqueNames", default=True),
            fields.required_integer("attempt", minimum=0),
            fields.required_text("driver"),
            fields.integer("createdMs"),
            fields.text("host"),
        )

    def to_bytes(self) -> bytes:
        """One line of JSON."""
        return render(
            {
                "format": JOB_FORMAT,
                "jobId": self.job,
                "algorithm": self.algorithm,
                "uniqueNames": self.unique_names,
                "attempt": self.attempt,
                "driver": self.driver,
                "createdMs": self.created_ms,
                "host": self.host,
            }
        )


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What an attempt has committed, or with algorithm 2 is committing.

    Attributes:
        job: The job.
        task: The task.
        attempt: The attempt.
        files: Relative path and size of every file.
        committed_ms: When, in milliseconds since the epoch, by the clock of whoever wrote it.
        finished: Whether all of them are where they belong.
        number: Number of the job attempt in which it committed.
        renames: How many renames that took.
        copied: Bytes that the store copied for them, where it has no rename.
    """

    job: JobId
    task: TaskId
    attempt: AttemptId
    files: tuple[tuple[str, int], ...]
    committed_ms: int
    finished: bool = True
    number: int = 0
    renames: int = 0
    copied: int = 0

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size in self.files)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, job: JobId) -> TaskRecord:
        """Read one.

        Raises:
            FormatError: It cannot be believed, or is another job's.
        """
        fields = fields_of(path, raw, TASK_FORMAT, job)
        return cls(
            job,
            TaskId(fields.required_text("taskId")),
            AttemptId(fields.required_text("attemptId")),
            tuple(
                (one.required_text("path"), one.required_integer("size", minimum=0))
                for one in fields.objects("files")
            ),
            fields.integer("committedMs"),
            fields.flag("finished", default=True),
            fields.integer("jobAttempt", minimum=0),
            fields.integer("renames", minimum=0),
            fields.integer("bytesCopied", minimum=0),
        )

    def to_bytes(self) -> bytes:
        """One line of JSON.

        Raises:
            UsageError: The name of a file is not valid Unicode.
        """
        return render(
            {
                "format": TASK_FORMAT,
                "jobId": self.job,
                "taskId": self.task,
                "attemptId": self.attempt,
                "committedMs": self.committed_ms,
                "finished": self.finished,
                "jobAttempt": self.number,
                "renames": self.renames,
                "bytesCopied": self.copied,
                "files": [{"path": path, "size": size} for path, size in self.files],
            }
        )


def fields_of(path: str, raw: bytes, expected: str, job: JobId) -> Fields:
    """The fields of a document of a format.

    Raises:
        FormatError: It cannot be believed, or is another job's.
    """
    fields = Fields(path, parse(path, raw, size_limit=SIZE_LIMIT))
    if (found := fields.required_text("format")) != expected:
        raise fields.error("format", f"is not {expected}; use a magicfs that knows {found[:40]!a}")
    if (owner := fields.required_text("jobId")) != job:
        raise fields.error("jobId", f"belongs to job {owner[:100]!a}; somebody copied it here")
    return fields
