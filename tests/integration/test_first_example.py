"""The first two examples of the quickstart, in programs of their own, run twice against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
import pytest
from s3fs import S3FileSystem

from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
EXAMPLES = {
    "magicfs.write": (Counter([("mon", 1.5), ("tue", 2.5)]), 2),
    "magicfs.Job": (
        Counter([(day, amount) for n in range(4) for day, amount in (("mon", n), ("tue", 10 * n))]),
        8,
    ),
}
"""The rows and the number of the files of each, by what it calls."""


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("number", [0, 1])
def test_first_examples_publish_every_row_each_time_they_are_run(
    number: int, ministack: Server, bucket_factory: Callable[..., str]
) -> None:
    running, bucket = ministack, bucket_factory(ministack, "first")
    call = list(EXAMPLES)[number]
    expected, files = EXAMPLES[call]
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[number]
    assert call in code
    assert code.count("memory://bucket/sales") == 1, "the example has changed"
    code = code.replace("memory://bucket/sales", f"s3://{bucket}/sales")
    for run in (1, 2):
        shown = run_program(code, running)
        assert shown.returncode == 0, shown.stderr
        assert not shown.stderr
        assert f"published   s3://{bucket}/sales" in shown.stdout
        assert f"files       {files} " in shown.stdout
        assert rows(running, bucket) == Counter({row: run * times for row, times in expected.items()})
        assert len(running.visible_keys(bucket, "sales/")) == files * run
        assert [key for key in running.all_keys(bucket) if "/__" in key] == []
        beside = [key for key in running.all_keys(bucket) if "/_" in key]
        assert beside[0] == "sales/_SUCCESS"
        assert len(beside) == 2 + run, "the pointer, and each run's manifest"
        assert all(key.startswith("sales/_magicfs/") for key in beside[1:])
        assert not running.pending_uploads(bucket)


def run_program(code: str, running: Server) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": running.endpoint,
        "AWS_ACCESS_KEY_ID": running.access_key,
        "AWS_SECRET_ACCESS_KEY": running.secret_key,
        "AWS_DEFAULT_REGION": running.region,
    }
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def rows(running: Server, bucket: str) -> Counter[tuple[str, float]]:
    """What another reader, who has cached nothing, finds in the dataset."""
    filesystem = S3FileSystem(**running.storage_options(), skip_instance_cache=True, use_listings_cache=False)
    dataset = pyarrow.dataset.dataset(
        f"{bucket}/sales", filesystem=filesystem, format="parquet", partitioning="hive"
    )
    return Counter(zip(*dataset.to_table(["day", "amount"]).to_pydict().values(), strict=True))
