"""Tasks of a job that another program has set up."""

from __future__ import annotations

from typing import Any

import pytest

from magicfs.datasets.array_job import ArrayJob, open_task
from magicfs.job.job import Job
from magicfs.protocol import ids
from proofs.scenes.arranged import arranged


@pytest.mark.parametrize(
    "asked",
    [
        {"mode": "overwrite", "keep": "7d"},
        {"mode": "overwrite", "run_id": "today", "rerun": "overwrite"},
        {"mode": "overwrite", "also_overwrite": ["memory://arrays/sales/old"]},
        {"mode": "append", "footers": True},
    ],
)
def test_a_task_is_opened_whatever_else_its_job_was_asked_for(asked: dict[str, Any]) -> None:
    job = Job("memory://arrays/sales", **arranged(**asked)).setup()
    task = open_task(ArrayJob(job.url, ids.job_id(job.id)), 0, None).setup()
    task.filesystem.pipe_file(f"{task.path}/part.csv", b"x\n")
    assert job.commit([task.commit()]).files == 1
