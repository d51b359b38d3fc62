"""``magicfs.write``: tables of any engine, published in one call."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.errors import OutputExists, UsageError
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, default_world

NAMES = ["mon", "a b", "50%", "x/y", "é+#", "..", "_hidden", ".hidden", "a=b", "%2F", "日曜"]
ROWS = {"day": [*NAMES, None], "n": list(range(len(NAMES) + 1))}


@pytest.fixture
def url() -> str:
    bucket = f"w-{uuid4().hex[:12]}"
    default_world().create_bucket(bucket)
    return f"memory://{bucket}/env=prod/día 50%"


def visible(url: str) -> dict[str, bytes]:
    """What a LIST shows a reader who skips hidden names."""
    store, place = MemoryFileSystem(), url.removeprefix("memory://")
    found = {path.removeprefix(f"{place}/"): store.cat_file(path) for path in store.find(place)}
    return {
        path: body
        for path, body in found.items()
        if not any(element.startswith(("_", ".")) for element in path.split("/"))
    }


def uploads(url: str) -> list[Any]:
    store = MemoryStore(url.split("/")[2])

    async def listed() -> list[Any]:
        return [one async for one in store.list_uploads("")]

    from fsspec.asyn import sync

    return sync(MemoryFileSystem().loop, listed)


def rows(url: str, **how: Any) -> list[dict[str, Any]]:
    return magicfs.Dataset(url).to_arrow(**how).to_table().sort_by("n").to_pylist()


def expected(names: dict[str, list[Any]] = ROWS) -> list[dict[str, Any]]:
    return sorted(
        ({"n": n, "day": day} for day, n in zip(*names.values(), strict=True)), key=lambda r: r["n"]
    )


class Stream:
    """What any engine may be: nothing but the Arrow C stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.to_reader(max_chunksize=5).__arrow_c_stream__(requested_schema)


def relation(table: pa.Table) -> Any:
    import duckdb

    return duckdb.connect().from_arrow(table)


def polars_frame(table: pa.Table) -> Any:
    import polars as pl

    return pl.from_arrow(table)


SOURCES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "polars": polars_frame,
    "lazy": lambda table: polars_frame(table).lazy(),
    "duckdb": relation,
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=5),
    "dataset": ds.dataset,
    "filtered": lambda table: ds.dataset(table).filter(ds.field("n") >= 0),
    "scanner": lambda table: ds.dataset(table).scanner(),
    "stream": Stream,
    "views": lambda table: table.cast(pa.schema({"day": pa.string_view(), "n": pa.int64()})),
    "list of tables": lambda table: [table.slice(0, 5), table.slice(5)],
    "batches": lambda table: iter(table.to_batches(max_chunksize=5)),
    "frames": lambda table: (table.slice(n, 5).to_pandas() for n in range(0, len(table), 5)),
    "streams": lambda table: (Stream(table.slice(n, 5)) for n in range(0, len(table), 5)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_tables_of_every_engine_read_back_as_they_were(name: str, url: str) -> None:
    report = magicfs.write(SOURCES[name](pa.table(ROWS)), url, partition_by="day")
    assert (report.rows, report.files, report.tasks) == (len(ROWS["n"]), len(ROWS["n"]), 1)
    assert rows(url) == expected()
    # Whoever knows nothing of magicfs finds the same.
    plain = ds.dataset(
        url.removeprefix("memory://"), filesystem=MemoryFileSystem(), format="parquet", partitioning="hive"
    )
    assert plain.to_table().sort_by("n").to_pylist() == expected()
    assert not uploads(url)


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("format_", ["parquet", "csv", "json", "orc", "arrow"])
def test_every_format_reads_back(format_: Any, tasks: int, url: str) -> None:
    table = pa.table(ROWS).filter(pa.compute.is_valid(pa.table(ROWS)["day"]))
    magicfs.write((table.slice(n, 2) for n in range(0, len(table), 2)), url, format=format_, tasks=tasks)
    assert rows(url, format="ipc" if format_ == "arrow" else format_) == table.to_pylist()
    assert {path.rpartition(".")[2] for path in visible(url)} == {format_}


def test_directories_without_names_read_back_and_none_is_hidden(url: str) -> None:
    table = pa.table(ROWS).slice(0, len(NAMES))
    magicfs.write(table, url, partition_by=["day"], partitioning="directory")
    assert len(visible(url)) == len(NAMES)
    assert rows(url, partitioning=["day"]) == expected({"day": NAMES, "n": ROWS["n"][: len(NAMES)]})
    with pytest.raises(UsageError, match="is null, which a directory"):
        magicfs.write(pa.table(ROWS), url, partition_by="day", partitioning="directory", mode="append")
    assert len(visible(url)) == len(NAMES)


def test_types_and_index_of_pandas_are_kept(url: str) -> None:
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(["b", "a", None], categories=["a", "b", "c"]),
            "at": pd.to_datetime(["2026-01-31 08:00:00", None, "2026-07-01 00:00:00"]).tz_localize(
                "Europe/Berlin"
            ),
            "text": ["x" * 1000, "", None],
            "part": pd.Categorical(["u", "v", "u"]),
        },
        index=pd.Index([7, 8, 9], name="n"),
    )
    magicfs.write(frame, url, partition_by="part")
    table = magicfs.Dataset(url).to_arrow().to_table().sort_by("n")
    assert pa.types.is_dictionary(table.schema.field("kind").type)
    assert table.schema.field("at").type.tz == "Europe/Berlin"
    back = table.to_pandas()
    assert back.index.name == "n"
    frame["part"] = frame["part"].astype(str)
    pd.testing.assert_frame_equal(
        back.astype({"part": str}), frame, check_dtype=False, check_categorical=False
    )
    one = next(iter(visible(url).values()))
    assert pq.read_table(pa.BufferReader(one)).to_pandas().index.name == "n"


def test_the_index_is_left_out_or_written_as_asked(url: str) -> None:
    frame = pd.DataFrame({"n": [1, 2]}, index=["x", "y"])
    magicfs.write(frame, f"{url}/without", index=False)
    assert magicfs.Dataset(f"{url}/without").to_arrow().to_table().column_names == ["n"]
    magicfs.write(frame.reset_index(drop=True), f"{url}/with", index=True)
    assert magicfs.Dataset(f"{url}/with").to_arrow().to_table().column_names == ["n", "__index_level_0__"]


def test_categories_of_polars_are_text_where_a_format_has_none(url: str) -> None:
    import polars as pl

    frame = pl.DataFrame({"n": [1, 2], "c": pl.Series(["u", "v"], dtype=pl.Categorical)})
    nested = frame.with_columns(l=pl.concat_list("c").cast(pl.List(pl.String)))
    for format_ in ("json", "arrow"):
        magicfs.write(nested, f"{url}/{format_}", format=format_)
    assert rows(f"{url}/json", format="json")[1] == {"n": 2, "c": "v", "l": ["v"]}
    assert rows(f"{url}/arrow", format="ipc")[1] == {"n": 2, "c": "v", "l": ["v"]}
    magicfs.write(frame, f"{url}/csv", format="csv", compression="gzip")
    assert all(path.endswith(".csv.gz") for path in visible(f"{url}/csv"))
    with pytest.raises(UsageError, match="csv cannot hold this schema"):
        magicfs.write(nested, f"{url}/nested", format="csv")


def failing(table: pa.Table, batches: int = 40) -> Iterator[pa.Table]:
    for _ in range(batches):
        yield table
    raise LookupError("the source is gone")


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("how", [{}, {"partition_by": "day"}, {"max_rows_per_file": 2}])
def test_an_error_of_the_data_publishes_nothing_and_leaves_nothing(
    tasks: int, how: dict[str, Any], url: str
) -> None:
    magicfs.write(pa.table({"day": ["old"], "n": [1]}), url)
    before = visible(url)
    with pytest.raises(LookupError, match="the source is gone"):
        magicfs.write(failing(pa.table(ROWS)), url, mode="overwrite", tasks=tasks, **how)
    assert visible(url) == before
    assert not uploads(url)
    assert not [path for path in MemoryFileSystem().find(url) if "__magic" in path]


def test_a_value_that_a_format_cannot_hold_publishes_nothing(url: str) -> None:
    with pytest.raises(UsageError, match="do not fit"):
        magicfs.write([pa.table({"n": [1]}), pa.table({"n": ["x"]})], url)
    with pytest.raises(UsageError, match="came after rows with"):
        magicfs.write([pa.table({"n": [1]}), pa.table({"m": [1]})], url)
    some = pa.list_(pa.field("item", pa.int64(), nullable=False))
    null = pa.table({"part": ["a", "b"], "n": pa.array([[1], [None]], some)})
    with pytest.raises(UsageError, match="parquet files cannot store a value"):
        magicfs.write(null, url, partition_by="part")
    with pytest.raises(UsageError, match="which CSV writes as an empty line"):
        magicfs.write(pa.table({"n": [1, None]}), url, format="csv")
    assert not visible(url)


def test_columns_are_widened_to_those_of_the_first_rows(url: str) -> None:
    first = pa.table({"n": [1], "x": [0.5]})
    magicfs.write([first, pa.table({"n": pa.array([2], pa.int32()), "x": pa.array([None], pa.null())})], url)
    assert rows(url) == [{"n": 1, "x": 0.5}, {"n": 2, "x": None}]
    wanted = pa.schema({"n": pa.int16(), "x": pa.float32()})
    magicfs.write(first, f"{url}/narrow", schema=wanted)
    assert magicfs.Dataset(f"{url}/narrow").to_arrow().schema.equals(wanted)
    with pytest.raises(UsageError, match="schema= has the columns"):
        magicfs.write(first, f"{url}/other", schema=pa.schema({"n": pa.int16()}))


def test_data_that_are_there_are_not_touched_and_no_row_is_read(url: str) -> None:
    table = pa.table(ROWS)
    magicfs.write(table, url)
    read = []

    def watched() -> Iterator[pa.Table]:
        for _ in range(3):
            read.append(1)
            yield table

    with pytest.raises(OutputExists):
        magicfs.write(watched(), url)
    assert len(read) == 1, "only the columns were looked at"
    assert magicfs.write(table, url, mode="append").published
    assert len(rows(url)) == 2 * len(table)
    assert magicfs.write(table, url, mode="overwrite").files_deleted == 2


def test_a_run_is_published_once(url: str) -> None:
    def watched() -> Iterator[pa.Table]:
        yield pa.table({"n": [1]})
        yield pa.table({"n": [2]})
        read.append(1)

    read: list[int] = []
    first = magicfs.write(watched(), url, mode="append", run_id="2026-11-25 daily")
    again = magicfs.write(watched(), url, mode="append", run_id="2026-11-25 daily")
    assert (first.published_before, again.published_before, again.files) == (False, True, 0)
    assert read == [1]
    assert rows(url) == [{"n": 1}, {"n": 2}]
    replaced = magicfs.write(watched(), url, mode="overwrite", run_id="2026-11-25 daily", rerun="overwrite")
    assert replaced.published
    assert len(rows(url)) == 2


def test_data_without_rows_make_no_file_and_replace_nothing_unless_allowed(url: str) -> None:
    empty = pa.table(ROWS).slice(0, 0)
    for data in (empty, empty.to_pandas(), iter([empty]), polars_frame(empty).lazy()):
        report = magicfs.write(data, url, mode="append")
        assert (report.files, report.rows) == (0, 0)
    assert not visible(url)
    assert magicfs.Dataset(url).to_arrow(schema=empty.schema).count_rows() == 0
    with pytest.raises(UsageError, match="for pandas") as refused:
        magicfs.Dataset(url).to_pandas()
    (advice,) = re.findall(r"to_arrow\(schema=pyarrow.*to_pandas\(\)", str(refused.value))
    assert eval(f"at.{advice}", {"at": magicfs.Dataset(url), "df": empty.to_pandas(), "pyarrow": pa}).empty
    magicfs.write(pa.table(ROWS), url, mode="append", partition_by="day")
    for mode in ("overwrite", "overwrite_partitions"):
        with pytest.raises(UsageError, match="'allow_empty': True"):
            magicfs.write(empty, url, mode=mode, partition_by="day" if "part" in mode else ())
        assert len(rows(url)) == len(ROWS["n"])
    assert magicfs.write(empty, url, mode="overwrite", options={"allow_empty": True}).files_deleted == len(
        ROWS["n"]
    )
    with pytest.raises(UsageError, match="the iterable is empty"):
        magicfs.write([], url, mode="append")
    assert magicfs.write([], url, mode="append", schema=empty.schema).files == 0


@pytest.mark.parametrize(
    ("data", "how", "message"),
    [
        ({"n": [1]}, {"partition_by": "day"}, "partition column 'day' is missing; the columns are n"),
        ({"n": [1]}, {"partition_by": "n"}, "all columns are partition columns"),
        ({"n": [1], "m": [1]}, {"partition_by": ["n", "n"]}, "names a column twice"),
        ({"_n": [1], "m": [1]}, {"partition_by": "_n"}, "treat as hidden; nothing was changed; rename"),
        ({"n": [0.5], "m": [1]}, {"partition_by": "n"}, "has type double, which has no text form"),
        ({"n": ["a\0b"], "m": [1]}, {"partition_by": "n"}, "U\\+0000"),
        ({"n": [1]}, {"format": "avro"}, "choose one of parquet, csv, json, orc, arrow"),
        ({"n": [1]}, {"compression": "rar"}, "not a codec of parquet"),
        ({"n": [1]}, {"format": "csv", "row_group_size": 5}, "no row groups"),
        ({"n": [1]}, {"partitioning": "hiv"}, "choose one of hive, directory"),
        ({"n": [1]}, {"partitioning": "directory"}, "needs partition_by=; nothing was changed"),
        ({"n": [1], "day": [1]}, {"partition_by": 1}, "partition_by names 1, .* write one of 'n', 'day'"),
        ({"n": [1], "day": [1]}, {"partition_by": ds.field("day")}, "which is not a string"),
        ({"n": [1]}, {"tasks": 0}, "out of range"),
        ({"n": [1]}, {"max_bytes_per_file": 0}, "below 1"),
        ({"n": [1]}, {"mode": "replace"}, "choose one of"),
        ({}, {}, "no columns"),
    ],
)
def test_wrong_arguments_are_told_and_change_nothing(
    data: dict[str, Any], how: dict[str, Any], message: str, url: str
) -> None:
    with pytest.raises(UsageError, match=message):
        magicfs.write(pa.table(data), url, **how)
    assert not MemoryFileSystem().find(url)


@pytest.mark.parametrize(
    "data", [3, None, "data.parquet", Path("data.parquet"), {"n": [1]}, [1], ["x"], b"x"]
)
def test_what_is_no_table_is_told(data: Any, url: str) -> None:
    with pytest.raises(UsageError, match="a DataFrame of pandas"):
        magicfs.write(data, url)


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")
def test_series_and_connections_that_were_read_are_told(url: str) -> None:
    import duckdb
    import polars as pl

    for series in (pd.Series([1], name="a"), pl.Series("a", [1]), [pd.Series([1])]):
        with pytest.raises(UsageError, match=r"nothing was changed; pass data\.to_frame\(\)"):
            magicfs.write(series, url)
    connection = duckdb.connect().execute("SELECT 1 AS a")
    connection.fetchall()
    for one in (connection, duckdb.connect()):
        with pytest.raises(UsageError, match="is a connection of DuckDB; pass a relation"):
            magicfs.write(one, url)
    expression: Any = pl.col("day")
    with pytest.raises(UsageError, match=r"which is not a string.* write one of 'n', 'day'"):
        magicfs.write(pl.DataFrame({"n": [1], "day": [1]}), url, partition_by=expression)


def test_a_type_that_a_format_lacks_is_told_with_its_column(url: str) -> None:
    import duckdb

    months = duckdb.sql("SELECT 1 AS n, [INTERVAL 1 MONTH] AS every, INTERVAL 1 DAY AS wait")
    with pytest.raises(UsageError, match=r"parquet cannot hold .* cast 'every', 'wait' to string"):
        magicfs.write(months, url)
    with pytest.raises(UsageError, match=r"csv cannot hold .* cast 'tags' to string"):
        magicfs.write(pa.table({"n": [1], "tags": [["a"]]}), url, format="csv")


def test_frames_that_arrow_does_not_know_are_told(url: str) -> None:
    with pytest.raises(UsageError, match="cannot be converted to Arrow"):
        magicfs.write(pd.DataFrame({"x": [1, "a", object()]}), url)
    with pytest.raises(UsageError, match="Conversion failed for column note with type object"):
        magicfs.write(pd.DataFrame({"n": [1, 2], "note": [1, object()]}), url)
    with pytest.raises(UsageError, match=r"cannot be converted to Arrow|duplicate columns"):
        magicfs.write(pd.DataFrame([[1, 2]], columns=["a", "a"]), url)


@pytest.mark.slow
def test_files_have_no_more_rows_and_about_as_many_bytes_as_asked(url: str) -> None:
    table = pa.table({"n": range(200_000), "text": [f"{n * 7919 % 200_003:x}" for n in range(200_000)]})
    magicfs.write(table, f"{url}/rows", max_rows_per_file=60_000)
    counts = [
        pq.ParquetFile(pa.BufferReader(body)).metadata.num_rows for body in visible(f"{url}/rows").values()
    ]
    assert sorted(counts) == [20_000, 60_000, 60_000, 60_000]
    for format_, most, how in (
        ("parquet", 150_000, {}),
        ("json", 300_000, {}),
        ("csv", 300_000, {"compression": "gzip"}),
    ):
        place = f"{url}/{format_}"
        magicfs.write(table, place, max_bytes_per_file=most, format=format_, **how)
        sizes = sorted(len(body) for body in visible(place).values())
        assert len(sizes) > 2
        assert sizes[-1] <= (1.3 if how else 1.15) * most
        assert sizes[1] >= (0.7 if how else 0.85) * most, "but for the last one"
        read = magicfs.Dataset(place).to_arrow(format=format_).to_table(["n"]).sort_by("n")
        assert read["n"].to_pylist() == table["n"].to_pylist()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_data(url: str) -> None:
    most = 0

    def stream() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for n in range(96):
            most = max(most, pa.total_allocated_bytes() - before)
            yield pa.record_batch({"n": pa.repeat(pa.scalar(n, pa.int64()), 2**20)})

    before = pa.total_allocated_bytes()
    report = magicfs.write(stream(), url)
    assert report.rows == 96 * 2**20
    assert most < 400 * 2**20 < 96 * 2**23


@pytest.mark.process
def test_files_of_a_dataset_are_split_among_processes(tmp_path: Path) -> None:
    for n in range(5):
        (tmp_path / f"in/day={n}").mkdir(parents=True)
        pq.write_table(pa.table({"n": [n, n + 10]}), tmp_path / f"in/day={n}/é {n}.parquet")
    source = ds.dataset(tmp_path / "in", partitioning="hive")
    place = f"file://{tmp_path}/out"
    with ProcessPoolExecutor(2) as pool:
        report = magicfs.write(source, place, tasks=3, executor=pool, partition_by="day")
        assert (report.tasks, report.files, report.rows) == (3, 5, 10)
        assert rows(place) == sorted(source.to_table().to_pylist(), key=lambda row: row["n"])
        with pytest.raises(UsageError, match="leave executor out"):
            magicfs.write(pa.table({"n": [1]}), place, executor=pool)


@pytest.mark.parametrize("committer", ["directory", "file", "manifest"])
def test_every_kind_of_committer_writes_the_same(committer: str, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/out"
    options = {"work_directory": str(tmp_path / "work")} if committer == "directory" else {}
    how = {"committer": committer, "options": options}
    magicfs.write(pa.table(ROWS), url, partition_by="day", tasks=2, **how)
    plain = ds.dataset(tmp_path / "out", partitioning="hive").to_table()  # not every committer has a manifest
    assert plain.sort_by("n").to_pylist() == expected()


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(UsageError, match=r"pip install 'magicfs\[arrow\]'"):
        magicfs.write(pa.table(ROWS), url)


def test_moments_and_days_as_partitions_read_back(url: str) -> None:
    table = pa.table({"n": [1, 2], "at": [dt.datetime(2026, 1, 31, 8, 0, 0, 500000), None]})
    magicfs.write(table, url, partition_by="at")
    assert any("at=2026-01-31 08%3A00%3A00.5/" in path for path in visible(url))
    read = magicfs.Dataset(url).to_arrow(schema=table.schema).to_table().sort_by("n")
    assert read["at"].to_pylist() == table["at"].to_pylist()


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("conflict", "append", "write mode='error', 'append'"),
        ("existing_data_behavior", "delete_matching", "write mode='error', 'append'"),
        ("partition_cols", ["day"], "use partition_by="),
        ("hive_partitioning", True, "leave it out: partitioning='hive' is the default"),
        ("hive_schema", {}, "leave it out"),
        ("committer_options", {}, "pass them in options="),
        ("comitter", "magic", "did you mean 'committer'"),
        ("partition_bye", "day", "did you mean 'partition_by'"),
        ("día 50% + #1", 1, "leave it out"),
    ],
)
def test_words_of_other_libraries_are_told_in_ours_before_anything_is_changed(
    tmp_path: Path, name: str, value: Any, advice: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{name}= is not an argument of magicfs.write")) as caught:
        magicfs.write(pa.table({"day": [1], "n": [2]}), str(tmp_path / "sales"), **{name: value})
    assert advice in str(caught.value)
    assert list(tmp_path.iterdir()) == []
