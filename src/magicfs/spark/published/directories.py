"""Hive-style partition directories, read: which columns they name, of which types, and what a filter needs.

A key such as ``day=2026-01-31/carrier=A%2FA/part-0.parquet`` gives its rows two columns. Types are guessed
from all values: a whole number is one only if each value is written as such, so that ``007`` stays text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from magicfs.errors import UsageError
from magicfs.past.file_facts import partition_values
from magicfs.tables.partition_names import Values


def values_of(keys: Iterable[str]) -> dict[str, Values]:
    """The values of each key. Raises UsageError if keys have different partition columns."""
    found: dict[str, Values] = {key: partition_values(key) for key in keys}
    first = next(iter(found), "")
    for key, values in found.items():
        if tuple(values) != tuple(found[first]):
            raise UsageError(
                f"files have different partition columns, {_shown(found[first])} of {first!r} and "
                f"{_shown(values)} of {key!r}; read them with option('partitioning', 'none'), without "
                "these columns, or publish them to different destinations"
            )
    return found


def _shown(values: Values) -> str:
    return ", ".join(values) or "none"


def column_of(text: str | None, kind: Any, rows: int, zone: str | None) -> Any:
    """A column of one value, as an Arrow array of a type.

    ``zone``: that in which moments are written that do not end with ``Z``. Raises UsageError if the text is
    no such value.
    """
    if text is None:
        return pa.nulls(rows, kind)
    try:
        if pa.types.is_timestamp(kind) and kind.tz is not None and text.endswith("Z"):
            value = pa.array([text]).cast(pa.timestamp("us", "UTC")).cast(kind)
        elif pa.types.is_timestamp(kind) and kind.tz is not None:
            import pyarrow.compute as pc

            if zone is None:
                raise UsageError(
                    "a directory's moment has no zone; name it in option('timeZone', …), or declare the "
                    "column as timestamp_ntz or string"
                )
            local: Any = pa.array([text]).cast(pa.timestamp("us"))
            value = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest").cast(kind)
        else:
            value = pa.array([text]).cast(kind)
    except pa.ArrowException as error:
        raise UsageError(
            f"a directory's value {text!r} cannot be read as {kind}: {error}; declare the column as string"
        ) from error
    return pa.repeat(value[0], rows)


def is_needed(values: Values, kinds: Mapping[str, Any], filters: Sequence[Any], zone: str | None) -> bool:
    """Whether a file may have rows that pass all filters, by the names of its directories.

    ``kinds``: Arrow's types of the partition columns. ``filters``: Spark's.
    """
    there = {name: column_of(values[name], kind, 1, zone)[0].as_py() for name, kind in kinds.items()}
    return all(_holds(there, one) is not False for one in filters)


def _holds(values: Mapping[str, Any], wanted: Any) -> bool | None:
    """What a filter says of a row: True; False, or null, which drops it as well; None for don't know."""
    name = type(wanted).__name__
    if name == "Not":
        # A filter that null makes false is false either way round.
        if _is_null(values, wanted.child):
            return False
        inner = _holds(values, wanted.child)
        return None if inner is None else not inner
    path = wanted.attribute
    if len(path) != 1 or path[0] not in values:
        return None
    value = values[path[0]]
    if name in {"IsNull", "IsNotNull"}:
        return (value is None) == (name == "IsNull")
    if name == "EqualNullSafe":
        return bool(value == wanted.value) if _alike(value, wanted.value) else None
    if value is None:
        return False
    if name == "In":
        return value in wanted.value if all(_alike(value, one) for one in wanted.value) else None
    if name not in _COMPARISONS or wanted.value is None or not _alike(value, wanted.value):
        return None
    return bool(_COMPARISONS[name](value, wanted.value))


def _is_null(values: Mapping[str, Any], wanted: Any) -> bool:
    if type(wanted).__name__ in {"IsNull", "IsNotNull", "EqualNullSafe", "Not"}:
        return False
    return len(wanted.attribute) == 1 and values.get(wanted.attribute[0], "") is None


def _alike(one: Any, other: Any) -> bool:
    """Whether Python compares two values as Spark does; moments it may not, for their zones."""
    plain = (str, bool, int, date)
    return one is None or other is None or (type(one) is type(other) and type(one) in plain)


_COMPARISONS: Mapping[str, Any] = {
    "EqualTo": lambda one, other: one == other,
    "GreaterThan": lambda one, other: one > other,
    "GreaterThanOrEqual": lambda one, other: one >= other,
    "LessThan": lambda one, other: one < other,
    "LessThanOrEqual": lambda one, other: one <= other,
    "StringStartsWith": lambda one, other: one.startswith(other),
    "StringEndsWith": lambda one, other: one.endswith(other),
    "StringContains": lambda one, other: other in one,
}
