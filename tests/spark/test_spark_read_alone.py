"""What reads files for Spark, without a Spark."""

from __future__ import annotations

import datetime as dt
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as ds
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import magicfs
from magicfs.errors import ObjectNotFound, StoreError, UsageError
from magicfs.formats.manifest import Hides, KeptFiles, Manifest, ManifestFile
from magicfs.spark.published import directories, files, options, schema, snapshot
from magicfs.spark.published.declared import fitted
from magicfs.spark.published.files import Piece
from magicfs.spark.published.reader import find_schema
from magicfs.spark.published.stream import end_of_batch, new_files
from magicfs.tables import partition_names
from magicfs.tables.formats import FORMATS, FileSettings, open_writer
from magicfs.tables.partition_names import guessed_type

OPTIONS = options.ReadOptions(path="s3://bucket/d")
FRAME = StructType([StructField("id", IntegerType()), StructField("p", StringType())])


def written(file_format: str, table: pa.Table) -> pa.BufferReader:
    sink = io.BytesIO()
    writer = open_writer(FORMATS[file_format], sink, table.schema, FileSettings(row_group_size=None))
    writer.write(table)
    writer.close()
    return pa.BufferReader(sink.getvalue())


def read(file_format: str, source: pa.BufferReader, wanted: pa.Schema) -> list[dict[str, Any]]:
    piece = Piece(f"x.{file_format}", source.size(), file_format, 0, source.size())
    found = [fitted(one, wanted, {}) for one in files.batches(source, piece, wanted)]
    return pa.Table.from_batches(found, wanted).to_pylist()


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)


@given(names=st.lists(TEXTS, min_size=1, max_size=3, unique=True), data=st.data())
def test_any_name_and_value_of_a_directory_reads_back(names: list[str], data: st.DataObject) -> None:
    values = [data.draw(st.none() | TEXTS) for _ in names]
    key = f"{partition_names.directory(names, values)}/part-0.parquet"
    assert directories.values_of([key])[key] == dict(zip(names, values, strict=True))


def files_of(found: dict[str, int]) -> dict[str, ManifestFile]:
    return {key: ManifestFile(key=key, size=size, etag="") for key, size in found.items()}


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-7", None], "int"),
        (["1", str(2**31)], "bigint"),
        ([str(2**63)], "string"),
        (["007"], "string"),
        (["1.5"], "string"),
        (["2026-01-31", None], "date"),
        (["2026-1-31"], "string"),
        (["20260131"], "int"),
        (["true"], "string"),
        ([None], "string"),
        (["٣"], "string"),
    ],
)
def test_types_of_directories_are_guessed_only_where_text_is_kept(texts: list[str | None], kind: str) -> None:
    assert guessed_type(texts) == kind


@pytest.mark.parametrize(
    ("condition", "needed"),
    [
        (ds.EqualTo(("p",), "b"), {"b"}),
        (ds.Not(ds.EqualTo(("p",), "b")), {"a"}),
        (ds.EqualNullSafe(("p",), "b"), {"b"}),
        (ds.Not(ds.EqualNullSafe(("p",), "b")), {"a", None}),
        (ds.IsNull(("p",)), {None}),
        (ds.Not(ds.IsNull(("p",))), {"a", "b"}),
        (ds.In(("p",), ("b", "c")), {"b"}),
        (ds.Not(ds.In(("p",), ("b", "c"))), {"a"}),
        (ds.GreaterThan(("p",), "a"), {"b"}),
        (ds.LessThanOrEqual(("p",), "a"), {"a"}),
        (ds.StringContains(("p",), "a"), {"a"}),
        (ds.Not(ds.StringStartsWith(("p",), "a")), {"b"}),
        # What cannot be decided leaves nothing out: other columns, and values of other types.
        (ds.EqualTo(("id",), 1), {"a", "b", None}),
        (ds.Not(ds.EqualTo(("id",), 1)), {"a", "b", None}),
        (ds.EqualTo(("p", "x"), "b"), {"a", "b", None}),
        (ds.EqualTo(("p",), 1), {"a", "b"}),
        (ds.Not(ds.In(("p",), ("a", None))), {"b"}),
    ],
)
def test_filters_leave_out_only_files_without_a_row_for_them(
    condition: ds.Filter, needed: set[str | None]
) -> None:
    found = files_of({partition_names.directory(["p"], [one]) + "/x.parquet": 9 for one in ("a", "b", None)})
    tasks = snapshot.share(found, FRAME, OPTIONS, [condition])
    assert {dict(piece.values)["p"] for task in tasks for piece in task.pieces} == needed


def test_directories_are_found_in_any_case_and_rule_over_the_file() -> None:
    found = files_of({"P=a/x.parquet": 9, "P=b/x.parquet": 9})
    [task] = snapshot.share(found, FRAME, OPTIONS, [ds.EqualTo(("p",), "b")])
    assert [(piece.key, piece.values) for piece in task.pieces] == [("P=b/x.parquet", (("p", "b"),))]
    values = directories.values_of(found).values()
    assert schema.of_dataset(FRAME, values).fieldNames() == ["id", "P"]


def test_tasks_read_the_versions_of_the_files() -> None:
    large = ManifestFile(key="large.parquet", size=300 * 2**20, etag="", version="v1")
    tasks = snapshot.share({"large.parquet": large}, FRAME, OPTIONS)
    assert {piece.version for task in tasks for piece in task.pieces} == {"v1"}


def test_large_files_are_shared_and_small_ones_put_together() -> None:
    found = files_of({"large.parquet": 300 * 2**20, **{f"{one}.json": 10 for one in range(100)}})
    tasks = snapshot.share(found, FRAME, OPTIONS)
    pieces = [piece for task in tasks for piece in task.pieces]
    assert min(one.start for one in pieces if one.key == "large.parquet") == 0
    assert sum(one.end - one.start for one in pieces) == sum(one.size for one in found.values())
    assert 8 <= len(tasks) <= 12
    assert snapshot.share({}, FRAME, OPTIONS) == []


def test_the_pieces_of_a_parquet_file_have_each_row_group_once(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "x.parquet", row_group_size=100)
    size = (tmp_path / "x.parquet").stat().st_size
    wanted = pa.schema([("id", pa.int64())])
    seen = []
    for start in range(0, size, 700):
        with pa.OSFile(str(tmp_path / "x.parquet")) as source:
            piece = Piece("x.parquet", size, "parquet", start, min(start + 700, size))
            seen += [one for batch in files.batches(source, piece, wanted) for one in batch["id"].to_pylist()]
    assert sorted(seen) == list(range(1000))


@pytest.mark.parametrize("file_format", list(FORMATS))
def test_rows_are_counted_where_no_column_of_a_file_is_wanted(file_format: str) -> None:
    source = written(file_format, pa.table({"a": ["x", "y"], "b": [1, None]}))
    assert read(file_format, source, pa.schema([("later", pa.string())])) == [{"later": None}] * 2


def test_csv_keeps_null_and_empty_text_apart() -> None:
    source = written("csv", pa.table({'a,\n"': ["", None, "NaN", "NULL"], "b": [1.5, None, float("inf"), 2]}))
    wanted = pa.schema([("b", pa.float64()), ('A,\n"', pa.string())])
    found = read("csv", source, wanted)
    assert found == [
        {"b": 1.5, 'A,\n"': ""},
        {"b": None, 'A,\n"': None},
        {"b": float("inf"), 'A,\n"': "NaN"},
        {"b": 2, 'A,\n"': "NULL"},
    ]


def test_columns_of_json_are_guessed_as_spark_guesses_them() -> None:
    lines = b'{"a":1,"c":[null]}\n\n{"a":1.5,"b":{"x":null},"d":1}\n{"b":{"y":[1]},"d":"t","e":null}\n'
    found = files.columns_of(pa.BufferReader(lines), "x.json", "json")
    assert {one.name: str(one.type) for one in found} == {
        "a": "double",
        "b": "struct<x: string, y: list<item: int64>>",
        "c": "list<item: string>",
        "d": "string",
        "e": "string",
    }


def test_nested_columns_are_fitted_by_name() -> None:
    had = pa.array([{"y": [1, None], "X": "a", "more": 1}, None, {"y": None, "X": None, "more": 2}])
    kind = pa.struct([("x", pa.string()), ("y", pa.list_(pa.int32())), ("z", pa.date32())])
    batch = pa.record_batch([had], ["n"]).slice(1)
    [column] = fitted(batch, pa.schema([("n", kind)]), {}).columns
    assert column.to_pylist() == [None, {"x": None, "y": None, "z": None}]
    whole = fitted(pa.record_batch([had], ["n"]), pa.schema([("n", kind)]), {})
    assert whole["n"][0].as_py() == {"x": "a", "y": [1, None], "z": None}


@pytest.mark.parametrize(
    ("table", "wanted", "message"),
    [
        ({"a": [1.5]}, pa.schema([("a", pa.int32())]), "'a' is double in the file"),
        ({"a": [[1]]}, pa.schema([("a", pa.struct([("x", pa.int32())]))]), "their nesting differs"),
        ({"a": [None, 1]}, pa.schema([pa.field("a", pa.int64(), nullable=False)]), "declared NOT NULL"),
        ({"b": [1], "B": [2]}, pa.schema([("β", pa.int64()), ("B", pa.int64())]), None),
        ({"b": [1], "B": [2]}, pa.schema([("ß", pa.int64()), ("b", pa.int64())]), None),
        ({"ab": [1], "AB": [2]}, pa.schema([("Ab", pa.int64())]), "'Ab' occurs 2 times"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    table: dict[str, list[Any]], wanted: pa.Schema, message: str | None
) -> None:
    batch = pa.RecordBatch.from_pydict(table)
    if message is None:
        assert fitted(batch, wanted, {}).num_rows == 1
        return
    with pytest.raises(UsageError, match=message):
        fitted(batch, wanted, {})


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: files.format_of("a.parquet/b.txt", None), "'a.parquet/b.txt' has no known extension"),
        (
            lambda: directories.values_of(["p=1/x", "y"]),
            "files have different partition columns, p of 'p=1/x'",
        ),
        (lambda: directories.column_of("x", pa.int32(), 1, None), "value 'x' cannot be read as int32"),
        (
            lambda: directories.column_of("2026-01-01 08:00:00", pa.timestamp("us", "UTC"), 1, None),
            "name it in option\\('timeZone'",
        ),
        (
            lambda: schema.of_file(pa.schema([("m", pa.month_day_nano_interval())]), "arrow"),
            "column 'm' has type",
        ),
        (lambda: schema.arrow_schema(StructType([])), "no column is left to read"),
        (lambda: schema.chosen(FRAME, ["id", "P"]), "columns names 'P', which the dataset does not have"),
        (lambda: options.parse({"path": "x", "onReplace": "read"}), "onReplace is an option of streams"),
        (lambda: options.parse({"path": "x", "job": "y"}, streaming=True), "job fixes one version"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_way_out(act: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        act()


def test_moments_of_directories_are_in_the_zone_that_is_named() -> None:
    kind = pa.timestamp("us", "UTC")
    found = directories.column_of("2026-01-01 08:00:00.5", kind, 2, "Europe/Paris")
    assert [str(one) for one in found.to_pylist()] == ["2026-01-01 07:00:00.500000+00:00"] * 2


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_moments_of_directories_in_utc_need_no_zone(zone: str | None) -> None:
    found = directories.column_of("2026-01-01 08:00:00.5Z", pa.timestamp("us", "America/New_York"), 2, zone)
    assert (
        found.cast(pa.timestamp("us", "UTC")).to_pylist()
        == [dt.datetime(2026, 1, 1, 8, 0, 0, 500_000, tzinfo=dt.UTC)] * 2
    )


def manifest(number: int, *keys: str, hides: Hides = "nothing", **more: Any) -> Manifest:
    listed = tuple(ManifestFile(key=key, size=number, etag="") for key in keys)
    return Manifest(
        job_id=f"job-{number}",
        bucket="b",
        destination="d",
        mode="append",
        committed_ms=number,
        hides=hides,
        files=listed,
        **more,
    )


def sizes(found: dict[str, ManifestFile]) -> dict[str, int]:
    return {key: one.size for key, one in found.items()}


def test_what_a_stream_reads_of_jobs_that_take_rows_away() -> None:
    first, second = manifest(1, "a", "_SUCCESS"), manifest(2, "b", "c")
    fresh = manifest(3, "e", hides="all")  # there was nothing that it could have hidden
    assert sizes(new_files([first, second, fresh], "error", "s3://b/d")) == {"a": 1, "b": 2, "c": 2, "e": 3}
    keys = manifest(3, "d", hides="keys", deleted=("b", "old"))
    whole = manifest(4, "z", hides="all", replaced="job-3")
    for taken in (keys, whole):
        with pytest.raises(UsageError, match=f"job {taken.job_id} removed rows of s3://b/d"):
            new_files([first, second, taken], "error", "s3://b/d")
    assert sizes(new_files([first, second, keys], "read", "s3://b/d")) == {"a": 1, "c": 2, "d": 3}
    assert sizes(new_files([first, second, keys], "skip", "s3://b/d")) == {"a": 1, "c": 2}
    assert sizes(new_files([first, second, keys, whole], "read", "s3://b/d")) == {"z": 4}


def test_a_stream_reads_on_where_small_files_were_put_together() -> None:
    first, second = manifest(1, "a"), manifest(2, "b")
    merged = replace(manifest(3, "m", hides="keys", deleted=("a", "b")), mode="rewrite")
    later = manifest(4, "c")
    assert sizes(new_files([merged, later], "error", "s3://b/d")) == {"c": 4}, "all rows were read before"
    for how in ("error", "read", "skip"):
        with pytest.raises(UsageError, match="job-3 rewrote files of s3://b/d that this stream had not read"):
            new_files([second, merged], how, "s3://b/d")
    kept = replace(merged, kept=KeptFiles(until_ms=1, lists=()))
    assert sizes(new_files([first, second, kept, later], "error", "s3://b/d")) == {"a": 1, "b": 2, "c": 4}
    assert end_of_batch([first, second, merged], 1) == "job-1"


def test_a_batch_has_so_many_files_and_whole_jobs() -> None:
    jobs = [manifest(1, "a", "b"), manifest(2, "c"), manifest(3, "d"), manifest(4, "e", "f", "g")]
    assert [end_of_batch(jobs, most) for most in (1, 2, 3, 4, 5, None)] == [
        *("job-1", "job-1", "job-2", "job-3", "job-4", "job-4")
    ]
    assert end_of_batch(jobs[3:], 1) == "job-4"
    # What a later job took away could not be read any more.
    jobs[2] = manifest(3, "d", hides="all", replaced="job-2")
    assert end_of_batch(jobs, 1) == "job-3"


def test_a_file_that_was_written_over_is_an_error(tmp_path: Path) -> None:
    def published(number: int) -> None:
        job = magicfs.Job(tmp_path.as_uri(), mode="overwrite", options={"unique_names": False})
        with job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.csv", f"n\n{number}\n".encode())

    published(1)
    asked = replace(OPTIONS, path=tmp_path.as_uri())
    found = snapshot.snapshot(snapshot.connect(asked), None)
    frame = snapshot.columns(snapshot.connect(asked), found, asked)
    [task] = snapshot.share(found, frame, asked)
    [batch] = snapshot.rows(task, frame, asked)
    assert batch.to_pylist() == [{"n": "1"}]
    published(2)
    with pytest.raises(StoreError, match="it was published, but has been deleted or overwritten"):
        list(snapshot.rows(task, frame, asked))


def test_a_column_that_came_later_stays_when_an_older_partition_is_published_last(tmp_path: Path) -> None:
    url, dataset = tmp_path.as_uri(), magicfs.Dataset(tmp_path.as_uri())
    how: Any = {"partition_by": "p", "mode": "overwrite_partitions", "keep": "7d"}
    first = magicfs.write(pa.table({"id": [0], "p": ["a"]}), url, **how)
    magicfs.write(pa.table({"id": [1], "p": ["a"]}), url, **how)
    magicfs.write(pa.table({"id": [2], "p": ["b"], "note": ["x"]}), url, **how)
    dataset.rollback(first.job_id, partitions="p=a", keep="7d")
    asked = replace(OPTIONS, path=url)
    place = snapshot.connect(asked)
    found = snapshot.snapshot(place, None)
    frame = snapshot.columns(place, found, asked)
    assert frame.fieldNames() == ["id", "note", "p"]
    batches = [
        batch for task in snapshot.share(found, frame, asked) for batch in snapshot.rows(task, frame, asked)
    ]
    rows = sorted((row["id"], row["note"]) for batch in batches for row in batch.to_pylist())
    assert rows == [(0, None), (2, "x")]


def test_a_job_is_named_by_its_run_too(tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    first = magicfs.write(pa.table({"id": [0]}), url, run_id="2026/01 ü")
    magicfs.write(pa.table({"id": [1]}), url, mode="append")
    for name in (first.job_id, "2026/01 ü"):
        _, job = find_schema({"path": url, "job": name})
        assert job == first.job_id
    with pytest.raises(ObjectNotFound, match="not among those published"):
        find_schema({"path": url, "job": "x"})
