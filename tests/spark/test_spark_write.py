from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from pyspark.sql import DataFrame, SparkSession

import magicfs.spark
from examples.flights.session import PANDAS_WARNING
from magicfs.testing.fault_proxy import FaultProxy
from proofs.doubles.servers import Server

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

ReadBack = Callable[[Server, str, str, str], DataFrame]

HOSTILE = [
    *("plain", "two words", "São Paulo", "日本", "😀", "100%", "%2F", "a+b", "#1", "a/b", "k=v", "a:b::c"),
    *("", None, "..", "_hidden", ".hidden", "*?[]{}^\\", "'\"", "tab\there", "__HIVE_DEFAULT_PARTITION__x"),
]


def save(
    frame: DataFrame,
    server: Server,
    url: str,
    *,
    endpoint: str | None = None,
    mode: str = "append",
    given: Mapping[str, str] = MappingProxyType({}),
    **options: str,
) -> None:
    storage = server.storage_options() | ({"endpoint_url": endpoint} if endpoint else {})
    write = frame.write.format("magic").mode(mode).option("storageOptions", json.dumps(storage))
    write.options(**options, **given).save(url)


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(str(row.asDict()) for row in frame.collect())


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


def test_a_second_write_adds_to_the_first_and_partitions_without_rows_make_no_file(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    url, named = f"s3://{bucket}/data set/é%20", {"uniqueNames": "false", "tracking": "store"}
    save(spark.range(0, 2, 1, 3), ministack, url)
    save(spark.range(2, 4, 1, 3).where("id > 2"), ministack, url, compression="zstd", **named)
    assert rows(read_back(ministack, bucket, "data set/é%20", "id long")) == rows(
        spark.range(4).where("id != 2")
    )
    files = ministack.visible_keys(bucket)
    assert len(files) == 3
    assert "data set/é%20/part-00002.zstd.parquet" in files
    assert "data set/é%20/_SUCCESS" in ministack.all_keys(bucket)
    assert [key for key in ministack.all_keys(bucket) if "__magic" in key] == []


def test_partitions_read_back_and_are_named_as_spark_names_them(spark: SparkSession, tmp_path: Path) -> None:
    kinds = [
        "id",
        "text",
        "id - 3 as number",
        "id % 2 = 0 as flag",
        "date_add(date'2026-01-31', cast(id as int)) as day",
        "timestamp'2026-01-31 08:00:00' + make_dt_interval(0, 0, 0, id / 4) as moment",
        "timestamp_ntz'2026-01-31 08:00:00.000001' as local_moment",
        "cast(id / 4 - 0.5 as decimal(9, 2)) as price",
        "cast(concat('x', id) as char(4)) as `the padded, %`",
    ]
    frame = spark.createDataFrame(list(enumerate(HOSTILE)), "id int, text string").selectExpr(*kinds)
    frame = frame.coalesce(1)
    columns = frame.columns[1:]
    ours, sparks = tmp_path / "ours", tmp_path / "sparks"
    magicfs.spark.write(frame, f"file://{ours}", partition_by=columns, committer="manifest")
    frame.write.partitionBy(*columns).parquet(str(sparks))
    names, expected = (
        {str(file.parent.relative_to(place)) for file in place.rglob("part-*")} for place in (ours, sparks)
    )
    assert names == expected
    assert len(names) == len(HOSTILE)
    found = spark.read.schema("id int, text string").parquet(str(ours)).select("id", "text")
    assert rows(found) == rows(frame.selectExpr("id", "if(text = '', null, text) text"))


def test_a_file_costs_three_requests_and_a_job_is_tried_out_once(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    with FaultProxy(ministack.endpoint) as proxy:
        save(spark.range(0, 400, 1, 4), ministack, f"s3://{bucket}/d", endpoint=proxy.endpoint)
        # What the store honours: 13 requests and two HEADs, once, though Spark sets up and commits in two
        # processes. Two of them are bulk requests, which bear no key.
        trials = Counter(one.operation for one in proxy.requests if "/probe-" in one.path)
        assert sum(trials.values()) == 12
        # The last HEAD and the last listing look for rows that these must fit: for a pointer and for files.
        assert dict(proxy.counts - trials) == {
            "CreateMultipartUpload": 4,
            "UploadPart": 4,
            "CompleteMultipartUpload": 4,
            "ListObjectsV2": 7 + 1,
            "HeadObject": 8 + 1 + 1,
            "GetObject": 2,
            "PutObject": 8,
            "DeleteObjects": 2 + 2,
            "ListMultipartUploads": 2,
        }


def test_what_cannot_be_right_is_refused_before_any_task(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    ministack.s3_client().put_object(Bucket=bucket, Key="d/old", Body=b"old")
    with FaultProxy(ministack.endpoint) as proxy:
        for options, message in (
            ({"maxopenfile": "3"}, r"UsageError: .*\(maxopenfile looks like maxOpenFiles\)"),
            ({"mode": "error"}, "OutputExists: .* already has data, such as d/old"),
        ):
            with pytest.raises(Exception, match=message):
                save(spark.range(3), ministack, f"s3://{bucket}/d", endpoint=proxy.endpoint, given=options)
        assert not proxy.counts["CreateMultipartUpload"]
    assert ministack.all_keys(bucket) == ["d/old"]


def test_overwriting_replaces_everything_and_nothing_before_the_new_rows_are_there(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    save(spark.range(0, 100, 1, 2), ministack, f"s3://{bucket}/d")
    old = set(ministack.all_keys(bucket))
    failing = spark.range(0, 100, 1, 2).selectExpr("if(id = 99, raise_error('row 99'), id) id")
    with pytest.raises(Exception, match="row 99"):
        save(failing, ministack, f"s3://{bucket}/d", mode="overwrite", lateWriters="leave")
    assert rows(read_back(ministack, bucket, "d", "id long")) == rows(spark.range(100))
    assert set(ministack.all_keys(bucket)) == old
    save(spark.range(500, 505, 1, 1), ministack, f"s3://{bucket}/d", mode="overwrite")
    [key] = ministack.visible_keys(bucket, "d/")
    assert key not in old


@pytest.mark.nightly
def test_a_real_store_takes_it(
    spark: SparkSession, seaweedfs: Server, bucket_factory: Callable[..., str], read_back: ReadBack
) -> None:
    bucket = bucket_factory(seaweedfs)
    frame = spark.range(0, 200, 1, 3).selectExpr("id", "concat('é +%/', id % 4) as p")
    save(frame, seaweedfs, f"s3://{bucket}/d e", partitionCols="p")
    assert rows(read_back(seaweedfs, bucket, "d e", "id long, p string")) == rows(frame)
    assert seaweedfs.pending_uploads(bucket) == []
