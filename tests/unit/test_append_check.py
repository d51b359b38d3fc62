"""Rows that come beside others fit what is there, or are refused before anything is changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
import pyarrow as pa
import pytest

import magicfs
from magicfs.errors import UsageError
from magicfs.protocol.modes import WriteMode
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import default_world
from magicfs.tables.append_check import clashes

ROWS = pa.table({"día 50%": ["a b", "x/y"], "n": [1, 2], "day": ["é+#", "mon"]})


@pytest.fixture
def url() -> str:
    bucket = f"a-{uuid4().hex[:12]}"
    default_world().create_bucket(bucket)
    return f"memory://{bucket}/env=prod/ü 50% +#"


def content(url: str) -> list[str]:
    names: list[str] = MemoryFileSystem().find(url)
    return names


WRONG: dict[str, tuple[pa.Table, dict[str, Any], str]] = {
    "type": (
        ROWS.set_column(1, "n", pa.array([1.5, None])),
        {"partition_by": "day"},
        "column 'n' is int64 in the existing files, and double in the new rows",
    ),
    "lost": (ROWS.drop_columns(["n"]), {"partition_by": "day"}, "column 'n' is missing in the new rows"),
    "other case": (
        ROWS.rename_columns(["día 50%", "N", "day"]),
        {"partition_by": "day"},
        "'n' is missing in the new rows, but 'N' does",
    ),
    "other partitions": (ROWS, {"partition_by": "n"}, "partitioned by 'day', the new ones would be by 'n'"),
    "no partitions": (ROWS, {}, "partitioned by 'day', the new ones would be by nothing"),
}


@pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
@pytest.mark.parametrize("name", WRONG)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_changed(
    name: str, mode: WriteMode, url: str
) -> None:
    magicfs.write(ROWS, url, partition_by="day")
    before = content(url)
    table, how, says = WRONG[name]
    with pytest.raises(UsageError, match=says) as raised:
        magicfs.write(table, url, mode=mode, **how)
    assert "check_schema=False" in str(raised.value)
    assert content(url) == before
    if mode == "append" or how:
        assert magicfs.write(table, url, mode=mode, check_schema=False, **how).files


def test_new_columns_and_other_forms_of_a_type_fit(url: str) -> None:
    magicfs.write(ROWS, url)
    more = pa.table(
        {
            "día 50%": ROWS["día 50%"].cast(pa.large_string()),
            "n": pa.nulls(2),
            "day": ROWS["day"].dictionary_encode(),
            "new": [1, 2],
        }
    )
    assert magicfs.write(more, url, mode="append").published


def test_the_newest_job_tells_what_is_there(url: str) -> None:
    magicfs.write(ROWS, url)
    magicfs.write(ROWS.append_column("new", pa.array([1, 2])), url, mode="append")
    with pytest.raises(UsageError, match="'new' is missing in the new rows"):
        magicfs.write(ROWS, url, mode="append")


def test_files_that_no_job_has_published_are_looked_at_too(tmp_path: Path) -> None:
    directory = tmp_path / "a b%é"
    directory.mkdir()
    pd.DataFrame({"n": [1]}).to_parquet(directory / "old.parquet")
    url = f"file://{directory}"
    with pytest.raises(UsageError, match="'n' is int64 in the existing files, and string in the new rows"):
        magicfs.write(pa.table({"n": ["1"]}), url, mode="append")
    assert magicfs.write(pa.table({"n": [2]}), url, mode="append").published


@pytest.mark.parametrize("body", [b"", b"no Parquet at all"])
def test_what_cannot_be_read_is_no_reason_to_refuse(body: bytes, url: str) -> None:
    MemoryFileSystem().pipe_file(f"{url}/old.parquet", body)
    assert magicfs.write(ROWS, url, mode="append").published


@pytest.mark.parametrize("how", [{"mode": "overwrite"}, {"mode": "append", "format": "csv"}])
def test_only_parquet_beside_other_rows_is_compared(how: dict[str, Any], url: str) -> None:
    magicfs.write(ROWS, url)
    assert magicfs.write(pa.table({"n": ["1"]}), url, **how).published


def test_run_that_is_published_is_not_looked_at_again(url: str) -> None:
    first = magicfs.write(ROWS, url, mode="append", run_id="monday")
    magicfs.write(ROWS.append_column("new", pa.array([1, 2])), url, mode="append")
    again = magicfs.write(ROWS, url, mode="append", run_id="monday")
    assert again.published_before
    assert again.job_id == first.job_id


def test_moments_that_tell_no_zone_fit_any(url: str) -> None:
    import pyarrow.parquet

    moments = pa.table({"at": pa.array([0], pa.timestamp("us", "UTC")), "n": [1]})
    with MemoryFileSystem().open(f"{url}/old.parquet", "wb") as file:
        pyarrow.parquet.write_table(moments, file, use_deprecated_int96_timestamps=True, store_schema=False)
    assert magicfs.write(moments, url, mode="append").published
    bare = moments.set_column(0, "at", moments["at"].cast(pa.timestamp("us")))
    with pytest.raises(UsageError, match="column 'at' is timestamp"):
        magicfs.write(bare, url, mode="append")


def types(there: Any, comes: Any) -> list[str]:
    key = "part.parquet"
    return list(clashes(pa.schema({"c": there}), key, pa.schema({"c": comes})))


@pytest.mark.parametrize(
    ("there", "comes"),
    [
        (pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin")),
        (pa.list_(pa.string()), pa.large_list(pa.large_string())),
        (pa.struct({"a": pa.int64()}), pa.struct({"b": pa.int8(), "a": pa.int64()})),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.large_string(), pa.int64())),
        (pa.dictionary(pa.int8(), pa.string()), pa.string_view()),
        (pa.binary(), pa.large_binary()),
        (pa.date32(), pa.date64()),
    ],
)
def test_forms_of_one_type(there: Any, comes: Any) -> None:
    assert types(there, comes) == []


@pytest.mark.parametrize(
    ("there", "comes", "says"),
    [
        (pa.int64(), pa.int32(), "column 'c' is int64 in the existing files, and int32 in the new rows"),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "is timestamp"),
        (pa.decimal128(9, 2), pa.decimal128(9, 3), "is decimal128"),
        (
            pa.list_(pa.string()),
            pa.list_(pa.int64()),
            "column 'c.item' is string in the existing files, and int64 in the new rows",
        ),
        (
            pa.struct({"a": pa.int64()}),
            pa.struct({"b": pa.int64()}),
            "field 'c.a' is missing in the new rows",
        ),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.string()), "column 'c.value' is int64"),
        (pa.string(), pa.binary(), "column 'c' is string in the existing files, and binary in the new rows"),
    ],
)
def test_other_types(there: Any, comes: Any, says: str) -> None:
    [found] = types(there, comes)
    assert says in found


@pytest.mark.parametrize(
    ("text", "zone", "says"),
    [
        ("2026-10-25 00%3A30%3A00", "Europe/Berlin", ["would be written in UTC with a Z"]),
        ("2026-10-25 00%3A30%3A00.5Z", None, ["would be written without a zone"]),
        ("2026-10-25 00%3A30%3A00.5Z", "UTC", []),
        ("2026-10-25 00%3A30%3A00", None, []),
        ("__HIVE_DEFAULT_PARTITION__", "UTC", []),
    ],
)
def test_moments_with_and_without_a_zone_share_no_dataset(
    text: str, zone: str | None, says: list[str]
) -> None:
    comes = pa.schema({"n": pa.int64(), "at": pa.timestamp("us", zone)})
    there = pa.schema({"n": pa.int64()})
    found = list(clashes(there, f"at={text}/part.parquet", comes, partition_by=["at"]))
    assert len(found) == len(says)
    assert all(one.endswith(end) for one, end in zip(found, says, strict=True))


@pytest.mark.parametrize("engine", ["pandas", "polars", "lazy", "executor"])
def test_a_day_as_a_moment_and_then_as_text_is_refused(engine: str, tmp_path: Path) -> None:
    import polars as pl
    import pyarrow.dataset as ds

    url = f"{tmp_path}/sales"
    moments = pd.DataFrame({"day": pd.to_datetime(["2026-11-25", "2026-11-26"]), "n": [1, 2]})
    magicfs.write(moments, url, partition_by="day")
    days = moments.assign(day=moments["day"].dt.strftime("%Y-%m-%d"))
    how: Any = {"partition_by": "day", "mode": "overwrite_partitions"}
    come: Any = {"pandas": days, "polars": pl.from_pandas(days), "lazy": pl.from_pandas(days).lazy()}
    if engine == "executor":
        ds.write_dataset(pa.Table.from_pandas(days), tmp_path / "come", format="parquet")
        come["executor"] = ds.dataset(tmp_path / "come")
        how["executor"] = ThreadPoolExecutor(1)
    with pytest.raises(UsageError, match="cast the column to a timestamp"):
        magicfs.write(come[engine], url, **how)
    back = magicfs.Dataset(url).to_arrow().to_table()
    assert back["n"].to_pylist() == [1, 2]
    assert pa.types.is_string(back.schema.field("day").type)
    magicfs.write(back, url, partition_by="day", mode="overwrite_partitions")
    assert magicfs.Dataset(url).to_arrow().to_table() == back


def test_directories_without_names_are_not_compared() -> None:
    schema = pa.schema({"n": pa.int64(), "day": pa.string()})
    there = pa.schema({"n": pa.int64()})
    how: Any = {"partition_by": ["day"], "partitioning": "directory"}
    assert list(clashes(there, "mon/part.parquet", schema, **how)) == []
