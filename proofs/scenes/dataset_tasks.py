"""Tasks that processes of their own run: they can be imported where a test cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import magicfs

__all__ = ["ROWS", "fail_at_first", "write"]

ROWS: Final = 30
"""How many rows a task writes, into three partitions."""


def write(task: magicfs.Task) -> None:
    """Write a partitioned dataset with Arrow."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    number = int(task.id)
    table = pa.table({"day": [n % 3 for n in range(ROWS)], "id": [number * ROWS + n for n in range(ROWS)]})
    ds.write_dataset(table, task.path, filesystem=task.filesystem, format="parquet", partitioning=["day"])


def fail_at_first(task: magicfs.Task) -> None:
    """Fail in every first attempt, after everything was written."""
    write(task)
    marker = Path(task.path).parents[5] / f"tried-{task.id}"
    if not marker.exists():
        marker.touch()
        raise RuntimeError("after the last file")
