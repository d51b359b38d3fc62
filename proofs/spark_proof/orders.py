"""What is written, and what a destination holds afterwards: pure arithmetic over row numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

__all__ = [
    "BATCH_ROWS",
    "Mode",
    "Order",
    "Route",
    "Rows",
    "batch_rows",
    "half_batches",
    "rows_wrong",
]

Route: TypeAlias = Literal["format", "write"]
Mode: TypeAlias = Literal["append", "overwrite", "overwrite_partitions"]
Rows: TypeAlias = Counter[tuple[int, int]]
"""How often each row is there, by its id and its partition. No two rows that are ever written are equal."""

BATCH_ROWS = 20
"""Rows of one batch of a stream."""

_ROWS = 600
_TASKS = 6
_DISTANCE = 1_000_000
_PARTITIONS = 3


@dataclass(frozen=True)
class Order:
    """One write.

    Attributes:
        number: Which one; no other has it at the same destination.
        route: ``format("magic")`` or ``magicfs.spark.write``.
        mode: What becomes of the rows that are there.
        rows: How many rows.
        tasks: How many tasks write them.
    """

    number: int
    route: Route
    mode: Mode
    rows: int = _ROWS
    tasks: int = _TASKS

    @property
    def first(self) -> int:
        """The first id."""
        return self.number * _DISTANCE

    @property
    def run_id(self) -> str:
        """Name of the run, by which a second one finds the first."""
        return f"order-{self.number}"

    @property
    def partition(self) -> str:
        """The partition of a row as an SQL expression."""
        # Dynamic overwriting is about the partitions that are written to: one of them.
        return (
            str(self.number % _PARTITIONS) if self.mode == "overwrite_partitions" else f"id % {_PARTITIONS}"
        )

    def new(self) -> Rows:
        """The rows that it writes."""
        only = self.number % _PARTITIONS if self.mode == "overwrite_partitions" else None
        ids = range(self.first, self.first + self.rows)
        return Counter((one, one % _PARTITIONS if only is None else only) for one in ids)

    def after(self, old: Rows) -> Rows:
        """What is there when it is published.

        Args:
            old: What was there before.
        """
        match self.mode:
            case "append":
                return old + self.new()
            case "overwrite":
                return self.new()
            case "overwrite_partitions":
                gone = self.number % _PARTITIONS
                return Counter({row: count for row, count in old.items() if row[1] != gone}) + self.new()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Order:
        """The order that ``to_dict`` was asked of."""
        return cls(**values)


def rows_wrong(seen: Rows, expected: Rows) -> int:
    """How many rows are missing, there too often, or there without reason."""
    return (expected - seen).total() + (seen - expected).total()


def batch_rows(number: int) -> Rows:
    """The rows of a batch of a stream."""
    first = number * BATCH_ROWS
    return Counter((one, one % _PARTITIONS) for one in range(first, first + BATCH_ROWS))


def half_batches(seen: Rows) -> int:
    """How many rows are wrong where only whole batches may be there, whichever ones."""
    numbers = {row_id // BATCH_ROWS for row_id, _ in seen}
    return rows_wrong(seen, sum((batch_rows(number) for number in numbers), start=Counter()))
