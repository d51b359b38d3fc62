"""A job of the manifest committer whose processes die: at every request, and for real."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from magicfs.errors import CommitDenied, MagicError, ProtocolViolation
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.testing.store_faults import Crash, Fault, Kind
from proofs.scenes.manifest_scene import ManifestScene

pytestmark = pytest.mark.slow

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


def assert_published(scene: ManifestScene) -> None:
    found = scene.visible()
    assert {name: found.pop(name) for name in OLD} == OLD
    assert sorted(found.values()) == sorted([*NEW.values(), *NEW.values()])
    assert scene.success().job_id == scene.job
    assert not scene.job_directory.exists()


@pytest.mark.parametrize("given", [True, False], ids=["the commits", "none"])
def test_a_job_commit_that_died_anywhere_is_carried_out_again(tmp_path: Path, given: bool) -> None:
    for number in range(1, 60):
        scene, commits = job(tmp_path / str(number), lost=given)
        driver = scene.driver(Fault(DIES, number=number))
        try:
            scene.run(driver.committer.commit_job(commits if given else None))
        except Crash:
            report = scene.run(scene.driver().committer.commit_job(commits if given else None))
        else:
            break
        assert (report.tasks, report.files) == (2, 6)
        assert_published(scene)
    assert 25 < number < 59, "every request was cut"


def test_what_the_first_driver_has_settled_is_what_a_second_publishes(tmp_path: Path) -> None:
    scene, commits = job(tmp_path)
    driver = scene.driver(Fault(Kind.CRASH_BEFORE, operation="make_directory"))
    with pytest.raises(Crash):
        scene.run(driver.committer.commit_job(commits))
    assert scene.run(scene.driver().committer.commit_job(None)).tasks == 2
    assert_published(scene)


def test_a_second_driver_may_die_too(tmp_path: Path) -> None:
    for first in range(8, 30, 5):
        for second in range(2, 30, 6):
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


def test_between_claim_and_end_no_task_adds_anything(tmp_path: Path) -> None:
    for number in range(2, 40, 4):
        scene, commits = job(tmp_path / str(number))
        driver = scene.driver(Fault(DIES, number=number))
        try:
            scene.run(driver.committer.commit_job(commits))
        except Crash:
            pass
        else:
            break
        with pytest.raises(CommitDenied):
            scene.commit_task(0, {"zombie": b"zombie"}, suffix="9")
        scene.run(scene.driver().committer.commit_job(commits))
        assert "zombie" not in "".join(scene.visible())
        assert len(scene.visible()) == len(OLD) + 2 * len(NEW)


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


def test_a_job_that_died_can_be_aborted_before_it_has_claimed(tmp_path: Path) -> None:
    scene, commits = job(tmp_path)
    driver = scene.driver(Fault(Kind.CRASH_BEFORE, number=1))
    with pytest.raises(Crash):
        scene.run(driver.committer.commit_job(commits))
    scene.run(scene.driver().committer.abort_job(commits))
    assert scene.visible() == OLD
    assert (scene.destination / "_SUCCESS").read_bytes() == b"old"


@pytest.mark.parametrize("number", range(1, 45, 3))
@pytest.mark.parametrize("kind", [Kind.ERROR_BEFORE, Kind.REPLY_LOST])
def test_a_store_that_fails_once_loses_nothing(tmp_path: Path, kind: Kind, number: int) -> None:
    scene, commits = job(tmp_path)
    driver = scene.driver(Fault(kind, number=number))
    try:
        scene.run(driver.committer.commit_job(commits))
    except MagicError:
        scene.run(scene.driver().committer.commit_job(commits))
    assert_published(scene)


def test_old_data_is_deleted_by_the_driver_that_goes_on_and_new_data_is_not(tmp_path: Path) -> None:
    for number in range(8, 60, 3):
        scene, commits = job(tmp_path / str(number), target_directories="delete")
        driver = scene.driver(Fault(Kind.CRASH_AFTER, number=number))
        try:
            scene.run(driver.committer.commit_job(commits))
        except Crash:
            scene.run(scene.driver().committer.commit_job(commits))
        found = scene.visible()
        assert found.pop("old") == b"old"
        assert sorted(found.values()) == sorted([*NEW.values(), *NEW.values()])


def test_a_job_that_has_ended_denies_its_late_tasks(tmp_path: Path) -> None:
    scene, commits = job(tmp_path)
    zombie = scene.write(1, {"zombie": b"z"}, suffix="9")
    scene.run(scene.driver().committer.commit_job(commits))
    with pytest.raises(FileNotFoundError):
        scene.run(scene.driver().committer.commit_task(ids.task_id(1), zombie))
    scene.write(1, {"zombie": b"z"}, suffix="9")
    with pytest.raises(CommitDenied):
        scene.run(scene.driver().committer.commit_task(ids.task_id(1), zombie))
    assert len(scene.visible()) == len(OLD) + 2 * len(NEW)
    with pytest.raises(ProtocolViolation):
        scene.run(scene.driver().committer.abort_job(commits))


# -- for real -----------------------------------------------------------------------------------------------

VICTIM = """
import asyncio, os, pickle, signal, sys
from pathlib import Path
from proofs.scenes.manifest_scene import ManifestScene

directory, job, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
commits = pickle.loads(sys.stdin.buffer.read())
scene = ManifestScene(directory, job=job, unique_names=True, concurrency=2)
driver = scene.driver()
renames = 0
tree = driver.committer.tree
real = tree.rename

async def rename(source, destination):
    global renames
    await real(source, destination)
    renames += 1
    if renames == number:
        os.kill(os.getpid(), signal.SIGKILL)

tree.rename = rename
asyncio.run(driver.committer.commit_job(commits))
"""


# The claim, six files, ``_SUCCESS``, the mark.
@pytest.mark.process
@pytest.mark.parametrize("number", [1, 2, 5, 7, 8, 9])
def test_a_driver_that_is_killed_between_renames_is_followed_by_another(tmp_path: Path, number: int) -> None:
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
    assert max(0, min(6, number - 1)) <= new <= min(6, number)
    assert (scene.destination / "_SUCCESS").exists() == (number == 1 or number >= 8)
    report = scene.run(scene.driver().committer.commit_job(commits))
    assert (report.tasks, report.files) == (2, 6)
    recovered = report.statistics.counters.get("commit_file_rename_recovered", 0)
    assert recovered == (new if number < 9 else 0)
    assert_published(scene)
