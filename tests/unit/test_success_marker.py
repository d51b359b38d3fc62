"""Jobs that write no ``_SUCCESS``, whoever ends them."""

from __future__ import annotations

import pickle

import pytest

import magicfs
from magicfs.errors import UsageError
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.job_scene import JobScene


@pytest.fixture
def scene() -> JobScene:
    """A destination with an earlier job, which has written ``_SUCCESS``."""
    scene = JobScene("sales/día 50% +#")
    first = scene.job("append")
    first.commit(scene.wrote(first, {"old.txt": b"old"}))
    assert scene.success() is not None
    return scene


@pytest.mark.parametrize(
    ("committer", "mode"),
    [
        ("magic", "append"),
        ("magic", "overwrite"),
        ("directory", "overwrite"),
        ("partitioned", "append"),
        ("partitioned", "overwrite_partitions"),
    ],
)
def test_no_success_marker_is_there_when_the_job_has_ended(
    scene: JobScene, committer: str, mode: str
) -> None:
    job = scene.job(mode, committer=committer, success_marker=False)
    report = job.commit(scene.wrote(job, {"p=1/a b.txt": b"new"}))
    assert report.files == 1
    assert scene.success() is None
    assert b"new" in scene.bodies()
    assert (scene.work(), scene.uploads()) == ([], [])
    again = scene.job(mode, committer=committer)
    again.commit(scene.wrote(again, {"p=1/c.txt": b"newer"}))
    assert scene.success() is not None


def test_whoever_finishes_the_job_writes_none_either(scene: JobScene) -> None:
    job = scene.job("append", success_marker=False)
    commits = scene.wrote(job, {"a.txt": b"1", "b.txt": b"2"})
    assert scene.commit(job, commits, Fault(Kind.CRASH_BEFORE, operation="complete_upload", skip=1)) is None
    scene.recover()
    assert scene.bodies() == [b"1", b"2", b"old"]
    assert scene.success() is None
    assert (scene.work(), scene.uploads()) == ([], [])


def test_a_job_that_is_taken_back_restores_the_earlier_one(scene: JobScene) -> None:
    job = scene.job("append", success_marker=False)
    commits = scene.wrote(job, {"a.txt": b"1", "b.txt": b"2"})
    assert scene.commit(job, commits, Fault(Kind.CRASH_BEFORE, operation="complete_upload", skip=1)) is None
    scene.recover(rollback=True)
    assert scene.bodies() == [b"old"]
    assert scene.success() is not None


def test_a_pickled_job_knows(scene: JobScene) -> None:
    made = pickle.loads(pickle.dumps(magicfs.Job("memory://bucket/other", options={"success_marker": False})))
    assert not made.spec.context.options.success_marker


@pytest.mark.parametrize("committer", ["direct", "stocator", "task-completing"])
def test_committers_that_need_it_refuse(committer: str) -> None:
    with pytest.raises(UsageError, match=r"which committer=.* needs to know whether a job is published"):
        magicfs.Job("memory://bucket/sales", committer=committer, options={"success_marker": False})
