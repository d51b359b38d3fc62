from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import UsageError
from magicfs.tables import formats
from magicfs.tables.formats import FORMATS, FileSettings, open_writer
from magicfs.tables.text_lines import json_lines

ENTRY = st.fixed_dictionaries({"text": st.none() | st.text(), "number": st.none() | st.integers(-9, 9)})
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.none() | st.text(),
            "entry": st.none() | ENTRY,
            "entries": st.none() | st.lists(st.none() | ENTRY, max_size=3),
            "lists": st.none() | st.lists(st.none() | st.lists(st.none() | st.text()), max_size=3),
            "map": st.none() | st.dictionaries(st.text(), st.none() | st.integers(-9, 9), max_size=3),
            "real": st.none() | st.floats(),
            "raw": st.none() | st.binary(max_size=5),
        }
    ),
    min_size=1,
    max_size=8,
)
_ENTRY_TYPE = pa.struct([("text", pa.string()), ("number", pa.int64())])
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("entry", _ENTRY_TYPE),
        ("entries", pa.list_(_ENTRY_TYPE)),
        ("lists", pa.list_(pa.list_(pa.string()))),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("real", pa.float64()),
        ("raw", pa.large_binary()),
    ]
)


def written(file_format: str, *tables: pa.Table, compression: str = "none") -> bytes:
    sink = io.BytesIO()
    writer = open_writer(FORMATS[file_format], sink, tables[0].schema, FileSettings(compression=compression))
    for table in tables:
        writer.write(table)
    writer.close()
    assert writer.rows == sum(table.num_rows for table in tables)
    assert writer.bytes == len(sink.getvalue())
    return sink.getvalue()


def as_json(value: Any) -> Any:
    """What Python's JSON reads of a value: objects without their nulls, and text for what JSON lacks."""
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode()
    return value


@given(ROWS, st.data())
def test_any_rows_are_valid_json_lines_sliced_or_not(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    listed = [row | {"map": None if row["map"] is None else list(row["map"].items())} for row in rows]
    table = pa.Table.from_pylist(listed, SCHEMA)
    start = data.draw(st.integers(0, len(rows) - 1))
    lines = json_lines(table.slice(start)).decode().split("\n")
    assert lines.pop() == ""
    # Values of maps are kept when they are null: a key without a value is a key.
    expected = [
        as_json({name: one for name, one in row.items() if name != "map"})
        | ({} if row["map"] is None else {"map": row["map"]})
        for row in rows[start:]
    ]
    assert [json.loads(line) for line in lines] == expected


def test_json_of_moments_and_decimals() -> None:
    berlin = dt.datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=dt.UTC)
    table = pa.table(
        {
            "moment": pa.array([berlin], pa.timestamp("us", "Europe/Berlin")),
            "local": pa.array([berlin.replace(tzinfo=None)], pa.timestamp("us")),
            "day": pa.array([berlin.date()]),
            "price": pa.array([Decimal("-1.50")], pa.decimal128(9, 2)),
            'the "key"': [True],
        }
    )
    assert written("json", table).decode() == (
        '{"moment":"2026-01-01 12:00:00.000005Z","local":"2026-01-01 12:00:00.000005","day":"2026-01-01",'
        '"price":-1.50,"the \\"key\\"":true}\n'
    )


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_large_tables_become_text_piece_by_piece(monkeypatch: pytest.MonkeyPatch, file_format: str) -> None:
    monkeypatch.setattr(formats, "_TEXT_BYTES", 1000)
    table = pa.table({"id": list(range(300)), "text": ["é" * 20] * 300})
    text = gzip.decompress(written(file_format, table, table.slice(0, 10), compression="gzip")).decode()
    if file_format == "json":
        ids = [json.loads(line)["id"] for line in text.splitlines()]
    else:
        header, *rows = csv.reader(io.StringIO(text))
        assert header == ["id", "text"]
        ids = [int(row[0]) for row in rows]
    assert ids == [*range(300), *range(10)]


def test_csv_of_values_that_need_care() -> None:
    table = pa.table(
        {
            "text": ['a,"b"\n', "", None],
            "real": [math.nan, -math.inf, 0.1],
            "moment": pa.array(
                [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * 3, pa.timestamp("us", "Asia/Tokyo")
            ),
        }
    )
    moment = "2026-01-01 00:00:00.000000Z"
    assert written("csv", table).decode() == (
        f'"text","real","moment"\n"a,""b""\n","NaN",{moment}\n"","-Inf",{moment}\n,"0.1",{moment}\n'
    )


def test_a_null_that_csv_would_lose_is_refused() -> None:
    written("csv", pa.table({"x": ["a"]}))
    with pytest.raises(UsageError, match=r"column x is the only one and holds null, .* or choose 'json'"):
        written("csv", pa.table({"x": ["a", None]}))


@pytest.mark.parametrize(
    ("file_format", "value", "kept"),
    [
        ("orc", dt.date(1582, 10, 15), True),
        ("orc", dt.date(1582, 10, 14), False),
        ("orc", dt.datetime(1582, 10, 14, 23, 59, tzinfo=dt.UTC), False),
        ("json", dt.date.min, True),
        ("parquet", dt.date.min, True),
        ("arrow", dt.date.min, True),
    ],
)
@pytest.mark.parametrize("nested", ["plain", "struct", "list", "map"])
def test_days_that_a_format_does_not_keep_are_refused_wherever_they_are(
    file_format: str, value: Any, kept: bool, nested: str
) -> None:
    plain = pa.array([value, None])
    array = {
        "plain": plain,
        "struct": pa.StructArray.from_arrays([plain], ["x"]),
        "list": pa.ListArray.from_arrays([0, 1, 2], plain),
        "map": pa.MapArray.from_arrays([0, 1, 2], ["a", "b"], plain),
    }[nested]
    table = pa.table({"when": array, "id": [1, 2]})
    if kept:
        written(file_format, table)
        return
    with pytest.raises(
        UsageError, match=f"column when holds a day outside .*, which {file_format} files cannot store"
    ):
        written(file_format, table)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_days_of_moments_in_any_unit_are_known(unit: str) -> None:
    moment = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    for kind in (pa.timestamp(unit), pa.timestamp(unit, "Europe/Berlin")):
        assert b"2026-01-31 00:00:00" in written("json", pa.table({"x": pa.array([moment], kind)}))


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_years_of_five_digits_are_refused_as_text(file_format: str) -> None:
    table = pa.table({"day": pa.array([3_000_000], pa.int32()).cast(pa.date32()), "id": [1]})
    with pytest.raises(UsageError, match=f"column day holds a day outside .* {file_format} files"):
        written(file_format, table)


def test_a_type_that_the_format_lacks_is_refused_when_the_file_is_begun() -> None:
    table = pa.table({"lasting": pa.array([1], pa.duration("us"))})
    with pytest.raises(UsageError, match=r"orc cannot hold this schema: .*duration"):
        written("orc", table)


def test_orc_holds_all_rows_of_several_writes() -> None:
    table = pa.table({"id": list(range(10)), "name": [None, *"abcdefghi"]})
    found = pyarrow.orc.read_table(io.BytesIO(written("orc", table, table.slice(3), compression="zstd")))
    assert found.equals(pa.concat_tables([table, table.slice(3)]))


@pytest.mark.parametrize("file_format", sorted(FORMATS))
def test_nothing_reaches_the_sink_of_a_file_that_is_given_up(file_format: str) -> None:
    table = pa.table({"id": list(range(1000))})
    sink = io.BytesIO()
    writer = open_writer(FORMATS[file_format], sink, table.schema, FileSettings())
    writer.write(table)
    before = len(sink.getvalue())
    writer.abort()
    assert len(sink.getvalue()) == before
    assert not sink.closed
