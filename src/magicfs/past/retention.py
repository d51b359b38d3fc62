"""Which earlier publications stay readable: by count, by calendar and by tag."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final, TypeVar

from magicfs.errors import UsageError
from magicfs.formats.log import LoggedJob
from magicfs.protocol.period import parse_period, period_text

_COUNT_MAX: Final = 100_000
_BUCKETS: Final[Mapping[str, Callable[[datetime], object]]] = {
    "hourly": lambda one: (one.date(), one.hour),
    "daily": datetime.date,
    "weekly": lambda one: one.isocalendar()[:2],
    "monthly": lambda one: (one.year, one.month),
    "yearly": lambda one: one.year,
}
_T = TypeVar("_T")
_HOW: Final = "write it as 7d, or as rules such as daily=7,weekly=5,tagged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How long replaced files stay: as long as one of these rules keeps a publication that shows them.

    ``keep="7d"`` keeps replaced files for a time. ``keep=Keep(daily=7, weekly=5, tagged=True)`` keeps the
    last publication of each of the last 7 days and 5 weeks that have one, in UTC, and all that have a tag.
    Text such as ``daily=7,weekly=5,tagged`` means the same in a policy, in Spark and on the command line.

    Args:
        within: How long replaced files stay in any case, for readers that still use them.
        last: How many of the newest publications to keep.
        hourly: For how many hours to keep the last publication.
        daily: The same for days.
        weekly: The same for weeks, which begin on Monday.
        monthly: The same for months.
        yearly: The same for years.
        tagged: Whether to keep each publication that has a tag.

    Raises:
        UsageError: A number is not a whole number of 1 or more, or there is no rule.
    """

    within: str | timedelta = "1d"
    last: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    tagged: bool = False

    def __post_init__(self) -> None:
        parse_period("within", self.within)
        for name in ("last", *_BUCKETS):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= _COUNT_MAX:
                raise UsageError(f"keep: {name}={value!r} is not a whole number up to {_COUNT_MAX:,}")
        if type(self.tagged) is not bool:
            raise UsageError(f"keep: tagged={self.tagged!r} is not True or False")
        if not any(getattr(self, name) for name in ("last", *_BUCKETS, "tagged")):
            raise UsageError("keep: no rule keeps a publication; add daily=7 or similar, or give keep='7d'")

    @classmethod
    def of(cls, name: str, value: object) -> Keep:
        """A ``Keep``, the mapping of its arguments, or text such as ``daily=7,weekly=5,tagged``.

        ``name`` is the argument to name in errors. Raises UsageError for anything else.
        """
        if isinstance(value, Keep):
            return value
        given = _named(value) if isinstance(value, str) else value
        if not isinstance(given, Mapping):
            raise UsageError(f"{name}={value!r} says nothing about publications; {_HOW}")
        known = [one.name for one in fields(cls)]
        for key in given:
            if key not in known:
                near = (*get_close_matches(str(key), known, 1), "")[0]
                meant = f"did you mean {near}?" if near else f"choose from {', '.join(known)}"
                raise UsageError(f"{name} has no rule {key!r}; {meant}")
        return cls(**given)

    @classmethod
    def or_period(cls, name: str, value: _T) -> _T | Keep:
        """Turn text with rules into a ``Keep``; return anything else, such as ``7d`` or None, unchanged."""
        is_rule = isinstance(value, str) and ("=" in value or "tagged" in value)
        return cls.of(name, value) if is_rule else value

    @property
    def rule(self) -> str:
        """The same as text; equal rules have equal texts."""
        counts = (f"{name}={getattr(self, name)}" for name in ("last", *_BUCKETS) if getattr(self, name))
        within = f"within={period_text(parse_period('within', self.within))}"
        return ",".join([within, *counts, *(["tagged"] if self.tagged else [])])

    def __str__(self) -> str:
        return self.rule

    def chosen(self, jobs: Sequence[LoggedJob], tagged: Collection[str]) -> set[str]:
        """The publications to keep out of all, the newest first. ``tagged``: those that have a tag."""
        found = {one.job_id for one in jobs[: self.last]}
        if self.tagged:
            found |= {one.job_id for one in jobs if one.job_id in tagged}
        moments = in_order([one.committed_ms for one in jobs])
        for name, bucket in _BUCKETS.items():
            seen = dict[object, str]()
            for job, moment in zip(jobs, moments, strict=True):
                if len(seen) == getattr(self, name) and bucket(_utc(moment)) not in seen:
                    break
                seen.setdefault(bucket(_utc(moment)), job.job_id)
            found |= {*seen.values()}
        return found


def in_order(moments: Sequence[int]) -> list[int]:
    """Moments of publications, the newest first, as far as they agree with that order.

    A driver whose clock was wrong must use up no day. The longest series that is in order counts; each other
    publication counts as made when the next newer one of that series was, or the newest of all.
    """
    ends: list[int] = []  # the smallest end, negated, of a series of each length
    where: list[int] = []  # its place
    before: list[int] = []
    for place, moment in enumerate(moments):
        length = bisect_left(ends, -moment + 1)
        before.append(where[length - 1] if length else -1)
        ends[length : length + 1] = [-moment]
        where[length : length + 1] = [place]
    trusted = set[int]()
    place = where[-1] if where else -1
    while place != -1:
        trusted.add(place)
        place = before[place]
    found: list[int] = []
    for place, _ in enumerate(moments):
        if place in trusted or not found:
            found.append(moments[place if place in trusted else min(trusted)])
        else:
            found.append(found[-1])
    return found


def _named(text: str) -> dict[str, int | str | bool]:
    """What text such as ``daily=7,tagged`` says."""
    parts = [one.partition("=") for one in text.split(",")]
    return {key.strip(): _number(value.strip()) if equals else True for key, equals, value in parts}


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
