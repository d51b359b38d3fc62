"""A job of the manifest committer whose processes die: at every request, and for real."""

from __future__ import annotations

import asyncio
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from magicfs.errors import CommitDenied, CommitFailed, MagicError, ProtocolViolation, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.testing.store_faults import Crash, Fault, Kind
from proofs.scenes.manifest_scene import ManifestScene
from tests.sample import Some

pytestmark = [pytest.mark.slow, pytest.mark.sample(most=1)]

OLD = {"day=1/old": b"old", "old": b"old"}
NEW = {"day=1/a": b"1", "day=2/b": b"22", "c": b"333"}
# A crash before a request leaves what one after the request before it leaves.
DIES = Kind.CRASH_AFTER


def job(directory: Path, *, lost: bool = True, **options: object) -> tuple[ManifestScene, list[TaskCommit]]:
    """Two committed tasks, and perhaps one whose commit was not accepted."""
    scene = ManifestScene(directory, unique_names=True, concurrency=2, **options)
    for name, body in OLD.items():
        (scene.destination / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.destination / name).write_bytes(body)
    (scene.destination / "_SUCCESS").write_bytes(b"old")
    scene.set_up()
    commits = [scene.commit_task(number, NEW) for number in range(2)]
    if lost:
        scene.commit_task(2, {"lost": b"lost"})
    return scene, commits


def assert_old(scene: ManifestScene) -> None:
    assert scene.visible() == OLD
    # One newline longer where it was taken away and put back.
    assert (scene.destination / "_SUCCESS").read_bytes().rstrip() == b"old"
    assert not scene.job_directory.exists()
    assert not list(scene.destination.glob("__magic*"))


def assert_published(scene: ManifestScene) -> None:
    found = scene.visible()
    assert {name: found.pop(name) for name in OLD} == OLD
    assert sorted(found.values()) == sorted([*NEW.values(), *NEW.values()])
    assert scene.success().job_id == scene.job
    assert not scene.job_directory.exists()


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("given", [True, False], ids=["the commits", "none"])
def test_a_job_commit_that_died_anywhere_is_carried_out_again(
    tmp_path: Path, given: bool, some: Some
) -> None:
    for number in some(range(1, 120), 30):
        scene, commits = job(tmp_path / str(number), lost=given)
        driver = scene.driver(Fault(DIES, number=number))
        try:
            scene.run(driver.committer.commit_job(commits if given else None))
        except Crash:
            # Once it has ended, nobody lists what its tasks had committed.
            scene.run(scene.driver().committer.commit_job(commits if given else None))
        else:
            break
        assert_published(scene)
    assert 40 < number < 119, "every request was cut"


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("how", ["recover", "rollback"])
def test_a_job_commit_that_died_anywhere_is_ended_by_recover(tmp_path: Path, how: str, some: Some) -> None:
    endings: set[str] = set()
    for number in some(range(1, 120), 30):
        scene, commits = job(tmp_path / str(number))
        driver = scene.driver(Fault(DIES, number=number))
        try:
            scene.run(driver.committer.commit_job(commits))
        except Crash:
            pass
        else:
            break
        try:
            actions = [one.action for one in scene.recover(rollback=how == "rollback").jobs]
        except UsageError:  # it has ended
            actions = ["ended"]
        except CommitDenied:  # too late to be taken back
            actions = [one.action for one in scene.recover().jobs]
        if actions == ["left"]:
            actions = [one.action for one in scene.recover(abort=True).jobs]
        endings.update(actions)
        if set(actions) & {"aborted", "reverted"}:
            assert_old(scene)
        else:
            assert_published(scene)
    assert "finished" in endings
    assert ("reverted" in endings) == (how == "rollback")
    assert "aborted" in endings


def test_a_second_process_may_die_too(tmp_path: Path) -> None:
    for first in range(8, 60, 9):
        for second in range(2, 40, 9):
            scene, commits = job(tmp_path / f"{first}-{second}")
            for number in (first, second):
                driver = scene.driver(Fault(DIES, number=number))
                try:
                    scene.run(driver.committer.commit_job(commits))
                except Crash:
                    continue
                break
            scene.run(scene.driver().committer.commit_job(commits))
            assert_published(scene)


def test_a_task_commit_that_died_anywhere_leaves_all_of_the_task_or_nothing(tmp_path: Path) -> None:
    whole = 0
    for number in range(1, 40):
        scene = ManifestScene(tmp_path / str(number))
        scene.set_up()
        driver = scene.driver(Fault(DIES, number=number))
        try:
            scene.commit_task(0, NEW, driver=driver)
        except Crash:
            pass
        else:
            break
        scene.run(scene.driver().committer.commit_job(None))
        assert scene.visible() in ({}, NEW)
        whole += bool(scene.visible())
    assert whole == 1


def test_a_setup_that_died_anywhere_is_aborted_or_taken_over(tmp_path: Path) -> None:
    for number in range(1, 60):
        scene = ManifestScene(tmp_path / str(number))
        driver = scene.driver(Fault(DIES, number=number))
        try:
            scene.run(driver.committer.setup_job())
        except Crash:
            pass
        else:
            break
        if number % 2:
            scene.set_up()
            scene.run(scene.driver().committer.commit_job([scene.commit_task(0, NEW)]))
            assert scene.visible() == NEW
        elif scene.recover().undecided:
            scene.recover(abort=True)
            assert not list(scene.destination.rglob("*"))
    assert number > 10


@pytest.mark.parametrize("number", range(1, 70, 4))
@pytest.mark.parametrize("kind", [Kind.ERROR_BEFORE, Kind.REPLY_LOST])
def test_a_store_that_fails_once_loses_nothing(tmp_path: Path, kind: Kind, number: int) -> None:
    scene, commits = job(tmp_path)
    driver = scene.driver(Fault(kind, number=number))
    try:
        report = scene.run(driver.committer.commit_job(commits))
        if any("recover" in one or "cleaning up" in one for one in report.warnings):
            scene.recover()
    except CommitFailed:
        raise
    except MagicError:
        scene.run(scene.driver().committer.commit_job(commits))
    assert_published(scene)


@pytest.mark.parametrize("kind", [Kind.REPLY_LOST, Kind.REFUSED])
def test_a_rename_whose_answer_was_lost_is_told_from_one_that_did_not_happen(
    tmp_path: Path, kind: Kind
) -> None:
    scene, commits = job(tmp_path)
    driver = scene.driver(Fault(kind, operation="rename", times=None))
    report = scene.run(driver.committer.commit_job(commits))
    assert (report.files, report.warnings) == (6, ())
    assert_published(scene)


def test_a_rename_that_is_on_its_way_when_its_job_is_taken_back_brings_nothing(tmp_path: Path) -> None:
    scene, commits = job(tmp_path)
    late = scene.driver(Fault(Kind.LATE, operation="rename", seconds=0.3))

    async def overtaken() -> None:
        with pytest.raises(MagicError):
            await late.committer.commit_job(commits)
        await asyncio.to_thread(scene.recover, rollback=True)
        await late.traffic.settle()

    asyncio.run(overtaken())
    assert_old(scene)


def test_a_job_that_has_ended_denies_its_late_tasks(tmp_path: Path) -> None:
    scene, commits = job(tmp_path)
    zombie = scene.write(1, {"zombie": b"z"}, suffix="9")
    scene.run(scene.driver().committer.commit_job(commits))
    scene.write(1, {"zombie": b"z"}, suffix="9")
    with pytest.raises(CommitDenied):
        scene.run(scene.driver().committer.commit_task(ids.task_id(1), zombie))
    assert len(scene.visible()) == len(OLD) + 2 * len(NEW)
    assert not list(scene.destination.rglob("zombie*"))
    with pytest.raises(ProtocolViolation):
        scene.run(scene.driver().committer.abort_job(commits))


# -- for real -----------------------------------------------------------------------------------------------

VICTIM = """
import asyncio, os, pickle, signal, sys
from pathlib import Path
from magicfs.stores.local.tree import LocalTree
from proofs.scenes.manifest_scene import ManifestScene

directory, job, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
commits = pickle.loads(sys.stdin.buffer.read())
scene = ManifestScene(directory, job=job, unique_names=True, concurrency=2)
renames = 0
real = LocalTree._rename

def rename(self, source, destination):
    global renames
    real(self, source, destination)
    renames += 1
    if renames == number:
        os.kill(os.getpid(), signal.SIGKILL)

LocalTree._rename = rename
asyncio.run(scene.driver().committer.commit_job(commits))
"""


@pytest.mark.process
@pytest.mark.parametrize("number", [1, 2, 5, 6])
@pytest.mark.parametrize("rollback", [False, True], ids=["finished", "rolled back"])
def test_a_driver_that_is_killed_between_renames_is_followed_by_another(
    tmp_path: Path, number: int, rollback: bool
) -> None:
    scene, commits = job(tmp_path / "data")
    killed = subprocess.run(
        [sys.executable, "-W", "error", "-c", VICTIM, str(scene.directory), scene.job, str(number)],
        input=pickle.dumps(commits),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    new = len(scene.visible()) - len(OLD)
    # Two renames are under way at once.
    assert number - 1 <= new <= min(6, number + 1)
    assert not (scene.destination / "_SUCCESS").exists()
    (done,) = scene.recover(rollback=rollback).jobs
    assert done.action == ("reverted" if rollback else "finished")
    if rollback:
        assert_old(scene)
    else:
        assert_published(scene)
