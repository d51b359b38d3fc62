"""Which rows of a batch belong to which partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from magicfs.errors import UsageError
from magicfs.tables import partition_names

_NUMBERS_MAX = 2**16
"""More are numbered again: sorting takes longer where numbers are large."""


def split(
    batch: pa.RecordBatch,
    partition_by: Sequence[str],
    *,
    input_sorted: bool = False,
    partitioning: partition_names.Partitioning = "hive",
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each partition that a batch touches, without the partition columns.

    ``input_sorted``: whether equal rows are neighbours: then rows are not moved, and come in their order.
    """
    columns = [_Column.of(name, batch.column(name)) for name in partition_by]
    rows = batch.select([one for one in batch.schema.names if one not in partition_by])

    def directory(row: int) -> str:
        values = [column.value(row) for column in columns]
        return partition_names.directory(partition_by, values, partitioning)

    codes = _combined(columns)
    if codes is None:
        yield directory(0), rows
        return
    order = None if input_sorted else pc.array_sort_indices(codes)
    start = 0
    runs: Any = pc.call_function("run_end_encode", [codes if order is None else codes.take(order)])
    for end in runs.run_ends.to_pylist():
        if order is None:
            yield directory(start), rows.slice(start, end - start)
        else:
            chosen = order.slice(start, end - start)
            # Taken for each partition by itself: slices of one large copy would keep all of it in memory.
            yield directory(chosen[0].as_py()), rows.take(chosen)
        start = end


@dataclass(frozen=True, slots=True)
class _Column:
    """A partition column of one batch: its distinct values, and which of them each row has."""

    values: list[partition_names.PartitionValue]
    indices: pa.Array[Any]

    @classmethod
    def of(cls, name: str, array: pa.Array[Any]) -> _Column:
        encoded: Any = pc.dictionary_encode(array, null_encoding="encode")
        try:
            return cls(encoded.dictionary.to_pylist(), encoded.indices)
        except (ValueError, OverflowError) as error:
            raise UsageError(
                f"a value of partition column {name!r} cannot be written as text: {error}; "
                "cast the column to string"
            ) from error

    def value(self, row: int) -> partition_names.PartitionValue:
        index: int = self.indices[row].as_py()
        return self.values[index]


def _combined(columns: Sequence[_Column]) -> pa.Array[Any] | None:
    """A number for each row, equal where all columns are equal; None where all rows are."""
    codes: pa.Array[Any] | None = None
    count = 1  # what all numbers are below
    for column in columns:
        if len(column.values) == 1:
            continue
        indices, values = column.indices, len(column.values)
        if codes is None:
            codes, count = indices, values
            continue
        if count * values > _NUMBERS_MAX:  # numbered again, so that they are as few as the rows
            encoded: Any = pc.dictionary_encode(codes)
            codes, count = encoded.indices.cast(pa.int64()), len(encoded.dictionary)
            indices = indices.cast(pa.int64())
        codes = pc.add(pc.multiply(codes, pa.scalar(values, codes.type)), indices)
        count *= values
    return codes


def check_column(schema: pa.Schema, name: str) -> None:
    """Refuse a partition column that is missing, or of a type that has no text."""
    found = schema.get_all_field_indices(name)
    if len(found) != 1:
        raise UsageError(
            f"partition column {name!r} is {'missing' if not found else 'there twice'}; "
            f"the columns are {', '.join(schema.names)}"
        )
    kind = schema.field(name).type
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_timestamp,
    )
    if not any(test(kind) for test in tests):
        raise UsageError(
            f"partition column {name!r} has type {kind}, which has no text form; cast it to string"
        )
