"""What a job that flips writes down before its commit point: ``flip.json``, format ``magicfs.flip/1``.

It lies among the job's work in the old dataset, and goes with it: where it lies tells whether the flip has
taken place. It names all that is needed to clear the old dataset away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.job_object import Chunk, chunk_document, read_chunk
from magicfs.formats.limits import FLIP_SIZE_LIMIT, within
from magicfs.protocol.ids import JobId

__all__ = ["FLIP_FORMAT", "FLIP_SIZE_LIMIT", "FlipRecord"]

FLIP_FORMAT: Final = "magicfs.flip/1"


@dataclass(frozen=True, slots=True)
class FlipRecord:
    """What a flip replaces. A value."""

    job: JobId
    destination: str  # a key in the same bucket, without a slash at its end
    new: str  # the directory beside it with the new dataset, likewise
    old: tuple[Chunk, ...] = ()  # lists of all files of the old dataset, with the keys they had before

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, owner: JobId | None = None) -> FlipRecord:
        """Read one. With ``owner``, another job's raises FormatError."""
        fields = Fields(path, parse(path, raw, size_limit=FLIP_SIZE_LIMIT))
        check_format(fields, FLIP_FORMAT)
        return cls(
            fields.required_job_id(owner=owner),
            fields.required_text("destination"),
            fields.required_text("new"),
            tuple(read_chunk(one) for one in fields.objects("old")),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        raw = render(
            {
                "format": FLIP_FORMAT,
                "jobId": self.job,
                "destination": self.destination,
                "new": self.new,
                "old": [chunk_document(one) for one in self.old],
            }
        )
        return within(raw, FLIP_SIZE_LIMIT, f"the flip of job {self.job}", "replace fewer files by one job")
