"""What a job leaves in its extra destinations while it is alive: where its job object is.

``job-location.json``, format ``magicfs.job-location/1``. Without it, somebody who clears up in an extra
destination would take the job's uploads for those of a job that has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import JOB_LOCATION_SIZE_LIMIT, within
from magicfs.protocol.ids import JobId

__all__ = ["JOB_LOCATION_FORMAT", "JOB_LOCATION_SIZE_LIMIT", "JobLocation"]

JOB_LOCATION_FORMAT: Final = "magicfs.job-location/1"


@dataclass(frozen=True, slots=True)
class JobLocation:
    """Where a job's object is. A value."""

    job: JobId
    destination: str  # a key in the same bucket, without a slash at its end; empty for a whole bucket

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> JobLocation:
        fields = Fields(path, parse(path, raw, size_limit=JOB_LOCATION_SIZE_LIMIT))
        check_format(fields, JOB_LOCATION_FORMAT)
        return cls(fields.required_job_id(), fields.text("destination"))

    def to_bytes(self) -> bytes:
        raw = render({"format": JOB_LOCATION_FORMAT, "jobId": self.job, "destination": self.destination})
        return within(
            raw, JOB_LOCATION_SIZE_LIMIT, f"the signpost of job {self.job}", "choose a shorter name"
        )
