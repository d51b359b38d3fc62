"""What a task attempt wrote at the destination at once: names and sizes. Format ``magicfs.files/1``.

It travels in the task's commit, packed, and is stored nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import FILE_LIST_SIZE_LIMIT, within

__all__ = ["FILE_LIST_FORMAT", "FILE_LIST_SIZE_LIMIT", "FileList"]

FILE_LIST_FORMAT: Final = "magicfs.files/1"


@dataclass(frozen=True, slots=True)
class FileList:
    """The files of one attempt. A value."""

    job_id: str
    task_id: str
    attempt_id: str
    files: tuple[tuple[str, int], ...] = ()  # key relative to the destination, and size in bytes, of each

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(size for _, size in self.files)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> FileList:
        """Read a list. A key twice, or one that leads out of the destination, is a FormatError."""
        fields = Fields(path, parse(path, raw, size_limit=FILE_LIST_SIZE_LIMIT))
        check_format(fields, FILE_LIST_FORMAT)
        files: dict[str, int] = {}
        for one in fields.objects("files"):
            key = one.required_text("key")
            if any(element in {"", ".", ".."} for element in key.split("/")):
                raise one.error("key", "an element that is empty, '.' or '..'")
            if key in files:
                raise one.error("key", "named twice")
            files[key] = one.required_integer("size", minimum=0)
        return cls(
            job_id=fields.required_text("jobId"),
            task_id=fields.required_text("taskId"),
            attempt_id=fields.required_text("attemptId"),
            files=tuple(files.items()),
        )

    def to_bytes(self) -> bytes:
        raw = render(
            {
                "format": FILE_LIST_FORMAT,
                "jobId": self.job_id,
                "taskId": self.task_id,
                "attemptId": self.attempt_id,
                "files": [{"key": key, "size": size} for key, size in self.files],
            }
        )
        return within(
            raw,
            FILE_LIST_SIZE_LIMIT,
            f"the list of {len(self.files):,} files of task {self.task_id}",
            "write fewer or larger files in each task",
        )
