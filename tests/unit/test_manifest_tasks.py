"""The manifest committer's stages of tasks: setup, scan, save, abort."""

from __future__ import annotations

from pathlib import Path

import pytest

from magicfs.committers.manifest.save import SaveTaskManifest, save
from magicfs.committers.manifest.setup import SetupJob, SetupTask
from magicfs.committers.manifest.stage import Stage
from magicfs.committers.manifest.tasks import AbortTask, CommitTask, ScanTaskAttempt
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    ObjectExists,
    ObjectNotFound,
    ProtocolViolation,
    Unavailable,
)
from magicfs.formats.hadoop_uri import decode
from magicfs.formats.task_manifest import EntryStatus
from magicfs.protocol import ids
from magicfs.stores.local_tree import LocalTree
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.manifest_scene import ManifestScene

TASK = ids.task_id(0)
ATTEMPT = ids.attempt_id(TASK, "0")


@pytest.fixture
def scene(tmp_path: Path) -> ManifestScene:
    return ManifestScene(tmp_path)


# -- setup -----------------------------------------------------------------------------------------------


def test_133_job_setup_makes_the_attempts_directories(scene: ManifestScene) -> None:
    scene.set_up()
    job = f"_temporary/{scene.job}"
    assert scene.everything() == ["_temporary", job, f"{job}/00", f"{job}/00/manifests"]


def test_133_job_setup_of_the_same_attempt_fails_and_of_a_new_one_does_not(scene: ManifestScene) -> None:
    scene.set_up()
    before = scene.everything()
    with pytest.raises(CommitDenied, match=r"^Job setup: .* exists"):
        scene.set_up()
    assert scene.everything() == before
    scene.set_up(attempt=1)
    assert (scene.job_directory / "01" / "manifests").is_dir()
    (scene.job_directory / "00" / "manifests-superseded").rmdir()
    (scene.job_directory / "00").rmdir()
    with pytest.raises(CommitDenied, match=r"^Job setup: attempt 1 .* has been set up already, so attempt 0"):
        scene.set_up()


def test_133_task_setup_twice_fails(scene: ManifestScene) -> None:
    driver = scene.set_up()
    scene.run(SetupTask(driver.config()).run(ATTEMPT))
    assert scene.work_directory(ATTEMPT).is_dir()
    with pytest.raises(ObjectExists, match="set up already"):
        scene.run(SetupTask(driver.config()).run(ATTEMPT))


def test_job_setup_survives_others_who_remove_what_they_shared(scene: ManifestScene) -> None:
    driver = scene.driver()
    tree = driver.committer.tree
    calls = []
    real = tree.make_directory

    async def make_directory(path: str) -> None:
        calls.append(path)
        if len(calls) < 3:
            raise ObjectNotFound("make_directory", path, "a parent went away")
        await real(path)

    tree.make_directory = make_directory  # type: ignore[method-assign]
    scene.run(SetupJob(driver.config()).run(None))
    assert len(calls) == 3
    assert scene.manifest_path(0).parent.is_dir()


def test_a_stage_runs_once(scene: ManifestScene) -> None:
    stage: Stage[None, None] = SetupJob(scene.driver().config())
    scene.run(stage.run(None))
    with pytest.raises(ProtocolViolation, match="attempted twice"):
        scene.run(stage.run(None))


# -- scan ------------------------------------------------------------------------------------------------


def test_134_a_task_of_an_aborted_job_finds_no_directory_and_writes_no_manifest(scene: ManifestScene) -> None:
    driver = scene.set_up()
    scene.run(SetupTask(driver.config()).run(ATTEMPT))
    scene.run(driver.committer.abort_job(()))
    with pytest.raises(FileNotFoundError):
        scene.run(driver.committer.commit_task(TASK, ATTEMPT))
    assert scene.everything() == []


def test_139_scan_of_a_missing_directory_finds_no_file(scene: ManifestScene) -> None:
    driver = scene.set_up()
    with pytest.raises(FileNotFoundError):
        scene.run(ScanTaskAttempt(driver.config()).run((TASK, ATTEMPT)))


def test_139_an_empty_directory_is_an_empty_manifest_and_the_job_has_no_filenames(
    scene: ManifestScene,
) -> None:
    driver = scene.set_up()
    scene.run(SetupTask(driver.config()).run(ATTEMPT))
    commit = scene.run(driver.committer.commit_task(TASK, ATTEMPT))
    assert (commit.files, scene.manifest(0).files, scene.manifest(0).directories) == (0, (), ())
    assert scene.run(driver.committer.commit_job([commit])).files == 0
    assert scene.success().filenames == ()
    assert scene.everything() == ["_SUCCESS"]


def test_an_attempt_that_wrote_nothing_has_no_directory_and_commits_nothing(scene: ManifestScene) -> None:
    driver = scene.set_up()
    assert not scene.run(driver.committer.needs_task_commit(ATTEMPT))
    assert scene.run(driver.committer.commit_task(TASK, ATTEMPT)).files == 0
    scene.write(1, {"a": b""})
    assert scene.run(driver.committer.needs_task_commit(ids.attempt_id(ids.task_id(1), "0")))


def test_scan_tells_files_and_directories_with_what_lies_at_their_destination(scene: ManifestScene) -> None:
    (scene.destination / "there" / "deep").mkdir(parents=True)
    (scene.destination / "file").write_bytes(b"in the way")
    driver = scene.set_up()
    names = {"a": b"1", "there/b": b"22", "there/deep/c": b"", "new/er/d": b"333", "file/e": b"4"}
    scene.write(0, names)
    manifest = scene.run(ScanTaskAttempt(driver.config()).run((TASK, ATTEMPT)))
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
    assert manifest.statistics.counters == {}
    assert list(found).index("new") < list(found).index("new/er")


def test_below_a_missing_destination_directory_nothing_is_looked_at(scene: ManifestScene) -> None:
    driver = scene.set_up()
    scene.write(0, {"new/er/deep/d": b"", "newer/e": b""})
    scene.run(ScanTaskAttempt(driver.config()).run((TASK, ATTEMPT)))
    looks = [key.rpartition("dest")[2] for key in driver.operations("look")[1:]]
    assert looks == ["", "/new", "/newer"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("_temporary/x", "committers keep their work"),
        ("d/" + "ü" * 120, "at most 255 are possible"),
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
    with pytest.raises(CommitFailed, match="no valid Unicode"):
        scene.commit_task(0, {"a\udcff": b"x"}, driver=driver)
    assert not scene.work_directory(ATTEMPT).exists()


def test_hidden_files_are_published_as_by_hadoop(scene: ManifestScene) -> None:
    driver = scene.set_up()
    commit = scene.commit_task(0, {"_metadata": b"m", ".part.crc": b"c"})
    scene.run(driver.committer.commit_job([commit]))
    assert scene.everything() == [".part.crc", "_SUCCESS", "_metadata"]


# -- save ------------------------------------------------------------------------------------------------


def saving(scene: ManifestScene, *faults: Fault) -> SaveTaskManifest:
    scene.set_up()
    scene.write(0, {"a": b"1"})
    config = scene.driver(*faults).config()
    return SaveTaskManifest(config)


def scanned(scene: ManifestScene):
    return scene.run(ScanTaskAttempt(scene.driver().config()).run((TASK, ATTEMPT)))


_SAVING = ["delete_tree", "write", "rename"]
_LIMIT = 5


@pytest.mark.parametrize("operation", _SAVING)
@pytest.mark.parametrize("kind", [Kind.ERROR_BEFORE, Kind.REPLY_LOST])
def test_140_failing_one_time_less_than_the_limit_is_fine_and_counted(
    scene: ManifestScene, operation: str, kind: Kind
) -> None:  # 142: the deletion of the temporary file is one of the operations
    stage = saving(scene, Fault(kind, operation=operation, times=_LIMIT - 1))
    saved = scene.run(stage.run(scanned(scene)))
    assert scene.manifest(0) == saved.manifest
    # A rename whose reply was lost is recognised, and no failure.
    failures = 0 if (operation, kind) == ("rename", Kind.REPLY_LOST) else _LIMIT - 1
    counted = saved.manifest.statistics.counters.get("task_stage_save_task_manifest.failures", 0)
    assert counted == failures
    assert not list(scene.job_directory.glob("00/*.tmp"))


@pytest.mark.parametrize("operation", _SAVING)
def test_140_failing_as_often_as_the_limit_raises_what_came_last(
    scene: ManifestScene, operation: str
) -> None:
    stage = saving(scene, Fault(Kind.ERROR_BEFORE, operation=operation, times=_LIMIT))
    with pytest.raises(Unavailable, match="as the test wants") as caught:
        scene.run(stage.run(scanned(scene)))
    assert f"in each of {_LIMIT} attempts" in caught.value.__notes__[0]
    assert not scene.manifest_path(0).exists()


def test_140_the_limit_is_an_option(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, save_attempts=1)
    stage = saving(scene, Fault(Kind.ERROR_BEFORE, operation="rename"))
    with pytest.raises(Unavailable):
        scene.run(stage.run(scanned(scene)))


def test_140_a_task_whose_commit_is_not_answered_can_be_committed_again(scene: ManifestScene) -> None:
    scene.set_up()
    lost = scene.driver(Fault(Kind.ERROR_BEFORE, operation="rename", times=_LIMIT))
    with pytest.raises(CommitOutcomeUnknown, match="commit the task again"):
        scene.commit_task(0, {"a": b"1"}, driver=lost)
    assert (scene.work_directory(ATTEMPT) / "a").read_bytes() == b"1"
    assert scene.run(lost.committer.commit_task(TASK, ATTEMPT)).files == 1


def test_pauses_grow_with_every_failure(scene: ManifestScene, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = saving(scene, Fault(Kind.ERROR_BEFORE, operation="write", times=3))
    stage.config.pause_s = 0.5
    waited = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    manifest = scanned(scene)
    monkeypatch.setattr("magicfs.committers.manifest.save.asyncio.sleep", sleep)
    scene.run(stage.run(manifest))
    assert [one for one in waited if one] == [0.5, 1.0, 1.5]


def test_141_a_directory_at_the_path_that_cannot_be_deleted_at_first_is_deleted_later(
    scene: ManifestScene,
) -> None:  # 143
    stage = saving(scene, Fault(Kind.ERROR_BEFORE, operation="delete_tree", skip=1, times=1))
    (scene.manifest_path(0) / "child").mkdir(parents=True)
    saved = scene.run(stage.run(scanned(scene)))
    assert scene.manifest_path(0).is_file()
    assert saved.manifest.statistics.counters["task_stage_save_task_manifest.failures"] == 1


def test_143_a_directory_at_the_path_is_replaced(scene: ManifestScene) -> None:
    stage = saving(scene)
    (scene.manifest_path(0) / "child").mkdir(parents=True)
    scene.run(stage.run(scanned(scene)))
    assert scene.manifest(0).attempt_id == ATTEMPT


def test_144_a_directory_at_the_temporary_path_is_replaced(scene: ManifestScene) -> None:
    stage = saving(scene)
    temporary = scene.directory.parent / Path("/" + stage.config.places.temporary_manifest(ATTEMPT))
    (temporary / "child").mkdir(parents=True)
    scene.run(stage.run(scanned(scene)))
    assert scene.manifest(0).attempt_id == ATTEMPT
    assert not temporary.exists()


def test_an_old_manifest_is_never_missing_while_it_is_replaced(scene: ManifestScene) -> None:
    scene.set_up()
    scene.commit_task(0, {"a": b"first"})
    lost = scene.driver(Fault(Kind.ERROR_BEFORE, operation="rename", times=_LIMIT))
    with pytest.raises(CommitOutcomeUnknown):
        scene.commit_task(0, {"a": b"second"}, suffix="1", driver=lost)
    assert scene.manifest(0).attempt_id == ATTEMPT
    assert "delete" not in {request.operation for request in lost.traffic.log}


def test_content_that_cannot_be_made_is_not_tried_again(scene: ManifestScene) -> None:
    driver = scene.set_up()
    calls = []

    def content() -> bytes:
        calls.append(1)
        raise ValueError("no content")

    with pytest.raises(ValueError, match="no content"):
        scene.run(
            save(driver.config(), "x", f"{scene.destination}/x"[1:], f"{scene.destination}/y"[1:], content)
        )
    assert len(calls) == 1


# -- which attempt counts --------------------------------------------------------------------------------


def test_135_the_last_attempt_of_a_task_that_commits_wins(scene: ManifestScene) -> None:
    scene.set_up()
    scene.commit_task(0, {"a": b"TA00", "old": b"TA00"}, suffix="00")
    last = scene.commit_task(0, {"a": b"TA01"}, suffix="01")
    other = scene.commit_task(1, {"b": b"TA10"}, suffix="10")
    assert scene.manifest(0).attempt_id == last.attempt_id
    assert scene.manifest(1).attempt_id == other.attempt_id
    driver = scene.driver()
    assert scene.run(driver.committer.committed_tasks()) == ["000000", "000001"]
    scene.run(driver.committer.commit_job(None))
    assert scene.visible() == {"a": b"TA01", "b": b"TA10"}


def test_a_task_that_comes_after_the_claim_is_denied_and_leaves_nothing(scene: ManifestScene) -> None:
    driver = scene.set_up()
    manifests = scene.manifest_path(0).parent
    manifests.rename(f"{manifests}-committing")
    with pytest.raises(CommitDenied, match="comes too late"):
        scene.commit_task(0, {"a": b"late"})
    assert not manifests.exists()
    assert not scene.work_directory(ATTEMPT).exists()
    scene.run(driver.committer.commit_job(None))
    assert scene.visible() == {}


@pytest.mark.parametrize("operation", ["delete_tree", "write", "rename"])
def test_a_task_that_comes_between_its_own_look_and_its_rename_is_denied(
    scene: ManifestScene, operation: str
) -> None:
    driver = scene.set_up()
    manifests = scene.manifest_path(0).parent
    late = scene.driver()
    real = getattr(late.committer.tree, operation)

    async def claimed_first(*arguments: object) -> object:
        if manifests.exists():
            manifests.rename(f"{manifests}-committing")
        return await real(*arguments)

    setattr(late.committer.tree, operation, claimed_first)
    with pytest.raises(CommitDenied, match="comes too late"):
        scene.commit_task(0, {"a": b"late"}, driver=late)
    assert not manifests.exists()
    scene.run(driver.committer.commit_job(None))
    assert scene.everything() == ["_SUCCESS"]


def test_a_second_commit_of_what_is_being_published_returns_the_first_and_deletes_nothing(
    scene: ManifestScene,
) -> None:
    scene.set_up()
    first = scene.commit_task(0, {"a": b"1", "b": b"22"})
    manifests = scene.manifest_path(0).parent
    manifests.rename(f"{manifests}-committing")
    (scene.work_directory(ATTEMPT) / "a").rename(scene.destination / "a")
    again = scene.run(scene.driver().committer.commit_task(TASK, ATTEMPT))
    assert again == first
    with pytest.raises(ProtocolViolation, match="is being published"):
        scene.run(scene.driver().committer.abort_task(ATTEMPT))
    assert (scene.work_directory(ATTEMPT) / "b").exists()


# -- abort -----------------------------------------------------------------------------------------------


def test_an_aborted_attempt_leaves_nothing_and_a_second_abort_does_nothing(scene: ManifestScene) -> None:
    driver = scene.set_up()
    before = scene.everything()
    scene.write(0, {"a": b"", "d/b": b""})
    for _ in range(2):
        scene.run(driver.committer.abort_task(ATTEMPT))
    assert scene.everything() == [*before, f"_temporary/{scene.job}/00/tasks"]
    scene.run(AbortTask(driver.config()).run(ids.check_attempt("no_attempt_of_ours")))


def test_an_aborted_attempt_takes_its_own_manifest_with_it_and_no_others(scene: ManifestScene) -> None:
    driver = scene.set_up()
    lost = scene.commit_task(0, {"a": b"lost"})
    kept = scene.commit_task(1, {"b": b"kept"})
    scene.commit_task(2, {"c": b"first"}, suffix="1")
    scene.commit_task(2, {"c": b"last"}, suffix="2")
    scene.run(driver.committer.abort_task(lost.attempt_id))
    scene.run(driver.committer.abort_task(ids.attempt_id(ids.task_id(2), "1")))
    assert scene.run(driver.committer.committed_tasks()) == [kept.task_id, "000002"]
    scene.run(driver.committer.commit_job(None))
    assert scene.visible() == {"b": b"kept", "c": b"last"}


def test_an_abort_that_meets_the_manifest_of_another_attempt_puts_it_back(scene: ManifestScene) -> None:
    scene.set_up()
    lost = scene.commit_task(0, {"a": b"lost"})
    driver = scene.driver()
    real = driver.committer.tree.rename

    async def rename(source: str, destination: str) -> None:
        if not (scene.work_directory(ids.attempt_id(TASK, "1"))).exists():
            manifest = scene.manifest_path(0).read_bytes()
            attempt = scene.write(0, {"a": b"kept"}, suffix="1")
            scene.manifest_path(0).write_bytes(manifest.replace(lost.attempt_id.encode(), attempt.encode()))
        await real(source, destination)

    driver.committer.tree.rename = rename  # type: ignore[method-assign]
    scene.run(driver.committer.abort_task(lost.attempt_id))
    assert scene.manifest(0).attempt_id == ids.attempt_id(TASK, "1")
    assert not list(scene.job_directory.glob("00/*aborted"))


def test_a_failed_commit_deletes_the_attempts_files(scene: ManifestScene) -> None:
    scene.set_up()
    config = scene.driver().config()
    config.final_key = lambda relative, task: f"{config.places.destination}/one name for all"
    scene.write(0, {"a": b"", "b": b""})
    with pytest.raises(CommitFailed, match="two files whose final name"):
        scene.run(CommitTask(config).run((TASK, ATTEMPT)))
    assert not scene.work_directory(ATTEMPT).exists()


def test_a_failed_commit_tells_that_its_files_could_not_be_deleted(scene: ManifestScene) -> None:
    scene.set_up()
    driver = scene.driver(Fault(Kind.ERROR_BEFORE, operation="delete_tree", times=None))
    with pytest.raises(CommitFailed) as caught:
        scene.commit_task(0, {"_temporary/a": b""}, driver=driver)
    assert "its files could not be deleted" in caught.value.__notes__[0]
