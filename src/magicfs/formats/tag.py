"""A name for a publication. ``magicfs.tag/1``."""

from __future__ import annotations

from typing import ClassVar

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.formats.limits import TAG_SIZE_LIMIT, within
from magicfs.formats.record import COUNT, JOB, TEXT, Record, member, record


@record
class Tag(Record):
    """A tag. A value: who moves it makes a new one."""

    FORMAT: ClassVar = "magicfs.tag/1"

    name: str = member(TEXT, key="tag")
    job_id: str = member(JOB)  # the job that it names
    nonce: str = member(TEXT)  # another one in every version, so that a writer recognises its own
    created_ms: int = member(COUNT)  # when it was set, or last moved
    keeps: str = member(JOB, default="", rare=True)
    """Under which id the pointer names the files that it keeps; empty if it keeps none."""

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Tag:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=TAG_SIZE_LIMIT)))

    def to_bytes(self) -> bytes:
        raw = render(self.to_document())
        return within(raw, TAG_SIZE_LIMIT, f"tag {self.name}", "set it again, under a shorter name")
