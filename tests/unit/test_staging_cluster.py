"""Pending sets that go through a filesystem of the cluster: Hadoop's algorithm 1 on any fsspec filesystem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

import magicfs
from magicfs.committers.staging import cluster
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    OutputExists,
    StoreError,
    UsageError,
)
from magicfs.formats import task_commit
from magicfs.formats.pendingset import PendingSet
from magicfs.job.task import Task
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.testing.store_faults import Fault, Kind
from magicfs.transaction.driver import JobTransaction
from proofs.scenes.staged_scene import StagedScene, write

FILES = {"p=1/a.txt": b"1", "p=2/b.txt": b"2"}


class ClusterScene(StagedScene):
    """A staged scene with a cluster directory, and what lies there."""

    def __init__(self, work: Path, url: str) -> None:
        super().__init__(work, cluster=url)
        self.url_of_cluster = url
        self.options["cluster_user"] = "etl"

    def handed(self) -> list[str]:
        """Every file in the cluster directory."""
        fs, root = fsspec.core.url_to_fs(self.url_of_cluster)
        if not fs.exists(root):
            return []
        root = root.rstrip("/")
        return sorted(path.removeprefix(f"{root}/") for path in fs.find(root))

    def read(self, name: str) -> bytes:
        """A file there."""
        fs, root = fsspec.core.url_to_fs(self.url_of_cluster)
        body: bytes = fs.cat_file(f"{root}/{name}")
        return body

    def exists(self, name: str) -> bool:
        """Whether a file or directory is there."""
        fs, root = fsspec.core.url_to_fs(self.url_of_cluster)
        found: bool = fs.exists(f"{root}/{name}")
        return found


@pytest.fixture(params=["file", "memory"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterScene]:
    if request.param == "file":
        (tmp_path / "cluster").mkdir()
        yield ClusterScene(tmp_path, f"file://{tmp_path}/cluster")
        return
    url = f"memory://stage-{uuid4().hex}/tmp"
    yield ClusterScene(tmp_path, url)
    fs, root = fsspec.core.url_to_fs(url)
    if fs.exists(root):
        fs.rm(root, recursive=True)


def uploads_directory(job: magicfs.Job) -> str:
    return f"etl/{job.id}/staging-uploads"


def task_of(job: magicfs.Job, number: int, files: dict[str, bytes]) -> Task:
    task = Task(job.spec, job.task(number).id).setup()
    write(task.path, files)
    return task


# -- the algorithm -------------------------------------------------------------------------------------


def test_committed_task_lies_where_hadoops_committer_puts_it(scene: ClusterScene) -> None:
    job = scene.job()
    task = task_of(job, 2, FILES)
    commit = task.commit()
    uploads = uploads_directory(job)
    own = f"{uploads}/_temporary/0/_temporary/{task.attempt_id}/{task.id}.pendingset"
    assert scene.handed() == sorted([f"{uploads}/_temporary/0/{task.id}", own])
    assert commit.set_key == own
    one = PendingSet.from_bytes("set", scene.read(f"{uploads}/_temporary/0/{task.id}"))
    assert one == PendingSet.from_bytes("set", scene.read(own))
    assert (one.job_id, len(one.commits)) == (job.id, 2)
    assert [key for key in scene.work() if key.endswith(".pendingset")] == []
    assert job.commit([commit]).files == 2
    assert scene.bodies() == [b"1", b"2"]


@pytest.mark.parametrize("large", [False, True])
def test_attempt_that_was_accepted_counts_whoever_committed_later(
    scene: ClusterScene, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    if large:
        monkeypatch.setattr(task_commit, "INLINE_LIMIT", 0)
    job = scene.job()
    first, second = task_of(job, 0, {"a": b"first"}), task_of(job, 0, {"b": b"second"})
    accepted = first.commit()
    assert (accepted.content is None) is large
    second.commit()
    job.commit([accepted])
    assert (scene.bodies(), scene.uploads()) == ([b"first"], [])


# -- setting up ----------------------------------------------------------------------------------------


def test_directory_of_the_job_is_there_from_setup_to_commit(scene: ClusterScene) -> None:
    job = scene.job()
    assert scene.exists(uploads_directory(job))
    assert scene.handed() == []
    job.commit([])
    assert not scene.exists(f"etl/{job.id}")


@pytest.mark.parametrize("where", ["a file", "nowhere", "unknown"])
def test_cluster_directory_that_cannot_be_written_fails_the_setup(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("in the way")
    url = {"a file": f"file://{tmp_path}/file", "nowhere": "file:///proc/none", "unknown": "nofs://x/y"}[
        where
    ]
    scene = StagedScene(tmp_path, cluster=url)
    before = scene.everything()
    with pytest.raises(UsageError, match=r"cluster_directory='.*' cannot be used: .*; nothing was changed; "):
        scene.job()
    assert scene.everything() == before


def test_filesystem_that_can_not_rename_fails_the_setup_and_keeps_nothing(
    scene: ClusterScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(fsspec.core.url_to_fs(scene.url_of_cluster)[0])

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("no renaming here")

    with monkeypatch.context() as patch:
        patch.setattr(kind, "mv", refuse)
        with pytest.raises(UsageError, match="no renaming here"):
            scene.job()
    assert (scene.handed(), scene.work()) == ([], [])


def test_setup_that_is_refused_leaves_nothing_in_the_cluster(scene: ClusterScene) -> None:
    scene.put("old.txt", b"old")
    with pytest.raises(OutputExists):
        scene.job("error")
    assert scene.handed() == []
    fs, root = fsspec.core.url_to_fs(scene.url_of_cluster)
    assert not fs.exists(f"{root}/etl") or fs.ls(f"{root}/etl") == []


def test_trial_that_fails_leaves_what_tasks_of_another_driver_have_committed(
    scene: ClusterScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, _ = fsspec.core.url_to_fs(scene.url_of_cluster)

    def refuse(_: object, path1: str, *__: object, **___: object) -> None:
        committed = f"{path1.rpartition('/')[0]}/_temporary/0"
        fs.makedirs(committed)
        fs.pipe_file(f"{committed}/000000", b"a set")
        raise PermissionError("no renaming here")

    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "mv", refuse)
        with pytest.raises(UsageError, match="no renaming here"):
            scene.job()
    (kept,) = scene.handed()
    assert kept.endswith("/staging-uploads/_temporary/0/000000")


def test_setup_that_fails_leaves_what_tasks_of_another_driver_have_committed(
    scene: ClusterScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else takes the job over while this setup looks around, and it is refused."""

    async def taken_over(transaction: JobTransaction) -> None:
        fs, root = fsspec.core.url_to_fs(scene.url_of_cluster)
        committed = f"{root}/etl/{transaction.context.job}/staging-uploads/_temporary/1"
        fs.makedirs(committed)
        fs.pipe_file(f"{committed}/000000", b"a set")
        raise CommitDenied("taken over by another driver")

    monkeypatch.setattr(JobTransaction, "set_up", taken_over)
    with pytest.raises(CommitDenied):
        scene.job()
    (kept,) = scene.handed()
    assert kept.endswith("/staging-uploads/_temporary/1/000000")


# -- the end -------------------------------------------------------------------------------------------


def test_commit_that_was_taken_back_cleans_the_cluster_too(scene: ClusterScene) -> None:
    job = scene.job()
    commits = scene.wrote(job, {"a": b"1"}, {"b": b"2"})
    for key, upload_id in scene.uploads()[1:]:
        scene.elsewhere(lambda engine, k=key, u=upload_id: engine.store.abort_upload(k, u))  # type: ignore[misc]
    with pytest.raises(CommitFailed, match="removed again"):
        job.commit(commits)
    assert (scene.bodies(), scene.handed(), scene.uploads(), scene.work()) == ([], [], [], [])


def test_commit_that_can_be_called_again_keeps_the_cluster(scene: ClusterScene) -> None:
    job = scene.job("error")
    commits = scene.wrote(job, {"a": b"1"})
    scene.put("theirs.txt", b"theirs")
    with pytest.raises(OutputExists):
        job.commit()
    assert len(scene.handed()) == 2
    scene.delete("theirs.txt")
    assert job.commit().files == len(commits)
    assert scene.handed() == []


def test_commit_of_a_driver_that_was_replaced_keeps_the_cluster(scene: ClusterScene) -> None:
    job = scene.job()
    commits = scene.wrote(job, {"a": b"1"})
    other = scene.job(job_id=job.id, attempt=1)
    with pytest.raises(CommitDenied, match="taken over"):
        job.commit(commits)
    assert len(scene.handed()) == 2
    other.commit(other.recover_tasks())
    assert (scene.bodies(), scene.handed()) == ([b"1"], [])


def test_commit_whose_outcome_is_unknown_needs_the_cluster_no_more(scene: ClusterScene) -> None:
    job = scene.job()
    scene.wrote(job, {"a": b"1"})
    fault = Fault(Kind.ERROR_BEFORE, operation="complete_upload", times=None)
    with pytest.raises(CommitOutcomeUnknown):
        scene.commit(job, None, fault)
    assert (scene.state(job), scene.handed()) == ("committing", [])
    assert job.commit().files == 1
    assert scene.bodies() == [b"1"]


@pytest.mark.parametrize("end", ["commit", "abort", "recover"])
def test_sets_that_alone_tell_losers_from_winners_outlive_an_unknown_commit(
    scene: ClusterScene, end: str
) -> None:
    job = scene.job("overwrite", unique_names=False)
    commits = scene.wrote(job, {"a": b"1"}, {"b": b"2"})
    scene.wrote(job, {"a": b"lost"})
    fault = Fault(Kind.ERROR_BEFORE, operation="complete_upload", skip=1, times=None)
    with pytest.raises(CommitOutcomeUnknown):
        scene.commit(job, commits, fault)
    assert scene.state(job) == "committing"
    assert scene.handed()
    if end == "commit":
        job.commit(commits)
    else:
        if end == "recover":
            scene.recover()
        job.abort()
    assert scene.bodies() == ([] if end == "abort" else [b"1", b"2"])
    assert (scene.uploads(), scene.handed()) == ([], [])


def test_cluster_that_cannot_be_cleaned_is_told_by_the_report(
    scene: ClusterScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, other = scene.job(), scene.job()
    commits = scene.wrote(job, {"a": b"1"})
    kind = type(fsspec.core.url_to_fs(scene.url_of_cluster)[0])

    def refuse(*_: object, **__: object) -> None:
        raise OSError("stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(kind, "rm", refuse)
        (warning,) = job.commit(commits).warnings
        assert "the files are published but cleaning up failed: delete of" in warning
        assert "stale file handle" in warning
        with pytest.raises(StoreError, match="stale file handle"):
            other.abort()
        assert scene.state(other) is None
    other.abort()
    assert scene.bodies() == [b"1"]


# -- what is malformed or inconsistent -------------------------------------------------------


def put(scene: ClusterScene, name: str, body: bytes) -> None:
    fs, root = fsspec.core.url_to_fs(scene.url_of_cluster)
    fs.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
    fs.pipe_file(f"{root}/{name}", body)


@pytest.mark.parametrize("name", ["not a task", "x y.pendingset"])
def test_file_that_is_named_after_no_task_is_refused(scene: ClusterScene, name: str) -> None:
    job = scene.job()
    put(scene, f"{uploads_directory(job)}/_temporary/0/{name}", b"{}")
    with pytest.raises(CommitFailed, match=f"{name} is no pending set of job"):
        job.commit()


def test_checksums_of_hadoops_local_filesystem_are_no_tasks(scene: ClusterScene) -> None:
    job = scene.job()
    scene.wrote(job, {"a": b"1"})
    put(scene, f"{uploads_directory(job)}/_temporary/0/.000000.crc", b"crc")
    assert job.commit().tasks == 1


def test_set_that_is_gone_changes_nothing(scene: ClusterScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_commit, "INLINE_LIMIT", 0)
    job = scene.job()
    commits = scene.wrote(job, {"a": b"1"})
    fs, root = fsspec.core.url_to_fs(scene.url_of_cluster)
    fs.rm(f"{root}/{commits[0].set_key}")
    with pytest.raises(CommitFailed, match=r"the pending set .* is gone: .*; nothing was published"):
        job.commit(commits)
    assert scene.state(job) == "open"


@pytest.mark.parametrize(
    "key",
    [
        "etl/{job}/staging-uploads/_temporary/0/000000",
        "etl/{job}/../other/staging-uploads/_temporary/0/_temporary/{attempt}/000000.pendingset",
        "etl/{job}/staging-uploads/_temporary/1/_temporary/{attempt}/000000.pendingset",
        "/etc/passwd",
        None,
    ],
)
def test_commit_that_names_a_file_that_is_not_its_attempts_is_refused(
    scene: ClusterScene, key: str | None
) -> None:
    job = scene.job()
    (commit,) = scene.wrote(job, {"a": b"1"})
    named = key and key.format(job=job.id, attempt=commit.attempt_id)
    with pytest.raises(CommitFailed, match=r"has no pending set and names .*, which does not belong to job"):
        job.commit([replace(commit, content=None, set_key=named)])


def test_task_may_not_have_the_name_of_the_work_directory(scene: ClusterScene) -> None:
    job = scene.job()
    task = Task(job.spec, TaskId("_temporary")).setup()
    write(task.path, {"a": b"1"})
    with pytest.raises(UsageError, match="a task cannot be named '_temporary'"):
        task.commit()
    assert (scene.uploads(), scene.local()) == ([], [])


# -- a filesystem that fails ---------------------------------------------------------------------------


def test_write_that_fails_fails_the_task(scene: ClusterScene, monkeypatch: pytest.MonkeyPatch) -> None:
    job = scene.job()
    task = task_of(job, 0, {"a": b"1"})
    kind = type(fsspec.core.url_to_fs(scene.url_of_cluster)[0])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kind, "pipe_file", full)
        with pytest.raises(StoreError, match=r"No space left on device.*check cluster_directory"):
            task.commit()
    assert (scene.uploads(), scene.local()) == ([], [])
    assert job.commit().tasks == 0


@pytest.mark.parametrize("took_place", [True, False])
def test_rename_whose_reply_is_lost_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took_place: bool
) -> None:
    scene = ClusterScene(tmp_path, f"file://{tmp_path}/cluster")
    job = scene.job()
    task = task_of(job, 0, {"a": b"1"})
    move = LocalFileSystem.mv

    def lost(self: Any, source: str, target: str, **how: Any) -> None:
        if took_place:
            move(self, source, target, **how)
        raise OSError("the reply was lost")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "mv", lost)
        if took_place:
            task.commit()
        else:
            with pytest.raises(StoreError, match="the reply was lost"):
                task.commit()
    assert len(scene.uploads()) == took_place
    assert job.commit().files == took_place


def test_rename_of_which_nothing_can_be_learnt_leaves_all_and_can_be_committed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = ClusterScene(tmp_path, f"file://{tmp_path}/cluster")
    job = scene.job()
    task = task_of(job, 0, {"a": b"1"})

    def silent(*_: object, **__: object) -> None:
        raise OSError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "mv", silent)
        patch.setattr(LocalFileSystem, "info", silent)
        patch.setattr(cluster.ClusterSets, "keep", _only_its_rename(cluster.ClusterSets.keep, patch))
        with pytest.raises(CommitOutcomeUnknown, match="nothing was aborted; commit the task again"):
            task.commit()
    first = scene.uploads()
    assert len(first) == 1
    assert scene.local() != []
    commit = task.commit()
    assert scene.uploads() == first
    job.commit([commit])
    assert (scene.bodies(), scene.uploads(), scene.local()) == ([b"1"], [], [])


def _only_its_rename(keep: Any, patch: pytest.MonkeyPatch) -> Any:
    """``keep`` with a filesystem whose ``info`` works until the rename."""
    from magicfs.committers.staging.cluster import ClusterFiles

    there = ClusterFiles.is_there
    calls = []

    def first(self: Any, name: str) -> bool:
        calls.append(name)
        if len(calls) == 1:
            return False
        return there(self, name)

    patch.setattr(ClusterFiles, "is_there", first)
    return keep


def test_filesystem_that_does_not_replace_is_made_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = ClusterScene(tmp_path, f"file://{tmp_path}/cluster")
    job = scene.job()
    move = LocalFileSystem.mv

    def like_hdfs(self: Any, source: str, target: str, **how: Any) -> None:
        if Path(target).exists():
            raise FileExistsError(target)
        move(self, source, target, **how)

    monkeypatch.setattr(LocalFileSystem, "mv", like_hdfs)
    task_of(job, 0, {"a": b"first"}).commit()
    task_of(job, 0, {"b": b"second"}).commit()
    job.commit()
    assert scene.bodies() == [b"second"]


def test_second_commit_of_an_attempt_returns_the_first(scene: ClusterScene) -> None:
    from fsspec.asyn import sync

    job = scene.job()
    task = task_of(job, 0, {"a": b"1"})
    commit = task.commit()
    committer = job.spec.make_committer()
    assert sync(job.spec.loop, committer.commit_task, TaskId(task.id), AttemptId(task.attempt_id)) == commit
    assert len(scene.uploads()) == 1


def test_job_whose_sets_are_in_the_cluster_is_not_taken_for_one_without_tasks(scene: ClusterScene) -> None:
    from magicfs import datasets

    job = scene.job()
    scene.wrote(job, {"a": b"1"})
    with pytest.raises(UsageError, match="if the job had a cluster_directory, its tasks' commits are there"):
        datasets.commit(scene.url, job.id, filesystem=scene.filesystem)
    job.commit()
