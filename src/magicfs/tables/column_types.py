"""Which types the columns of a source become in files.

Views and run-end encoding are forms that arrays have in memory, and readers of files need not know them. What
a dictionary shows, that values repeat, only Parquet keeps. Values are never changed: only how they are held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pyarrow as pa

from magicfs.errors import UsageError

_Change = Callable[[Any], Any]


class ColumnTypes:
    """Makes of batches of a source what a format writes. May be used by several threads.

    ``schema``: of what it makes. The metadata of the source's schema stay.
    """

    def __init__(self, source: pa.Schema, *, partition_by: Sequence[str], file_format: str) -> None:
        flat = _changed(source, _without_views)
        keeps = file_format == "parquet"
        change = _without_codes if keeps or file_format != "json" else _for_json
        self.schema: pa.Schema = _changed(flat, change, set(partition_by) if keeps else None)
        # One step after the other: there is no cast that does both.
        self._steps = tuple(
            step for step, before in ((flat, source), (self.schema, flat)) if not step.equals(before)
        )

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the source with the columns of ``schema``."""
        for schema in self._steps:
            batch = batch.cast(schema)
        return batch


def bytes_of(rows: pa.Table | pa.RecordBatch) -> int:
    """The size of rows in memory. Before pyarrow 25 that of views is unknown: it is that of all buffers."""
    try:
        return int(rows.nbytes)
    except pa.ArrowTypeError:
        return int(rows.get_total_buffer_size())


def check_columns(schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Raise UsageError for columns that no dataset can have."""
    names: list[str] = list(schema.names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"the data has duplicate columns: {', '.join(map(repr, twice))}; nothing was changed; rename or "
            "drop one of each"
        )
    other = [name for name in cast("Sequence[Any]", partition_by) if not isinstance(name, str)]
    if other:
        raise UsageError(
            f"partition_by names {other[0]!r}, which is not a string, as column names in files are; nothing "
            f"was changed; write one of {', '.join(map(repr, names))}"
        )
    if len(set(partition_by)) < len(partition_by):
        raise UsageError(f"partition_by names a column twice: {', '.join(partition_by)}")
    if not set(names) - set(partition_by):
        raise UsageError(
            "all columns are partition columns, so the files would have none; partition by fewer"
            if names
            else "the data have no columns; nothing was changed"
        )
    hidden = [name for name in partition_by if name.startswith(("_", "."))]
    if hidden:
        raise UsageError(
            f"partition column {hidden[0]!r} would make directories that begin with {hidden[0][0]!r}, which "
            "readers treat as hidden; nothing was changed; rename the column"
        )


def _changed(schema: pa.Schema, change: _Change, only: set[str] | None = None) -> pa.Schema:
    fields = [one if only is not None and one.name not in only else _field(one, change) for one in schema]
    return pa.schema(fields, metadata=schema.metadata)


def _field(field: Any, change: _Change) -> Any:
    kind = _deep(field.type, change)
    return field if kind == field.type else field.with_type(kind)


def _deep(kind: Any, change: _Change) -> Any:
    """A type whose every part is changed, from the inside out."""
    types = pa.types
    if types.is_struct(kind):
        kind = pa.struct([_field(one, change) for one in kind])
    elif types.is_map(kind):
        item = _field(kind.item_field, change)
        kind = pa.map_(_field(kind.key_field, change), item, keys_sorted=kind.keys_sorted)
    elif types.is_fixed_size_list(kind):
        kind = pa.list_(_field(kind.value_field, change), kind.list_size)
    elif types.is_large_list(kind) or _is_view(kind, "large_list_view"):
        kind = pa.large_list(_field(kind.value_field, change))
    elif types.is_list(kind) or _is_view(kind, "list_view"):
        kind = pa.list_(_field(kind.value_field, change))
    elif types.is_dictionary(kind):
        kind = pa.dictionary(kind.index_type, _deep(kind.value_type, change), ordered=kind.ordered)
    return change(kind)


def _is_view(kind: Any, name: str) -> bool:
    test = getattr(pa.types, f"is_{name}", None)
    return test is not None and bool(test(kind))


def _without_views(kind: Any) -> Any:
    if _is_view(kind, "string_view"):
        return pa.large_string()
    if _is_view(kind, "binary_view"):
        return pa.large_binary()
    return kind.value_type if _is_view(kind, "run_end_encoded") else kind


def _without_codes(kind: Any) -> Any:
    return cast("Any", kind).value_type if pa.types.is_dictionary(kind) else kind


def _for_json(kind: Any) -> Any:
    """What ``text_lines`` knows how to write."""
    types = pa.types
    if types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_float16(kind):
        return pa.float32()
    return _without_codes(kind)
