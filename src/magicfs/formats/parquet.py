"""The footer of a Parquet file, read from its last bytes: rows, columns, and statistics that can be trusted.

Statistics are left out where their order is not defined (``INT96``, intervals, files that name no column
order), where a float is not a number, where the column is encrypted, and where anything is not as it should
be. Of a file whose footer is encrypted, broken or too long nothing is known.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

from magicfs.formats.document import UNREADABLE
from magicfs.formats.fields import LONG_MAX
from magicfs.formats.footer import Field, Footer, Schema, Values
from magicfs.formats.thrift import read_struct

MAGIC: Final = b"PAR1"
END: Final = 8
"""Bytes behind the footer: its length, and the magic bytes."""
TAIL_MAX: Final = 1024**2
"""Bytes of the longest footer that is read, with its end."""

_METADATA_MAX: Final = 1024
"""Characters of all of a writer's own metadata that is kept."""
_ARROW_SCHEMA: Final = "ARROW:schema"
_VALUE_MAX: Final = 64
"""Characters or bytes of a value that is kept; a longer one is made a bound."""

_BOOLEAN, _INT32, _INT64, _INT96, _FLOAT, _DOUBLE, _BYTES, _FIXED = range(8)
_PHYSICAL: Final = ("boolean", "int32", "int64", "int96", "float", "double", "binary", "fixed")
_CONVERTED: Final[Mapping[int, str]] = {
    0: "string",
    4: "enum",
    6: "date",
    7: "time[ms,UTC]",
    8: "time[us,UTC]",
    9: "timestamp[ms,UTC]",
    10: "timestamp[us,UTC]",
    11: "uint8",
    12: "uint16",
    13: "uint32",
    14: "uint64",
    15: "int8",
    16: "int16",
    17: "int32",
    18: "int64",
    19: "json",
    20: "bson",
    21: "interval",
}
_CONVERTED_DECIMAL: Final = 5
_LOGICAL: Final[Mapping[int, str]] = {
    1: "string",
    4: "enum",
    6: "date",
    11: "null",
    12: "json",
    13: "bson",
    14: "uuid",
    15: "float16",
    16: "variant",
    17: "geometry",
    18: "geography",
}
_UNITS: Final[Mapping[int, str]] = {1: "ms", 2: "us", 3: "ns"}
_BITS: Final = frozenset({8, 16, 32, 64})
_NUMBERS: Final[Mapping[int, str]] = {_INT32: "<i", _INT64: "<q", _FLOAT: "<f", _DOUBLE: "<d"}
_TEXTS: Final = frozenset({"string", "enum", "json"})
_BINARIES: Final = frozenset({"binary", "bson"})
_WITHOUT_ORDER: Final = frozenset({"int96", "interval", "null", "variant", "geometry", "geography"})
_LEVELS_MAX: Final = 100
_PATHS_MAX: Final = 4 * TAIL_MAX
"""Characters of the paths of all columns: what a footer holds once, each column below a group names again."""
_DECIMAL_MAX: Final = 64
"""Bytes of the longest decimal that is kept."""
_DIGITS_MAX: Final = 154
"""Digits that they may stand for."""
_DECIMALS: Final = Context(prec=_DIGITS_MAX)


class _Unusual(ValueError):
    """The footer is not as it should be."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column and how its values are stored."""

    field: Field
    physical: int
    length: int  # of a value of fixed length
    scale: int  # of a decimal


@dataclass(slots=True)
class _Sum:
    """Statistics of one column over all row groups so far."""

    nulls: int | None = 0
    least: Any = None
    greatest: Any = None
    is_known: bool = True  # whether least and greatest are about all values so far
    exact: bool = True


def read_footer(head: bytes, tail: bytes) -> Footer | None:
    """What a file says of itself, given its first four bytes and its last ones; None if that is not known."""
    if head != MAGIC or tail[-4:] != MAGIC or len(tail) < END:
        return None
    (length,) = struct.unpack("<I", tail[-END:-4])
    if not 0 < length <= len(tail) - END:
        return None
    try:
        return _footer(read_struct(tail[-END - length : -END]))
    except UNREADABLE:
        return None


def _footer(found: Mapping[int, Any]) -> Footer:
    leaves = list(_leaves(found[2]))
    rows, groups = found[3], found[4]
    _require(type(rows) is int and rows >= 0)
    _require(sum(group[3] for group in groups) == rows and all(group[3] >= 0 for group in groups))
    orders = found.get(7)
    sums = [_Sum() for _ in leaves]
    for group in groups:
        chunks = group[1]
        _require(len(chunks) == len(leaves))
        for place, (leaf, chunk) in enumerate(zip(leaves, chunks, strict=True)):
            _require(1 not in chunk)  # else the rows are those of another file
            is_ordered = orders is not None and len(orders) == len(leaves) and 1 in orders[place]
            _add(sums[place], leaf, chunk, is_ordered=is_ordered, rows=group[3])
    return Footer(
        rows=rows,
        format="parquet",
        schema=Schema.of([leaf.field for leaf in leaves]),
        values=tuple(_values(leaf, one) for leaf, one in zip(leaves, sums, strict=True)),
        metadata=_metadata(found.get(5, [])),
    )


def _require(condition: bool) -> None:
    if not condition:
        raise _Unusual


# -- the schema ----------------------------------------------------------------------------------------------


def _leaves(elements: Sequence[Mapping[int, Any]]) -> Iterator[_Leaf]:
    """The columns of a schema, which is a tree written down from its root."""
    _require(bool(elements) and elements[0].get(5, 0) >= 0)
    open_groups: list[tuple[tuple[str, ...], int, int, int]] = [((), 0, 0, elements[0].get(5, 0))]
    room = _PATHS_MAX
    for element in elements[1:]:
        while open_groups and open_groups[-1][3] == 0:
            open_groups.pop()
        _require(bool(open_groups) and len(open_groups) < _LEVELS_MAX)
        parents, optional, repeated, left = open_groups.pop()
        open_groups.append((parents, optional, repeated, left - 1))
        path, repetition = (*parents, element[4].decode()), element.get(3, 0)
        optional, repeated = optional + (repetition > 0), repeated + (repetition == 2)
        if element.get(5):
            _require(element[5] > 0)
            open_groups.append((path, optional, repeated, element[5]))
        else:
            room -= len(path) + sum(map(len, path))
            _require(room >= 0)
            yield _leaf(element, path, optional, repeated)
    _require(all(left == 0 for *_, left in open_groups))


def _leaf(element: Mapping[int, Any], path: tuple[str, ...], optional: int, repeated: int) -> _Leaf:
    physical, length = element[1], element.get(2, 0)
    kind, scale = _type(element, physical, length)
    return _Leaf(Field(path, kind, optional, repeated), physical, length, scale)


def _type(element: Mapping[int, Any], physical: int, length: int) -> tuple[str, int]:
    """The name of a column's type, and the scale of a decimal."""
    logical, converted = element.get(10), element.get(6)
    if logical:
        [(number, stated)] = logical.items()
        if number in _LOGICAL:
            return _LOGICAL[number], 0
        match number:
            case 5:
                return _decimal(stated[2], stated[1])
            case 7 | 8:
                [unit] = stated[2]
                zone = ",UTC" if stated[1] else ""
                return f"{'time' if number == 7 else 'timestamp'}[{_UNITS[unit]}{zone}]", 0
            case 10:
                _require(stated[1] in _BITS and physical in (_INT32, _INT64))
                return f"{'' if stated[2] else 'u'}int{stated[1]}", 0
    if converted == _CONVERTED_DECIMAL:
        return _decimal(element[8], element.get(7, 0))
    if type(converted) is int and converted in _CONVERTED:
        return _CONVERTED[converted], 0
    return f"fixed[{length}]" if physical == _FIXED else _PHYSICAL[physical], 0


def _decimal(precision: Any, scale: Any) -> tuple[str, int]:
    _require(type(precision) is type(scale) is int and 0 <= scale <= precision <= _DIGITS_MAX)
    return f"decimal({precision},{scale})", scale


def _metadata(pairs: Sequence[Mapping[int, Any]]) -> dict[str, str]:
    """The writer's own metadata, the shortest first, as long as there is room."""
    found = {one[1].decode(): one[2].decode() for one in pairs if 2 in one}
    found.pop(_ARROW_SCHEMA, None)
    kept: dict[str, str] = {}
    room = _METADATA_MAX
    for name, value in sorted(found.items(), key=lambda one: len(one[0]) + len(one[1])):
        room -= len(name) + len(value)
        if room < 0:
            break
        kept[name] = value
    return kept


# -- statistics ----------------------------------------------------------------------------------------------


def _add(total: _Sum, leaf: _Leaf, chunk: Mapping[int, Any], *, is_ordered: bool, rows: int) -> None:
    if not rows:
        return
    column = chunk.get(3)
    if column is None or 8 in chunk or column[1] != leaf.physical:
        total.nulls, total.is_known = None, False
        return
    stated = column.get(12, {})
    nulls = stated.get(3)
    if type(nulls) is not int or not 0 <= nulls <= column[5]:
        nulls = None
    total.nulls = None if nulls is None or total.nulls is None else total.nulls + nulls
    _require(total.nulls is None or total.nulls <= LONG_MAX)
    if nulls == column[5]:
        return  # there is nothing to compare
    bounds = _bounds(leaf, stated, is_ordered=is_ordered)
    if bounds is None:
        total.is_known = False
        return
    least, greatest, exact = bounds
    if total.least is None:
        total.least, total.greatest = least, greatest
    else:
        total.least, total.greatest = min(total.least, least), max(total.greatest, greatest)
    total.exact = total.exact and exact


def _bounds(leaf: _Leaf, stated: Mapping[int, Any], *, is_ordered: bool) -> tuple[Any, Any, bool] | None:
    """The least and the greatest value, in a form that can be compared, and whether they are exact."""
    kind = leaf.field.type
    if kind in _WITHOUT_ORDER:
        return None
    is_binary = leaf.physical in (_BYTES, _FIXED)
    if 5 in stated and 6 in stated and is_ordered:
        least, greatest = stated[6], stated[5]
        exact = stated.get(7, not is_binary) is True and stated.get(8, not is_binary) is True
    elif 1 in stated and 2 in stated and not is_binary and not kind.startswith("uint"):
        least, greatest, exact = stated[2], stated[1], True  # in the order of signed numbers
    else:
        return None
    pair = _comparable(leaf, least), _comparable(leaf, greatest)
    if None in pair:
        return None
    if isinstance(pair[0], float):
        # A zero may stand for the other one.
        pair = pair[0] or -0.0, pair[1] or 0.0
    return None if pair[0] > pair[1] else (*pair, exact)


def _comparable(leaf: _Leaf, raw: Any) -> Any:
    kind = leaf.field.type
    if not isinstance(raw, bytes):
        return None
    if leaf.physical == _BOOLEAN:
        return bool(raw[0]) if len(raw) == 1 else None
    if (form := _NUMBERS.get(leaf.physical)) is not None:
        return _number(kind, form, raw)
    if leaf.physical == _FIXED and len(raw) != leaf.length and kind not in _BINARIES:
        return None if kind in {"uuid", "float16"} or kind.startswith("decimal") else raw
    if kind == "float16":
        return _number(kind, "<e", raw)
    if kind.startswith("decimal"):
        return int.from_bytes(raw, "big", signed=True) if 0 < len(raw) <= _DECIMAL_MAX else None
    return raw


def _number(kind: str, form: str, raw: bytes) -> Any:
    if len(raw) != struct.calcsize(form):
        return None
    if kind.startswith("uint"):
        form = form.upper()
    (found,) = struct.unpack(form, raw)
    return None if isinstance(found, float) and math.isnan(found) else found


def _values(leaf: _Leaf, total: _Sum) -> Values | None:
    least = greatest = None
    exact = True
    if total.is_known and total.least is not None:
        least, is_least = _written(leaf, total.least, up=False)
        greatest, is_greatest = _written(leaf, total.greatest, up=True)
        exact = total.exact and is_least and is_greatest
        if least is None or greatest is None:
            least, greatest, exact = None, None, True
    found = Values(total.nulls, least, greatest, exact)
    return found if found.is_known else None


def _written(leaf: _Leaf, value: Any, *, up: bool) -> tuple[Any, bool]:
    """A value as it is persisted, None if it cannot be, and whether it is the value itself.

    A long one is cut short to one that is less, or with ``up`` greater.
    """
    kind = leaf.field.type
    if isinstance(value, float):
        return (value, True) if math.isfinite(value) else (str(value), True)
    if kind.startswith("decimal"):
        return str(Decimal(value).scaleb(-leaf.scale, _DECIMALS)), True
    if not isinstance(value, bytes):
        return value, True
    if kind in _TEXTS:
        return _text(value, up=up)
    if kind == "uuid":
        return (_dashed(value.hex()), True) if len(value) == 16 else (None, True)
    short = value[:_VALUE_MAX]
    if len(value) > _VALUE_MAX and up:
        short = short.rstrip(b"\xff")
        short = short[:-1] + bytes([short[-1] + 1]) if short else b""
        if not short:
            return None, True
    return base64.b64encode(short).decode(), len(value) <= _VALUE_MAX


def _dashed(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _text(value: bytes, *, up: bool) -> tuple[str | None, bool]:
    try:
        text = value.decode()
    except UnicodeDecodeError:  # cut amid a character by its writer
        return None, True
    if len(text) <= _VALUE_MAX:
        return text, True
    short = text[:_VALUE_MAX]
    if not up:
        return short, False
    short = short.rstrip("\U0010ffff")
    if not short:
        return None, True
    following = ord(short[-1]) + 1
    return short[:-1] + chr(0xE000 if following == 0xD800 else following), False
