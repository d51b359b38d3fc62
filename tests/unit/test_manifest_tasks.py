"""What tasks of the manifest committer do: scan, save, commit, abort."""

from __future__ import annotations

from pathlib import Path

import pytest

from magicfs.committers.renaming.scan import NameCheck, scan
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    ObjectNotFound,
    ProtocolViolation,
    StoreError,
)
from magicfs.formats.hadoop_uri import decode
from magicfs.formats.task_manifest import EntryStatus, TaskManifest
from magicfs.protocol import ids
from magicfs.stores.local.tree import LocalTree
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.manifest_scene import Driver, ManifestScene

TASK = ids.task_id(0)
ATTEMPT = ids.attempt_id(TASK, "0")
_LIMIT = 5


@pytest.fixture
def scene(tmp_path: Path) -> ManifestScene:
    return ManifestScene(tmp_path)


def scanned(scene: ManifestScene, driver: Driver) -> TaskManifest:
    committer = driver.committer
    return scene.run(
        scan(
            committer.tree,
            committer.context,
            NameCheck(committer._manifests.places, TASK, committer._final_key, 255),
            ATTEMPT,
            counters={"rows": 3},
        )
    )


# -- setup -----------------------------------------------------------------------------------------------


def test_133_job_setup_makes_the_directory_of_manifests(scene: ManifestScene) -> None:
    scene.set_up()
    job = f"_temporary/{scene.job}"
    assert [one for one in scene.everything() if one.startswith("_temporary")] == [
        *("_temporary", job, f"{job}/00", f"{job}/00/manifests"),
    ]


def test_133_job_setup_again_takes_the_job_over(scene: ManifestScene) -> None:
    first = scene.driver()
    old = scene.run(first.committer.setup_job())
    scene.set_up()
    only = scene.commit_task(0, {"a": b"1"})
    with pytest.raises(CommitDenied):
        scene.run(first.committer.commit_job([only], old.driver))
    assert scene.visible() == {}


def test_job_setup_that_cannot_make_the_directory_leaves_nothing(scene: ManifestScene) -> None:
    denied = scene.driver(Fault(Kind.ERROR_BEFORE, operation="make_directory", times=None))
    with pytest.raises(StoreError):
        scene.run(denied.committer.setup_job())
    # A silent store is not asked more: whoever recovers finds the job.
    assert [one.action for one in scene.recover(abort=True).jobs] == ["aborted"]
    assert scene.everything() == []


def test_134_a_task_of_an_aborted_job_is_denied_and_leaves_nothing(scene: ManifestScene) -> None:
    driver = scene.set_up()
    scene.write(0, {"a": b"1"})
    scene.run(driver.committer.abort_job(()))
    scene.write(0, {"a": b"late"})
    with pytest.raises(CommitDenied, match="comes too late"):
        scene.run(driver.committer.commit_task(TASK, ATTEMPT))
    assert not list(scene.destination.rglob("a"))


# -- scan ------------------------------------------------------------------------------------------------


def test_139_an_attempt_without_a_directory_wrote_nothing(scene: ManifestScene) -> None:
    driver = scene.set_up()
    assert not scene.run(driver.committer.needs_task_commit(ATTEMPT))
    commit = scene.run(driver.committer.commit_task(TASK, ATTEMPT))
    assert (commit.files, scene.manifest(0).files, scene.manifest(0).directories) == (0, (), ())
    assert scene.run(driver.committer.commit_job([commit])).files == 0
    assert scene.success().filenames == ()


def test_an_attempt_that_wrote_something_needs_a_commit(scene: ManifestScene) -> None:
    driver = scene.set_up()
    assert scene.run(driver.committer.needs_task_commit(scene.write(1, {"a": b""})))


def test_scan_tells_files_and_directories_with_what_lies_at_their_destination(scene: ManifestScene) -> None:
    (scene.destination / "there" / "deep").mkdir(parents=True)
    (scene.destination / "file").write_bytes(b"in the way")
    driver = scene.set_up()
    names = {"a": b"1", "there/b": b"22", "there/deep/c": b"", "new/er/d": b"333", "file/e": b"4"}
    scene.write(0, names)
    manifest = scanned(scene, driver)
    destination = f"file://{scene.destination}"
    files = {decode(one.destination).removeprefix(f"{destination}/"): one for one in manifest.files}
    assert {name: one.size for name, one in files.items()} == {n: len(body) for n, body in names.items()}
    assert all(one.etag for one in files.values())
    assert [decode(one.source) for one in files.values()] == [
        f"file://{scene.work_directory(ATTEMPT)}/{name}" for name in files
    ]
    found = {decode(one.path).removeprefix(f"{destination}/"): one for one in manifest.directories}
    assert {name: (EntryStatus(one.status).name, one.level) for name, one in found.items()} == {
        "file": ("FILE", 1),
        "new": ("NOT_FOUND", 1),
        "new/er": ("NOT_FOUND", 2),
        "there": ("DIR", 1),
        "there/deep": ("DIR", 2),
    }
    assert manifest.statistics.counters == {"rows": 3}
    means = manifest.statistics.meanstatistics
    assert (means["committer_task_file_size"].samples, means["committer_task_file_size"].sum) == (5, 7)
    assert list(found).index("new") < list(found).index("new/er")


def test_below_a_missing_destination_directory_nothing_is_looked_at(scene: ManifestScene) -> None:
    scene.set_up()
    driver = scene.driver()
    scene.write(0, {"new/er/deep/d": b"", "newer/e": b""})
    scanned(scene, driver)
    looks = [key.rpartition("dest")[2] for key in driver.operations("look")]
    assert looks == ["", "/new", "/newer"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("_temporary/x", "such names are reserved for committers"),
        ("d/" + "ü" * 120, "the limit is 255"),
    ],
)
def test_a_name_that_cannot_be_published_fails_its_task_and_leaves_nothing(
    tmp_path: Path, name: str, problem: str
) -> None:
    scene = ManifestScene(tmp_path, unique_names=True)
    scene.set_up()
    before = scene.everything()
    with pytest.raises(CommitFailed, match=problem) as caught:
        scene.commit_task(0, {name: b"x", "b": b""})
    assert len(caught.value.failed) == 1
    assert scene.everything() == [*before, f"_temporary/{scene.job}/00/tasks"]


def test_a_name_that_is_no_unicode_fails_its_task(scene: ManifestScene) -> None:
    scene.set_up()
    driver = scene.driver()
    driver.committer.tree = LocalTree()  # the faulty one writes such names down
    with pytest.raises(CommitFailed, match="not valid Unicode"):
        scene.commit_task(0, {"a\udcff": b"x"}, driver=driver)
    assert not scene.work_directory(ATTEMPT).exists()


def test_hidden_files_are_published_as_by_hadoop(scene: ManifestScene) -> None:
    driver = scene.set_up()
    commit = scene.commit_task(0, {"_metadata": b"m", ".part.crc": b"c"})
    scene.run(driver.committer.commit_job([commit]))
    there = [one for one in scene.everything() if not one.startswith("_magicfs")]
    assert there == [".part.crc", "_SUCCESS", "_metadata"]


# -- save ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["delete_tree", "write", "rename"])
@pytest.mark.parametrize("kind", [Kind.ERROR_BEFORE, Kind.REPLY_LOST])
def test_140_failing_one_time_less_than_the_limit_is_fine_and_counted(
    scene: ManifestScene, operation: str, kind: Kind
) -> None:  # 142: the deletion of the temporary file is one of the operations
    scene.set_up()
    driver = scene.driver(Fault(kind, operation=operation, times=_LIMIT - 1))
    scene.commit_task(0, {"a": b"1"}, driver=driver)
    # A rename whose reply was lost is recognised, and no failure.
    failures = 0 if (operation, kind) == ("rename", Kind.REPLY_LOST) else _LIMIT - 1
    counted = scene.manifest(0).statistics.counters
    assert counted.get("task_stage_save_task_manifest.failures", 0) == failures
    assert counted["task_stage_save_task_manifest"] == failures + 1
    assert not list(scene.job_directory.glob("00/*.tmp"))


@pytest.mark.parametrize("operation", ["delete_tree", "write", "rename"])
def test_140_a_task_whose_commit_is_not_answered_can_be_committed_again(
    scene: ManifestScene, operation: str
) -> None:
    scene.set_up()
    lost = scene.driver(Fault(Kind.ERROR_BEFORE, operation=operation, times=_LIMIT))
    with pytest.raises(CommitOutcomeUnknown, match="commit the task again") as caught:
        scene.commit_task(0, {"a": b"1"}, driver=lost)
    assert caught.value.__cause__ is not None
    assert f"in each of {_LIMIT} attempts" in caught.value.__cause__.__notes__[0]
    assert not scene.manifest_path(0).exists()
    assert (scene.work_directory(ATTEMPT) / "a").read_bytes() == b"1"
    assert scene.run(lost.committer.commit_task(TASK, ATTEMPT)).files == 1


def test_140_the_limit_is_an_option(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, save_attempts=1)
    scene.set_up()
    lost = scene.driver(Fault(Kind.ERROR_BEFORE, operation="rename"))
    with pytest.raises(CommitOutcomeUnknown):
        scene.commit_task(0, {"a": b"1"}, driver=lost)


def test_pauses_grow_with_every_failure(scene: ManifestScene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.set_up()
    driver = scene.driver(Fault(Kind.ERROR_BEFORE, operation="write", times=3))
    driver.committer.pause_s = 0.5
    waited = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("magicfs.committers.renaming.base.asyncio.sleep", sleep)
    scene.commit_task(0, {"a": b"1"}, driver=driver)
    assert [one for one in waited if one] == [0.5, 1.0, 1.5]


def test_144_a_directory_at_the_temporary_path_is_replaced(scene: ManifestScene) -> None:
    driver = scene.set_up()
    temporary = Path("/" + driver.committer._manifests.places.temporary_manifest(ATTEMPT))
    (temporary / "child").mkdir(parents=True)
    scene.commit_task(0, {"a": b"1"})
    assert scene.manifest(0).attempt_id == ATTEMPT
    assert not temporary.exists()


# -- which attempt counts --------------------------------------------------------------------------------


def test_135_of_two_attempts_the_one_that_was_accepted_counts_or_else_the_last(scene: ManifestScene) -> None:
    for accepted in (0, 1, None):
        scene = ManifestScene(scene.directory / str(accepted))
        driver = scene.set_up()
        both = [scene.commit_task(0, {"a": f"{n}".encode()}, suffix=str(n)) for n in range(2)]
        chosen = None if accepted is None else [both[accepted]]
        scene.run(driver.committer.commit_job(chosen))
        assert scene.visible() == {"a": str(1 if accepted is None else accepted).encode()}


def test_a_second_commit_of_an_attempt_returns_the_first(scene: ManifestScene) -> None:
    scene.set_up()
    first = scene.commit_task(0, {"a": b"1"})
    (scene.work_directory(ATTEMPT) / "b").write_bytes(b"written since")
    assert scene.run(scene.driver().committer.commit_task(TASK, ATTEMPT)) == first
    assert first.files == 1


def test_a_task_that_commits_and_was_not_accepted_adds_nothing(scene: ManifestScene) -> None:
    driver = scene.set_up()
    only = scene.commit_task(0, {"a": b"1"})
    scene.commit_task(1, {"late": b"x"})
    report = scene.run(driver.committer.commit_job([only]))
    assert (report.files, scene.visible()) == (1, {"a": b"1"})
    assert not (scene.destination / "_temporary").exists()


# -- abort -----------------------------------------------------------------------------------------------


def test_an_aborted_attempt_leaves_nothing_and_a_second_abort_does_nothing(scene: ManifestScene) -> None:
    driver = scene.set_up()
    scene.write(0, {"a": b"1"})
    for _ in range(2):
        scene.run(driver.committer.abort_task(ATTEMPT))
        assert not scene.work_directory(ATTEMPT).exists()


def test_an_aborted_attempt_takes_its_own_manifest_with_it_and_no_others(scene: ManifestScene) -> None:
    driver = scene.set_up()
    scene.commit_task(0, {"a": b"1"})
    kept = scene.commit_task(0, {"a": b"2"}, suffix="1")
    scene.run(driver.committer.abort_task(ATTEMPT))
    assert not scene.manifest_path(0).exists()
    scene.run(driver.committer.commit_job(None))
    assert scene.visible() == {"a": b"2"}
    assert kept.attempt_id != ATTEMPT


def test_an_attempt_that_is_being_published_is_not_aborted(scene: ManifestScene) -> None:
    scene.set_up()
    only = scene.commit_task(0, {"a": b"1"})
    dead = scene.driver(Fault(Kind.CRASH_BEFORE, operation="rename"))
    with pytest.raises(BaseException, match="is dead"):
        scene.run(dead.committer.commit_job([only]))
    with pytest.raises(ProtocolViolation, match="leave it to the job commit"):
        scene.run(scene.driver().committer.abort_task(ATTEMPT))
    assert [one.action for one in scene.recover().jobs] == ["finished"]
    assert scene.visible() == {"a": b"1"}


def test_a_failed_commit_tells_that_its_files_could_not_be_deleted(scene: ManifestScene) -> None:
    scene.set_up()
    driver = scene.driver(Fault(Kind.ERROR_BEFORE, operation="delete_tree", times=None))
    with pytest.raises(CommitFailed) as caught:
        scene.commit_task(0, {"_temporary/x": b""}, driver=driver)
    assert "and its files could not be deleted" in caught.value.__notes__[0]


def test_scan_that_meets_a_hole_below_the_attempt_says_so(scene: ManifestScene) -> None:
    driver = scene.set_up()
    scene.write(0, {"d/a": b"1"})
    real = driver.committer.tree

    class Hole(LocalTree):
        async def entries(self, path: str):  # type: ignore[no-untyped-def]
            if path.endswith("/d"):
                raise ObjectNotFound("entries", path, "no such directory")
            async for one in real.entries(path):
                yield one

    driver.committer.tree = Hole()
    with pytest.raises(ObjectNotFound):
        scanned(scene, driver)
