from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import UsageError
from magicfs.spark.options import OPTIONS, WriteOptions, build, parse

COLUMNS = ("id", "year", "month", "a,b", "Größe")

STREAM = {"sinkid": "orders", "checkpointlocation": "/c", "queryname": "q"}


def parsed(*, overwrite: bool = False, **given: str) -> WriteOptions:
    return parse({"path": "s3://bucket/dest", **given}, COLUMNS, overwrite=overwrite)


def test_a_path_alone_gives_the_documented_defaults() -> None:
    assert parsed() == WriteOptions(
        path="s3://bucket/dest",
        partition_cols=(),
        mode="append",
        run_id=None,
        allow_empty=False,
        tracking="memory",
        unique_names=True,
        part_size=None,
        concurrency=32,
        file_format="parquet",
        compression=None,
        row_group_size=None,
        max_records_per_file=None,
        max_open_files=64,
        input_sorted=False,
        committer="magic",
        committer_options={},
        late_writers="background",
        sink_id=None,
        checkpoint=None,
        query_name=None,
        storage_options={},
    )


def test_every_option_is_taken_as_spark_hands_it_over() -> None:
    given = {
        "partitioncols": "year, month",
        "mode": " Error ",
        "tracking": "store",
        "uniquenames": "false",
        "runid": "scheduled 2026-11-21T06:00",
        "allowempty": "true",
        "checkschema": "False",
        "partsize": "8388608",
        "concurrency": "4",
        "fileformat": "Parquet",
        "compression": "ZSTD",
        "rowgroupsize": "1000",
        "maxrecordsperfile": "5000",
        "maxopenfiles": "3",
        "committer": "magic",
        "committeroptions": '{"a": 1}',
        "latewriters": "Wait",
        "alsooverwrite": '["s3://bucket/dest/old"]',
        "keep": "7d",
        "keepinplace": "TRUE",
        "storageoptions": json.dumps({"client_kwargs": {"region_name": "eu-west-1"}}),
    }
    assert {"path", *given, *STREAM} == set(OPTIONS)
    options = parsed(**given)
    assert options == WriteOptions(
        path="s3://bucket/dest",
        partition_cols=("year", "month"),
        mode="error",
        run_id="scheduled 2026-11-21T06:00",
        allow_empty=True,
        check_schema=False,
        tracking="store",
        unique_names=False,
        part_size=8 * 2**20,
        concurrency=4,
        compression="zstd",
        row_group_size=1000,
        max_records_per_file=5000,
        max_open_files=3,
        committer_options={"a": 1},
        late_writers="wait",
        also_overwrite=("s3://bucket/dest/old",),
        keep="7d",
        keep_in_place=True,
        storage_options={"client_kwargs": {"region_name": "eu-west-1"}},
    )
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("overwrite", "given", "mode"),
    [
        (False, {}, "append"),
        (False, {"mode": "append"}, "append"),
        (False, {"mode": "error"}, "error"),
        (False, {"partitioncols": "year"}, "append"),
        (True, {}, "overwrite"),
        (True, {"mode": "overwrite"}, "overwrite"),
        (True, {"mode": "OVERWRITE_partitions", "partitioncols": "year"}, "overwrite_partitions"),
        (True, {"mode": "overwrite", "partitioncols": "year"}, "overwrite"),
    ],
)
def test_mode_and_option_go_together(overwrite: bool, given: dict[str, str], mode: str) -> None:
    assert parsed(overwrite=overwrite, **given).mode == mode


@pytest.mark.parametrize(
    ("overwrite", "given", "message"),
    [
        (False, {"mode": "overwrite"}, r"'overwrite' deletes data .*; use mode\('overwrite'\)"),
        (
            False,
            {"mode": "overwrite_partitions"},
            r"'overwrite_partitions' deletes data and mode",
        ),
        (True, {"mode": "append"}, r"'append' keeps data .*; use mode\('append'\)"),
        (True, {"mode": "error"}, r"'error' keeps data and mode\('overwrite'\)"),
        (
            True,
            {"partitioncols": "year"},
            "is ambiguous: write option.'mode', 'overwrite'. to .* or option.'mode', 'overwrite_partitions'",
        ),
        (
            True,
            {"mode": "merge"},
            "mode='merge' is unknown; choose one of error, append, overwrite",
        ),
    ],
)
def test_nothing_is_deleted_on_the_word_of_one_of_mode_and_option(
    overwrite: bool, given: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        parsed(overwrite=overwrite, **given)


def test_the_case_of_names_does_not_matter() -> None:
    assert parsed(PartitionCOLS="year").partition_cols == ("year",)


def test_a_column_with_a_comma_is_named_in_json() -> None:
    assert parsed(partitioncols='["a,b", "year"]').partition_cols == ("a,b", "year")
    assert parsed(partitioncols=' ["Größe"]').partition_cols == ("Größe",)


@given(st.lists(st.sampled_from(COLUMNS), unique=True, max_size=len(COLUMNS) - 1))
def test_any_list_of_columns_survives_json(columns: list[str]) -> None:
    assert parsed(partitioncols=json.dumps(columns)).partition_cols == tuple(columns)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"foo": "1"}, r"unknown option foo; format\('magic'\) supports partitionCols, mode, runId"),
        ({"maxopenfile": "1"}, "unknown option maxopenfile .maxopenfile looks like maxOpenFiles."),
        ({"b": "1", "a": "1"}, "unknown options a, b;"),
        ({"partitioncols": "day"}, "'day', which is not a column of the frame; the columns are id, year"),
        ({"partitioncols": "YEAR"}, r"'YEAR', which is not a column of the frame \(but 'year' is\)"),
        ({"partitioncols": "a,b"}, "partitionCols names 'a', which is not a column"),
        ({"partitioncols": "year,,month"}, "holds an empty name"),
        ({"partitioncols": ""}, "holds an empty name"),
        ({"partitioncols": "[1]"}, "holds an empty name"),
        ({"partitioncols": "[oops"}, "partitionCols is not valid JSON"),
        ({"partitioncols": "year,year"}, "names a column twice: year, year"),
        ({"partitioncols": json.dumps(COLUMNS)}, "names every column"),
        ({"tracking": "disk"}, "tracking='disk' is unknown; choose one of memory, store"),
        ({"runid": " "}, "runId is empty; give it a name, or leave it out"),
        ({"allowempty": "1"}, "allowEmpty='1' is unknown; choose one of true, false"),
        ({"uniquenames": "yes"}, "uniqueNames='yes' is unknown; choose one of true, false"),
        ({"uniquenames": "false"}, "uniqueNames='false' needs tracking='store', because"),
        ({"partsize": "8MB"}, "partSize='8MB' is not a positive whole number"),
        ({"maxopenfiles": "0"}, "maxOpenFiles='0' is not a positive whole number"),
        ({"concurrency": "-1"}, "concurrency='-1' is not a positive whole number"),
        (
            {"fileformat": "avro"},
            "fileFormat='avro' is unknown; choose one of parquet, csv, json, orc, arrow",
        ),
        ({"compression": "lzo"}, "compression='lzo' is not a codec of parquet; choose one of zstd, snappy"),
        ({"compression": "snappy", "fileformat": "csv"}, "'snappy' is not a codec of csv; choose"),
        ({"rowgroupsize": "0"}, "rowGroupSize='0' is not a positive whole number"),
        ({"rowgroupsize": "1", "fileformat": "orc"}, "rowGroupSize does not apply to orc; .* or arrow"),
        ({"maxrecordsperfile": "x"}, "maxRecordsPerFile='x' is not a positive whole number"),
        ({"committer": ""}, "committer is empty; give it a name, or leave it out"),
        ({"committeroptions": "[]"}, "committerOptions is not valid JSON"),
        ({"latewriters": "kill"}, "lateWriters='kill' is unknown; choose one of wait, background, leave"),
        ({"sinkid": "x"}, "sinkId is an option of streams; .* name a batch write with runId"),
        ({"checkpointlocation": "x"}, "checkpointLocation is an option of streams"),
        ({"storageoptions": "{'a': 1}"}, "storageOptions is not valid JSON"),
        ({"storageoptions": "[]"}, "storageOptions is not valid JSON"),
        ({"path": "  "}, "the destination is missing"),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parsed(**given)


def test_no_path_is_refused() -> None:
    with pytest.raises(UsageError, match=r"name it in \.save.*INSERT INTO … WITH \(path '"):
        parse({}, COLUMNS)


def test_a_secret_is_shown_neither_by_repr_nor_by_an_error() -> None:
    assert "hunter2" not in repr(parsed(storageoptions='{"secret": "hunter2"}'))
    with pytest.raises(UsageError) as refused:
        parsed(storageoptions='{"secret": "hunter2"')
    assert "hunter2" not in str(refused.value)


def test_a_stream_has_options_of_its_own_and_no_run_id() -> None:
    given = {"path": "s3://bucket/dest"}
    options = parse(given | STREAM, COLUMNS, streaming=True)
    assert (options.sink_id, options.checkpoint, options.query_name) == ("orders", "/c", "q")
    with pytest.raises(UsageError, match="runId is for batch writes"):
        parse(given | {"runid": "x"}, COLUMNS, streaming=True)


def test_values_are_checked_as_their_text_is() -> None:
    built = build(
        COLUMNS,
        path="s3://bucket/dest",
        partition_cols="a,b",
        file_format="CSV",
        max_records_per_file=10,
        compression=None,
        unique_names=True,
    )
    assert built == WriteOptions(
        path="s3://bucket/dest", partition_cols=("a,b",), file_format="csv", max_records_per_file=10
    )
    for wrong in (0, True, 1.5, "x"):
        with pytest.raises(UsageError, match=r"maxOpenFiles=.* is not a positive whole number"):
            build(COLUMNS, path="s3://bucket/dest", max_open_files=wrong)
    with pytest.raises(UsageError, match="names a column twice"):
        build(COLUMNS, path="s3://bucket/dest", partition_cols=["year", "year"])


@pytest.mark.parametrize(
    ("file_format", "compression", "extension"),
    [
        ("parquet", "", ".zstd.parquet"),
        ("parquet", "snappy", ".snappy.parquet"),
        ("parquet", "zstd", ".zstd.parquet"),
        ("parquet", "gzip", ".gz.parquet"),
        ("parquet", "lz4_raw", ".lz4raw.parquet"),
        ("parquet", "none", ".parquet"),
        ("parquet", "uncompressed", ".parquet"),
        ("csv", "", ".csv"),
        ("csv", "gzip", ".csv.gz"),
        ("json", "", ".json"),
        ("json", "bzip2", ".json.bz2"),
        ("orc", "", ".zstd.orc"),
        ("orc", "zlib", ".zlib.orc"),
        ("arrow", "", ".arrow"),
        ("arrow", "lz4", ".lz4.arrow"),
    ],
)
def test_file_names_end_as_sparks_do(file_format: str, compression: str, extension: str) -> None:
    chosen = {"compression": compression} if compression else {}
    assert parsed(fileformat=file_format, **chosen).extension == extension
