"""What a task attempt of the file committer has committed: ``magicfs.file-task/1``.

With algorithm 1 it is the task's commit; with algorithm 2 it is the claim by which the attempt commits alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import FILE_TASK_SIZE_LIMIT, within
from magicfs.protocol.ids import AttemptId, JobId, TaskId

__all__ = ["FILE_TASK_FORMAT", "FILE_TASK_SIZE_LIMIT", "TaskRecord"]

FILE_TASK_FORMAT: Final = "magicfs.file-task/1"


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What an attempt has committed, or with algorithm 2 is committing. A value."""

    job: JobId
    task: TaskId
    attempt: AttemptId
    files: tuple[tuple[str, int], ...]  # relative path and size of each
    committed_ms: int  # since the epoch, by the clock of whoever wrote it
    finished: bool = True  # whether all of them are where they belong
    number: int = 0  # of the job attempt in which it committed
    renames: int = 0  # how many that took
    copied: int = 0  # bytes that the store copied for them, where it has no rename

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size in self.files)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, owner: JobId | None = None) -> TaskRecord:
        """Read one. With ``owner``, another job's raises FormatError."""
        fields = Fields(path, parse(path, raw, size_limit=FILE_TASK_SIZE_LIMIT))
        check_format(fields, FILE_TASK_FORMAT)
        return cls(
            fields.required_job_id(owner=owner),
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
        raw = render(
            {
                "format": FILE_TASK_FORMAT,
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
        return within(
            raw,
            FILE_TASK_SIZE_LIMIT,
            f"the record of {len(self.files):,} files of task {self.task}",
            "write fewer or larger files in each task",
        )
