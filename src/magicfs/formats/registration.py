"""A table of a catalog that is to show a job, as long as it does not. ``magicfs.registration/1``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import ClassVar, Final

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.formats.limits import REGISTRATION_SIZE_LIMIT, within
from magicfs.formats.record import JOB, TEXT, Record, member, record

_DIGITS: Final = 16


@record
class Registration(Record):
    """A value: it never changes, and goes once the table shows the job."""

    FORMAT: ClassVar = "magicfs.registration/1"

    job_id: str = member(JOB)  # the job that is to be shown
    catalog: str = member(TEXT)  # the kind of the catalog
    table: str = member(Fields.text, default="")  # its table; empty if it is the destination itself
    options: Mapping[str, str] | None = member(Fields.text_map, default=None)
    """How the catalog is found again, without anything secret; None if only a program can tell, and then the
    field is null."""
    line: str = member(Fields.text, default="")  # what registers it, for people

    @property
    def name(self) -> str:
        """Of the file: the same for the same table and job."""
        told = render({"catalog": self.catalog, "table": self.table, "options": dict(self.options or {})})
        return f"{self.job_id}-{hashlib.sha256(told).hexdigest()[:_DIGITS]}.json"

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Registration:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=REGISTRATION_SIZE_LIMIT)))

    def to_bytes(self) -> bytes:
        what = f"the registration of table {self.table}"
        return within(render(self.to_document()), REGISTRATION_SIZE_LIMIT, what, "choose shorter names")
