"""The job: a dataset of four partitions, and four new ones that shall replace it.

The rows cannot be compressed, so that a file has the size of its rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

__all__ = ["NEW_IDS", "NEW_ROWS", "OLD_ROWS", "PARTITIONS", "SCHEMA", "Failure", "Rows"]

PARTITIONS = 4
NEW_IDS = 1_000_000
"""New rows have this id at least, and old ones a smaller one."""

_BODY = 4096
_OLD_BATCHES, _OLD_ROWS = 1, 250
_NEW_BATCHES, _NEW_ROWS = 3, 1000
OLD_ROWS = PARTITIONS * _OLD_BATCHES * _OLD_ROWS
NEW_ROWS = PARTITIONS * _NEW_BATCHES * _NEW_ROWS
_FAILS_AT = (2, 1)
"""The partition, and the batch of it, that cannot be made."""

SCHEMA = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("body", pa.binary())])


class Failure(RuntimeError):
    """What the maker of the rows raises."""


@dataclass(frozen=True)
class Rows:
    """The rows of one run; pickles, and makes the same ids anywhere."""

    new: bool
    fails: bool = False

    def part(self, partition: int) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, its column ``p`` included."""
        batches, rows = (_NEW_BATCHES, _NEW_ROWS) if self.new else (_OLD_BATCHES, _OLD_ROWS)
        for number in range(batches):
            if self.fails and (partition, number) == _FAILS_AT:
                raise Failure("the source of the rows fails, on purpose")
            first = (NEW_IDS if self.new else 0) + (partition * batches + number) * rows
            random = os.urandom(rows * _BODY)
            bodies = [random[one * _BODY : (one + 1) * _BODY] for one in range(rows)]
            yield pa.record_batch(
                [pa.array([partition] * rows, pa.int32()), pa.array(range(first, first + rows)), bodies],
                schema=SCHEMA,
            )

    def whole(self) -> Iterator[pa.RecordBatch]:
        """All rows, partition by partition."""
        for partition in range(PARTITIONS):
            yield from self.part(partition)

    def table(self, partition: int | None = None) -> pa.Table:
        """The same at once, for writers that take no less."""
        batches = self.whole() if partition is None else self.part(partition)
        return pa.Table.from_batches(list(batches), SCHEMA)
