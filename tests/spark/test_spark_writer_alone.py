from __future__ import annotations

import datetime as dt
import json
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
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
    TimestampType,
    YearMonthIntervalType,
)

import magicfs
from magicfs.datasets import recover
from magicfs.errors import CommitDenied, OutputExists, ProtocolViolation, UsageError
from magicfs.protocol.ids import task_id
from magicfs.spark import late_writers
from magicfs.spark.datasource import MagicWriter, TaskMessage, make_writer
from magicfs.spark.options import parse
from magicfs.spark.schema import ROW_METADATA, SPARK_VERSION, arrow_schema, check, converter, row_metadata
from magicfs.spark.stream_writer import MagicStreamWriter, make_stream_writer
from magicfs.spark.writing import job_of
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.committer_exam.drivers import dying
from proofs.doubles.servers import Server
from proofs.scenes.known import all_ended

ID = StructField("id", LongType(), metadata={"comment": "ключ"})
FRAME = StructType([ID, StructField("p", StringType())])


def writer(name: str, *, overwrite: bool = False, **options: str) -> MagicWriter:
    return make_writer(
        {"path": f"memory://spark-writer/{name}", "latewriters": "leave"} | options,
        FRAME,
        overwrite=overwrite,
    )


def committed(chosen: MagicWriter, task: int, name: str = "x") -> TaskMessage:
    with chosen.job().task(task) as attempt:
        attempt.filesystem.pipe_file(f"{attempt.path}/p=1/{name}.txt", b"x")
    assert attempt.committed is not None
    return TaskMessage(attempt.committed)


def there(chosen: MagicWriter) -> list[str]:
    place = chosen.settings.path.removeprefix("memory://")
    found: list[str] = chosen.job().spec.wrapped().find(place)
    return [key.removeprefix(f"{place}/") for key in found]


def visible(chosen: MagicWriter) -> list[str]:
    return [key.partition("-")[0] for key in there(chosen) if not key.startswith("_")]


def die(chosen: MagicWriter, messages: list[TaskMessage], operation: str, after: int, key: str = "") -> None:
    dying(chosen.job(), [one.commit for one in messages], operation, after, key)


DRIFTED = [
    (
        StructType([StructField("id", StringType()), FRAME["p"]]),
        "p",
        "'id' is int64 in the existing files, and string in the new rows",
    ),
    (StructType([StructField("n", LongType()), FRAME["p"]]), "p", "column 'id' is missing in the new rows"),
    (FRAME, "id", "partitioned by 'p', the new ones would be by 'id'"),
]


@pytest.mark.parametrize("options", [{}, {"mode": "overwrite_partitions"}], ids=["append", "partitions"])
@pytest.mark.parametrize(("frame", "columns", "says"), DRIFTED)
def test_rows_that_do_not_fit_are_refused_before_a_task_runs(
    options: dict[str, str], frame: StructType, columns: str, says: str, request: pytest.FixtureRequest
) -> None:
    url = f"memory://spark-writer/{request.node.name}"
    magicfs.write(pa.table({"id": [1], "p": ["ü 50%"]}), url, partition_by="p")
    before = MemoryFileSystem().find(url)
    given = {"path": url, "latewriters": "leave", "partitioncols": columns} | options
    with pytest.raises(UsageError, match=says) as raised:
        make_writer(given, frame, overwrite=bool(options))
    assert "checkSchema='false'" in str(raised.value)
    assert MemoryFileSystem().find(url) == before
    make_writer(given | {"checkschema": "false"}, frame, overwrite=bool(options)).abort([])


def test_published_run_of_other_columns_is_not_compared() -> None:
    url = "memory://spark-writer/run of other columns"
    rows = pa.table({"id": [1], "p": ["a"], "new": [1]})
    magicfs.write(rows.drop_columns(["new"]), url, run_id="monday")
    magicfs.write(rows, url, mode="append")
    make_writer({"path": url, "runid": "monday"}, FRAME, overwrite=False).commit([])


def test_batch_of_a_stream_whose_rows_do_not_fit_is_not_published() -> None:
    url = "memory://spark-writer/stream of others"
    given = {"path": url, "sinkid": "clicks", "latewriters": "leave"}
    frames = (FRAME, StructType([ID]))
    writers = [make_stream_writer(given, frame, overwrite=False) for frame in frames]

    def commit(chosen: MagicStreamWriter, batch: int) -> None:
        task = magicfs.Task(chosen.job(batch).spec, task_id(0))
        rows = pa.table({name: [batch] for name in chosen.frame.fieldNames()})
        with task, task.filesystem.open(f"{task.path}/part.parquet", "wb") as file:
            pq.write_table(rows, file)
        assert task.committed is not None
        chosen.commit([TaskMessage(task.committed)], batch)

    commit(writers[0], 0)
    before = MemoryFileSystem().find(url)
    with pytest.raises(UsageError, match="column 'p' is missing in the new rows"):
        commit(writers[1], 1)
    commit(writers[1], 0)  # a replay
    assert MemoryFileSystem().find(url) == before


def test_types_of_a_frame_as_its_files_hold_them() -> None:
    kinds: dict[str, tuple[DataType, Any]] = {
        "moment": (TimestampType(), pa.timestamp("us", "UTC")),
        "months": (YearMonthIntervalType(), pa.int32()),
        "list": (ArrayType(DoubleType()), pa.list_(pa.float64())),
        "map": (MapType(StringType(), LongType()), pa.map_(pa.string(), pa.int64())),
        "struct": (StructType([ID]), pa.struct([("id", pa.int64())])),
        "unknown": (CalendarIntervalType(), pa.null()),
    }
    frame = StructType([StructField(name, kind) for name, (kind, _) in kinds.items()])
    assert arrow_schema(frame, ()) == pa.schema([(name, kind) for name, (_, kind) in kinds.items()])
    assert arrow_schema(frame, ["moment"]).field("moment").type == pa.timestamp("us")


def test_copies_of_a_writer_work_on_one_job() -> None:
    first = writer("one job", partitioncols="p")
    second = pickle.loads(pickle.dumps(first))
    assert second.job().id == first.job().id
    assert second.settings == first.settings
    assert first.job_id == second.job_id
    messages = [committed(first, 0), committed(second, 1)]
    second.commit(messages)
    first.abort(messages)
    assert visible(first) == ["p=1/x", "p=1/x"]


def test_a_writer_keeps_the_credentials_that_its_job_drops() -> None:
    options = {"storageoptions": '{"key": "me", "secret": "hunter2"}'}
    settings = parse({"path": "s3://bucket/d", **options}, FRAME.fieldNames())
    chosen = pickle.loads(pickle.dumps(MagicWriter(settings, FRAME, job_of(settings))))
    assert chosen.job().spec.storage_options == {"key": "me", "secret": "hunter2"}
    assert b"hunter2" not in pickle.dumps(chosen.job())


def test_two_writers_never_share_a_job() -> None:
    assert writer("two").job_id != writer("two").job_id


def test_a_commit_without_the_message_of_a_task_publishes_nothing() -> None:
    chosen = writer("missing message")
    message = committed(chosen, 0)
    with pytest.raises(ProtocolViolation, match="with only 1 messages of 2 tasks; nothing was published"):
        chosen.commit([message, None])
    assert visible(chosen) == []


def test_overwriting_replaces_when_the_new_files_are_visible() -> None:
    first = writer("overwritten")
    first.commit([committed(first, 0, "old"), committed(first, 1, "old")])
    second = writer("overwritten", overwrite=True)
    assert second.job().spec.options.mode == "overwrite"
    message = committed(second, 0, "new")
    assert visible(first) == ["p=1/old", "p=1/old"]
    second.commit([message])
    assert visible(first) == ["p=1/new"]


def test_a_frame_without_rows_deletes_nothing_unless_that_is_meant() -> None:
    first = writer("emptied")
    first.commit([committed(first, 0)])
    with pytest.raises(UsageError, match="has no files, and mode='overwrite' would only delete"):
        writer("emptied", overwrite=True).commit([])
    assert visible(first) == ["p=1/x"]
    writer("emptied", overwrite=True, allowempty="true").commit([])
    assert visible(first) == []


@pytest.mark.parametrize(
    ("bucket", "secret", "options", "message"),
    [
        ("no-such-bucket", {}, {}, "list of no-such-bucket"),
        (None, {}, {"partsize": "1"}, "part_size=1 is outside the limits of the store"),
        (None, {"secret": "hunter2"}, {}, "check the credentials"),
    ],
)
def test_places_that_cannot_be_written_to_are_refused_before_any_task_runs(
    seaweedfs: Server,
    bucket_factory: Callable[..., str],
    bucket: Any,
    secret: Any,
    options: Any,
    message: str,
) -> None:
    there = bucket_factory(seaweedfs)
    storage = json.dumps(seaweedfs.storage_options() | secret)
    given = {"path": f"s3://{bucket or there}/d", "storageoptions": storage} | options
    with pytest.raises(magicfs.errors.MagicError, match=message) as refused:
        make_writer(given, FRAME, overwrite=False)
    assert "hunter2" not in str(refused.value)
    assert seaweedfs.all_keys(there) == []
    buckets = seaweedfs.s3_client().list_buckets()["Buckets"]
    assert "no-such-bucket" not in [found["Name"] for found in buckets]


def test_data_is_found_before_any_task_runs() -> None:
    first = writer("failing")
    first.commit([committed(first, 0)])
    with pytest.raises(OutputExists, match="already has data"):
        writer("failing", mode="error")


def test_a_run_that_is_run_again_is_published_once() -> None:
    first = writer("run", runid="2026-11-21")
    first.commit([committed(first, 0)])
    again = writer("run", runid="2026-11-21")
    again.commit([committed(again, 0), committed(again, 1)])
    assert visible(first) == ["p=1/x"]
    assert not [key for key in there(again) if "__magic" in key]


def test_an_abort_after_a_commit_that_died_among_its_files_takes_them_back() -> None:
    chosen = writer("half")
    messages = [committed(chosen, task) for task in range(3)]
    die(chosen, messages, "complete_upload", 2)
    assert len(visible(chosen)) == 2
    pickle.loads(pickle.dumps(chosen)).abort(messages)
    assert there(chosen) == []
    with pytest.raises(CommitDenied, match="was not published: another process"):
        chosen.commit(messages)


def test_an_abort_after_a_commit_that_died_with_all_files_visible_touches_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = writer("whole", latewriters="wait")
    messages = [committed(chosen, task) for task in range(3)]
    die(chosen, messages, "put", 0, "whole/_magicfs/")
    before = there(chosen)
    # Looking a second time for late tasks would take this long.
    monkeypatch.setattr(late_writers, "LATE_WRITERS_SECONDS", 3600.0)
    chosen.abort([*messages, None])
    assert f"Spark aborted job {chosen.job_id} after its commit point" in caplog.text
    assert "is published; nothing was removed; run magicfs recover memory://spark-writer/whole" in caplog.text
    assert there(chosen) == before
    assert recover(chosen.settings.path).jobs[0].action == "finished"
    assert visible(chosen) == ["p=1/x"] * 3


def test_trouble_after_the_files_were_published_is_logged_as_a_warning(
    ministack: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with FaultProxy(ministack.endpoint) as proxy:
        bucket = ministack.create_bucket("spark-writer-warned")
        retries = {"mode": "standard", "total_max_attempts": 1}
        storage = ministack.storage_options() | {
            "endpoint_url": proxy.endpoint,
            "config_kwargs": {"retries": retries},
        }
        given = {"path": f"s3://{bucket}/d", "storageoptions": json.dumps(storage), "latewriters": "leave"}
        chosen = make_writer(given, FRAME, overwrite=False)
        message = committed(chosen, 0)
        proxy.add(Rule("DeleteObjects", Action.ERROR, status=503, code="SlowDown"))
        chosen.commit([message])
    warned = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert len(warned) == 1
    assert warned[0].startswith(
        f"job {chosen.job_id} of s3://{bucket}/d: the files are published but cleaning up failed: "
    )


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_what_tasks_upload_after_the_end_is_discarded_and_not_waited_for(
    ministack: Server, bucket_factory: Callable[..., str], monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    gate, bucket = threading.Event(), bucket_factory(ministack)

    class Clock:
        @staticmethod
        def sleep(seconds: float) -> None:
            gate.wait(60)

    monkeypatch.setattr(late_writers, "time", Clock)
    given = {"path": f"s3://{bucket}/d", "storageoptions": json.dumps(ministack.storage_options())}
    chosen = make_writer(given, FRAME, overwrite=False)
    message = committed(chosen, 0)
    late = magicfs.Task(chosen.job().spec, chosen.job().task(7).id)
    of_other_jobs = set(late_writers._running)
    getattr(chosen, ending)([message])
    late.setup()  # in a process that has not heard of the end
    late.filesystem.pipe_file(f"{late.path}/late", b"x")
    all_ended()
    assert len(ministack.pending_uploads(bucket)) == 1
    [thread] = late_writers._running - of_other_jobs
    gate.set()
    thread.join(60)
    assert ministack.pending_uploads(bucket) == []
    assert len(ministack.visible_keys(bucket, "d/")) == (ending == "commit")


def test_an_abort_that_fails_is_logged_and_does_not_hide_why_the_job_failed(
    ministack: Server, caplog: pytest.LogCaptureFixture
) -> None:
    bucket = ministack.create_bucket("spark-writer-gone")
    given = {"path": f"s3://{bucket}/d", "storageoptions": json.dumps(ministack.storage_options())}
    given["latewriters"] = "leave"
    chosen = make_writer(given, FRAME, overwrite=False)
    client = ministack.s3_client()
    (key,) = ministack.all_keys(bucket)
    client.delete_object(Bucket=bucket, Key=key)
    client.delete_bucket(Bucket=bucket)
    chosen.abort([])
    assert f"job {chosen.job_id} could not be fully discarded: list of {bucket}" in caplog.text


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (CalendarIntervalType(), "column x has type interval"),
        (ArrayType(CalendarIntervalType()), r"column x\[\] has type interval"),
        (MapType(StringType(), CalendarIntervalType()), "column x{value} has type interval"),
        (StructType([StructField("y", YearMonthIntervalType())]), r"column x\.y has type interval year"),
        (StructType([]), "column x has type struct<>"),
    ],
)
def test_a_type_that_parquet_would_not_keep_is_refused_where_it_stands(kind: DataType, shown: str) -> None:
    with pytest.raises(UsageError, match=f"{shown}.*cannot be written as parquet; cast it to string"):
        make_writer({"path": "s3://bucket/d"}, StructType([StructField("x", kind)]), overwrite=False)


def test_a_partition_column_without_text_is_refused() -> None:
    frame = StructType([StructField("x", DoubleType()), StructField("id", LongType())])
    check(frame, [])
    with pytest.raises(UsageError, match="partition column 'x' has type double"):
        check(frame, ["x"])


def test_moments_name_directories_as_spark_does_and_two_never_share_one() -> None:
    frame = StructType([ID, StructField("at", TimestampType())])
    first = dt.datetime(2026, 10, 25, 0, 30, tzinfo=dt.UTC)
    named = converter(frame, ["at"])

    def batch(moment: dt.datetime) -> pa.RecordBatch:
        moments = pa.array([moment, None], pa.timestamp("us", "Europe/Berlin"))
        return pa.record_batch({"id": [1, 2], "at": moments})

    assert named(batch(first))["at"].to_pylist() == [dt.datetime(2026, 10, 25, 2, 30), None]
    with pytest.raises(UsageError, match="'at' has times in an hour that occurs twice in Europe/Berlin"):
        named(batch(first + dt.timedelta(hours=1)))
    assert converter(frame)(batch(first))["at"].type.tz == "Europe/Berlin"


def test_the_metadata_of_a_file_holds_the_schema_of_its_own_columns() -> None:
    kept = row_metadata(FRAME, ["p"])
    assert kept == {ROW_METADATA: StructType([ID]).json(), SPARK_VERSION: pyspark.__version__}
    assert json.loads(kept[ROW_METADATA])["fields"][0]["metadata"] == {"comment": "ключ"}
    assert row_metadata(FRAME, ["p"], "orc") == {}
