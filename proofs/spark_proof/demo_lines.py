"""The ten lines of the page about the demo, run as they stand: they must publish what the demo publishes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofs.doubles.servers import Server
from proofs.spark_proof.witness import Judge, Lane, Witness

if TYPE_CHECKING:
    from examples.flights.fingerprint import Fingerprint

__all__ = ["PAGE", "URL", "pipeline", "run"]

PAGE = Path(__file__).parents[2] / "docs" / "demo.md"
"""What is run."""

URL = "s3://bucket/flights"
"""Where the lines publish to."""

_RUNS = 2


def pipeline(text: str) -> str:
    """The lines for PySpark.

    Args:
        text: The page.

    Raises:
        ValueError: It has no such code, or more than one piece of it.
    """
    (code,) = (
        block
        for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
        if "magicfs.spark.write" in block
    )
    return str(code)


def run(text: str, server: Server, directory: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the lines twice, the second time over what the first has published; returns the figures.

    Args:
        text: The page.
        server: The store.
        directory: For what the lines leave.
        say: Told what is going on, in lines.
    """
    from examples.flights import flights
    from examples.flights.expected import expected_dataset
    from examples.flights.fingerprint import fingerprint

    code = pipeline(text)
    judge = Judge(Witness(server), say)
    lane = Lane(server.create_bucket("demo"), "flights")
    files = {table.file: flights.unpack(table, directory) for table in flights.TABLES}
    wanted, rows = fingerprint(expected_dataset(files).to_batches()), 0
    for _ in range(_RUNS):
        _run_lines(code.replace(URL, lane.url), server, directory, judge)
        lane.ended = time.monotonic()
        rows = _compare(lane, wanted, server, judge)
    lane.settle()
    judge.leftovers(lane, "the page's lines")
    lines = sum(bool(line.strip()) for line in code.splitlines())
    return judge.to_dict() | {"demo_lines": lines, "demo_rows": rows}


def _run_lines(code: str, server: Server, directory: Path, judge: Judge) -> None:
    done = subprocess.run(  # noqa: S603 - the project's own page
        [sys.executable, "-c", code],
        env=os.environ
        | server.environment()
        | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=directory,
        capture_output=True,
        check=False,
        text=True,
    )
    judge.say(f"the page's lines say:\n{done.stdout.strip()}")
    if done.returncode:
        judge.trouble(f"they end with status {done.returncode}:\n{done.stderr[-5000:]}")


def _compare(lane: Lane, wanted: Fingerprint, server: Server, judge: Judge) -> int:
    """Compare what a plain reader finds with the demo's rows; returns how many rows it found."""
    import pyarrow.dataset
    from s3fs import S3FileSystem

    from examples.flights.fingerprint import fingerprint

    filesystem = S3FileSystem(**server.storage_options(), use_listings_cache=False, skip_instance_cache=True)
    place = f"{lane.bucket}/{lane.key}"
    dataset = pyarrow.dataset.dataset(place, filesystem=filesystem, format="parquet", partitioning="hive")
    found = fingerprint(dataset.to_batches())
    if found != wanted:
        judge.figures["rows_wrong"] += max(abs(found.rows - wanted.rows), 1)
        judge.trouble(f"{lane.url} holds {found}, the demo {wanted}")
    if unlike := judge.witness.unlike(lane):
        judge.trouble(f"verify of {lane.url}: {unlike[:5]}")
    return found.rows
