"""What a Spark worker leaves out of garbage collection."""

from __future__ import annotations

import subprocess
import sys

import pytest

_TASKS = """
import gc
from magicfs.spark.writing import freeze_heap
counts = []
for _ in range(4):
    counts.append(gc.get_freeze_count())
    freeze_heap()
print(counts[1] == counts[0], counts[2] - counts[0] > 1000, counts[2] == counts[3])
"""


@pytest.mark.process
def test_what_was_imported_is_left_out_once_and_from_the_second_task_on() -> None:
    done = subprocess.run([sys.executable, "-c", _TASKS], capture_output=True, text=True, check=True)
    assert done.stdout == "True True True\n"
