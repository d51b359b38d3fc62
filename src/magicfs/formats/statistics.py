"""Statistics as Hadoop persists them inside its files: ``IOStatisticsSnapshot``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from magicfs.formats.document import with_unknown
from magicfs.formats.fields import LONG_MAX, LONG_MIN, Fields

UNSET: Final = -1
"""A minimum or maximum that nothing has been measured for: it yields to any other value."""

ROWS: Final = "records_written"
"""The counter of the rows that tasks wrote, where they count them. Hadoop's committers have none."""

LEFT_OUT: Final = "committer_files_left_out"
"""The counter of local files that were not published, because their names are hidden. Hadoop has none."""

MOVED_ASIDE: Final = ("files_copied", "files_copied_bytes", "object_copy_requests")
"""The counters of replaced files that a job moved aside, of their bytes, and of the requests at most."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class MeanStatistic:
    """A mean that can be added to others (Hadoop's class of this name). The mean itself is not stored."""

    samples: int = 0  # how many values were added up; with none ``sum`` says nothing
    sum: int = 0  # in the unit of the statistic
    unknown: Mapping[str, object] = field(default_factory=dict)

    def __add__(self, other: MeanStatistic) -> MeanStatistic:
        unknown = {**other.unknown, **self.unknown}
        if not self.samples or not other.samples:
            measured = self if self.samples else other
            return MeanStatistic(measured.samples, measured.sum, unknown)
        samples, total = _add(self.samples, other.samples), _add(self.sum, other.sum)
        return MeanStatistic(samples, total, unknown)

    @property
    def mean(self) -> float:
        """The arithmetic mean, 0.0 without samples."""
        return self.sum / self.samples if self.samples > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Statistics:
    """What was counted and measured. A value: the mappings are never changed in place.

    ``a + b`` aggregates as Hadoop's ``IOStatisticsBinding`` does: counters add, and a negative one counts as
    zero; gauges add; minimums and maximums take the lesser and the greater, and ``UNSET`` yields; means add
    samples and sums. A name that one side lacks takes the other's value. Sums stay within 64 bits. Unknown
    fields cannot be aggregated: the left side's win.
    """

    counters: Mapping[str, int] = field(default_factory=dict)  # events by name
    gauges: Mapping[str, int] = field(default_factory=dict)  # levels by name
    minimums: Mapping[str, int] = field(default_factory=dict)  # ``UNSET`` possible
    maximums: Mapping[str, int] = field(default_factory=dict)  # ``UNSET`` possible
    meanstatistics: Mapping[str, MeanStatistic] = field(default_factory=dict)
    unknown: Mapping[str, object] = field(default_factory=dict)

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics.aggregate((self, other))

    @classmethod
    def aggregate(cls, snapshots: Iterable[Statistics]) -> Statistics:
        """Add up any number of snapshots; of none, five empty mappings."""
        known = tuple(snapshots)
        return cls(
            counters=_combined((each.counters for each in known), lambda a, b: _add(max(a, 0), max(b, 0))),
            gauges=_combined((each.gauges for each in known), _add),
            minimums=_combined((each.minimums for each in known), partial(_extreme, min)),
            maximums=_combined((each.maximums for each in known), partial(_extreme, max)),
            meanstatistics=_combined((each.meanstatistics for each in known), MeanStatistic.__add__),
            unknown=_combined((each.unknown for each in known), _first),
        )

    @classmethod
    def at(cls, fields: Fields, field: str) -> Statistics:
        """Read the snapshot at a field, an empty one when absent."""
        return cls.from_fields(fields.child(field))

    @classmethod
    def from_fields(cls, fields: Fields) -> Statistics:
        """Read a snapshot; what is missing is empty. Negative sample counts read as zero, as in Hadoop."""
        return cls(
            counters=fields.integer_map("counters"),
            gauges=fields.integer_map("gauges"),
            minimums=fields.integer_map("minimums"),
            maximums=fields.integer_map("maximums"),
            meanstatistics={
                name: MeanStatistic(max(0, mean.integer("samples")), mean.integer("sum"), mean.rest())
                for name, mean in fields.object_map("meanstatistics")
            },
            unknown=fields.rest(),
        )

    def to_document(self) -> dict[str, object]:
        """The JSON object: all five mappings, empty ones too."""
        document: dict[str, object] = {
            "counters": self.counters,
            "gauges": self.gauges,
            "minimums": self.minimums,
            "maximums": self.maximums,
            "meanstatistics": {
                name: with_unknown({"samples": mean.samples, "sum": mean.sum}, mean.unknown)
                for name, mean in self.meanstatistics.items()
            },
        }
        return with_unknown(document, self.unknown)


def _combined(
    mappings: Iterable[Mapping[str, _Value]], combine: Callable[[_Value, _Value], _Value]
) -> dict[str, _Value]:
    total: dict[str, _Value] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            total[name] = combine(total[name], value) if name in total else value
    return total


def _add(left: int, right: int) -> int:
    return max(LONG_MIN, min(LONG_MAX, left + right))


def _extreme(choose: Callable[[int, int], int], left: int, right: int) -> int:
    if UNSET in (left, right):
        return right if left == UNSET else left
    return choose(left, right)


def _first(left: object, _right: object) -> object:
    return left
