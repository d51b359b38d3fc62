"""Compares a destination with what it must hold, and finds what should be gone."""

from __future__ import annotations

from collections.abc import Callable

from proofs.kill.content import Lane, Rows, difference
from proofs.kill.ground import Ground, Seen

__all__ = ["BEFORE", "Judge"]

BEFORE = ("open", "prepared")
"""States before the commit point."""


class Judge:
    """Looks at one destination in one round, and writes down what is wrong.

    Args:
        ground: What rounds share.
        lane: The destination.
        old: What it held before the job.
        new: What it holds once the job is published.
        seen: Where it is written down.
    """

    def __init__(self, ground: Ground, lane: Lane, old: Rows, new: Rows, seen: Seen) -> None:
        self._witness = ground.witness
        self._lane = lane
        self.old = old
        self.new = new
        self.seen = seen

    def state(self) -> str:
        """The state of the job that has not ended; ``none`` if there is none."""
        found = self._witness.job_states(self._lane)
        if len(found) > 1:
            self.seen.troubles.append(f"{len(found)} job objects")
        return found[0] if found else "none"

    def versions_of_ended_jobs(self) -> list[str]:
        """Numbered versions of job objects whose first is gone: they say nothing, and wait for a sweep."""
        return self._witness.versions_of_ended_jobs(self._lane)

    def nothing_is_there(self) -> bool:
        """Whether the destination is empty: no command finds it then."""
        return self._witness.is_empty(self._lane)

    def look_between(self) -> None:
        """Nothing may change before the commit point; old rows stay until all new ones are there."""
        self.seen.state = state = self.state()
        rows = self._witness.rows(self._lane)
        if state in BEFORE and rows != self.old:
            self.seen.early += 1
            self.seen.troubles.append(f"{state}, and the destination has changed")
        if not (self.old <= rows or self.new <= rows):
            self.seen.early += 1
            self.seen.troubles.append(f"{state}: old rows are gone before all new ones are there")
        if self._lane.format == "parquet" and self._witness.dataset(self._lane) not in (self.old, self.new):
            self.seen.torn += 1
            self.seen.troubles.append(f"{state}: a reader of manifests sees neither the old nor the new")

    def compare(self, expected: Rows, after: str) -> None:
        """Look at rows, manifests and ``_SUCCESS`` once a job has ended.

        Args:
            expected: ``old`` or ``new``.
            after: Of what, for messages.
        """
        self.compare_rows(expected, after)
        if self._lane.format == "parquet" and self._witness.dataset(self._lane) != expected:
            self.seen.torn += 1
            self.seen.troubles.append(f"after {after}: a reader of manifests sees something else")
        if expected is self.new or self._lane.jobs:
            self.seen.troubles += [f"after {after}: {one}" for one in self._witness.differences(self._lane)]
        self._compare_success(expected, after)

    def compare_rows(self, expected: Rows, after: str) -> None:
        """Count the rows that a listing finds; arguments are those of ``compare``."""
        rows = self._witness.rows(self._lane)
        if found := difference(rows, expected):
            self.seen.rows_lost += found.lost
            self.seen.rows_duplicated += found.duplicated
            self.seen.partial += rows not in (self.old, self.new)
            self.seen.troubles.append(f"after {after}: {found}")

    def look_for_leftovers(self, history: Callable[[str], list[str]]) -> None:
        """Count uploads and work objects that are left; ``history`` gives the requests about a key."""
        uploads, work = self._witness.uploads(self._lane), self._witness.work(self._lane)
        self.seen.uploads += uploads
        self.seen.work += work
        self.seen.troubles += [f"left: upload of {key}" for key in uploads]
        self.seen.troubles += ["; ".join([f"left: {key}", *history(key)]) for key in work]

    def _compare_success(self, expected: Rows, after: str) -> None:
        """A published job writes its own ``_SUCCESS``; one that was not leaves one if there was one."""
        success = self._witness.success(self._lane)
        if expected is self.new:
            wrong = success is None or (success == self._lane.success and not self.seen.published)
        else:
            wrong = (success is None) != (self._lane.success is None)
        if wrong:
            self.seen.troubles.append(f"after {after}: _SUCCESS was {self._lane.success!r}, is {success!r}")
        self._lane.success = success
        self.seen.published = expected is self.new
