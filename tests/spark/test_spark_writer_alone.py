from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

import magicfs
from magicfs.errors import ObjectNotFound, ProtocolViolation, UsageError
from magicfs.spark import datasource
from magicfs.spark.datasource import MagicWriter, TaskMessage, make_writer
from magicfs.spark.options import WriteOptions
from magicfs.spark.schema import ROW_METADATA, check, row_metadata
from magicfs.testing.servers import Server

FRAME = StructType([StructField("id", LongType()), StructField("p", StringType())])


def writer(name: str, **options: str) -> MagicWriter:
    return make_writer({"path": f"memory://spark-writer/{name}"} | options, FRAME, overwrite=False)


def committed(chosen: MagicWriter, task: int) -> TaskMessage:
    with chosen.job().setup().task(task) as attempt:
        attempt.filesystem.pipe_file(f"{attempt.path}/x.txt", b"x")
    assert attempt.committed is not None
    return TaskMessage(attempt.committed)


def visible(chosen: MagicWriter) -> list[str]:
    found: list[str] = chosen.job().spec.wrapped().find(chosen.settings.path.removeprefix("memory://"))
    return found


def test_copies_of_a_writer_work_on_one_job() -> None:
    first = writer("one job", partitioncols="p")
    second = pickle.loads(pickle.dumps(first))
    assert second.job().id == first.job().id
    assert second.settings == first.settings
    second.commit([committed(first, 0), committed(second, 1)])
    assert len(visible(first)) == 3


def test_two_writers_never_share_a_job() -> None:
    assert writer("two").job_id != writer("two").job_id


def test_a_commit_without_the_message_of_a_task_publishes_nothing() -> None:
    chosen = writer("missing message")
    message = committed(chosen, 0)
    with pytest.raises(ProtocolViolation, match="gives 1 messages of 2 tasks; nothing was published"):
        chosen.commit([message, None])
    assert visible(chosen) == []


def test_an_abort_with_every_message_does_not_wait_for_late_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = writer("aborted")
    message = committed(chosen, 0)
    monkeypatch.setattr(datasource, "LATE_WRITERS_SECONDS", 3600.0)
    chosen.abort([message])
    with pytest.raises(magicfs.MagicError):
        chosen.commit([message])
    assert visible(chosen) == []


def test_an_abort_that_fails_is_logged_and_does_not_hide_why_the_job_failed(
    ministack: Server, caplog: pytest.LogCaptureFixture
) -> None:
    settings = WriteOptions(path="s3://gone", storage_options=ministack.storage_options())
    chosen = MagicWriter(settings, FRAME, "8a9a3b0e-6c1d-4f8e-9d59-2f6d1f1f9a10")
    with pytest.raises(ObjectNotFound):
        chosen.job().setup()
    chosen.abort([])
    assert (
        "job 8a9a3b0e-6c1d-4f8e-9d59-2f6d1f1f9a10 could not be discarded whole: list of gone" in caplog.text
    )


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (VariantType(), "column x has type variant"),
        (ArrayType(VariantType()), r"column x\[\] has type variant"),
        (MapType(StringType(), CalendarIntervalType()), "column x{value} has type interval"),
        (StructType([StructField("y", YearMonthIntervalType())]), r"column x\.y has type interval year"),
        (StructType([]), "column x has type struct<>"),
    ],
)
def test_a_type_that_parquet_would_not_keep_is_refused_where_it_stands(kind: DataType, shown: str) -> None:
    with pytest.raises(UsageError, match=f"{shown}.*cannot be written; cast it to string"):
        check(StructType([StructField("x", kind)]), [])


def test_a_partition_column_without_text_is_refused() -> None:
    frame = StructType([StructField("x", DoubleType()), StructField("id", LongType())])
    check(frame, [])
    with pytest.raises(UsageError, match="partition column 'x' has type double"):
        check(frame, ["x"])


def test_the_metadata_of_a_file_holds_the_schema_of_its_own_columns() -> None:
    kept = row_metadata(FRAME, ["p"])
    assert kept == {ROW_METADATA: StructType([FRAME["id"]]).json()}
