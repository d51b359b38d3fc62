"""The gate: which words of a record are believed, and what each of them is compared with first.

Whoever may write below a destination may write any record there, and commands that read it have more rights
than its writer. So a record is input: each field that names a place, a job, a setting, a moment or a number
of things is compared with what its writer could have meant by it, before anything is done. ``ROWS`` has one
row for each field of each format; ``docs/security.md`` shows them. Where more has to be known than the record
and its place, the row names the function that compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from magicfs.errors import FormatError
from magicfs.formats.job_object import JobObject
from magicfs.formats.job_rows import JOB_ROWS
from magicfs.formats.record_rows import RECORD_ROWS
from magicfs.formats.rows import Place, Row
from magicfs.protocol.layout import WorkLayout

_T = TypeVar("_T")

ROWS: Final[Mapping[str, tuple[Row, ...]]] = {"job": JOB_ROWS, **RECORD_ROWS}
"""By the names that ``magicfs.formats.kinds`` has for formats."""


def admit(kind: str, record: _T, place: Place) -> _T:
    """The record, if each of its fields is what it could say at its place.

    Raises FormatError, which names the record and the field, if one is not. Nothing was changed.
    """
    for row in ROWS[kind]:
        if row.problem is not None and (problem := row.problem(record, place)) is not None:
            if "nothing was changed" not in problem:
                problem += "; nothing was changed; find out who wrote it, then restore or remove it by hand"
            raise FormatError(place.path, row.field, problem)
    return record


def read_job(bucket: str, key: str, raw: bytes, layout: WorkLayout) -> JobObject:
    """The object of the job of a layout, as it lies at a key. Raises FormatError if it is no such object."""
    return admit_job(JobObject.from_bytes(f"{bucket}/{key}", raw), bucket, key, layout)


def admit_job(job: JobObject, bucket: str, key: str, layout: WorkLayout) -> JobObject:
    """The same of an object that was taken apart already."""
    place = Place(f"{bucket}/{key}", bucket, layout.destination, layout.job, layout)
    return admit("job", job, place)
