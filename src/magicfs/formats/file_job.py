"""Whose a job of the file committer is: its ``job.json`` and ``driver.json``. ``magicfs.file-job/1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import FILE_JOB_SIZE_LIMIT, within
from magicfs.protocol.ids import JobId

__all__ = ["FILE_JOB_FORMAT", "FILE_JOB_SIZE_LIMIT", "JobFile"]

FILE_JOB_FORMAT: Final = "magicfs.file-job/1"


@dataclass(frozen=True, slots=True)
class JobFile:
    """How a job was begun, and by whom. A value."""

    job: JobId
    algorithm: int
    unique_names: bool  # whether final names carry task and job
    attempt: int  # number of the job attempt that set it up last
    driver: str  # token of the driver that did
    created_ms: int  # since the epoch: when it was set up first; in driver.json, when it was taken over
    host: str

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, owner: JobId | None = None) -> JobFile:
        """Read one. With ``owner``, another job's raises FormatError."""
        fields = Fields(path, parse(path, raw, size_limit=FILE_JOB_SIZE_LIMIT))
        check_format(fields, FILE_JOB_FORMAT)
        return cls(
            fields.required_job_id(owner=owner),
            fields.required_integer("algorithm"),
            fields.flag("uniqueNames", default=True),
            fields.required_integer("attempt", minimum=0),
            fields.required_text("driver"),
            fields.integer("createdMs"),
            fields.text("host"),
        )

    def to_bytes(self) -> bytes:
        raw = render(
            {
                "format": FILE_JOB_FORMAT,
                "jobId": self.job,
                "algorithm": self.algorithm,
                "uniqueNames": self.unique_names,
                "attempt": self.attempt,
                "driver": self.driver,
                "createdMs": self.created_ms,
                "host": self.host,
            }
        )
        return within(raw, FILE_JOB_SIZE_LIMIT, f"the record of job {self.job}", "choose a shorter name")
