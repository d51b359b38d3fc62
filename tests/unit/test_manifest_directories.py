"""The manifest committer's stages for destination directories, and for data that lies in them already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from magicfs.committers.manifest.directories import Created, CreateDirectories, leaves_of
from magicfs.committers.manifest.load import Directory
from magicfs.errors import CommitFailed, OutputExists, Unavailable
from magicfs.formats.task_manifest import EntryStatus
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.manifest_scene import ManifestScene


@pytest.fixture
def scene(tmp_path: Path) -> ManifestScene:
    made = ManifestScene(tmp_path, delete_obstacles=True)
    made.destination.mkdir()
    return made


def wanted(scene: ManifestScene, **statuses: str) -> dict[str, Directory]:
    """Directories by relative name, ``__`` for a slash."""
    root = str(scene.destination)[1:]
    return {
        f"{root}/{name.replace('__', '/')}": Directory(EntryStatus[status], name.count("__") + 1)
        for name, status in statuses.items()
    }


def create(scene: ManifestScene, directories: dict[str, Directory], *faults: Fault) -> tuple[Created, Any]:
    driver = scene.driver(*faults)
    config = driver.config()
    result = scene.run(CreateDirectories(config).run(directories))
    assert config.counts["job_stage_create_target_dirs"] == 1
    deleted = len(driver.operations("delete"))
    assert config.counts["op_delete_file_under_destination"] == deleted
    return result, driver


def names(scene: ManifestScene, keys: Any) -> Any:
    root = f"{scene.destination}/"[1:]
    if isinstance(keys, dict):
        return {key.removeprefix(root): value for key, value in keys.items()}
    return sorted(key.removeprefix(root) for key in keys)


def test_150_only_leaves_are_made(scene: ManifestScene) -> None:
    directories = wanted(
        scene, a="NOT_FOUND", a__b="NOT_FOUND", a__b__c="NOT_FOUND", a__d="UNKNOWN", e="NOT_FOUND"
    )
    assert names(scene, leaves_of(directories)) == ["a/b/c", "a/d", "e"]
    result, driver = create(scene, directories)
    assert names(scene, driver.operations("make_directory")) == ["a/b/c", "a/d", "e"]
    assert names(scene, result.created) == ["a/b/c", "a/d", "e"]
    assert scene.everything() == ["a", "a/b", "a/b/c", "a/d", "e"]


def test_150_statuses_tell_what_became_of_each(scene: ManifestScene) -> None:
    (scene.destination / "file").write_bytes(b"in the way")
    (scene.destination / "dir").mkdir()
    directories = wanted(scene, file="FILE", dir="DIR", made="CREATED_DIR", new="NOT_FOUND")
    result, driver = create(scene, directories)
    assert names(scene, result.outcomes) == {
        "file": "dirWasCreated",
        "dir": "dirFoundInStore",
        "made": "dirWasCreated",
        "new": "dirWasCreated",
    }
    assert names(scene, driver.operations("make_directory")) == ["file", "new"]
    assert names(scene, result.created) == ["file", "made", "new"]


def test_150_parents_that_are_files_are_deleted_first(scene: ManifestScene) -> None:
    (scene.destination / "a").write_bytes(b"in the way")
    result, driver = create(scene, wanted(scene, a="FILE", a__b="NOT_FOUND", a__b__c="NOT_FOUND"))
    assert names(scene, result.outcomes) == {"a": "fileNowDeleted", "a/b/c": "dirWasCreated"}
    changes = [request.operation for request in driver.traffic.log if request.changes]
    assert changes == ["delete", "make_directory"]
    assert scene.everything() == ["a", "a/b", "a/b/c"]


@pytest.mark.parametrize("operation", ["delete", "make_directory"])
def test_150_a_failure_fails_the_stage(scene: ManifestScene, operation: str) -> None:
    (scene.destination / "a").write_bytes(b"in the way")
    with pytest.raises(Unavailable):
        create(
            scene,
            wanted(scene, a="FILE", b="NOT_FOUND"),
            Fault(Kind.ERROR_BEFORE, operation=operation, times=None),
        )


def test_150_on_a_clean_tree_nothing_is_made(scene: ManifestScene) -> None:
    for name in ("a", "a/b", "c"):
        (scene.destination / name).mkdir()
    result, driver = create(scene, wanted(scene, a="DIR", a__b="DIR", c="DIR"))
    assert not result.created
    assert not driver.traffic.log


@pytest.mark.parametrize("kind", [Kind.ERROR_BEFORE, Kind.REPLY_LOST])
def test_a_directory_that_is_not_made_at_first_is_tried_again(scene: ManifestScene, kind: Kind) -> None:
    result, _ = create(scene, wanted(scene, a="NOT_FOUND"), Fault(kind, operation="make_directory"))
    outcome = "dirFoundInStore" if kind is Kind.REPLY_LOST else "dirCreatedOnSecondAttempt"
    assert names(scene, result.outcomes) == {"a": outcome}
    assert scene.everything() == ["a"]


@pytest.mark.parametrize("in_the_way", ["a", "a/b", "a/b/c"])
def test_a_file_that_came_since_the_task_committed_is_deleted(scene: ManifestScene, in_the_way: str) -> None:
    path = scene.destination / in_the_way
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"in the way")
    directories = wanted(scene, a="NOT_FOUND", a__b="NOT_FOUND", a__b__c="NOT_FOUND")
    result, driver = create(scene, directories)
    assert names(scene, result.outcomes)["a/b/c"] == "dirCreatedOnSecondAttempt"
    assert names(scene, driver.operations("delete")) == [in_the_way]
    assert path.is_dir()


@pytest.mark.parametrize("status", ["NOT_FOUND", "FILE"])
def test_a_file_in_the_way_is_left_alone_by_default(tmp_path: Path, status: str) -> None:
    scene = ManifestScene(tmp_path)
    (scene.destination / "a").mkdir(parents=True)
    (scene.destination / "a" / "b").write_bytes(b"old data")
    with pytest.raises(
        CommitFailed, match="a/b is a file that was there before, and the job has a directory"
    ):
        create(scene, wanted(scene, a="DIR", a__b=status, a__b__c="NOT_FOUND"))
    assert (scene.destination / "a" / "b").read_bytes() == b"old data"


def test_a_file_above_the_destination_is_left_alone(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path)
    scene.destination.write_bytes(b"a file, and no directory")
    with pytest.raises(FileExistsError):
        create(scene, wanted(scene, a="NOT_FOUND"))
    assert scene.destination.read_bytes() == b"a file, and no directory"


def test_a_second_stage_leaves_what_the_first_made_of_a_file(scene: ManifestScene) -> None:
    (scene.destination / "a").write_bytes(b"in the way")
    directories = wanted(scene, a="FILE")
    create(scene, directories)
    (scene.destination / "a" / "x").write_bytes(b"the job's own")
    create(scene, directories)
    assert scene.everything() == ["a", "a/x"]


# -- data that lies there --------------------------------------------------------------------------------


def with_old_data(directory: Path, **options: Any) -> ManifestScene:
    scene = ManifestScene(directory, **options)
    for name in ("day=1/old", "day=1/hour=2/old", "day=1/_hidden", "day=1/.hidden/x", "day=2/old", "old"):
        path = scene.destination / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"old")
    return scene


def test_old_data_is_left_by_default(tmp_path: Path) -> None:
    scene = with_old_data(tmp_path)
    driver = scene.set_up()
    scene.commit_task(0, {"day=1/new": b"new"})
    scene.run(driver.committer.commit_job(None))
    assert set(scene.visible()) == {"day=1/old", "day=1/hour=2/old", "day=1/new", "day=2/old", "old"}


def test_old_data_in_the_target_directories_fails_the_job_before_anything_is_changed(tmp_path: Path) -> None:
    scene = with_old_data(tmp_path, target_directories="fail")
    driver = scene.set_up()
    (scene.destination / "_SUCCESS").write_bytes(b"of an earlier job")
    scene.commit_task(0, {"day=1/new": b"new", "day=7/new": b"new"})
    before = scene.everything()
    with pytest.raises(OutputExists, match=r"day=1/.*old lies in a directory .* nothing was changed"):
        scene.run(driver.committer.commit_job(None))
    assert scene.everything() == before
    scene.commit_task(0, {"day=7/new": b"new", "new": b"at the root"}, suffix="1")
    scene.run(scene.driver().committer.commit_job(None))
    assert {"day=7/new", "new", "old"} <= set(scene.visible())


def test_old_data_in_the_target_directories_is_deleted_once_the_new_is_there(tmp_path: Path) -> None:
    scene = with_old_data(tmp_path, target_directories="delete", unique_names=False)
    driver = scene.set_up()
    scene.commit_task(0, {"day=1/new": b"new", "day=1/old": b"replaced", "day=3/new": b"new"})
    scene.run(driver.committer.commit_job(None))
    assert scene.visible() == {
        "day=1/new": b"new",
        "day=1/old": b"replaced",
        "day=2/old": b"old",
        "day=3/new": b"new",
        "old": b"old",
    }
    assert (scene.destination / "day=1" / "_hidden").exists()
    assert (scene.destination / "day=1" / ".hidden" / "x").exists()
    log = [request for request in driver.traffic.log if request.operation in {"rename", "delete"}]
    renamed = [n for n, one in enumerate(log) if one.target.endswith(("new", "day=1/old"))]
    deleted = [n for n, one in enumerate(log) if one.operation == "delete" and one.key.endswith("/old")]
    assert max(renamed) < min(deleted)


def test_old_data_that_cannot_be_deleted_fails_a_job_that_is_published_and_a_second_commit_does_it(
    tmp_path: Path,
) -> None:
    scene = with_old_data(tmp_path, target_directories="delete")
    scene.set_up()
    scene.commit_task(0, {"day=1/new": b"new"})
    driver = scene.driver(Fault(Kind.ERROR_BEFORE, operation="delete", times=1))
    with pytest.raises(CommitFailed, match=r"all 1 files .* are published, but old data") as caught:
        scene.run(driver.committer.commit_job(None))
    assert [key.rpartition("/")[2] for key in caught.value.done] == ["new"]
    assert not (scene.destination / "_SUCCESS").exists()
    scene.run(scene.driver().committer.commit_job(None))
    assert set(scene.visible()) == {"day=1/new", "day=2/old", "old"}


def test_many_old_files_are_deleted(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, target_directories="delete")
    (scene.destination / "d").mkdir(parents=True)
    for number in range(250):
        (scene.destination / "d" / f"old-{number}").write_bytes(b"")
    driver = scene.set_up()
    scene.commit_task(0, {"d/new": b"new", **{f"d/old-{number}": b"new" for number in range(5)}})
    scene.run(driver.committer.commit_job(None))
    assert set(scene.visible()) == {"d/new", *(f"d/old-{number}" for number in range(5))}
