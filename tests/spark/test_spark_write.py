from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from magicfs.demo.session import PANDAS_WARNING
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.servers import Server

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
    **options: str,
) -> None:
    storage = server.storage_options() | ({"endpoint_url": endpoint} if endpoint else {})
    write = frame.write.format("magic").mode(mode).option("storageOptions", json.dumps(storage))
    write.options(**options).save(url)


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(str(row.asDict()) for row in frame.collect())


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


def test_the_format_is_found_and_every_type_reads_back(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    frame = spark.range(0, 1000, 1, 3).selectExpr(
        "id",
        "cast(id % 100 as tinyint) small",
        "cast(id / 7 as decimal(20, 5)) price",
        "if(id % 5 = 0, null, concat('é ', id)) name",
        "timestamp_micros(id * 1000003) moment",
        "cast(timestamp_micros(id * 1000003) as timestamp_ntz) local_moment",
        "date_add(date'2026-01-31', cast(id as int)) day",
        "cast(id as double) / 3 ratio",
        "id % 2 = 0 even",
        "cast(concat('x', id) as binary) raw",
        "array(id, null) numbers",
        "map('k', id) mapped",
        "named_struct('a', id, 'b', array(named_struct('c', id))) nested",
        "make_dt_interval(0, 0, 0, id) lasting",
        "cast(null as string) nothing",
        "null never",
        "array(null) nevers",
    )
    save(frame, ministack, f"s3://{bucket}/data set/é%20")
    found = read_back(ministack, bucket, "data set/é%20", frame._jdf.schema().toDDL())
    assert rows(found) == rows(frame)
    assert found.dtypes == frame.dtypes
    assert len(ministack.visible_keys(bucket)) == 3
    assert "data set/é%20/_SUCCESS" in ministack.all_keys(bucket)


def test_comments_and_lengths_of_columns_are_kept_where_spark_looks(
    spark: SparkSession, ministack: Server, bucket: str, tmp_path: Path
) -> None:
    frame = spark.range(1).select(
        sf.col("id").alias("id", metadata={"comment": "ключ"}), sf.lit(1).alias("p")
    )
    save(frame, ministack, f"s3://{bucket}/x", partitionCols="p")
    [key] = ministack.visible_keys(bucket)
    written = ministack.s3_client().get_object(Bucket=bucket, Key=key)
    (tmp_path / "one.parquet").write_bytes(written["Body"].read())
    [field] = spark.read.parquet(str(tmp_path / "one.parquet")).schema.fields
    assert field.metadata == {"comment": "ключ"}


def test_hostile_partition_values_read_back_and_are_named_as_spark_names_them(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack, tmp_path: Path
) -> None:
    values = [(number, value, number % 3) for number, value in enumerate(HOSTILE * 5)]
    frame = spark.createDataFrame(values, "id int, `the carrier, %` string, month int").repartition(3)
    save(frame, ministack, f"s3://{bucket}/d", partitionCols=json.dumps(["month", "the carrier, %"]))

    found = read_back(ministack, bucket, "d", "id int, month int, `the carrier, %` string")
    expected = frame.selectExpr(
        "id", "month", "if(`the carrier, %` = '', null, `the carrier, %`) `the carrier, %`"
    )
    assert rows(found) == rows(expected)

    frame.write.partitionBy("month", "the carrier, %").parquet(str(tmp_path / "sparks"))
    sparks = {str(f.parent.relative_to(tmp_path / "sparks")) for f in (tmp_path / "sparks").rglob("part-*")}
    keys = {key.removeprefix("d/").rpartition("/")[0] for key in ministack.visible_keys(bucket, "d/")}
    assert keys == sparks


def test_partition_columns_of_every_type_are_named_as_spark_names_them(
    spark: SparkSession, ministack: Server, bucket: str, tmp_path: Path
) -> None:
    frame = spark.range(6).selectExpr(
        "id",
        "id - 3 number",
        "id % 2 = 0 flag",
        "date_add(date'2026-01-31', cast(id as int)) day",
        "timestamp'2026-01-31 08:00:00' + make_dt_interval(0, 0, 0, id / 4) moment",
        "timestamp_ntz'2026-01-31 08:00:00.000001' local_moment",
        "cast(id / 4 - 0.5 as decimal(9, 2)) price",
        "cast(concat('x', id) as char(4)) padded",
    )
    columns = frame.columns[1:]
    save(frame, ministack, f"s3://{bucket}/d", partitionCols=",".join(columns))
    frame.write.partitionBy(*columns).parquet(str(tmp_path / "sparks"))
    sparks = {str(f.parent.relative_to(tmp_path / "sparks")) for f in (tmp_path / "sparks").rglob("part-*")}
    assert {
        key.removeprefix("d/").rpartition("/")[0] for key in ministack.visible_keys(bucket, "d/")
    } == sparks


def test_a_second_write_adds_to_the_first(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    for start in (0, 100):
        save(spark.range(start, start + 100, 1, 2), ministack, f"s3://{bucket}/d", tracking="store")
    assert rows(read_back(ministack, bucket, "d", "id long")) == rows(spark.range(200).repartition(1))
    assert [key for key in ministack.all_keys(bucket) if "__magic" in key] == []


def test_an_empty_frame_publishes_no_file(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    save(spark.range(10).where("id < 0"), ministack, f"s3://{bucket}/d")
    assert ministack.visible_keys(bucket) == []
    assert {"d/_SUCCESS", "d/_magicfs/current.json"} < set(ministack.all_keys(bucket))
    assert len(ministack.all_keys(bucket)) == 3
    assert (
        json.loads(ministack.s3_client().get_object(Bucket=bucket, Key="d/_SUCCESS")["Body"].read())[
            "filenames"
        ]
        == []
    )


def test_an_empty_partition_writes_no_file(spark: SparkSession, ministack: Server, bucket: str) -> None:
    save(spark.range(0, 2, 1, 5), ministack, f"s3://{bucket}/d")
    assert len(ministack.visible_keys(bucket)) == 2


def test_files_are_compressed_and_named_as_asked(
    spark: SparkSession, ministack: Server, bucket: str, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    save(
        spark.range(0, 10, 1, 1),
        ministack,
        f"s3://{bucket}/d",
        compression="zstd",
        uniqueNames="false",
        tracking="store",
    )
    assert ministack.visible_keys(bucket) == ["d/part-00000.zstd.parquet"]
    written = ministack.s3_client().get_object(Bucket=bucket, Key="d/part-00000.zstd.parquet")
    body = io.BytesIO(written["Body"].read())
    assert pq.read_metadata(body).row_group(0).column(0).compression == "ZSTD"


def test_tables_of_spark_write_through_the_format(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    spark.range(5).createOrReplaceTempView("five")
    frame = spark.sql("select id, id % 2 as odd from five")
    save(frame, ministack, f"s3://{bucket}/d", partitionCols="odd", maxOpenFiles="1")
    parts = {key.split("/")[1] for key in ministack.visible_keys(bucket)}
    assert parts == {"odd=0", "odd=1"}


def test_a_file_costs_three_requests_and_a_job_is_tried_out_once(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    with FaultProxy(ministack.endpoint) as proxy:
        save(spark.range(0, 400, 1, 4), ministack, f"s3://{bucket}/d", endpoint=proxy.endpoint)
        # What the store honours: 11 requests and a HEAD, once, though Spark sets up and commits in two
        # processes. One of them is a bulk request, which bears no key.
        trials = Counter(one.operation for one in proxy.requests if "/probe-" in one.path)
        assert sum(trials.values()) == 11
        assert dict(proxy.counts - trials) == {
            "CreateMultipartUpload": 4,
            "UploadPart": 4,
            "CompleteMultipartUpload": 4,
            "ListObjectsV2": 7,
            "HeadObject": 8,
            "GetObject": 3,
            "PutObject": 8,
            "DeleteObjects": 2 + 1,
            "ListMultipartUploads": 2,
        }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxopenfile": "3"}, "unknown option maxopenfile (maxopenfile looks like maxOpenFiles)"),
        (
            {"partitionCols": "month"},
            "'month', which is not a column of the frame; the columns are id, ratio, raw",
        ),
        ({"partitionCols": "ratio"}, "partition column 'ratio' has type double"),
        ({"uniqueNames": "false"}, "uniqueNames='false' needs tracking='store'"),
        ({"conflict": "replace"}, "conflict='replace' deletes data and mode('append') says to keep it"),
        ({"conflict": "merge"}, "conflict='merge' is unknown"),
        ({"fileFormat": "avro"}, "fileFormat='avro' is unknown; choose one of parquet, csv"),
        ({"partSize": "1"}, "part_size=1 is outside what the store takes"),
    ],
)
def test_a_wrong_option_is_refused_before_any_task(
    spark: SparkSession, ministack: Server, bucket: str, options: dict[str, str], message: str
) -> None:
    frame = spark.range(3).selectExpr("id", "cast(id as double) ratio", "cast(id as string) raw")
    with FaultProxy(ministack.endpoint) as proxy:
        with pytest.raises(Exception, match="UsageError") as refused:
            save(frame, ministack, f"s3://{bucket}/d", endpoint=proxy.endpoint, **options)
        assert message in str(refused.value)
        assert not proxy.counts["CreateMultipartUpload"]
    assert ministack.all_keys(bucket) == []


def test_a_column_that_parquet_would_not_keep_is_refused(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    frame = spark.range(1).selectExpr("id", "array(make_ym_interval(1)) as times")
    with pytest.raises(Exception, match=r"column times\[\] has type interval year to month, which cannot"):
        save(frame, ministack, f"s3://{bucket}/d")


def test_overwriting_replaces_everything_and_nothing_before_the_new_rows_are_there(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    save(spark.range(0, 100, 1, 2), ministack, f"s3://{bucket}/d")
    old = set(ministack.all_keys(bucket)) - {"d/_SUCCESS", "d/_magicfs/current.json"}
    failing = spark.range(0, 100, 1, 2).selectExpr("if(id = 99, raise_error('row 99'), id) id")
    with pytest.raises(Exception, match="row 99"):
        save(failing, ministack, f"s3://{bucket}/d", mode="overwrite")
    assert rows(read_back(ministack, bucket, "d", "id long")) == rows(spark.range(100))
    save(spark.range(500, 505, 1, 1), ministack, f"s3://{bucket}/d", mode="overwrite")
    [key] = ministack.visible_keys(bucket, "d/")
    assert key not in old
    assert old - set(ministack.all_keys(bucket)) == {one for one in old if "_magicfs" not in one}


def test_overwriting_partitions_leaves_the_others(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    frame = spark.range(0, 30, 1, 1).selectExpr("id", "id % 3 as p")
    save(frame, ministack, f"s3://{bucket}/d", partitionCols="p")
    new = spark.range(100, 102, 1, 1).selectExpr("id", "1L as p")
    with pytest.raises(Exception, match=r"mode\('overwrite'\) with partitionCols has two meanings"):
        save(new, ministack, f"s3://{bucket}/d", mode="overwrite", partitionCols="p")
    options = {"partitionCols": "p", "conflict": "replace_partitions"}
    save(new, ministack, f"s3://{bucket}/d", mode="overwrite", **options)
    expected = frame.where("p != 1").unionAll(new)
    assert rows(read_back(ministack, bucket, "d", "id long, p long")) == rows(expected)
    assert ministack.pending_uploads(bucket) == []


def test_conflict_fail_finds_data_before_any_task(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    ministack.s3_client().put_object(Bucket=bucket, Key="d/old", Body=b"old")
    with FaultProxy(ministack.endpoint) as proxy:
        with pytest.raises(Exception, match=r"OutputExists: .* holds data already, such as d/old"):
            save(spark.range(3), ministack, f"s3://{bucket}/d", endpoint=proxy.endpoint, conflict="fail")
        assert not proxy.counts["CreateMultipartUpload"]
    assert ministack.all_keys(bucket) == ["d/old"]


def test_a_missing_path_is_named(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="UsageError: the destination is missing"):
        spark.range(3).write.format("magic").mode("append").save()


def test_a_bucket_that_is_not_there_is_named_and_not_created(spark: SparkSession, ministack: Server) -> None:
    with pytest.raises(Exception, match="ObjectNotFound: list of no-such-bucket"):
        save(spark.range(3), ministack, "s3://no-such-bucket/d")
    names = [found["Name"] for found in ministack.s3_client().list_buckets()["Buckets"]]
    assert "no-such-bucket" not in names


def test_reading_says_how_to_read(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"only writes; read the dataset with spark\.read\.parquet"):
        spark.read.format("magic").load("s3://bucket/d").collect()


def test_a_real_store_takes_it(
    spark: SparkSession, seaweedfs: Server, bucket_factory: Callable[..., str], read_back: ReadBack
) -> None:
    bucket = bucket_factory(seaweedfs)
    frame = spark.range(0, 200, 1, 3).selectExpr("id", "concat('é +%/', id % 4) as p")
    save(frame, seaweedfs, f"s3://{bucket}/d e", partitionCols="p")
    assert rows(read_back(seaweedfs, bucket, "d e", "id long, p string")) == rows(frame)
    assert seaweedfs.pending_uploads(bucket) == []


def test_wrong_credentials_are_refused_before_any_task(
    spark: SparkSession, seaweedfs: Server, bucket_factory: Callable[..., str]
) -> None:
    bucket = bucket_factory(seaweedfs)
    wrong = seaweedfs.storage_options() | {"secret": "not the secret"}
    with pytest.raises(Exception, match=r"PermissionDenied: .*; check the credentials") as refused:
        spark.range(3).write.format("magic").mode("append").option("storageOptions", json.dumps(wrong)).save(
            f"s3://{bucket}/d"
        )
    assert "not the secret" not in str(refused.value)
    assert seaweedfs.all_keys(bucket) == []
