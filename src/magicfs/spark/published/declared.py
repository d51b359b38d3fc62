"""What files hold, made what was declared: Spark takes only batches of exactly its own types.

Columns are found by name, and where no name fits, by name in any case, as Spark does. One that a file does
not have is null there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from magicfs.errors import UsageError


def found_columns(there: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """The file's name of each wanted column that it has. Raises UsageError if two names fit equally."""
    found = {}
    for name in wanted:
        fits = [one for one in there if one == name] or [one for one in there if one.lower() == name.lower()]
        if len(fits) > 1:
            raise UsageError(f"column {name!r} occurs {len(fits)} times: {', '.join(fits)}; leave it out")
        if fits:
            found[name] = fits[0]
    return found


def fitted(batch: pa.RecordBatch, declared: pa.Schema, constants: Mapping[str, Any]) -> pa.RecordBatch:
    """A batch of exactly the declared schema.

    ``constants``: arrays of the columns that do not come from the file. Raises UsageError for values that are
    no values of the declared type, and for null in a column that may not be null.
    """
    found = found_columns(batch.schema.names, [one for one in declared.names if one not in constants])
    arrays = []
    for field in declared:
        if field.name in constants:
            array = constants[field.name]
        elif field.name in found:
            array = _column(batch.column(found[field.name]), field)
        else:
            array = pa.nulls(batch.num_rows, field.type)
        if not field.nullable and array.null_count:
            raise UsageError(
                f"column {field.name!r} holds null, and was declared NOT NULL; declare it nullable"
            )
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=declared)


def _column(array: Any, field: Any) -> Any:
    try:
        return _fit(array, field.type)
    except (pa.ArrowException, ValueError) as error:
        raise UsageError(
            f"column {field.name!r} is {array.type} in the file and cannot be read as {field.type}: {error}; "
            "give a schema that fits, or leave the column out with option('columns', …)"
        ) from error


def _fit(array: Any, kind: Any) -> Any:
    if array.type.equals(kind) and not pa.types.is_nested(kind):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_dictionary(array.type):
        return _fit(array.dictionary_decode(), kind)
    if not pa.types.is_nested(kind):
        # Spark's own moments have no smaller unit than a microsecond either.
        return array.cast(kind, safe=not pa.types.is_timestamp(kind))
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    if pa.types.is_list(kind) and pa.types.is_large_list(array.type):
        return _fit(array.cast(pa.list_(array.type.value_type)), kind)
    fit = _NESTED.get(kind.id) if kind.id == array.type.id else None
    if fit is None:
        raise ValueError("their nesting differs")
    return fit(array, kind, array.is_null() if array.null_count else None)


def _struct(array: Any, kind: Any, mask: Any) -> Any:
    names = [one.name for one in array.type]
    found = found_columns(names, [one.name for one in kind])
    children = [
        _fit(array.field(names.index(found[one.name])), one.type)
        if one.name in found
        else pa.nulls(len(array), one.type)
        for one in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _map(array: Any, kind: Any, mask: Any) -> Any:
    keys, items = _fit(array.keys, kind.key_type), _fit(array.items, kind.item_type)
    return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=mask)


def _list(array: Any, kind: Any, mask: Any) -> Any:
    return pa.ListArray.from_arrays(array.offsets, _fit(array.values, kind.value_type), type=kind, mask=mask)


_NESTED: Final = {pa.lib.Type_STRUCT: _struct, pa.lib.Type_MAP: _map, pa.lib.Type_LIST: _list}
