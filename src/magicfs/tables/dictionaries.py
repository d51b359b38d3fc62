"""Which columns of a Parquet file are worth a dictionary.

Of values that hardly repeat, a dictionary takes more space than the values, and most of the time of encoding:
each value is looked up in a table that is larger than a processor's cache.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE = 4096
_REPEATED = 0.015
"""Of a sample: as of 140,000 distinct values, whose dictionary is larger than writers let one become."""


def columns_worth_a_dictionary(rows: pa.Table) -> list[str] | None:
    """The columns whose values repeat, in a sample of all rows or among neighbours; None for all.

    Those are taken if some are nested, for then the parts of each column would have to be named.
    """
    if any(pa.types.is_nested(field.type) for field in rows.schema):
        return None
    # Neighbours first: they are there, and a sample has to be taken.
    first = rows.slice(0, _SAMPLE)
    doubtful = [
        field.name
        for number, field in enumerate(rows.schema)
        if _may_be_distinct(field.type) and not _repeats(first[number])
    ]
    some = _sample(rows.select(doubtful)) if doubtful else []
    left_out = {name for name, found in zip(doubtful, some, strict=True) if not _repeats(found)}
    return [name for name in rows.schema.names if name not in left_out]


def _sample(rows: pa.Table) -> list[pa.ChunkedArray[Any]]:
    """Values of each column, from rows everywhere."""
    columns: list[list[pa.Array[Any]]] = [[] for _ in rows.schema]
    for batch in rows.to_batches():
        places = _places(batch.num_rows, max(1, _SAMPLE * batch.num_rows // rows.num_rows))
        for found, column in zip(columns, batch.columns, strict=True):
            found.append(column.take(places))
    return [pa.chunked_array(found) for found in columns]


def _places(rows: int, count: int) -> pa.Array[Any]:
    return pc.cast(pc.multiply(_steps().slice(0, count), rows / count), pa.int64(), safe=False)


@cache
def _steps() -> pa.Array[Any]:
    # A pattern of the rows could look like repetition, or hide it, at even distances.
    numbers = random.Random(0)  # noqa: S311
    return pa.array([step + numbers.random() for step in range(_SAMPLE)])


def _repeats(values: pa.ChunkedArray[Any]) -> bool:
    valid = len(values) - values.null_count
    distinct: int = pc.count_distinct(values).as_py()
    return bool(valid - distinct >= _REPEATED * valid)


def _may_be_distinct(kind: Any) -> bool:
    """Whether a column is of a type whose dictionary may be large."""
    types = pa.types
    tests = (
        *(types.is_int32, types.is_int64, types.is_uint32, types.is_uint64, types.is_float32),
        *(types.is_float64, types.is_decimal, types.is_date, types.is_time, types.is_timestamp),
        *(types.is_string, types.is_large_string, types.is_binary, types.is_large_binary),
    )
    return any(test(kind) for test in tests)
