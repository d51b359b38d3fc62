"""What the rules of an audit see of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from magicfs.formats.audit import Said
from magicfs.formats.footer import Footer, Schema
from magicfs.protocol.conflict import partition_of

__all__ = ["Audited", "AuditedFile", "Previous"]


@dataclass(frozen=True, slots=True)
class AuditedFile:
    """A file of the job.

    Attributes:
        key: Relative to the destination.
        bytes: Its size.
        footer: What it says of itself; None if nobody knows.
        said: What the checks of its content have said in its task, by their names: what is wrong with it, or
            None.
    """

    key: str
    bytes: int
    footer: Footer | None
    said: Said = field(default_factory=dict)

    @property
    def partition(self) -> dict[str, str]:
        """The values in the names of its directories: ``{"day": "2026-01-01"}`` of ``day=2026-01-01/…``."""
        return partition_of(self.key)


@dataclass(frozen=True, slots=True)
class Previous:
    """The publication before.

    Attributes:
        job_id: The job.
        files: How many files it brought.
        bytes: Their size.
        rows: Their rows; None if they are not known of all.
        schemas: Their schemas by fingerprint; of one that is too large without columns.
    """

    job_id: str
    files: int
    bytes: int
    rows: int | None
    schemas: Mapping[str, Schema] = field(default_factory=dict)


@dataclass
class Audited:
    """A job that is about to be published.

    Attributes:
        job_id: The job.
        destination: URL of its destination.
        run_id: Name of its run; None without one.
        conflict: Its conflict mode.
        previous: The publication before it; None if there is none.
    """

    job_id: str
    destination: str
    run_id: str | None
    conflict: str
    previous: Previous | None
    _files: Callable[[], Iterator[AuditedFile]] = field(repr=False)

    def files(self) -> Iterator[AuditedFile]:
        """Every file at the destination that the job brings; may be asked for again and again."""
        return self._files()

    @property
    def count(self) -> int:
        """How many files."""
        return int(self._sums["count"])

    @property
    def bytes(self) -> int:
        """Their size."""
        return int(self._sums["bytes"])

    @property
    def unknown(self) -> int:
        """Of how many files nothing is known."""
        return int(self._sums["unknown"])

    @property
    def rows(self) -> int | None:
        """Their rows; None if they are not known of all."""
        return None if self.unknown else int(self._sums["rows"])

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Their schemas by fingerprint."""
        found: Mapping[str, Schema] = self._sums["schemas"]
        return found

    @cached_property
    def _sums(self) -> dict[str, Any]:
        count = size = unknown = rows = 0
        schemas: dict[str, Schema] = {}
        for one in self.files():
            count, size = count + 1, size + one.bytes
            if one.footer is None:
                unknown += 1
                continue
            rows += one.footer.rows
            if one.footer.schema is not None:
                schemas[one.footer.schema.fingerprint] = one.footer.schema
        return {"count": count, "bytes": size, "unknown": unknown, "rows": rows, "schemas": schemas}
