"""CSV and JSON lines, read as ``magicfs.tables.formats`` writes them.

Every value of CSV is read as text and then made what was declared: nothing is null, ``""`` is empty text.
JSON lines are read by Python, which alone keeps maps, NaN, days and binary in Base64 apart.
"""

from __future__ import annotations

import csv
import io
import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from magicfs.errors import UsageError
from magicfs.spark.published.declared import found_columns

_BLOCK = 2**24
"""No row of CSV may be longer."""
_ROWS = 10_000
_GUESSED_ROWS = 10_000


def csv_columns(source: Any) -> list[str]:
    """The columns that the header of a file names."""
    return _header(io.BufferedReader(source, _BLOCK))


def csv_batches(source: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a file, of these columns as far as it has them, as text.

    A file that has none of them still gives as many rows.
    """
    import pyarrow.csv as reader

    raw = io.BufferedReader(source, _BLOCK)
    header = _header(raw)
    if not header:
        return
    chosen = list(found_columns(header, columns).values()) or header[:1]
    yield from reader.open_csv(
        pa.PythonFile(raw, mode="r"),
        read_options=reader.ReadOptions(block_size=_BLOCK),
        parse_options=reader.ParseOptions(newlines_in_values=True),
        convert_options=reader.ConvertOptions(
            column_types=dict.fromkeys(chosen, pa.string()),
            include_columns=chosen,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _header(raw: io.BufferedReader) -> list[str]:
    """The first line, which stays to be read."""
    head = raw.peek(_BLOCK).decode(errors="ignore")
    return next(csv.reader(io.StringIO(head, newline="")), [])


# -- JSON lines ------------------------------------------------------------------------------------------


def json_batches(source: Any, fields: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    """The rows of a file, of these fields of Arrow, of their types.

    Raises UsageError for a line that is no object, and for a value of another type.
    """
    makers = {one.name: _maker(one.type) for one in fields}
    for rows in _chunks(source):
        if not fields:
            # A batch without columns has no rows either.
            yield pa.RecordBatch.from_arrays([pa.nulls(len(rows))], [""])
            continue
        arrays = []
        for field in fields:
            make = makers[field.name]
            try:
                values = [None if (one := row.get(field.name)) is None else make(one) for row in rows]
                arrays.append(pa.array(values, field.type))
            except (ValueError, TypeError, ArithmeticError, AttributeError, pa.ArrowException) as error:
                raise UsageError(
                    f"column {field.name!r} has a value that is not {field.type}: {error}; "
                    "declare it as string, or leave it out"
                ) from error
        yield pa.RecordBatch.from_arrays(arrays, [one.name for one in fields])


def _chunks(source: Any) -> Iterator[list[dict[str, Any]]]:
    lines = (line for line in io.BufferedReader(source, 2**20) if line.strip())
    while some := list(islice(lines, _ROWS)):
        try:
            rows = [json.loads(line, parse_float=Decimal) for line in some]
        except ValueError as error:
            raise UsageError(f"a line is not JSON: {error}; write one object per line") from error
        if not all(isinstance(row, dict) for row in rows):
            raise UsageError("a line is not a JSON object; write one object per line")
        yield rows


def _maker(kind: Any) -> Callable[[Any], Any]:
    """What makes of a value of JSON, never null, one for an array of a type."""
    if pa.types.is_struct(kind):
        members = {one.name: _or_null(_maker(one.type)) for one in kind}
        return lambda value: {name: make(value.get(name)) for name, make in members.items()}
    if pa.types.is_map(kind):
        make_item = _or_null(_maker(kind.item_type))
        return lambda value: [(key, make_item(one)) for key, one in value.items()]
    if pa.types.is_list(kind):
        make_one = _or_null(_maker(kind.value_type))
        return lambda value: [make_one(one) for one in _a(list, value)]
    if pa.types.is_timestamp(kind):
        return _moment if kind.tz is not None else datetime.fromisoformat
    return next((make for is_kind, make in _PLAIN if is_kind(kind)), partial(_a, int))


def _or_null(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else make(value)


def _a(wanted: type, value: Any) -> Any:
    if type(value) is not wanted:
        raise ValueError(f"{value!r} is not of type {wanted.__name__}")
    return value


_PLAIN: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Any], Any]]]] = (
    (pa.types.is_string, lambda value: value if isinstance(value, str) else json.dumps(value, default=float)),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, lambda value: Decimal(str(value))),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_binary, b64decode),
    (pa.types.is_boolean, partial(_a, bool)),
)
"""What makes of a value of JSON one of a type that is not nested; all others are whole numbers."""


def _moment(text: str) -> datetime:
    """Moments without a zone are in UTC, as those of ``magicfs.spark`` are."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def guessed_columns(source: Any) -> dict[str, Any]:
    """The columns of a file by its first rows, with Arrow's type of each, as Spark would guess it."""
    guesses: dict[str, Any] = {}
    for row in next(_chunks(source), [])[:_GUESSED_ROWS]:
        for name, value in row.items():
            guesses[name] = _wider(guesses.get(name, pa.null()), _guess(value))
    return {name: _without_null(kind) for name, kind in guesses.items()}


def _guess(value: Any) -> Any:
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -(2**63) <= value < 2**63 else pa.string()
        case Decimal():
            return pa.float64()
        case dict():
            return pa.struct([(name, _guess(one)) for name, one in value.items()])
        case list():
            kind = pa.null()
            for one in value:
                kind = _wider(kind, _guess(one))
            return pa.list_(kind)
        case _:
            return pa.string()


def _wider(one: Any, other: Any) -> Any:
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {str(one), str(other)} == {"int64", "double"}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_wider(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        members = {field.name: field.type for field in one}
        for field in other:
            members[field.name] = _wider(members.get(field.name, pa.null()), field.type)
        return pa.struct(list(members.items()))
    return pa.string()


def _without_null(kind: Any) -> Any:
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_without_null(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _without_null(field.type)) for field in kind])
    return kind
