"""The pipeline of the README, run as it stands against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
import pytest
from s3fs import S3FileSystem

from magicfs.testing.java import skip_without_java
from magicfs.testing.servers import Server

README = Path(__file__).parents[2] / "README.md"
URL = "s3://bucket/flights"
FLIGHTS_COUNT = 336_776


def pipeline() -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    (code,) = (block for block in blocks if "magicfs.spark.write" in block)
    return str(code)


def test_the_pipeline_has_ten_lines_at_most() -> None:
    assert len([line for line in pipeline().splitlines() if line]) <= 10
    assert pipeline().count(URL) == 1


@pytest.mark.long
def test_the_pipeline_publishes_every_flight(
    ministack: Server, bucket_factory: Callable[..., str], tmp_path: Path
) -> None:
    skip_without_java()
    bucket = bucket_factory(ministack)
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": ministack.access_key,
        "AWS_SECRET_ACCESS_KEY": ministack.secret_key,
        "AWS_DEFAULT_REGION": ministack.region,
        "FSSPEC_S3_ENDPOINT_URL": ministack.endpoint,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    code = pipeline().replace(URL, f"s3://{bucket}/flights")
    for _ in range(2):
        shown = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert shown.returncode == 0, shown.stderr
        assert f"published   s3://{bucket}/flights" in shown.stdout
        fs = S3FileSystem(**ministack.storage_options(), use_listings_cache=False, skip_instance_cache=True)
        found = pyarrow.dataset.dataset(f"{bucket}/flights", filesystem=fs, partitioning="hive")
        assert found.count_rows() == FLIGHTS_COUNT
        assert {"manufacturer", "seats", "month", "carrier"} <= set(found.schema.names)
    assert ministack.pending_uploads(bucket) == []
    assert [key for key in ministack.all_keys(bucket) if "__magic" in key] == []
