"""Footers of Parquet files, compared with what pyarrow and polars say of the same bytes."""

from __future__ import annotations

import base64
import contextlib
import io
import math
import struct
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magicfs.formats.footer import Column, Footer
from magicfs.formats.parquet import TAIL_MAX, read_footer
from magicfs.formats.thrift import ThriftError, read_struct
from tests.sample import examples

NAMES = st.sampled_from(["a", "ü ñ", "a.b", "50% + #1", "dataset1", "dataset10", "_x", "漢字"])


def written(table: pa.Table, **how: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **how)
    return buffer.getvalue()


def footer(raw: bytes) -> Footer:
    found = read_footer(raw[:4], raw[-TAIL_MAX:])
    assert found is not None
    return found


def column(values: Any, kind: Any = None, **how: Any) -> Column | None:
    return footer(written(pa.table({"c": pa.array(values, kind)}), **how)).column("c")


def metadata(raw: bytes) -> Any:
    return pq.read_metadata(io.BytesIO(raw))


FLAT = {
    pa.int8(): st.integers(-128, 127),
    pa.uint8(): st.integers(0, 255),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.float16(): st.floats(width=16),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=90),
    pa.large_string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    pa.binary(): st.binary(max_size=90),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.date32(): st.dates(),
    pa.time32("ms"): st.times().map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000)),
    pa.time64("us"): st.times(),
    pa.timestamp("ms"): st.datetimes().map(
        lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000)
    ),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.decimal128(7, 3): st.decimals(-9999, 9999, places=3, allow_nan=False),
    pa.decimal128(20, 0): st.integers(-(10**20) + 1, 10**20 - 1).map(Decimal),
    pa.decimal256(50, 10): st.decimals(-(10**39), 10**39, places=10, allow_nan=False),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(0, 12))
    arrays = []
    for _ in names:
        kind = draw(st.sampled_from(list(FLAT)))
        shape = draw(st.sampled_from(["flat", "list", "struct", "list of structs", "map"]))
        one = st.none() | FLAT[kind]
        match shape:
            case "flat":
                made, values = kind, one
            case "list":
                made, values = pa.list_(kind), st.none() | st.lists(one, max_size=3)
            case "struct":
                made = pa.struct([("x", kind), ("y", pa.int64())])
                values = st.none() | st.fixed_dictionaries({"x": one, "y": st.none()})
            case "list of structs":
                made = pa.list_(pa.struct([("x", kind)]))
                values = st.none() | st.lists(st.fixed_dictionaries({"x": one}), max_size=3)
            case _:
                made = pa.map_(pa.string(), kind)
                values = st.none() | st.lists(st.tuples(st.text("ab", max_size=3), one), max_size=3)
        arrays.append(pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), made))
    return pa.table(arrays, names=names)


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, float) or hasattr(theirs, "dtype"):
        return float(ours) == float(theirs)
    return bool(ours == theirs)


class TestAgainstPyarrow:
    @settings(deadline=None, max_examples=examples(150))
    @given(table=tables(), groups=st.integers(1, 12), version=st.sampled_from(["1.0", "2.4", "2.6"]))
    def test_rows_columns_nulls_and_bounds(self, table: pa.Table, groups: int, version: str):
        raw = written(table, row_group_size=groups, version=version)
        found, theirs = footer(raw), metadata(raw)
        assert found.rows == table.num_rows
        assert found.schema is not None
        schema = theirs.schema
        assert [one.name for one in found.schema.fields] == [
            one.path for one in map(schema.column, range(len(schema)))
        ]
        names = [one.name for one in found.schema.fields]
        for place, one in enumerate(found.schema.fields):
            leaf = schema.column(place)
            assert (one.optional, one.repeated) == (leaf.max_definition_level, leaf.max_repetition_level)
            told = [theirs.row_group(n).column(place) for n in range(theirs.num_row_groups)]
            values = found.values[place]
            nulls = [group.statistics and group.statistics.null_count for group in told]
            if values is not None and values.nulls is not None:
                assert values.nulls == sum(one or 0 for one in nulls)
            have = [group.statistics for group in told if group.statistics and group.statistics.has_min_max]
            column = found.column(one.name) if len(set(names)) == len(names) else None
            if column is None or column.min is None:
                continue
            raw_have = [(stat.min, stat.max) for stat in have]
            if column.exact and not one.type.startswith(("binary", "fixed", "float16", "time")):
                assert same(column.min, min(low for low, _ in raw_have)), one
                assert same(column.max, max(high for _, high in raw_have)), one
            elif isinstance(column.min, str | bytes):
                assert column.min <= min(low for low, _ in raw_have)
                assert column.max >= max(high for _, high in raw_have)

    @settings(deadline=None, max_examples=examples(150))
    @given(kind=st.sampled_from(list(FLAT)), data=st.data(), groups=st.integers(1, 5))
    def test_no_value_lies_outside_of_the_bounds(self, kind: Any, data: st.DataObject, groups: int):
        values = data.draw(st.lists(st.none() | FLAT[kind], min_size=1, max_size=12))
        array = pa.array(values, kind)
        found = footer(written(pa.table({"c": array}), row_group_size=groups)).column("c")
        assert found is not None
        assert found.nulls == array.null_count
        held = [one for one in array.to_pylist() if one is not None and one == one]
        if found.min is None:
            return
        assert held
        for one in held:
            assert found.min <= one <= found.max
        if found.exact:
            assert found.min in held
            assert found.max in held

    @settings(deadline=None, max_examples=examples(60))
    @given(kind=st.sampled_from([one for one in FLAT if one != pa.float16()]), data=st.data())
    def test_bounds_are_known_where_pyarrow_writes_them(self, kind: Any, data: st.DataObject):
        values = data.draw(st.lists(FLAT[kind], min_size=1, max_size=12))
        array = pa.array(values, kind)
        held = [one for one in array.to_pylist() if one == one]
        raw = written(pa.table({"c": array}))
        told = metadata(raw).row_group(0).column(0).statistics
        found = footer(raw).column("c")
        cut_to_nothing = isinstance(held[0] if held else "", str | bytes)
        if told.has_min_max and held and not cut_to_nothing:
            assert found is not None
            assert found.min is not None


class TestAgainstPolars:
    def test_statistics_of_its_files(self):
        frame = pl.DataFrame(
            {
                "n": [3, None, -1],
                "f": [0.5, -0.0, None],
                "s": ["b", "a" * 200, None],
                "d": [date(2020, 2, 29), None, date(1900, 1, 1)],
                "t": [datetime(2026, 1, 1, 12), None, datetime(1969, 1, 1)],
                "l": [[1, 2], [], None],
                "c": [Decimal("1.25"), Decimal("-7.50"), None],
            }
        )
        buffer = io.BytesIO()
        frame.write_parquet(buffer, statistics="full")
        raw = buffer.getvalue()
        found = footer(raw)
        assert found.rows == 3
        theirs = metadata(raw)
        for place, one in enumerate(found.schema.fields if found.schema else ()):
            told = theirs.row_group(0).column(place).statistics
            ours = found.columns.get(one.name)
            if ours is not None and ours.nulls is not None:
                assert ours.nulls == told.null_count
        n, f, s = (found.column(name) for name in "nfs")
        assert n is not None
        assert (n.nulls, n.min, n.max) == (1, -1, 3)
        assert f is not None
        assert (f.min, f.max) == (-0.0, 0.5)
        if s is not None and s.min is not None:
            assert s.min <= "a" * 200 < "b" <= s.max
        assert {one.name for one in found.schema.fields} >= {"n", "d", "t", "c"}  # type: ignore[union-attr]

    def test_a_frame_without_rows(self):
        buffer = io.BytesIO()
        pl.DataFrame({"n": []}, schema={"n": pl.Int64}).write_parquet(buffer)
        assert footer(buffer.getvalue()).rows == 0


class TestTypes:
    @pytest.mark.parametrize(
        ("kind", "values", "name", "least", "greatest"),
        [
            (pa.int8(), [-3, 4], "int8", -3, 4),
            (pa.uint32(), [1, 2**32 - 1], "uint32", 1, 2**32 - 1),
            (pa.uint64(), [1, 2**64 - 1], "uint64", 1, 2**64 - 1),
            (pa.float64(), [0.0, -0.0], "double", -0.0, 0.0),
            (pa.float64(), [1.0, math.inf], "double", 1.0, math.inf),
            (pa.bool_(), [True, False], "boolean", False, True),
            (pa.string(), ["é", "z"], "string", "z", "é"),
            (pa.binary(), [b"\xff", b"\x00"], "binary", b"\x00", b"\xff"),
            (pa.binary(2), [b"ab", b"aa"], "fixed[2]", b"aa", b"ab"),
            (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], "date", date(1, 1, 1), date(9999, 12, 31)),
            (pa.time32("ms"), [time(1), time(2)], "time[ms]", time(1), time(2)),
            (pa.time64("us"), [time(1), time(2)], "time[us]", time(1), time(2)),
            (pa.time64("ns"), [1, 2], "time[ns]", 1, 2),
            (
                pa.timestamp("us", "UTC"),
                [datetime(1969, 1, 1, tzinfo=UTC)],
                "timestamp[us,UTC]",
                datetime(1969, 1, 1, tzinfo=UTC),
                datetime(1969, 1, 1, tzinfo=UTC),
            ),
            (pa.timestamp("ns"), [-1, 1], "timestamp[ns]", -1, 1),
            (
                pa.decimal128(10, 2),
                [Decimal("-1.5"), Decimal("2.25")],
                "decimal(10,2)",
                Decimal("-1.50"),
                Decimal("2.25"),
            ),
        ],
    )
    def test_values_are_pythons(self, kind: Any, values: Any, name: str, least: Any, greatest: Any):
        found = column(values, kind)
        assert found is not None
        assert found.field.type == name
        assert (repr(found.min), repr(found.max)) == (
            repr(least.replace(tzinfo=found.min.tzinfo)) if isinstance(least, time) else repr(least),
            repr(greatest.replace(tzinfo=found.max.tzinfo)) if isinstance(greatest, time) else repr(greatest),
        )

    def test_a_uuid_is_text(self):
        values = [uuid.UUID(int=7), uuid.UUID(int=2**127)]
        array = pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([one.bytes for one in values], pa.binary(16))
        )
        found = footer(written(pa.table({"c": array}))).column("c")
        assert found is not None
        if found.field.type == "uuid":
            assert (found.min, found.max) == (str(values[0]), str(values[1]))

    def test_a_column_of_nulls_has_no_bounds(self):
        found = column([None, None], pa.int64())
        assert found is not None
        assert (found.nulls, found.min, found.max) == (2, None, None)

    def test_times_without_an_order_have_no_bounds(self):
        table = pa.table({"c": pa.array([datetime(2020, 1, 1)], pa.timestamp("ns"))})
        found = footer(written(table, use_deprecated_int96_timestamps=True))
        assert found.schema is not None
        assert found.schema.fields[0].type == "int96"
        one = found.column("c")
        assert one is None or one.min is None

    def test_nan_is_no_bound(self):
        only = column([math.nan], pa.float64())
        assert only is None or only.min is None
        some = column([math.nan, 1.0, 2.0], pa.float64())
        assert some is not None
        assert (some.min, some.max) in {(1.0, 2.0), (None, None)}

    def test_without_statistics_only_rows_and_columns(self):
        found = footer(written(pa.table({"c": [1, 2]}), write_statistics=False))
        assert (found.rows, found.columns) == (2, {})

    def test_schemas_are_equal_whatever_wrote_them(self):
        ours = footer(written(pa.table({"n": [1], "s": ["x"]}))).schema
        buffer = io.BytesIO()
        pl.DataFrame({"n": [2], "s": ["y"]}).write_parquet(buffer)
        theirs = footer(buffer.getvalue()).schema
        assert ours == theirs
        assert ours is not None
        assert ours.fingerprint == theirs.fingerprint
        other = footer(written(pa.table({"n": [1.0], "s": ["x"]}))).schema
        assert other is not None
        assert other.fingerprint != ours.fingerprint

    @pytest.mark.parametrize(
        "value", ["\U0010ffff" * 70, "\ud7ff" * 70, "a" * 63 + "\U0010ffff" * 9, "z" * 65]
    )
    def test_long_text_is_cut_to_a_bound(self, value: str):
        found = column([value], pa.string())
        assert found is not None
        if found.min is not None:
            assert not found.exact
            assert found.min <= value <= found.max
            assert len(found.min) <= 64
            assert len(found.max) <= 64

    @pytest.mark.parametrize("value", [b"\xff" * 70, b"\x00" * 70, b"a" * 63 + b"\xff" * 9])
    def test_long_bytes_are_cut_to_a_bound(self, value: bytes):
        found = column([value], pa.binary())
        assert found is not None
        if found.min is not None:
            assert not found.exact
            assert found.min <= value <= found.max

    def test_metadata_of_the_writer_is_kept_as_long_as_it_is_short(self):
        table = pa.table({"c": [1]}).replace_schema_metadata({"who": "ü", "long": "x" * 2000})
        assert footer(written(table)).metadata == {"who": "ü"}


class TestBrokenFooters:
    RAW = written(pa.table({"a": [1, 2, None], "s": ["x", "y", "z"], "l": [[1], None, []]}), row_group_size=2)

    def test_encrypted_footers_say_nothing(self):
        assert read_footer(b"PARE", self.RAW[:-4] + b"PARE") is None

    def test_other_files_say_nothing(self):
        for raw in (
            b"",
            b"PAR1",
            b"PAR1PAR1",
            b"a,b\n1,2\n",
            b"PAR1" + b"\x00" * 8,
            b"PAR1" + b"\xff" * 8 + b"PAR1",
        ):
            assert read_footer(raw[:4], raw) is None

    def test_a_footer_longer_than_its_tail_says_nothing(self):
        assert read_footer(b"PAR1", self.RAW[-60:]) is None

    def test_every_cut_says_nothing(self):
        for length in range(len(self.RAW)):
            assert read_footer(self.RAW[:4], self.RAW[:length]) is None

    @settings(deadline=None, max_examples=examples(400))
    @given(place=st.integers(0), byte=st.integers(0, 255))
    def test_a_changed_byte_never_raises(self, place: int, byte: int):
        (length,) = struct.unpack("<I", self.RAW[-8:-4])
        raw = bytearray(self.RAW)
        raw[len(raw) - 8 - length + place % length] = byte
        found = read_footer(bytes(raw[:4]), bytes(raw))
        if found is not None:
            again = Footer.from_text("x", found.to_text(), {})
            assert again.rows == found.rows
            assert found.columns is not None

    @given(raw=st.binary(max_size=200))
    def test_any_bytes_are_a_struct_or_an_error(self, raw: bytes):
        with contextlib.suppress(ThriftError):
            read_struct(raw)

    def test_a_deep_struct_is_refused(self):
        with pytest.raises(ThriftError, match="deep"):
            read_struct(b"\x1c" * 100_000)

    def test_a_long_list_is_refused(self):
        with pytest.raises(ThriftError, match="more elements"):
            read_struct(b"\x19\xf5\xff\xff\xff\xff\x0f")

    def test_summaries_of_other_files_say_nothing(self):
        meta = metadata(self.RAW)
        meta.set_file_path("part-0.parquet")
        buffer = io.BytesIO()
        meta.write_metadata_file(buffer)
        raw = buffer.getvalue()
        assert read_footer(raw[:4], raw) is None


def test_binary_values_are_base64_in_json():
    found = column([b"\x00\xff"], pa.binary())
    raw = footer(written(pa.table({"c": pa.array([b"\x00\xff"])})))
    assert found is not None
    assert raw.to_document()["columns"] == [
        [0, *[base64.b64encode(b"\x00\xff").decode()] * 2, *([] if found.exact else [False])]
    ]
