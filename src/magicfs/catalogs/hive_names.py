"""Partition columns, as directories called ``column=value`` say them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote

from magicfs.errors import UsageError

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")


def partition_of(key: str) -> str:
    """The directory of a file, relative to the destination; empty at its root."""
    return key.rpartition("/")[0]


def partition_values(key: str) -> dict[str, str | None]:
    """The values that the directories of a file say, decoded, in their order; None for a null.

    Raises UsageError if two directories name one column.
    """
    values: dict[str, str | None] = {}
    for element in partition_of(key).split("/"):
        name, sign, value = element.partition("=")
        if not sign:
            continue
        column = unquote(name)
        if column in values:
            raise UsageError(f"{key!r} names the partition column {column!r} twice, which no table supports")
        values[column] = None if value == NULL else unquote(value)
    return values


def partition_columns(keys: Iterable[str]) -> tuple[str, ...]:
    """The partition columns of a dataset; raises UsageError if its files do not agree on them."""
    columns: tuple[str, ...] | None = None
    first = ""
    for key in keys:
        found = tuple(partition_values(key))
        if columns is None:
            columns, first = found, key
        elif found != columns:
            raise UsageError(
                f"{first!r} is partitioned by {columns}, and {key!r} by {found}; a table needs the same "
                "partition columns in all files; publish the data that way, with mode='overwrite'"
            )
    return columns or ()


def are_integers(rows: Iterable[Mapping[str, str | None]], column: str) -> bool:
    """Whether a column has values other than null and all of them are integers, as in pyarrow."""
    values = [row[column] for row in rows if row[column] is not None]
    return bool(values) and all(_INTEGER.fullmatch(value or "") for value in values)
