"""Frames as engines make them: written and read back as the engine's own writer does it, or refused."""

from __future__ import annotations

import datetime as dt
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import magicfs
from magicfs.errors import UsageError
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import default_world
from magicfs.tables import sources
from tests.sample import examples

LARGE = 2**24
BERLIN = "Europe/Berlin"
FIRST = dt.datetime(2026, 10, 25, 0, 30, tzinfo=dt.UTC)

SECOND = FIRST + dt.timedelta(hours=1)
"""Both are half past two in Berlin."""


def new_url() -> str:
    bucket = f"f-{uuid4().hex[:12]}"
    default_world().create_bucket(bucket)
    return f"memory://{bucket}/frames"


@pytest.fixture
def url() -> str:
    return new_url()


def bodies(url: str) -> dict[str, bytes]:
    """The files of a dataset by their relative keys, in order."""
    store, place = MemoryFileSystem(), url.removeprefix("memory://")
    return {
        path.removeprefix(f"{place}/"): store.cat_file(path)
        for path in sorted(store.find(place))
        if path.endswith(".parquet")
    }


def directories(url: str) -> list[str]:
    return sorted({path.rpartition("/")[0] for path in bodies(url)})


def own_bytes(write: Callable[[io.BytesIO], Any]) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that names become text
        write(file)
    return file.getvalue()


def published(data: Any, url: str, size: int = LARGE, **how: Any) -> list[bytes] | None:
    """The files that ``magicfs.write`` makes; None if it refuses, and then nothing is there.

    ``size``: how many bytes of a frame it takes at a time.
    """
    try:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            patch.setattr(sources, "_BATCH_BYTES", size)
            warnings.simplefilter("ignore")
            magicfs.write(data, url, **how)
    except UsageError:
        assert not MemoryFileSystem().find(url)
        return None
    return list(bodies(url).values())


# -- one by one ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"partition_by": "day"}, {"tasks": 2}])
def test_text_in_chunks_is_written(how: dict[str, Any], url: str) -> None:
    one = pd.DataFrame({"day": "2026-11-23", "n": [1, 2]})
    magicfs.write(pd.concat([one, one, one]), url, **how)
    assert sorted(magicfs.Dataset(url).to_arrow().to_table()["n"].to_pylist()) == [1, 1, 1, 2, 2, 2]


def test_a_directory_that_pandas_has_read_is_written(tmp_path: Path, url: str) -> None:
    for name in "ab":
        pd.DataFrame({"name": [name], "n": [1]}).to_parquet(tmp_path / f"{name}.parquet")
    magicfs.write(pd.read_parquet(tmp_path), url)
    assert magicfs.Dataset(url).to_arrow().to_table()["name"].to_pylist() == ["a", "b"]


NAMED = {
    "numbers": pd.DataFrame(np.zeros((3, 2))),
    "years": pd.DataFrame({"a": [1, 2], "year": [2025, 2026], "v": [1.0, 2.0]}).pivot_table(
        index="a", columns="year", values="v"
    ),
    "tuples": pd.DataFrame({("a", "x"): [1], ("a", "y"): [2]}),
    "index": pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["b", 7])),
    "both": pd.DataFrame([[1, 2]], columns=[0, 1], index=pd.Index([5], name="0")),
}


@pytest.mark.filterwarnings("ignore:The DataFrame has non-str index name")
@pytest.mark.parametrize("name", NAMED)
def test_names_that_are_no_text_read_back_as_to_parquet_keeps_them(name: str, url: str) -> None:
    frame = NAMED[name]
    magicfs.write(frame, url)
    [body] = bodies(url).values()
    own = own_bytes(frame.to_parquet)
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(body)), pd.read_parquet(io.BytesIO(own)))


def test_a_column_that_only_later_chunks_have_is_not_lost(url: str) -> None:
    chunks = [pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2], "b": [3]})]
    with pytest.raises(UsageError, match="a column 'b', which schema=, or the first rows, do not have"):
        magicfs.write(iter(chunks), url)
    with pytest.raises(UsageError, match="a column 'b'"):
        magicfs.write(chunks[1], url, schema=pa.schema({"a": pa.int64()}))
    assert not bodies(url)
    magicfs.write(pd.concat(chunks), url)
    assert magicfs.Dataset(url).to_arrow().to_table().num_rows == 2


def test_chunks_with_numbers_as_names_are_one_dataset(url: str) -> None:
    chunks = (pd.DataFrame(np.full((2, 2), number)) for number in range(3))
    magicfs.write(chunks, url, partition_by=None)
    assert magicfs.Dataset(url).to_arrow().to_table().to_pydict() == {
        "0": [0, 0, 1, 1, 2, 2],
        "1": [0, 0, 1, 1, 2, 2],
    }


@pytest.mark.filterwarnings("ignore:The DataFrame has column names of mixed type")
def test_numbers_and_text_that_are_one_name_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="duplicate columns: '0'"):
        magicfs.write(pd.DataFrame({0: [1], "0": [2]}), url)
    with pytest.raises(UsageError, match=r"partition_by names 0, which is not .* write one of '0', '1'"):
        magicfs.write(pd.DataFrame({0: [1], 1: [2]}), url, partition_by=[0])
    assert not MemoryFileSystem().find(url)
    magicfs.write(pd.DataFrame({0: [1], 1: [2]}), url, partition_by="0")
    assert directories(url) == ["0=1"]


WIDE = pl.Series([2**100], dtype=pl.Int128)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "int128": (lambda: pl.DataFrame({"v": WIDE}), r"'v' has type Int128, .* cast it to Decimal"),
    "lazy": (lambda: pl.LazyFrame({"v": WIDE}), "'v' has type Int128"),
    "nested": (lambda: pl.DataFrame(schema={"v": pl.List(pl.Struct({"a": pl.UInt128}))}), "type UInt128"),
    "object": (lambda: pl.DataFrame({"v": pl.Series([{1}], dtype=pl.Object)}), "'v' has type Object"),
    "second": (lambda: iter([pl.DataFrame({"v": [1]}), pl.DataFrame({"v": WIDE})]), "type Int128"),
    "timetz": (lambda: duckdb.sql("SELECT TIMETZ '12:00:00+02' v"), "'v' has type TIME WITH TIME ZONE"),
    "bit": (lambda: duckdb.sql("SELECT [{'a': '10'::BIT}] v"), "'v' has type BIT, .* cast it to VARCHAR"),
    "array": (lambda: duckdb.sql("SELECT array_value('1'::BIT) v"), "'v' has type BIT"),
    "cursor": (lambda: duckdb.connect().execute("SELECT map{'a': '1'::BIT} v"), "'v' has type BIT"),
    "uhugeint": (lambda: duckdb.sql("SELECT 1::UHUGEINT v"), "'v' has type UHUGEINT, .* cast it to HUGEINT"),
    "bignum": (lambda: duckdb.sql("SELECT 1::BIGNUM v"), "'v' has type BIGNUM"),
    "variant": (lambda: duckdb.sql("SELECT 1::VARIANT v"), "'v' has type VARIANT"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_types_that_would_become_others_are_refused_by_name(name: str, url: str) -> None:
    make, says = REFUSED[name]
    with pytest.raises(UsageError, match=says):
        magicfs.write(make(), url)
    assert not bodies(url)


@pytest.mark.parametrize("engine", ["arrow", "polars", "pandas", "duckdb"])
def test_two_instants_never_share_a_directory(engine: str, url: str) -> None:
    kind = pa.timestamp("us", BERLIN)
    table = pa.table({"at": pa.array([FIRST, SECOND, None], kind), "n": [1, 2, 3]})
    made: dict[str, Callable[[], Any]] = {
        "arrow": lambda: table,
        "polars": lambda: pl.from_arrow(table),
        "pandas": table.to_pandas,
        "duckdb": lambda: duckdb.from_arrow(table),
    }
    magicfs.write(made[engine](), url, partition_by="at")
    names = ["at=2026-10-25 00%3A30%3A00Z", "at=2026-10-25 01%3A30%3A00Z", "at=__HIVE_DEFAULT_PARTITION__"]
    assert directories(url) == names
    part = ds.partitioning(pa.schema([("at", kind)]), flavor="hive")
    read = magicfs.Dataset(url).to_arrow(partitioning=part).to_table().sort_by("n")
    assert read["at"].to_pylist() == table["at"].to_pylist()
    second = table.slice(1, 1).set_column(1, "n", pa.array([4]))
    magicfs.write(second, url, partition_by="at", mode="overwrite_partitions")
    assert sorted(magicfs.Dataset(url).to_arrow().to_table()["n"].to_pylist()) == [1, 3, 4]


def test_nanoseconds_are_in_the_name_of_a_directory(url: str) -> None:
    kind = pa.timestamp("ns")
    table = pa.table({"at": pa.array([1, 2], pa.int64()).cast(kind), "n": [1, 2]})
    magicfs.write(table, url, partition_by="at")
    assert len(directories(url)) == 2
    part = ds.partitioning(pa.schema([("at", kind)]), flavor="hive")
    assert magicfs.Dataset(url).to_arrow(partitioning=part).to_table().sort_by("n")["at"].equals(table["at"])


# -- as the engine's own writer ----------------------------------------------------------------------------

PIECE = st.sampled_from([1, LARGE])
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5) | st.sampled_from(
    ["7", "02134", "true", "2026-11-25"]
)
LONG = st.integers(-(2**63), 2**63 - 1)
MOMENT = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
DAY = st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1))
MONEY = st.decimals(-(10**6), 10**6, places=2)
NULL = st.none()


def zoned(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values.map(lambda one: one.replace(tzinfo=dt.UTC) if one is not None else None)


def some(values: st.SearchStrategy[Any], rows: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(NULL | values, min_size=rows, max_size=rows)


def pieces(draw: st.DrawFn, rows: int) -> list[tuple[int, int]]:
    """Where frames that were put together begin and end."""
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=2)))
    return list(zip([0, *cuts], [*cuts, rows], strict=True))


PANDAS: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "str": (TEXT, "str"),
    "object": (TEXT, object),
    "string[pyarrow]": (TEXT, "string[pyarrow]"),
    "Int64": (LONG, "Int64"),
    "UInt8": (st.integers(0, 255), "UInt8"),
    "float64": (st.floats(allow_nan=False), "float64"),
    "boolean": (st.booleans(), "boolean"),
    "category": (TEXT, "category"),
    "numbers as categories": (st.integers(0, 3), "category"),
    "datetime64[us]": (MOMENT, "datetime64[us]"),
    "datetime64[ns]": (MOMENT, "datetime64[ns]"),
    "zoned": (zoned(MOMENT), f"datetime64[us, {BERLIN}]"),
    "timedelta64[us]": (st.timedeltas(dt.timedelta(0), dt.timedelta(9)), "timedelta64[us]"),
    "days": (DAY, object),
    "decimals": (MONEY, object),
    "bytes": (st.binary(max_size=3), object),
    "lists": (st.lists(st.integers(0, 9), max_size=2), object),
    "structs": (st.fixed_dictionaries({"a": st.integers(0, 9)}), object),
    "mixed": (TEXT | st.integers(0, 9), object),
    "sparse": (st.integers(0, 9), "Sparse[float64]"),
    "timestamp[pyarrow]": (MOMENT, pd.ArrowDtype(pa.timestamp("us"))),
    "complex": (st.complex_numbers(max_magnitude=9), "complex128"),
}
NAMES = st.one_of(
    st.lists(TEXT, min_size=1, max_size=4, unique=True),
    st.lists(st.integers(2020, 2030), min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(TEXT, st.integers(0, 3)), min_size=1, max_size=4, unique=True),
    st.lists(TEXT | st.integers(0, 3) | NULL, min_size=1, max_size=3, unique=True),
    st.just([]),
)


@st.composite
def pandas_frames(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(0, 6))
    names = draw(NAMES)
    columns = []
    for _ in names:
        values, kind = PANDAS[draw(st.sampled_from(sorted(PANDAS)))]
        columns.append(pd.Series(draw(some(values, rows)), dtype=object).astype(kind))
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=range(rows))
    frame.columns = pd.Index(names)
    if draw(st.booleans()):
        frame.columns.names = [draw(st.sampled_from(["level", None, 5]))] * frame.columns.nlevels
    index = draw(st.sampled_from(["range", "numbers", "text", "two"]))
    if index == "numbers":
        frame.index = pd.Index(range(rows, 2 * rows), name=draw(st.sampled_from([None, "id", 0])))
    elif index == "text":
        frame.index = pd.Index([str(row) for row in range(rows)], dtype="str", name="key")
    elif index == "two" and rows:
        frame.index = pd.MultiIndex.from_product(
            [[1], range(rows)], names=["a", draw(st.sampled_from([7, None]))]
        )
    parts = [frame.iloc[start:end] for start, end in pieces(draw, rows)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pd.concat(parts, ignore_index=draw(st.booleans()) and index == "range")


@pytest.mark.slow
@settings(max_examples=examples(400))
@given(pandas_frames(), st.sampled_from([None, True, False]), PIECE)
def test_frames_of_pandas_read_back_as_to_parquet_writes_them(
    frame: pd.DataFrame, index: bool | None, size: int
) -> None:
    # A range with a name is a column here, as any other index with a name.
    own_index = True if index is None and frame.index.name is not None else index
    try:
        own = own_bytes(lambda file: frame.to_parquet(file, index=own_index))
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError):
        assert published(frame, new_url(), index=index) is None
        return
    made = published(frame, new_url(), size, index=index)
    want = pq.read_schema(io.BytesIO(own))
    names = want.names
    if made is None:
        assert len(set(names)) < len(names) or not names  # what no reader of datasets takes
    elif len(frame):
        [body] = made
        assert pq.read_schema(io.BytesIO(body)).equals(want, check_metadata=True)
        pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(body)), pd.read_parquet(io.BytesIO(own)))
    else:
        assert made == []


POLARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pl.String, TEXT),
    (pl.Int8, st.integers(-128, 127)),
    (pl.UInt64, st.integers(0, 2**64 - 1)),
    (pl.Int128, st.integers(-(2**100), 2**100)),
    (pl.UInt128, st.integers(0, 2**100)),
    (pl.Float32, st.floats(width=32, allow_nan=False)),
    (pl.Float16, st.floats(width=16, allow_nan=False)),
    (pl.Boolean, st.booleans()),
    (pl.Date, DAY),
    (pl.Time, st.times()),
    (pl.Datetime("ms"), MOMENT.map(lambda one: one.replace(microsecond=0))),
    (pl.Datetime("ns", BERLIN), zoned(MOMENT)),
    (pl.Duration("us"), st.timedeltas(dt.timedelta(0), dt.timedelta(9))),
    (pl.Decimal(12, 2), MONEY),
    (pl.Categorical, TEXT),
    (pl.Enum(["a", "b"]), st.sampled_from("ab")),
    (pl.Binary, st.binary(max_size=3)),
    (pl.Null, NULL),
    (pl.Object, st.frozensets(st.integers(0, 3))),
    (pl.List(pl.Int64), st.lists(LONG, max_size=2)),
    (pl.List(pl.Int128), st.lists(LONG, max_size=2)),
    (pl.Array(pl.Int16, 2), st.lists(st.integers(0, 9), min_size=2, max_size=2)),
    (pl.Struct({"a": pl.String, "b": pl.Categorical}), st.fixed_dictionaries({"a": TEXT, "b": TEXT})),
    (pl.Struct({"a": pl.UInt128}), st.fixed_dictionaries({"a": st.integers(0, 9)})),
]


@st.composite
def polars_frames(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.integers(0, 6))
    names = draw(st.lists(TEXT, min_size=1, max_size=4, unique=True))
    columns = {}
    for name in names:
        kind, values = draw(st.sampled_from(POLARS))
        columns[name] = pl.Series(draw(some(values, rows)), dtype=kind, strict=False)
    frame = pl.DataFrame(columns)
    if any(kind == pl.Object for kind in frame.dtypes):
        return frame
    return pl.concat([frame[start:end] for start, end in pieces(draw, rows)], rechunk=draw(st.booleans()))


def _unknown_to_arrow(kind: Any) -> bool:
    return any(name in str(kind) for name in ("Int128", "Object"))


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(
    polars_frames(),
    st.booleans(),
    st.sampled_from([{}, {"max_rows_per_file": 2}, {"row_group_size": 2}]),
    PIECE,
)
def test_frames_of_polars_read_back_as_write_parquet_writes_them(
    frame: pl.DataFrame, lazy: bool, how: dict[str, Any], size: int
) -> None:
    made = published(frame.lazy() if lazy else frame, new_url(), size, **how)
    if any(map(_unknown_to_arrow, frame.dtypes)):
        assert made is None
        return
    want = pl.read_parquet(own_bytes(frame.write_parquet))
    assert made is not None
    assert bool(made) == bool(frame.height)
    if made:
        found = pl.concat([pl.read_parquet(body) for body in made])
        assert found.schema == want.schema
        assert found.equals(want)


SQL = {
    "TINYINT": "-1",
    "UBIGINT": "18446744073709551615",
    "HUGEINT": "170141183460469231731687303715884105727",
    "DOUBLE": "0.1",
    "DECIMAL(9, 2)": "1.50",
    "BOOLEAN": "true",
    "VARCHAR": "'ü'",
    "BLOB": "'\\xAA'",
    "DATE": "'2026-01-31'",
    "TIME": "'08:00:00.5'",
    "TIMETZ": "'12:00:00+02'",
    "TIMESTAMP": "'2026-01-31 08:00:00.5'",
    "TIMESTAMP_S": "'2026-01-31 08:00:00'",
    "TIMESTAMP_MS": "'2026-01-31 08:00:00.5'",
    "TIMESTAMP_NS": "'2026-01-31 08:00:00.123456789'",
    "TIMESTAMPTZ": "'2026-10-25 01:30:00+00'",
    "INTERVAL": "'1 day'",
    "BIT": "'1010'",
    "UUID": "'00000000-0000-0000-0000-000000000001'",
    "JSON": """'{"a": 1}'""",
    "ENUM('a', 'b')": "'b'",
    "BIGNUM": "1",
    "VARIANT": "1",
    "INTEGER[]": "[1, NULL]",
    "INTEGER[2]": "[1, 2]",
    "STRUCT(a VARCHAR, b BIT[])": "{'a': 'x', 'b': ['1'::BIT]}",
    "MAP(VARCHAR, TIMETZ)": "map{'a': '12:00:00+02'}",
    "MAP(VARCHAR, INTEGER)": "map{'a': 1}",
    "UNION(a INTEGER, b VARCHAR)": "1::UNION(a INTEGER, b VARCHAR)",
}
OTHER_TYPES = {"HUGEINT", "UUID", "JSON"}
"""What docs/engines.md says comes back as another type, with the same text."""
WITHOUT_ARROW = ("TIMETZ", "BIT", "BIGNUM", "VARIANT", "INTERVAL", "UNION")


def selected(columns: list[tuple[str, str]], *, is_null: bool) -> str:
    cells = []
    for kind, name in columns:
        quoted = name.replace('"', '""')
        cells.append(f'CAST({"NULL" if is_null else SQL[kind]} AS {kind}) AS "{quoted}"')
    return f"SELECT {', '.join(cells)}"


def as_text(relation: Any) -> list[list[str]]:
    """The values of each column."""
    return [list(map(str, column)) for column in zip(*relation.fetchall(), strict=True)]


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(SQL)), TEXT.filter(bool)),
        min_size=1,
        max_size=3,
        unique_by=lambda one: one[1].casefold(),
    ),
    st.lists(st.booleans(), max_size=4),
)
def test_relations_of_duckdb_read_back_as_copy_writes_them(
    columns: list[tuple[str, str]], rows: list[bool]
) -> None:
    queries = [selected(columns, is_null=one) for one in rows]
    query = " UNION ALL ".join(queries) or f"{selected(columns, is_null=False)} WHERE false"
    with TemporaryDirectory() as place, duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Europe/Berlin'")
        made = published(connection.sql(query), new_url())
        if any(word in kind for kind, _ in columns for word in WITHOUT_ARROW):
            assert made is None
            return
        assert made is not None
        assert bool(made) == bool(rows)
        if not made:
            return
        connection.sql(f"COPY ({query}) TO '{place}/own.parquet'")
        Path(place, "ours.parquet").write_bytes(made[0])
        found = connection.sql(f"SELECT * FROM read_parquet('{place}/ours.parquet')")
        own = connection.sql(f"SELECT * FROM read_parquet('{place}/own.parquet')")
        assert found.columns == own.columns
        kinds = zip(columns, found.types, own.types, strict=True)
        assert all(kind in OTHER_TYPES or there == want for (kind, _), there, want in kinds)
        # COPY makes a float of a HUGEINT: these values are as the query has them.
        want = zip(columns, as_text(connection.sql(query)), as_text(own), strict=True)
        assert as_text(found) == [exact if kind == "HUGEINT" else copied for (kind, _), exact, copied in want]


KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(12, 2), MONEY),
    (pa.date32(), DAY),
    (pa.timestamp("s"), MOMENT.map(lambda one: one.replace(microsecond=0))),
    (pa.timestamp("us"), MOMENT),
    (pa.timestamp("us", "UTC"), zoned(MOMENT)),
    (pa.timestamp("us", BERLIN), zoned(MOMENT) | st.sampled_from([FIRST, SECOND])),
    (pa.timestamp("ns", BERLIN), zoned(MOMENT) | st.sampled_from([FIRST, SECOND])),
    (pa.timestamp("us", "+02:00"), zoned(MOMENT)),
]
OTHERS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.string_view(), TEXT),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.null(), NULL),
    (pa.time64("us"), st.times()),
    (pa.dictionary(pa.int8(), pa.string()), TEXT),
    (pa.list_(pa.string()), st.lists(TEXT, max_size=2)),
    (
        pa.struct([("a", pa.int8()), ("b", pa.large_string())]),
        st.fixed_dictionaries({"a": st.just(1), "b": TEXT}),
    ),
    (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(TEXT, LONG, max_size=2).map(lambda one: list(one.items())),
    ),
]


@st.composite
def arrow_tables(draw: st.DrawFn) -> pa.Table:
    """The first column may name directories."""
    rows = draw(st.integers(0, 6))
    # Polars gives a column without a name another one.
    names = draw(st.lists(TEXT.filter(bool), min_size=2, max_size=4, unique=True))
    assume(not names[0].startswith(("_", ".")))
    columns = []
    for number, _ in enumerate(names):
        kind, values = draw(st.sampled_from(KINDS if not number else KINDS + OTHERS))
        cells = draw(some(values, rows))
        columns.append(pa.chunked_array([pa.array(cells[a:b], kind) for a, b in pieces(draw, rows)], kind))
    return pa.table(dict(zip(names, columns, strict=True)), metadata={"made.by": "é"})


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(arrow_tables(), st.sampled_from([1, 2]))
def test_tables_of_arrow_read_back_as_write_table_writes_them(table: pa.Table, tasks: int) -> None:
    made = published(table, new_url(), tasks=tasks)
    assert made is not None
    assert bool(made) == bool(len(table))
    if made:
        want = pq.read_table(pa.BufferReader(own_bytes(lambda file: pq.write_table(table, file))))
        found = pa.concat_tables([pq.read_table(pa.BufferReader(body)) for body in made])
        assert _flat(found.schema) == _flat(want.schema)
        if tasks == 1:
            assert found.to_pylist() == table.to_pylist()
        else:
            assert _rows(found.to_pylist()) == _rows(table.to_pylist())


def _flat(schema: pa.Schema) -> list[tuple[str, Any]]:
    """What a reader sees of a schema, whatever form its text has in memory."""
    text = {"string_view": "large_string"}
    return [(one.name, text.get(str(one.type), str(one.type))) for one in schema]


def _rows(rows: list[dict[str, Any]]) -> list[list[str]]:
    """In an order of their own, as text: Polars gives a zone that is an offset another name."""
    return sorted([str(value) for value in row.values()] for row in rows)


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(arrow_tables(), st.sampled_from(["arrow", "polars", "pandas"]))
def test_partitions_read_back_and_each_value_has_a_directory(table: pa.Table, engine: str) -> None:
    name, kind, url = table.schema.names[0], table.schema[0].type, new_url()
    data: Any = table
    if engine == "polars":
        data = pl.from_arrow(table)
    elif engine == "pandas":
        # As pyarrow has it: pandas itself makes floats of numbers with nulls.
        data = table.to_pandas(types_mapper=pd.ArrowDtype)
    magicfs.write(data, url, partition_by=name)
    want = [row | {name: None} if row[name] == "" else row for row in table.to_pylist()]
    # As text: Python takes two moments of one zone for equal that only their fold tells apart.
    assert len(directories(url)) == len({str(row[name]) for row in want})
    if not want:
        return
    # pyarrow reads no decimals from directories.
    part = ds.partitioning(
        pa.schema([(name, pa.string() if pa.types.is_decimal(kind) else kind)]), flavor="hive"
    )
    found = magicfs.Dataset(url).to_arrow(partitioning=part).to_table().select(table.schema.names)
    assert _rows(found.set_column(0, name, found[0].cast(kind)).to_pylist()) == _rows(want)
    # Whoever is told no types and writes back what was read replaces it, and doubles nothing.
    there = directories(url)
    read = magicfs.Dataset(url).to_arrow().to_table()
    magicfs.write(read, url, partition_by=name, mode="overwrite_partitions")
    assert (directories(url), magicfs.Dataset(url).to_arrow().count_rows()) == (there, len(want))


def test_millions_of_rows_in_chunks_come_back(url: str) -> None:
    one = pd.DataFrame({"day": ["mon", "tue"] * 250_000, "n": np.arange(500_000)})
    frame = pd.concat([one] * 4)
    magicfs.write(frame, url, partition_by="day")
    found = magicfs.Dataset(url).to_arrow().to_table()
    assert found.num_rows == 2_000_000
    assert sorted(found["day"].unique().to_pylist()) == ["mon", "tue"]
    assert pa.compute.sum(found["n"]).as_py() == int(frame["n"].sum())


@pytest.mark.parametrize("how", [{}, {"partition_by": "day"}])
def test_an_index_with_a_name_stays_with_its_rows(how: dict[str, Any], tmp_path: Path) -> None:
    def part(first: int) -> pd.DataFrame:
        index = pd.RangeIndex(first, first + 4, name="id")
        return pd.DataFrame({"day": list("abab"), "sold": range(first, first + 4)}, index=index)

    url = f"{tmp_path}/sales"
    magicfs.write(part(1), url, **how)
    magicfs.write([part(101), part(201).sample(frac=1, random_state=0)], url, mode="append", **how)
    for back in (magicfs.Dataset(url).to_pandas(), pd.read_parquet(url)):
        assert list(back.index) == list(back["sold"])
        assert back.index.name == "id"
        assert sorted(back.index) == [*range(1, 5), *range(101, 105), *range(201, 205)]


def test_an_index_without_a_name_is_stored_where_the_first_rows_have_one(url: str) -> None:
    frame = pd.DataFrame({"n": [1, 3, 2, 4]})
    magicfs.write(frame, f"{url}/range")
    assert magicfs.Dataset(f"{url}/range").to_arrow().schema.names == ["n"]
    magicfs.write([frame[frame["n"] != 2], frame], f"{url}/mixed")
    assert list(magicfs.Dataset(f"{url}/mixed").to_pandas().index) == [0, 1, 3, 0, 1, 2, 3]
