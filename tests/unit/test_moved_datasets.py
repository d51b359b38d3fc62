"""Datasets that keep replaced files, and are moved, copied, or reached by another path."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.datasets.connection import open_destination
from magicfs.past.expire import ExpireReport, expire_kept
from proofs.scenes.arranged import arranged

HOUR_MS = 3_600_000


def published(directory: Path, name: str, **how: Any) -> magicfs.Job:
    with magicfs.Job(directory.as_uri(), **arranged(**how)) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/{name}.csv", name.encode())
    return job


def expired(directory: Path, hours: float) -> ExpireReport:
    destination = open_destination(directory.as_uri(), None, None)
    return destination.run(expire_kept, now_ms=int(time.time() * 1000 + hours * HOUR_MS))


def names(directory: Path) -> list[str]:
    return sorted(one.name.partition("-")[0] for one in directory.glob("*.csv"))


@pytest.mark.parametrize("how", ["moved", "by a link"])
def test_what_it_keeps_is_kept_and_expires_at_its_time(tmp_path: Path, how: str) -> None:
    old, new = tmp_path / "old" / "t", tmp_path / "new"
    first = published(old, "a")
    published(old, "b", mode="overwrite", keep="1h")
    if how == "moved":
        old.rename(new)
    else:
        new.symlink_to(old)
    published(new, "c", mode="overwrite")
    assert names(new) == ["c"], "what is kept lies aside"
    assert magicfs.Dataset(new.as_uri()).verify().ok
    magicfs.Dataset(new.as_uri()).rollback(to=f"job:{first.id}", keep=None)
    assert names(new) == ["a"]
    published(new, "d", mode="overwrite")
    assert (expired(new, 0).keeping, names(new)) == (1, ["d"])
    assert len(list(new.rglob("a-*.csv"))) == 1, "no job deletes what is kept"
    assert expired(new, 2).files == 1
    assert names(new) == ["d"]
    assert not list(new.rglob("a-*.csv"))
    published(new, "e", mode="overwrite", keep="1h")
    assert names(new) == ["e"]


def test_pointer_is_made_again_after_a_move(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    published(old, "a")
    published(old, "b", mode="overwrite", keep="1h")
    old.rename(new)
    (new / "_magicfs" / "current.json").unlink()
    magicfs.Dataset(new.as_uri()).adopt()
    assert sorted(magicfs.Dataset(new.as_uri()).verify().foreign) == []
    published(new, "c", mode="overwrite")
    assert names(new) == ["c"]
    assert len(list(new.rglob("a-*.csv"))) == 1, "no job deletes what is kept"
