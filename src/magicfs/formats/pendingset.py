"""The ``.pendingset`` file: all pending uploads of one task attempt. Hadoop's ``PendingSet``.

Version 3; Hadoop up to 3.3.0 wrote version 1, which its later readers refuse, and so does this one. The
staging committers of Hadoop write the same content into a file without a suffix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from magicfs.errors import UsageError
from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields
from magicfs.formats.limits import PENDINGSET_SIZE_LIMIT, within
from magicfs.formats.pending import DEFAULT_ETAG_FORMAT, EtagFormat, Pending
from magicfs.formats.record import first_twice
from magicfs.formats.statistics import Statistics

PENDINGSET_VERSION: Final = 3
PENDINGSET_SUFFIX: Final = ".pendingset"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSet:
    """What a task attempt persists so that the job can publish it. A value, as ``Pending`` is."""

    job_id: str = ""  # Hadoop's staging committers leave it empty
    commits: tuple[Pending, ...] = ()
    """One per file; no two have one destination key; none if nothing was written."""
    statistics: Statistics = field(default_factory=Statistics)  # sum of the commits' statistics
    extra_data: Mapping[str, str] = field(default_factory=dict)
    """Written when not empty; Hadoop neither writes nor reads it."""
    unknown: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (twice := first_twice(one.destination_key for one in self.commits)) is not None:
            key = self.commits[twice[1]].destination_key
            raise UsageError(
                f"Destination {key!a} is written to by more than one pending commit; keep one of them"
            )

    @classmethod
    def merge(
        cls, job_id: str, commits: Iterable[Pending], extra_data: Mapping[str, str] | None = None
    ) -> PendingSet:
        """Make a set into whose statistics those of the commits are moved, as by Hadoop's
        ``PendingSet.add``.

        Raises UsageError if two commits have one destination key.
        """
        given = tuple(commits)
        return cls(
            job_id=job_id,
            commits=tuple(replace(commit, statistics=Statistics()) for commit in given),
            statistics=Statistics.aggregate(commit.statistics for commit in given),
            extra_data=dict(extra_data or {}),
        )

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = PENDINGSET_SIZE_LIMIT) -> PendingSet:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=size_limit)))

    @classmethod
    def from_fields(cls, fields: Fields) -> PendingSet:
        """Read the JSON object. Two commits with one destination key are a FormatError."""
        fields.version(PENDINGSET_VERSION)
        commits = tuple(Pending.from_fields(child) for child in fields.objects("commits"))
        if (twice := first_twice(one.destination_key for one in commits)) is not None:
            first, second = twice
            raise fields.error(
                f"commits[{second}].destinationKey",
                f"Destination {commits[second].destination_key!a} is written to by more than one pending "
                f"commit, by commits[{first}] too",
            )
        return cls(
            job_id=fields.text("jobId"),
            commits=commits,
            statistics=Statistics.at(fields, "iostatistics"),
            extra_data=fields.text_map("extraData"),
            unknown=fields.rest(),
        )

    def to_bytes(self, etag_format: EtagFormat = DEFAULT_ETAG_FORMAT) -> bytes:
        """The whole file, fields in the order in which Hadoop emits them."""
        document: dict[str, object] = {
            "version": PENDINGSET_VERSION,
            "jobId": self.job_id,
            "commits": [commit.to_document(etag_format) for commit in self.commits],
            "iostatistics": self.statistics.to_document(),
        }
        if self.extra_data:
            document["extraData"] = self.extra_data
        what = f"the pending set of {len(self.commits):,} files of job {self.job_id}"
        advice = "write fewer or larger files in each task"
        return within(render(with_unknown(document, self.unknown)), PENDINGSET_SIZE_LIMIT, what, advice)
