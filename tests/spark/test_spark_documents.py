"""The Spark code of the documents runs as it stands, with credentials from the environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from magicfs.testing.servers import Server

ROOT = Path(__file__).parents[2]
PREPARE = """
from magicfs.demo.session import local_session
spark = local_session()
rows = [(month, carrier, month * 10) for month in range(3) for carrier in ("AA", "UA")]
df = spark.createDataFrame(rows, "month int, carrier string, x int")
"""


def blocks(path: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), flags=re.DOTALL)


@pytest.mark.usefixtures("spark")  # reported as not run where there is no Java
def test_code_of_the_documents_publishes(ministack: Server, bucket_factory: Any) -> None:
    bucket = bucket_factory(ministack)
    first, written, second = blocks("docs/spark.md")
    assert first.partition(".save(")[0] in (ROOT / "README.md").read_text()
    code = (PREPARE + first + written + second + "\nprint(report)\nspark.stop()").replace(
        "s3://bucket/", f"s3://{bucket}/"
    )
    environment = os.environ | ministack.environment()
    shown = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    flights = ministack.visible_keys(bucket, "flights")
    assert {tuple(key.split("/")[1:3]) for key in flights} == {
        (f"month={month}", f"carrier={carrier}") for month in range(3) for carrier in ("AA", "UA")
    }
    sorted_keys = ministack.visible_keys(bucket, "sorted")
    assert {tuple(key.split("/")[1:3]) for key in sorted_keys} == {
        tuple(key.split("/")[1:3]) for key in flights
    }
    letters = ministack.visible_keys(bucket, "letters")
    client = ministack.s3_client()
    rows = [
        line
        for key in letters
        for line in client.get_object(Bucket=bucket, Key=key)["Body"].read().decode().splitlines()[1:]
    ]
    assert len(rows) == 6
    assert ministack.pending_uploads(bucket) == []
