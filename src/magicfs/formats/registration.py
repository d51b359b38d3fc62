"""A table of a catalog that is to show a job, as long as it does not. ``magicfs.registration/1``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import REGISTRATION_SIZE_LIMIT, within

__all__ = ["REGISTRATION_FORMAT", "Registration"]

REGISTRATION_FORMAT: Final = "magicfs.registration/1"
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A value: it never changes, and goes once the table shows the job."""

    job_id: str  # the job that is to be shown
    catalog: str  # the kind of the catalog
    table: str = ""  # its table; empty if it is the destination itself
    options: Mapping[str, str] | None = None
    """How the catalog is found again, without anything secret; None if only a program can tell, and then the
    field is null."""
    line: str = ""  # what registers it, for people
    unknown: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the file: the same for the same table and job."""
        told = render({"catalog": self.catalog, "table": self.table, "options": dict(self.options or {})})
        return f"{self.job_id}-{hashlib.sha256(told).hexdigest()[:_DIGITS]}.json"

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Registration:
        fields = Fields(path, parse(path, raw, size_limit=REGISTRATION_SIZE_LIMIT))
        check_format(fields, REGISTRATION_FORMAT)
        return cls(
            job_id=fields.required_job_id(),
            catalog=fields.required_text("catalog"),
            table=fields.text("table"),
            options=fields.text_map("options") if fields.has("options") else None,
            line=fields.text("line"),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": REGISTRATION_FORMAT,
            "jobId": self.job_id,
            "catalog": self.catalog,
            "table": self.table,
            "options": self.options,
            "line": self.line,
        }
        raw = render(with_unknown(document, self.unknown))
        return within(
            raw, REGISTRATION_SIZE_LIMIT, f"what is told of table {self.table}", "choose shorter names"
        )
