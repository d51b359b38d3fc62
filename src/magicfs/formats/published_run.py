"""A run that an older manifest published, in a sum of manifests that an older magicfs has made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from magicfs.formats.document import with_unknown
from magicfs.formats.fields import Fields

__all__ = ["PublishedRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """A run that an older manifest published, in a manifest that sums older ones up."""

    run_id: str
    job_id: str  # the job that published it
    files: int  # how many files the job brought
    size: int  # their bytes
    committed_ms: int  # when it was published
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_fields(cls, fields: Fields) -> PublishedRun:
        return cls(
            run_id=fields.required_text("runId"),
            job_id=fields.required_job_id(),
            files=fields.required_integer("files", minimum=0),
            size=fields.required_integer("size", minimum=0),
            committed_ms=fields.required_integer("committed", minimum=0),
            unknown=fields.rest(),
        )

    def to_document(self) -> dict[str, object]:
        document: dict[str, object] = {
            "runId": self.run_id,
            "jobId": self.job_id,
            "files": self.files,
            "size": self.size,
            "committed": self.committed_ms,
        }
        return with_unknown(document, self.unknown)
