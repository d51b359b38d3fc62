"""The examples run as a user would run them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from magicfs.testing.servers import Server
from proofs.scenes.java import skip_without_java

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example: str, server: Server, url: str) -> str:
    shown = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / example), url],
        env=os.environ | server.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_process_pool_publishes_every_sensor(ministack: Server, bucket_factory: Any) -> None:
    bucket = bucket_factory(ministack)
    assert "8 (" in run("process_pool.py", ministack, f"s3://{bucket}/measurements")
    keys = ministack.visible_keys(bucket, "measurements")
    assert sorted(key.split("/")[1] for key in keys) == [f"sensor={n}" for n in range(8)]
    assert ministack.pending_uploads(bucket) == []


@pytest.mark.long
def test_spark_publishes_a_csv_file_for_every_group(ministack: Server, bucket_factory: Any) -> None:
    skip_without_java()
    bucket = bucket_factory(ministack)
    shown = run("spark_csv.py", ministack, f"s3://{bucket}/sales")
    assert "4 (1000 rows, " in shown
    assert "from 4 tasks" in shown
    keys = ministack.visible_keys(bucket, "sales")
    assert sorted(key.split("/")[1] for key in keys) == [f"region=r{n}" for n in range(4)]
    client = ministack.s3_client()
    tables = [client.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys]
    found = [line.split(",") for table in tables for line in table.splitlines()[1:]]
    expected = [[str(n), f"r{n % 4}", f"{n * 1.5:.1f}"] for n in range(1000)]
    assert sorted(found) == sorted(expected)
    assert ministack.pending_uploads(bucket) == []


def test_spark_publishes_a_thumbnail_for_every_image(ministack: Server, bucket_factory: Any) -> None:
    skip_without_java()
    bucket = bucket_factory(ministack)
    assert "12 (12 rows, " in run("spark_images.py", ministack, f"s3://{bucket}/thumbnails")
    keys = ministack.visible_keys(bucket, "thumbnails")
    names = sorted("-".join(key.rpartition("/")[2].split("-")[:2]) for key in keys)
    assert names == sorted(f"picture-{n}" for n in range(12))
    client = ministack.s3_client()
    for key in keys:
        content = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        image = Image.open(io.BytesIO(content))
        assert (image.format, image.size) == ("PNG", (16, 12))
    assert ministack.pending_uploads(bucket) == []


def test_every_example_is_run_here() -> None:
    names = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert names == ["process_pool.py", "spark_csv.py", "spark_images.py"]
