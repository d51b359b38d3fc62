"""A name for a publication. ``magicfs.tag/1``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import TAG_SIZE_LIMIT, within

__all__ = ["TAG_FORMAT", "Tag"]

TAG_FORMAT: Final = "magicfs.tag/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag. A value: who moves it makes a new one."""

    name: str
    job_id: str  # the job that it names
    nonce: str  # another one in every version, so that a writer recognises its own
    created_ms: int  # when it was set, or last moved
    keeps: str = ""  # under which id the pointer names the files that it keeps; empty if it keeps none
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Tag:
        fields = Fields(path, parse(path, raw, size_limit=TAG_SIZE_LIMIT))
        check_format(fields, TAG_FORMAT)
        return cls(
            name=fields.required_text("tag"),
            job_id=fields.required_job_id(),
            nonce=fields.required_text("nonce"),
            created_ms=fields.required_integer("created", minimum=0),
            keeps=fields.job_id_at("keeps", fields.text("keeps")) if fields.has("keeps") else "",
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": TAG_FORMAT,
            "tag": self.name,
            "jobId": self.job_id,
            "nonce": self.nonce,
            "created": self.created_ms,
        }
        if self.keeps:
            document["keeps"] = self.keeps
        raw = render(with_unknown(document, self.unknown))
        return within(raw, TAG_SIZE_LIMIT, f"tag {self.name}", "set it again, under a shorter name")
