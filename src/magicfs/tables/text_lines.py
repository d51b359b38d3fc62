"""Rows as JSON lines, and as the values of CSV, so that Spark reads them as what they were.

JSON is put together column by column, by pyarrow, which has no writer for it. As Spark writes it, fields
that are null are left out, and what JSON has no form for is text: days, moments (in UTC), NaN, and binary in
Base64.
"""

from __future__ import annotations

from base64 import b64encode
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MUST_BE_ESCAPED = r'["\\\x00-\x1f]'
_UTC = pa.timestamp("us", "UTC")


def json_lines(table: pa.Table) -> bytes:
    """One object for each row, each on a line of its own, as UTF-8."""
    [rows] = table.combine_chunks().to_struct_array().chunks
    text: Any = pc.binary_join(pa.ListArray.from_arrays([0, len(rows)], _json(rows)), "\n")
    return f"{text[0].as_py()}\n".encode()


def csv_values(table: pa.Table) -> pa.Table:
    """The same rows with moments in UTC, and NaN and the infinities as Spark's reader knows them."""
    for index, field in enumerate(table.schema):
        column: Any = table.column(index)
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            changed = column.cast(_UTC)
        elif pa.types.is_floating(field.type) and not pc.all(pc.is_finite(column)).as_py():
            changed = _named(column, "Inf", "{}")
        else:
            continue
        table = table.set_column(index, field.name, changed)
    return table


def entries_type(kind: pa.MapType[Any, Any]) -> pa.DataType:
    """What a map becomes when its entries are listed."""
    return pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))


def _json(array: Any) -> Any:
    """The text of each value; null where the value is."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _object(array)
    if pa.types.is_map(kind):
        entries: Any = array.cast(entries_type(kind))
        keys, values = entries.flatten().flatten()
        members = pc.binary_join_element_wise(_json(keys), pc.fill_null(_json(values), "null"), ":")
        return _bracketed(array, entries, members, "{}")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _bracketed(array, array, pc.fill_null(_json(array.flatten()), "null"), "[]")
    return _plain(array)


def _plain(array: Any) -> Any:
    """The same of values that are not nested."""
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        encoded = [None if one is None else b64encode(one).decode() for one in array.to_pylist()]
        return _quoted(pa.array(encoded, pa.string()))
    if pa.types.is_floating(kind):
        finite = pc.all(pc.is_finite(array)).as_py() is not False
        return array.cast(pa.string()) if finite else _named(array, "Infinity", '"{}"')
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        array = array.cast(_UTC)
    text = array.cast(pa.string())
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_temporal(kind)
    return _quoted(text) if is_text else text


def _object(array: Any) -> Any:
    # Each with its comma in front, of which the first becomes the bracket.
    members = [
        pc.fill_null(pc.binary_join_element_wise(f",{encode_basestring(field.name)}:", _json(child), ""), "")
        for field, child in zip(array.type, array.flatten(), strict=True)
    ]
    opened: Any = pc.binary_replace_slice(pc.binary_join_element_wise(*members, ""), 0, 1, "{")
    return _unless_null(array, pc.binary_join_element_wise(opened, "}", ""))


def _bracketed(array: Any, lists: Any, members: Any, brackets: str) -> Any:
    """The members of each list, which come one after the other, between brackets."""
    lengths: Any = pc.fill_null(pc.list_value_length(lists), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths.cast(pa.int32()))])
    joined: Any = pc.binary_join(pa.ListArray.from_arrays(offsets, members), ",")
    return _unless_null(array, pc.binary_join_element_wise(brackets[0], joined, brackets[1], ""))


def _unless_null(array: Any, text: Any) -> Any:
    return pc.if_else(pc.is_valid(array), text, None) if array.null_count else text


def _quoted(text: Any) -> Any:
    if pc.any(pc.match_substring_regex(text, _MUST_BE_ESCAPED)).as_py():
        return pa.array(
            [None if one is None else encode_basestring(one) for one in text.to_pylist()], pa.string()
        )
    return pc.binary_join_element_wise('"', text, '"', "")


def _named(numbers: Any, infinity: str, shape: str) -> Any:
    """The text of floating-point numbers some of which have none."""
    text: Any = pc.if_else(pc.is_nan(numbers), shape.format("NaN"), numbers.cast(pa.string()))
    text = pc.if_else(pc.equal(numbers, float("inf")), shape.format(infinity), text)
    return pc.if_else(pc.equal(numbers, float("-inf")), shape.format(f"-{infinity}"), text)
