"""The same writes through a classic session and through Spark Connect."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.nightly
@pytest.mark.usefixtures("spark")  # reported as not run where there is no Java
def test_the_same_writes_are_exact_through_either_kind_of_session() -> None:
    # PySpark allows no Connect session in a process that has a classic one.
    command = [sys.executable, "-m", "proofs.spark_proof", "--only", "connect"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["classic_writes"] == figures["connect_writes"] == 8
    assert figures["classic_batches"] == figures["connect_batches"] == 3
    assert (figures["rows_wrong"], figures["pending_after"], figures["work_after"]) == (0, 0, 0)
