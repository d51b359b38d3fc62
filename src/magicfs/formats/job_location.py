"""What a job leaves in its extra destinations while it is alive: where its job object is.

``job-location.json``, format ``magicfs.job-location/1``. Without it, somebody who clears up in an extra
destination would take the job's uploads for those of a job that has ended.
"""

from __future__ import annotations

from typing import ClassVar

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.formats.limits import JOB_LOCATION_SIZE_LIMIT, within
from magicfs.formats.record import JOB, Record, member, short_record
from magicfs.protocol.ids import JobId


@short_record
class JobLocation(Record):
    """Where a job's object is. A value."""

    FORMAT: ClassVar = "magicfs.job-location/1"

    job: JobId = member(JOB, key="jobId")
    destination: str = member(Fields.text)
    """A key in the same bucket, without a slash at its end; empty for a whole bucket."""

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> JobLocation:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=JOB_LOCATION_SIZE_LIMIT)))

    def to_bytes(self) -> bytes:
        what, raw = f"the signpost of job {self.job}", render(self.to_document())
        return within(raw, JOB_LOCATION_SIZE_LIMIT, what, "choose a shorter name")
