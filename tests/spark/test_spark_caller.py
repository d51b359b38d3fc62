"""``magicfs.spark.write``: the frame, the modes, the report, and what comes out when something goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import magicfs.spark
from examples.flights.session import PANDAS_WARNING
from magicfs.errors import CommitFailed, OutputExists, UsageError
from magicfs.spark import late_writers
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import Server

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

ReadBack = Callable[[Server, str, str, str], DataFrame]
# Where nobody answers a request.
NOBODY = {"endpoint_url": "http://127.0.0.1:9", "key": "key", "secret": "secret"}
OVERWRITE = "spark.sql.sources.partitionOverwriteMode"


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


def write(df: DataFrame, server: Server, url: str, **options: Any) -> magicfs.JobReport:
    given = {"storage_options": server.storage_options(), "late_writers": "leave"} | options
    return magicfs.spark.write(df, url, **given)


def uploads(proxy: FaultProxy) -> list[str]:
    """What tasks began to upload; setting a job up tries requests out."""
    begun = [one.path for one in proxy.requests if one.operation == "CreateMultipartUpload"]
    return [path for path in begun if "/probe-" not in path]


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(str(row.asDict()) for row in frame.collect())


def test_a_frame_is_published_by_one_action_and_the_report_counts_rows(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 3 as p")
    seen: list[int] = []
    spark.sparkContext.setJobGroup("one action", "")
    try:
        report = write(
            *(frame, ministack, f"s3://{bucket}/d"),
            partition_by="p",
            progress=lambda one: seen.append(one.files_done),
        )
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("one action")) == 1
    assert rows(read_back(ministack, bucket, "d", "id long, p long")) == rows(frame)
    assert (report.rows, report.tasks, report.files, report.mode) == (1000, 4, 12, "error")
    assert [one.task_id for one in report.task_figures] == [f"{n:06d}" for n in range(4)]
    assert [(one.rows, one.files) for one in report.task_figures] == [(250, 3)] * 4
    assert sum(one.bytes for one in report.task_figures) == report.bytes
    assert seen[-1] == 12
    assert "12 (1000 rows, " in str(report)
    assert report.to_dict()["rows"] == 1000
    body = ministack.s3_client().get_object(Bucket=bucket, Key="d/_SUCCESS")["Body"].read()
    statistics = json.loads(body)["iostatistics"]
    counters = statistics["counters"]
    sizes = [one.bytes for one in report.task_figures]
    assert statistics["minimums"]["bytes_written.min"] == min(sizes)
    assert statistics["maximums"]["bytes_written.max"] == max(sizes)
    assert statistics["meanstatistics"]["records_written.mean"] == {"samples": 4, "sum": 1000}
    assert counters["records_written"] == 1000
    assert counters["committer_bytes_committed"] == report.bytes
    assert ministack.pending_uploads(bucket) == []


def test_modes_are_those_of_spark(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    url, old, new = f"s3://{bucket}/d", spark.range(0, 5, 1, 1), spark.range(5, 10, 1, 1)
    assert not write(old, ministack, url, mode="ignore").skipped
    with FaultProxy(ministack.endpoint) as proxy:
        through = {"storage_options": ministack.storage_options() | {"endpoint_url": proxy.endpoint}}
        with pytest.raises(OutputExists, match=r"already has data.*, or mode='append' or 'overwrite'$"):
            write(new, ministack, url, mode="error", **through)
        skipped = write(new, ministack, url, mode="ignore", **through)
        assert uploads(proxy) == []
    assert (skipped.skipped, skipped.files, skipped.rows) == (True, 0, None)
    assert "already has data; nothing was written" in str(skipped)
    assert rows(read_back(ministack, bucket, "d", "id long")) == rows(old)
    assert write(new, ministack, url, mode="append").rows == 5
    assert rows(read_back(ministack, bucket, "d", "id long")) == rows(spark.range(10))
    assert write(old, ministack, url, mode="overwrite").files_deleted == 2
    assert len(ministack.visible_keys(bucket, "d/")) == 1


def test_partitions_are_replaced_where_the_setting_that_spark_keeps_from_data_sources_or_the_caller_says_so(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    frame = spark.range(0, 30, 1, 1).selectExpr("id", "id % 3 as p")
    one = frame.where("p = 1")
    url = f"s3://{bucket}/d"
    write(frame, ministack, url, partition_by=["p"])
    spark.conf.set(OVERWRITE, "dynamic")
    try:
        assert write(one, ministack, url, mode="overwrite", partition_by="p").mode == "overwrite_partitions"
    finally:
        spark.conf.unset(OVERWRITE)
    report = write(one, ministack, url, mode="overwrite_partitions", partition_by="p")
    assert (report.mode, report.files_deleted) == ("overwrite_partitions", 1)
    assert len({key.split("/")[1] for key in ministack.visible_keys(bucket, "d/")}) == 3
    assert write(one, ministack, url, mode="overwrite", partition_by="p").mode == "overwrite"
    assert {key.split("/")[1] for key in ministack.visible_keys(bucket, "d/")} == {"p=1"}
    with pytest.raises(OutputExists):
        write(one, ministack, url, mode="error")


def test_intervals_of_months_read_back_as_themselves(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 5, 1, 2).selectExpr(
        "id",
        "make_ym_interval(-1, cast(id as int) - 3) as `a.b`",
        "cast(if(id = 2, null, make_ym_interval(cast(id as int))) as interval year) years",
        "cast(make_ym_interval(0, cast(id as int)) as interval month) months",
    )
    magicfs.spark.write(frame, f"file://{tmp_path}/d", committer="manifest")
    found = spark.read.parquet(f"{tmp_path}/d")
    assert [(one.name, one.dataType) for one in found.schema] == [
        (one.name, one.dataType) for one in frame.schema
    ]
    assert found.exceptAll(frame).isEmpty()
    assert frame.exceptAll(found).isEmpty()
    with pytest.raises(UsageError, match="which cannot be written as orc"):
        magicfs.spark.write(frame, f"file://{tmp_path}/e", committer="manifest", format="orc")


def test_sorting_leaves_a_task_one_file_for_each_partition(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    frame = spark.range(0, 400, 1, 2).selectExpr("id as `a.b`", "cast(id % 7 as string) as `a ``b`")
    report = write(frame, ministack, f"s3://{bucket}/d", partition_by="a `b", sort=True, max_open_files=1)
    assert report.files == 14
    assert rows(read_back(ministack, bucket, "d", "`a.b` long, `a ``b` string")) == rows(frame)


def test_frames_without_rows_or_partitions_are_published(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    none = spark.createDataFrame(spark.sparkContext.emptyRDD(), "id long")
    for number, frame in enumerate((none, spark.range(3).where("id < 0"))):
        report = write(frame, ministack, f"s3://{bucket}/{number}")
        assert (report.files, report.rows or 0) == (0, 0)
        assert f"{number}/_SUCCESS" in ministack.all_keys(bucket)


def test_a_run_that_is_published_runs_no_task_again(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    url, name = f"s3://{bucket}/d", "2026-11-21"
    first = write(spark.range(0, 9, 1, 3), ministack, url, run_id=name)
    with FaultProxy(ministack.endpoint) as proxy:
        through = {"storage_options": ministack.storage_options() | {"endpoint_url": proxy.endpoint}}
        again = write(spark.range(0, 9, 1, 3), ministack, url, run_id=name, **through)
        assert uploads(proxy) == []
    assert (again.published_before, again.job_id) == (True, first.job_id)
    assert len(ministack.visible_keys(bucket, "d/")) == 3


def test_what_a_task_raised_comes_out_as_itself_and_nothing_is_left(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    with FaultProxy(ministack.endpoint) as proxy:
        refused = Rule("CreateMultipartUpload", Action.ERROR, match="/d/", status=403, code="AccessDenied")
        proxy.add(refused)
        workers = ministack.storage_options() | {"endpoint_url": proxy.endpoint}
        with pytest.raises(CommitFailed, match="check the credentials") as raised:
            write(spark.range(0, 9, 1, 1), ministack, f"s3://{bucket}/d", worker_storage_options=workers)
    assert isinstance(raised.value.__cause__, PySparkException)
    assert ministack.all_keys(bucket) == []


def test_what_spark_raised_comes_out_as_it_is_and_nothing_is_left(
    spark: SparkSession, ministack: Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_writers, "LATE_WRITERS_SECONDS", 0.1)
    frame = spark.range(0, 100, 1, 1).selectExpr("if(id = 99, raise_error('row 99'), id) id")
    with pytest.raises(PySparkException, match="row 99"):
        write(frame, ministack, f"s3://{bucket}/d", late_writers="wait")
    assert ministack.all_keys(bucket) == []
    assert ministack.pending_uploads(bucket) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mode": "upsert"},
            "mode='upsert' is unknown; choose one of append, overwrite, overwrite_partitions",
        ),
        (
            {"partitionBy": "p"},
            "partitionBy= is not an argument of magicfs.spark.write; nothing was changed; use partition_by=",
        ),
        ({"sort": True}, "sort=True sorts by the partition columns, and there are none"),
        ({"late_writers": "later"}, "'later' is unknown"),
        ({"partition_by": "month"}, "'month', which is not a column of the frame"),
    ],
)
def test_misuse_is_refused_before_anything_happens(
    spark: SparkSession, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        magicfs.spark.write(spark.range(3), "s3://bucket/d", storage_options=NOBODY, **options)
    assert message in str(refused.value)


def test_what_is_no_plain_frame_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="DataFrameWriter is not a DataFrame; pass the frame"):
        magicfs.spark.write(spark.range(3).write, "memory://caller/d")
    with pytest.raises(UsageError, match=r"is a stream; write its batches with magicfs\.spark\.sink"):
        magicfs.spark.write(spark.readStream.format("rate").load(), "memory://caller/d")
    with pytest.raises(UsageError, match="more than one column id; rename all but one"):
        magicfs.spark.write(spark.range(3).selectExpr("id", "1 as ID"), "memory://caller/d")


BIG = """
import json, sys
import magicfs.spark
from examples.flights.session import local_session
url, storage = sys.argv[1], json.loads(sys.argv[2])
spark = local_session(config={"spark.driver.maxResultSize": "32k"})
frame = spark.range(0, 240, 1, 4).selectExpr("id", "sha2(cast(id as string), 512) as p")
report = magicfs.spark.write(frame, url + "/a", partition_by="p", storage_options=storage)
writing = frame.write.format("magic").mode("append").option("partitionCols", "p")
writing.option("storageOptions", json.dumps(storage)).option("lateWriters", "leave").save(url + "/b")
spark.stop()
print(json.dumps({"files": report.files, "rows": report.rows}))
"""


@pytest.mark.nightly
@pytest.mark.usefixtures("spark")  # reported as not run where there is no Java
def test_big_messages_go_through_the_store_whatever_the_driver_may_take(
    ministack: Server, bucket: str
) -> None:
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", BIG, f"s3://{bucket}", json.dumps(ministack.storage_options())],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout.splitlines()[-1]) == {"files": 240, "rows": 240}
    for name in "ab":
        assert len(ministack.visible_keys(bucket, f"{name}/")) == 240
    assert ministack.pending_uploads(bucket) == []
