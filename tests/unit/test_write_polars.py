"""``magicfs.write`` of Polars: by Polars' own writer where that does what is asked, else by ours, with the
same rows, names and types.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.errors import UsageError
from magicfs.filesystem.upload import DelayedFile
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.tables import polars_files, polars_stream
from magicfs.tables.polars_files import PolarsFiles
from tests.unit.test_write import NAMES, uploads, url, visible

__all__ = ["url"]

MAKES: dict[str, Callable[[pl.DataFrame], Any]] = {"eager": lambda frame: frame, "lazy": pl.DataFrame.lazy}
HOSTILE = [*NAMES, "dataset1", "dataset10", "a/../b", "?x=1&y", "'\"", "\n", "", None]
FRAME = pl.DataFrame({"day": HOSTILE * 3, "n": range(3 * len(HOSTILE)), "z": [1, None, 3] * len(HOSTILE)})


def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PolarsFiles, "fits", lambda *_: False)


def writers(url: str) -> set[str]:
    return {meta.created_by.partition(" ")[0] for meta in footers(url)}


def footers(url: str) -> list[Any]:
    return [pq.ParquetFile(_buffer(body)).metadata for body in visible(url).values()]


def directories(url: str) -> set[str]:
    return {path.rpartition("/")[0] for path in visible(url)}


def _buffer(body: bytes) -> Any:
    import pyarrow as pa

    return pa.BufferReader(body)


def table(url: str) -> Any:
    return magicfs.Dataset(url).to_arrow().to_table().sort_by("n")


@pytest.mark.parametrize("how", [{}, {"partition_by": "day"}, {"partition_by": ["z", "day"]}])
@pytest.mark.parametrize("make", MAKES)
def test_both_writers_make_the_same_rows_and_names(
    make: str, how: dict[str, Any], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = magicfs.write(MAKES[make](FRAME), f"{url}/polars", **how)
    assert report.rows == FRAME.height
    assert not uploads(url)
    ours(monkeypatch)
    magicfs.write(MAKES[make](FRAME), f"{url}/ours", **how)
    assert (writers(f"{url}/polars"), writers(f"{url}/ours")) == ({"Polars"}, {"parquet-cpp-arrow"})

    assert directories(f"{url}/polars") == directories(f"{url}/ours")
    found, want = table(f"{url}/polars"), table(f"{url}/ours")
    assert found.schema.equals(want.schema)
    assert found.to_pylist() == want.to_pylist()


def test_bare_directories_are_the_same_and_null_is_refused(url: str) -> None:
    frame = FRAME.filter(pl.col("day") != "")
    magicfs.write(frame, url, partition_by="day", partitioning="directory")
    assert writers(url) == {"Polars"}
    read = magicfs.Dataset(url).to_arrow(partitioning=["day"]).to_table().sort_by("n")
    assert read["day"].to_pylist() == frame["day"].to_list()
    before = visible(url)
    for message, bad in (("is null|is empty", FRAME), ("U\\+0000", frame.with_columns(day=pl.lit("a\0b")))):
        with pytest.raises(UsageError, match=message):
            magicfs.write(bad, url, partition_by="day", partitioning="directory", mode="append")
    assert visible(url) == before
    assert not uploads(url)


def test_types_of_both_are_equal(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at = dt.datetime(2026, 1, 31, 8, 0, 0, 5)
    columns: dict[str, Any] = {
        "i": pl.Series([1, None], dtype=pl.UInt8),
        "f": [0.5, float("nan")],
        "b": [True, None],
        "s": ["é", ""],
        "y": [b"\0", None],
        "d": [at.date(), None],
        "t": pl.Series([at, None], dtype=pl.Datetime("ns", "Europe/Berlin")),
        "m": [dt.time(8, 0, 1), None],
        "u": [dt.timedelta(1), None],
        "e": pl.Series([Decimal("1.50"), None], dtype=pl.Decimal(10, 2)),
        "c": pl.Series(["u", "v"], dtype=pl.Categorical),
        "l": [["x", None], []],
        "r": [{"a": 1, "b": "x"}, None],
        "n": [1, 2],
    }
    frame = pl.DataFrame(columns)
    for parts in ("d", "t", "e", "c", "b"):
        with monkeypatch.context() as patch:
            part = frame.with_columns(part=pl.col(parts).cast(pl.Datetime("us")) if parts == "t" else parts)
            magicfs.write(part, f"{url}/polars {parts}", partition_by="part")
            ours(patch)
            magicfs.write(part, f"{url}/ours {parts}", partition_by="part")
        assert writers(f"{url}/polars {parts}") == {"Polars"}
        assert directories(f"{url}/polars {parts}") == directories(f"{url}/ours {parts}")
        found, want = table(f"{url}/polars {parts}"), table(f"{url}/ours {parts}")
        assert found.schema.equals(want.schema)
        assert str(found.to_pylist()) == str(want.to_pylist())  # NaN is not equal to itself


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4_raw", "none"])
def test_codecs_row_groups_order_and_statistics_are_as_asked(codec: str, url: str) -> None:
    frame = pl.DataFrame({"n": range(250_000)})
    report = magicfs.write(frame.lazy(), url, compression=codec, row_group_size=60_000)
    (meta,) = footers(url)
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    assert (report.rows, report.files, writers(url)) == (250_000, 1, {"Polars"})
    assert max(group.num_rows for group in groups) <= 60_000
    name = {"none": "UNCOMPRESSED", "lz4_raw": "LZ4"}.get(codec, codec.upper())
    assert {group.column(0).compression for group in groups} == {name}
    assert groups[0].column(0).statistics.min == 0
    assert groups[-1].column(0).statistics.max == 249_999
    assert magicfs.Dataset(url).to_arrow().to_table()["n"].to_pylist() == list(range(250_000))


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize(
    "how",
    [
        {"max_rows_per_file": 10},
        {"max_bytes_per_file": 10_000},
        {"tasks": 2},
        {"partition_by": "day", "max_open_files": 5},
    ],
)
def test_what_polars_cannot_do_is_done_by_ours(make: str, how: dict[str, Any], url: str) -> None:
    magicfs.write(MAKES[make](FRAME), url, **how)
    assert writers(url) == {"parquet-cpp-arrow"}
    assert table(url)["n"].to_pylist() == FRAME["n"].to_list()
    assert not uploads(url)


@pytest.mark.parametrize("make", MAKES)
def test_partitions_that_no_sample_shows_are_not_too_many(
    make: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polars_files, "_SAMPLE_ROWS", 1)
    magicfs.write(MAKES[make](FRAME), url, partition_by="day", max_open_files=5)
    assert writers(url) == {"parquet-cpp-arrow"}
    assert table(url)["n"].to_pylist() == FRAME["n"].to_list()
    assert not uploads(url)


@pytest.mark.parametrize("make", MAKES)
def test_what_does_not_fit_the_buffer_is_held_in_small_groups(
    make: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 600_000
    frame = pl.DataFrame({"n": range(rows)}).with_columns(part=pl.col("n") % 3)
    monkeypatch.setattr(polars_files, "BUFFER_BYTES", frame.estimated_size() // 2)
    report = magicfs.write(MAKES[make](frame), url, partition_by="part", max_open_files=10)
    assert (report.rows, report.files, writers(url)) == (rows, 3, {"Polars"})
    groups = [meta.row_group(n).num_rows for meta in footers(url) for n in range(meta.num_row_groups)]
    # Room is left for as many partitions again.
    assert rows // 100 < max(groups) <= rows // 2 // 6
    assert table(url)["n"].to_pylist() == list(range(rows))
    monkeypatch.setattr(polars_files, "BUFFER_BYTES", 100)
    magicfs.write(MAKES[make](FRAME), f"{url}/tiny", partition_by="day")
    assert writers(f"{url}/tiny") == {"parquet-cpp-arrow"}
    assert table(f"{url}/tiny")["n"].to_pylist() == FRAME["n"].to_list()


@pytest.mark.parametrize("files_max", [4, 64])
def test_partitions_that_become_too_many_in_a_stream_go_on_with_ours(
    files_max: int, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, many = 2_000_000, 20
    frame = pl.DataFrame({"n": range(rows)}).with_columns(
        part=pl.when(pl.col("n") < rows // 2).then(pl.col("n") % 3).otherwise(pl.col("n") % many)
    )
    monkeypatch.setattr(polars_files, "BUFFER_BYTES", frame.estimated_size() // 4)
    report = magicfs.write(frame.lazy(), url, partition_by="part", max_open_files=files_max)
    assert (report.rows, writers(url)) == (rows, {"Polars", "parquet-cpp-arrow"})
    assert len(directories(url)) == many
    assert report.files > many  # further ones of some partitions
    assert table(url)["n"].to_pylist() == list(range(rows))
    assert not uploads(url)


@pytest.mark.parametrize("make", MAKES)
def test_a_file_is_closed_while_polars_writes_the_next(
    make: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    sink, close = polars_files._sink, DelayedFile.close

    def closed(file: DelayedFile) -> None:
        close(file)
        seen.append("closed")

    def sunk(*how: Any) -> None:
        sink(*how)
        seen.append("sunk")

    monkeypatch.setattr(DelayedFile, "close", closed)
    monkeypatch.setattr(polars_files, "_sink", sunk)
    frame = pl.DataFrame({"n": range(2_000_000)}).with_columns(part=pl.col("n") % 20)
    magicfs.write(MAKES[make](frame), url, partition_by="part")
    assert seen.index("closed") < len(seen) - 1 - seen[::-1].index("sunk")
    assert table(url)["n"].to_pylist() == list(range(frame.height))
    assert not uploads(url)


def test_a_stream_that_fits_the_buffer_comes_to_polars_in_pieces(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heights: list[int] = []
    popped = polars_files.popped

    def watched(held: Any) -> Any:
        heights.extend(piece.height for piece in held)
        return popped(held)

    monkeypatch.setattr(polars_stream, "popped", watched)
    frame = pl.DataFrame({"n": range(300_000)}).with_columns(part=pl.col("n") % 3)
    assert magicfs.write(frame.lazy(), url, partition_by="part").rows == sum(heights) == frame.height
    assert len(heights) > 1
    assert (writers(url), table(url)["n"].to_pylist()) == ({"Polars"}, list(range(frame.height)))


@pytest.mark.parametrize("place", [10_000, 1_500_000])
def test_an_error_in_a_stream_of_partitions_publishes_nothing_and_leaves_nothing(
    place: int, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(numbers: pl.Series) -> pl.Series:
        if numbers.is_between(place, place).any():
            raise LookupError("the source is gone")
        return numbers

    frame = pl.DataFrame({"n": range(2_000_000)}).with_columns(part=pl.col("n") % 3)
    monkeypatch.setattr(polars_files, "BUFFER_BYTES", frame.estimated_size() // 4)
    query = frame.lazy().with_columns(
        pl.col("n").map_batches(fail, return_dtype=pl.Int64, is_elementwise=True)
    )
    with pytest.raises(LookupError, match="the source is gone"):
        magicfs.write(query, url, partition_by="part")
    assert not visible(url)
    assert not uploads(url)
    assert not [path for path in MemoryFileSystem().find(url) if "__magic" in path]


@pytest.mark.parametrize("how", [{}, {"partition_by": "day"}])
def test_an_error_in_a_query_publishes_nothing_and_leaves_nothing(how: dict[str, Any], url: str) -> None:
    def fail(_: pl.Series) -> pl.Series:
        raise LookupError("the source is gone")

    magicfs.write(FRAME, url)
    before = visible(url)
    query = FRAME.lazy().with_columns(pl.col("n").map_batches(fail, return_dtype=pl.Int64))
    with pytest.raises(LookupError, match="the source is gone"):
        magicfs.write(query, url, mode="overwrite", **how)
    assert visible(url) == before
    assert not uploads(url)
    assert not [path for path in MemoryFileSystem().find(url) if "__magic" in path]


@pytest.mark.parametrize("how", [{}, {"partition_by": "z"}])
@pytest.mark.parametrize("step", ["write", "close"])
@pytest.mark.parametrize("make", MAKES)
def test_a_file_that_fails_at_any_step_publishes_nothing_and_leaves_nothing(
    make: str, step: str, how: dict[str, Any], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    magicfs.write(FRAME, url)
    before, whole = visible(url), getattr(DelayedFile, step)
    left = 0

    def cut(file: Any, *data: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(5, "the store is gone")
        return whole(file, *data)

    monkeypatch.setattr(DelayedFile, step, cut)
    for number in range(1, 200):
        left = number
        try:
            magicfs.write(MAKES[make](FRAME), url, mode="overwrite", **how)
        except OSError as error:
            if "the store is gone" not in str(error):
                raise
        else:
            break
        assert visible(url) == before
        assert not uploads(url)
        assert not [path for path in MemoryFileSystem().find(url) if "__magic" in path]
    assert left > 0
    assert number > (3 if how else 1)
    assert table(url)["n"].to_pylist() == FRAME["n"].to_list()
    assert not uploads(url)
