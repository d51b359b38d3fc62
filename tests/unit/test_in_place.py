"""Jobs that replace files of equal names, and whose uploads somebody has aborted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import magicfs
from magicfs.datasets import abort, commit
from magicfs.errors import CommitDenied, CommitFailed
from magicfs.formats.task_commit import TaskCommit
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.job_scene import JobScene

OLD = {"a.csv": b"old a", "b.csv": b"old b"}
NEW = {"a.csv": b"new a", "b.csv": b"new b"}
BACK = r"removed again and the rest discarded; its upload is gone: it was aborted by a lifecycle rule"


@pytest.fixture
def scene() -> JobScene:
    scene = JobScene()
    scene.published(OLD, unique_names=False)
    return scene


def replacing(scene: JobScene, **how: Any) -> tuple[magicfs.Job, list[TaskCommit]]:
    job = scene.job("overwrite", unique_names=False, **how)
    return job, scene.wrote(job, NEW)


def purge(scene: JobScene, *names: str) -> None:
    """As a lifecycle rule does; by default all."""
    for key, upload in scene.uploads():
        if not names or key.rpartition("/")[2] in names:
            asyncio.run(scene.plain.abort_upload(key, upload))


def half_way(scene: JobScene, *, replaced: int = 0) -> tuple[magicfs.Job, Sequence[TaskCommit]]:
    """A job that can no longer be rolled back, and whose driver died after so many replacements."""
    job, commits = replacing(scene)
    crash = Fault(Kind.CRASH_BEFORE, operation="complete_upload", skip=replaced)
    assert scene.commit(job, commits, crash) is None
    found = scene.job_object(job)
    assert found is not None
    assert found.irreversible
    return job, commits


def assert_old(scene: JobScene) -> None:
    assert scene.data() == OLD
    assert (scene.work(), scene.uploads()) == ([], [])
    scene.published({"c.csv": b"c"}, mode="overwrite", unique_names=False)
    assert scene.data() == {"c.csv": b"c"}


@pytest.mark.parametrize("gone", [(), ("a.csv",), ("b.csv",)])
def test_a_job_whose_uploads_are_gone_is_taken_back_before_it_replaces_anything(
    scene: JobScene, gone: tuple[str, ...]
) -> None:
    job, commits = replacing(scene)
    purge(scene, *gone)
    with pytest.raises(CommitFailed, match=BACK):
        job.commit(commits)
    assert_old(scene)


ENDS: dict[str, Callable[[JobScene, magicfs.Job, Sequence[TaskCommit]], object]] = {
    "rollback": lambda scene, _, __: scene.recover(rollback=True),
    "the driver's abort": lambda _, job, __: job.abort(),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("gone", [(), ("b.csv",)])
def test_a_job_that_was_to_go_forward_is_taken_back_if_it_cannot(
    scene: JobScene, end: str, gone: tuple[str, ...]
) -> None:
    job, commits = half_way(scene)
    purge(scene, *gone)
    ENDS[end](scene, job, commits)
    assert_old(scene)


def test_recover_takes_it_back_and_says_so(scene: JobScene) -> None:
    job, _ = half_way(scene)
    purge(scene)
    [would] = (
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(rollback=True, dry_run=True).jobs
    )
    assert would.action == "would revert"
    with pytest.raises(CommitDenied, match="or recover --rollback to undo it"):
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(abort=True)
    assert scene.state(job) == "committing"
    [done] = magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover().jobs
    assert (done.action, bool(done.reason)) == ("reverted", True)
    assert_old(scene)


def test_a_commit_in_the_drivers_place_takes_it_back_too(scene: JobScene) -> None:
    job, commits = half_way(scene)
    purge(scene, "a.csv")
    with pytest.raises(CommitFailed, match=BACK):
        commit(scene.url, job.id, filesystem=scene.filesystem)
    assert_old(scene)
    assert abort(scene.url, job=job.id, filesystem=scene.filesystem).jobs == ()
    assert commits


def test_one_whose_uploads_are_all_there_still_goes_forward(scene: JobScene) -> None:
    job, _ = half_way(scene)
    before = scene.everything()
    with pytest.raises(CommitDenied, match="can no longer be rolled back"):
        scene.recover(rollback=True)
    assert scene.everything() == before
    scene.recover()
    assert scene.data() == NEW
    assert scene.state(job) is None


def test_one_that_has_replaced_a_file_is_never_taken_back(scene: JobScene) -> None:
    _, __ = half_way(scene, replaced=1)
    purge(scene)
    before = scene.everything()
    with pytest.raises(CommitDenied, match="can no longer be rolled back"):
        scene.recover(rollback=True)
    with pytest.raises(CommitFailed, match="nothing can finish the job: check the files, remove"):
        scene.recover()
    assert scene.everything() == before
    assert scene.data() == {"a.csv": b"new a", "b.csv": b"old b"}


def test_what_may_not_be_listed_is_not_looked_for(scene: JobScene) -> None:
    job, commits = replacing(scene)
    refused = Fault(Kind.REFUSED, operation="list_uploads", times=None)
    assert scene.commit(job, commits, refused) is not None
    assert scene.data() == NEW


def test_the_look_is_one_listing(scene: JobScene) -> None:
    job, commits = replacing(scene)
    traffic = Traffic()
    assert scene.commit(job, commits, traffic=traffic) is not None
    first = next(n for n, one in enumerate(traffic.log) if one.operation == "complete_upload")
    assert [one.operation for one in traffic.log[:first]].count("list_uploads") == 1
