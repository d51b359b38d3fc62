"""The three markers of a job commit of the file committer: ``magicfs.commit-marker/1``.

``COMMIT_STARTED``, ``COMMIT_SUCCESS`` and ``COMMIT_FAIL`` have the names that Hadoop's application master
gives them. ``magicfs.committers.file.markers`` says what each of them allows.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Final, Literal, cast

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import COMMIT_MARKER_SIZE_LIMIT, within
from magicfs.protocol.ids import AttemptId, JobId, TaskId

__all__ = ["COMMIT_MARKER_FORMAT", "COMMIT_MARKER_SIZE_LIMIT", "Chosen", "Mark"]

COMMIT_MARKER_FORMAT: Final = "magicfs.commit-marker/1"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A task attempt that is published."""

    task: TaskId
    attempt: AttemptId
    files: int
    bytes: int
    renames: int = 0  # how many the task commit took
    copied: int = 0  # bytes that the store copied for them


@dataclass(frozen=True, slots=True)
class Mark:
    """What a marker says. A value."""

    job: JobId
    action: Literal["commit", "abort"]  # what was begun
    driver: str  # token of the driver that began it
    attempt: int  # number of its job attempt
    nonce: str  # another one in every write
    tasks: tuple[Chosen, ...] = ()  # what is published, in order of tasks
    files: int = 0
    bytes: int = 0
    replaced: int = 0  # how many of the files others of the job replace, which have the same names
    reason: str = ""  # why it failed
    written_ms: int = 0  # since the epoch
    host: str = ""

    @classmethod
    def from_bytes(cls, path: str, raw: builtins.bytes, owner: JobId | None = None) -> Mark:
        """Read one. With ``owner``, another job's raises FormatError."""
        fields = Fields(path, parse(path, raw, size_limit=COMMIT_MARKER_SIZE_LIMIT))
        check_format(fields, COMMIT_MARKER_FORMAT)
        if (action := fields.required_text("action")) not in ("commit", "abort"):
            raise fields.error("action", "is neither commit nor abort")
        return cls(
            job=fields.required_job_id(owner=owner),
            action=cast("Literal['commit', 'abort']", action),
            driver=fields.required_text("driver"),
            attempt=fields.required_integer("attempt", minimum=0),
            nonce=fields.required_text("nonce"),
            tasks=tuple(_chosen(one) for one in fields.objects("tasks")),
            files=fields.required_integer("files", minimum=0),
            bytes=fields.required_integer("bytes", minimum=0),
            replaced=fields.integer("replaced", minimum=0),
            reason=fields.text("reason"),
            written_ms=fields.integer("writtenMs"),
            host=fields.text("host"),
        )

    def to_bytes(self) -> builtins.bytes:
        raw = render(
            {
                "format": COMMIT_MARKER_FORMAT,
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
                "tasks": [_chosen_document(one) for one in self.tasks],
            }
        )
        return within(
            raw,
            COMMIT_MARKER_SIZE_LIMIT,
            f"the commit marker of {len(self.tasks):,} tasks of job {self.job}",
            "run fewer tasks in each job",
        )


def _chosen(fields: Fields) -> Chosen:
    return Chosen(
        TaskId(fields.required_text("taskId")),
        AttemptId(fields.required_text("attemptId")),
        fields.required_integer("files", minimum=0),
        fields.required_integer("bytes", minimum=0),
        fields.integer("renames", minimum=0),
        fields.integer("bytesCopied", minimum=0),
    )


def _chosen_document(chosen: Chosen) -> dict[str, object]:
    return {
        "taskId": chosen.task,
        "attemptId": chosen.attempt,
        "files": chosen.files,
        "bytes": chosen.bytes,
        "renames": chosen.renames,
        "bytesCopied": chosen.copied,
    }
