"""The examples run as a user would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from magicfs.testing.servers import Server

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_process_pool_publishes_every_sensor(ministack: Server, bucket_factory: Any) -> None:
    bucket = bucket_factory(ministack)
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": ministack.access_key,
        "AWS_SECRET_ACCESS_KEY": ministack.secret_key,
        "AWS_DEFAULT_REGION": ministack.region,
        "FSSPEC_S3_ENDPOINT_URL": ministack.endpoint,
    }
    shown = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "process_pool.py"), f"s3://{bucket}/measurements"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert "8 (" in shown.stdout
    keys = ministack.visible_keys(bucket, "measurements")
    assert sorted(key.split("/")[1] for key in keys) == [f"sensor={n}" for n in range(8)]
    assert ministack.pending_uploads(bucket) == []


def test_every_example_is_run_here() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == ["process_pool.py"]
