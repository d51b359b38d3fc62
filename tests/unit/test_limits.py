"""A job whose files nobody could read is refused before anything of it is visible."""

from __future__ import annotations

import json
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitFailed, UsageError
from magicfs.formats.limits import ROOM
from magicfs.formats.manifest import Manifest
from magicfs.transaction import facts, prepare
from proofs.scenes.job_scene import JobScene

MODES = ["append", "overwrite", "overwrite_partitions", "error"]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "_PAUSE_S", 0)


def made(scene: JobScene, mode: str, **options: Any) -> tuple[magicfs.Job, list[Any]]:
    if mode != "error":
        scene.published({f"p={number}/old {number}.bin": b"old" for number in range(3)})
    job = scene.job(mode, **options)
    return job, scene.wrote(job, {f'p={number}/é"{number}.bin': b"new" for number in range(20)})


def refused_and_aborted(scene: JobScene, job: magicfs.Job, commits: Any, match: str) -> None:
    before = scene.data(), scene.success()
    with pytest.raises(UsageError, match=match):
        job.commit(commits)
    assert (scene.data(), scene.success()) == before
    assert scene.state(job) in {"open", "prepared"}
    job.abort()
    assert (scene.work(), scene.uploads()) == ([], [])
    assert (scene.data(), scene.success()) == before


@pytest.mark.parametrize("mode", MODES)
def test_a_manifest_too_large_to_read_is_refused_before_the_commit_point(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = JobScene()
    job, commits = made(scene, mode)
    monkeypatch.setattr("magicfs.transaction.prepare.MANIFEST_SIZE_LIMIT", ROOM + 4000)
    refused_and_aborted(
        scene, job, commits, r"would have up to .* for 20 files .*publish fewer or larger files"
    )


def test_statistics_too_large_for_a_success_are_refused_before_the_commit_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = JobScene()
    job, commits = made(scene, "append")
    monkeypatch.setattr("magicfs.transaction.prepare.SUCCESS_SIZE_LIMIT", 1024**2 + 50)
    refused_and_aborted(scene, job, commits, "nothing was published; use fewer counters")


@pytest.mark.parametrize("mode", MODES)
def test_what_is_asked_for_a_manifest_is_a_little_more_than_it_has(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = JobScene()
    job, commits = made(scene, mode)
    asked: list[int] = []

    class Limit(int):
        def __lt__(self, size: int) -> bool:
            asked.append(size)
            return False

    monkeypatch.setattr("magicfs.transaction.prepare.MANIFEST_SIZE_LIMIT", Limit())
    job.commit(commits)
    has = len(scene.objects()[f"sales/_magicfs/{job.id}.json"][0])
    assert has <= asked[-1] <= has + ROOM + 20 * 60
    assert Manifest.from_bytes("m", scene.objects()[f"sales/_magicfs/{job.id}.json"][0])


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
@pytest.mark.parametrize("above", [False, True])
def test_a_job_object_too_large_to_read_is_refused_before_the_commit_point(
    mode: str, above: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = JobScene()
    job, commits = made(scene, mode)
    monkeypatch.setattr("magicfs.transaction.record.JOB_OBJECT_SIZE_LIMIT", ROOM + (800 if above else 8000))
    if above:
        refused_and_aborted(scene, job, commits, r"the object of job .*partitions.*nothing was published")
    else:
        assert job.commit(commits).files == 20


def test_a_reason_that_is_long_does_not_make_the_job_object_too_large() -> None:
    scene = JobScene()
    job = scene.job()
    from magicfs.protocol.job_state import Wish
    from magicfs.transaction.driver import JobTransaction

    scene.elsewhere(
        lambda engine: JobTransaction(engine, job.spec.context).finish(Wish.ABORT, reason="x" * 10**7)
    )
    assert scene.work() == []


def test_a_pending_set_too_large_to_read_fails_its_task_and_leaves_no_upload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = JobScene()
    job = scene.job()
    monkeypatch.setattr("magicfs.transaction.attempt_output.PENDINGSET_SIZE_LIMIT", 1000)
    monkeypatch.setattr("magicfs.formats.pendingset.PENDINGSET_SIZE_LIMIT", 1000)
    with pytest.raises(CommitFailed, match="write fewer or larger files in each task"):
        scene.wrote(job, {f"{number}.bin": b"x" for number in range(5)})
    assert scene.uploads() == []


def test_a_chunk_has_no_more_parts_than_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_PARTS_MAX", 4)
    scene = JobScene()
    job = scene.job(part_size=1)
    commits = scene.wrote(job, {"a": b"1", "b": b"123", "c": b"12", "d": b"123456", "e": b"1"})
    seen: list[list[int]] = []
    write = facts._chunk

    def listening(context: Any, nonce: str, name: str, raw: bytes, files: int, size: int) -> Any:
        seen.append([len(one["etags"]) for one in json.loads(raw)["commits"]])
        return write(context, nonce, name, raw, files, size)

    monkeypatch.setattr(facts, "_chunk", listening)
    assert job.commit(commits).files == 5
    assert seen == [[1, 3], [2], [6], [1]]
