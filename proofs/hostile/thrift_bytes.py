"""Footers of Parquet files, written by hand: Thrift's compact protocol, and what a sound one says."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["column", "footer", "leaf", "of_file", "struct_bytes"]

_TRUE, _FALSE, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 6, 8, 9, 12


def struct_bytes(fields: Mapping[int, Any]) -> bytes:
    """A struct: its fields by number. Numbers are written with all their bits, however many these are."""
    raw, last = bytearray(), 0
    for number, value in sorted(fields.items()):
        kind = (_TRUE if value else _FALSE) if isinstance(value, bool) else _kind(value)
        if 0 < number - last < 16:
            raw.append((number - last) << 4 | kind)
        else:
            raw += bytes([kind]) + _zigzag(number)
        raw += b"" if isinstance(value, bool) else _value(value)
        last = number
    return bytes(raw) + b"\0"


def footer(
    leaves: Sequence[Mapping[int, Any]],
    columns: Sequence[Mapping[int, Any]],
    rows: int = 3,
    **others: Any,
) -> dict[int, Any]:
    """What a file of one row group says of itself. ``others``: fields named ``field_7`` and so on."""
    root = {4: b"schema", 5: len(leaves)}
    group = {1: [{3: one} for one in columns], 3: rows}
    found: dict[int, Any] = {1: 2, 2: [root, *leaves], 3: rows, 4: [group], 7: [{1: {}} for _ in columns]}
    return found | {int(name.removeprefix("field_")): value for name, value in others.items()}


def leaf(name: bytes, physical: int, **others: Any) -> dict[int, Any]:
    """A column of the schema. ``others``: fields named ``field_10`` and so on."""
    more = {int(key.removeprefix("field_")): value for key, value in others.items()}
    return {1: physical, 3: 1, 4: name, **more}


def column(physical: int, least: bytes, greatest: bytes, nulls: int = 0, values: int = 3) -> dict[int, Any]:
    """A column of a row group with its statistics."""
    return {1: physical, 5: values, 12: {3: nulls, 5: greatest, 6: least, 7: True, 8: True}}


def of_file(found: Mapping[int, Any] | bytes) -> tuple[bytes, bytes]:
    """The first and the last bytes of a file with such a footer."""
    raw = found if isinstance(found, bytes) else struct_bytes(found)
    return b"PAR1", raw + struct.pack("<I", len(raw)) + b"PAR1"


def _kind(value: Any) -> int:
    if isinstance(value, int):
        return _I64
    if isinstance(value, bytes):
        return _BINARY
    return _LIST if isinstance(value, list) else _STRUCT


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return bytes([_TRUE if value else _FALSE])
        case int():
            return _zigzag(value)
        case bytes():
            return _varint(len(value)) + value
        case list():
            kind = _kind(value[0]) if value else _STRUCT
            head = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind])
            return head + (b"" if len(value) < 15 else _varint(len(value))) + b"".join(map(_value, value))
    return struct_bytes(value)


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(value: int) -> bytes:
    raw = bytearray()
    while value > 0x7F:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*raw, value])
