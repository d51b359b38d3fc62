"""The examples run as a user would run them."""

from __future__ import annotations

import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from PIL import Image

from proofs.doubles.servers import Server
from proofs.scenes.java import skip_without_java

pytestmark = pytest.mark.sample(most=1)

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*example: str, server: Server, url: str) -> str:
    shown = subprocess.run(
        [sys.executable, "-W", "error", *example, url],
        cwd=EXAMPLES.parent,
        env=os.environ | server.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


@pytest.mark.nightly
def test_process_pool_publishes_every_sensor(ministack: Server, bucket_factory: Any) -> None:
    bucket = bucket_factory(ministack)
    assert "8 (" in run("examples/process_pool.py", server=ministack, url=f"s3://{bucket}/measurements")
    keys = ministack.visible_keys(bucket, "measurements")
    assert sorted(key.split("/")[1] for key in keys) == [f"sensor={n}" for n in range(8)]
    assert ministack.pending_uploads(bucket) == []


@pytest.mark.nightly
def test_spark_publishes_a_csv_file_for_every_group(ministack: Server, bucket_factory: Any) -> None:
    skip_without_java()
    bucket = bucket_factory(ministack)
    shown = run("-m", "examples.spark_csv", server=ministack, url=f"s3://{bucket}/sales")
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


@pytest.mark.nightly
def test_spark_publishes_a_thumbnail_for_every_image(ministack: Server, bucket_factory: Any) -> None:
    skip_without_java()
    bucket = bucket_factory(ministack)
    shown = run("-m", "examples.spark_images", server=ministack, url=f"s3://{bucket}/thumbnails")
    assert "12 (12 rows, " in shown
    keys = ministack.visible_keys(bucket, "thumbnails")
    names = sorted("-".join(key.rpartition("/")[2].split("-")[:2]) for key in keys)
    assert names == sorted(f"picture-{n}" for n in range(12))
    client = ministack.s3_client()
    for key in keys:
        content = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        image = Image.open(io.BytesIO(content))
        assert (image.format, image.size) == ("PNG", (16, 12))
    assert ministack.pending_uploads(bucket) == []


def of_airflow(publish: Any, url: str) -> dict[str, Any]:
    ti = SimpleNamespace(dag_id="sales", task_id="publish", run_id="scheduled__2026-11-25", map_index=-1)
    told: dict[str, Any] = publish(url, ti=ti, ds="2026-11-25")
    return told


def of_prefect(publish: Any, url: str) -> dict[str, Any]:
    told: dict[str, Any] = publish(SimpleNamespace(flow_name="sales +%#", id="0b7b"), url)
    return told


def of_dagster(publish: Any, url: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    publish(
        SimpleNamespace(
            run=SimpleNamespace(run_id="second", root_run_id="first"),
            has_partition_key=True,
            partition_key="2026-11-25",
            asset_key=SimpleNamespace(to_user_string=lambda: "sales"),
            add_output_metadata=told.update,
        ),
        url,
    )
    return told | {"published_before": told["again"]}


@pytest.mark.parametrize(
    ("example", "call"),
    [("airflow_task.py", of_airflow), ("prefect_flow.py", of_prefect), ("dagster_asset.py", of_dagster)],
)
def test_scheduler_publishes_a_run_once(
    example: str, call: Any, ministack: Server, bucket_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fsspec.config.conf, "s3", ministack.storage_options())
    bucket = bucket_factory(ministack)
    publish = runpy.run_path(str(EXAMPLES / example))["publish"]
    first, second = (call(publish, f"s3://{bucket}/sales #1") for _ in range(2))
    assert (first["files"], first["published_before"], second["published_before"]) == (1, False, True)
    json.dumps(first)  # as schedulers keep it
    assert len(ministack.visible_keys(bucket, "sales #1/")) == 1
    assert not ministack.pending_uploads(bucket)


@pytest.mark.parametrize(
    ("example", "shown", "shards"),
    [
        ("numpy_shards.py", "999000\n", 4),
        ("safetensors_shards.py", "{'layer 0': 0, 'layer 1': 200, 'layer 2': 400, 'layer 3': 600}\n", 8),
    ],
)
def test_shards_are_saved_and_the_newest_are_loaded(
    ministack: Server, bucket_factory: Any, example: str, shown: str, shards: int
) -> None:
    bucket = bucket_factory(ministack)
    assert run(f"examples/{example}", server=ministack, url=f"s3://{bucket}/run %é") == shown
    assert len(ministack.visible_keys(bucket)) == shards
    assert ministack.pending_uploads(bucket) == []


def test_an_example_needs_nothing_that_is_not_installed() -> None:
    """People copy one."""
    assert [path.name for path in EXAMPLES.glob("*.py") if "from proofs" in path.read_text()] == []


def test_every_example_is_run_here() -> None:
    names = sorted(path.name for path in EXAMPLES.glob("[!_]*.py"))
    assert names == [
        *("airflow_task.py", "dagster_asset.py", "numpy_shards.py", "prefect_flow.py", "process_pool.py"),
        *("safetensors_shards.py", "spark_csv.py", "spark_images.py"),
    ]
