"""The documents of a job of the file committer.

``JobFile`` says whose the job is, ``TaskRecord`` what an attempt of a task has committed, and ``Mark`` that
the job has begun to end, or has ended, and how.
"""

from __future__ import annotations

import builtins
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, cast

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.transaction.record import new_token, now_ms

__all__ = ["SIZE_LIMIT", "Chosen", "JobFile", "Mark", "TaskRecord"]

JOB_FORMAT: Final = "magicfs.file-job/1"
TASK_FORMAT: Final = "magicfs.file-task/1"
MARK_FORMAT: Final = "magicfs.commit-marker/1"
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
        fields = _fields(path, raw, JOB_FORMAT, job)
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
        fields = _fields(path, raw, TASK_FORMAT, job)
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


@dataclass(frozen=True, slots=True)
class Chosen:
    """A task attempt that is published.

    Attributes:
        task: The task.
        attempt: The attempt.
        files: How many files.
        bytes: Their size.
        renames: How many renames the task commit took.
        copied: Bytes that the store copied for them.
    """

    task: TaskId
    attempt: AttemptId
    files: int
    bytes: int
    renames: int = 0
    copied: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """What a marker says.

    Attributes:
        job: The job.
        action: What was begun.
        driver: Token of the driver that began it.
        attempt: Number of its job attempt.
        nonce: Tells this write from all others.
        tasks: What is published, in order of tasks.
        files: How many files.
        bytes: Their size.
        replaced: How many of the files others of the job replace, which have the same names.
        reason: Why it failed; empty otherwise.
        written_ms: When, in milliseconds since the epoch.
        host: Where.
    """

    job: JobId
    action: Literal["commit", "abort"]
    driver: str
    attempt: int
    nonce: str
    tasks: tuple[Chosen, ...] = ()
    files: int = 0
    bytes: int = 0
    replaced: int = 0
    reason: str = ""
    written_ms: int = 0
    host: str = ""

    @classmethod
    def new(
        cls,
        job: JobId,
        action: Literal["commit", "abort"],
        driver: str,
        attempt: int,
        tasks: Iterable[Chosen] = (),
        replaced: int = 0,
    ) -> Mark:
        """What is begun here and now."""
        chosen = tuple(sorted(tasks, key=lambda one: one.task))
        return cls(
            job=job,
            action=action,
            driver=driver,
            attempt=attempt,
            nonce=new_token(),
            tasks=chosen,
            files=sum(one.files for one in chosen),
            bytes=sum(one.bytes for one in chosen),
            replaced=replaced,
            written_ms=now_ms(),
            host=socket.gethostname(),
        )

    @classmethod
    def from_bytes(cls, path: str, raw: builtins.bytes, job: JobId) -> Mark:
        """Read one.

        Raises:
            FormatError: It cannot be believed, or is another job's.
        """
        fields = _fields(path, raw, MARK_FORMAT, job)
        if (action := fields.required_text("action")) not in ("commit", "abort"):
            raise fields.error("action", "is neither commit nor abort")
        return cls(
            job=job,
            action=cast("Literal['commit', 'abort']", action),
            driver=fields.required_text("driver"),
            attempt=fields.required_integer("attempt", minimum=0),
            nonce=fields.required_text("nonce"),
            tasks=tuple(
                Chosen(
                    TaskId(one.required_text("taskId")),
                    AttemptId(one.required_text("attemptId")),
                    one.required_integer("files", minimum=0),
                    one.required_integer("bytes", minimum=0),
                    one.integer("renames", minimum=0),
                    one.integer("bytesCopied", minimum=0),
                )
                for one in fields.objects("tasks")
            ),
            files=fields.required_integer("files", minimum=0),
            bytes=fields.required_integer("bytes", minimum=0),
            replaced=fields.integer("replaced", minimum=0),
            reason=fields.text("reason"),
            written_ms=fields.integer("writtenMs"),
            host=fields.text("host"),
        )

    def to_bytes(self) -> builtins.bytes:
        """One line of JSON."""
        return render(
            {
                "format": MARK_FORMAT,
                "jobId": self.job,
                "action": self.action,
                "driver": self.driver,
                "attempt": self.attempt,
                "nonce": self.nonce,
                "files": self.files,
                "bytes": self.bytes,
                "replaced": self.replaced,
                "reason": self.reason,
                "writtenMs": self.written_ms,
                "host": self.host,
                "tasks": [
                    {
                        "taskId": one.task,
                        "attemptId": one.attempt,
                        "files": one.files,
                        "bytes": one.bytes,
                        "renames": one.renames,
                        "bytesCopied": one.copied,
                    }
                    for one in self.tasks
                ],
            }
        )


def _fields(path: str, raw: bytes, expected: str, job: JobId) -> Fields:
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
