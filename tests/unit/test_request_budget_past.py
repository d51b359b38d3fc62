"""How many requests a destination costs that keeps what is replaced, a rollback and an expiry."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.job.job import Job
from tests.unit.test_request_budget import CountingFileSystem, new, plus, run_tasks, warm_up

PAGE = Path(__file__).parents[2] / "docs" / "design" / "022-the-past.md"


@pytest.fixture
def filesystem() -> CountingFileSystem:
    made = CountingFileSystem()
    warm_up(made, 1)
    return made


def published(filesystem: CountingFileSystem, mode: str, files: int = 4, **how: Any) -> Job:
    job = new(filesystem, mode=mode, **how).setup()
    job.commit(run_tasks(job, 3, files))
    return job


def counted(filesystem: CountingFileSystem, mode: str, **how: Any) -> Counter[str]:
    """Of the whole life of a job with 12 files."""
    filesystem.since()
    published(filesystem, mode, **how)
    return Counter(filesystem.since())


def test_keeping_in_place_costs_a_list_in_place_of_the_deletions(filesystem: CountingFileSystem) -> None:
    usual = counted(filesystem, "overwrite")
    keeping = counted(filesystem, "overwrite", keep="7d", keep_in_place=True)
    assert plus(keeping - usual) == {"put": 1}
    assert plus(usual - keeping) == {"delete_all_matching": 1}


def test_keeping_aside_costs_a_list_and_a_copy_for_each_file(filesystem: CountingFileSystem) -> None:
    usual = counted(filesystem, "overwrite")
    keeping = counted(filesystem, "overwrite", keep="7d")
    assert plus(keeping - usual) == {"put": 1, "list": 1, "copy": 12 + 1}, (
        "one to see that the store allows it"
    )
    assert plus(usual - keeping) == {}


def after(mode: str, keepers: int, keep: str | None) -> Counter[str]:
    """What a job costs where so many before it have replaced, keeping that or not."""
    filesystem = CountingFileSystem()
    warm_up(filesystem, 1)
    for _ in range(keepers):
        published(filesystem, "overwrite", keep=keep)
    return counted(filesystem, mode)


def test_append_pays_nothing_where_files_are_kept() -> None:
    assert after("append", 2, "7d") == after("append", 2, None)


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
@pytest.mark.parametrize("keepers", [1, 3])
def test_replacing_pays_for_each_job_that_keeps(keepers: int, mode: str) -> None:
    more = after(mode, keepers, "7d") - after(mode, keepers, None)
    # A list of each; and the chain down to the newest one, which hides all.
    assert plus(more) == {"head": 1, "get": keepers + 1}
    assert "one request for each 1,000 files of each job that keeps" in PAGE.read_text()


def test_rollback_and_expiry_cost_the_same_whatever_they_bring_back(filesystem: CountingFileSystem) -> None:
    costs = []
    for files in (1, 30):
        first = published(filesystem, "overwrite", files)
        published(filesystem, "overwrite", keep=timedelta(milliseconds=1), keep_in_place=True)
        filesystem.since()
        magicfs.Dataset("memory://bucket/sales", filesystem=filesystem).rollback(
            to=f"job:{first.id}", keep=None
        )
        rolled = filesystem.since()
        published(filesystem, "overwrite", keep=timedelta(milliseconds=1), keep_in_place=True)
        filesystem.since()
        time.sleep(0.01)  # longer than was promised
        expired = magicfs.Dataset("memory://bucket/sales", filesystem=filesystem).expire()
        assert expired.files >= 3 * files
        costs.append((rolled, filesystem.since()))
    assert costs[0] == costs[1]
    assert costs[0][1]["put"] == 3, "the time of the store, the mark, and its end"
    assert "create_upload" not in costs[0][0], "no file is copied"
