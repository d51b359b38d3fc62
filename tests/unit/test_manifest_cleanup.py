"""The manifest committer's cleanup: Hadoop's matrix, and other jobs' work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from magicfs.committers.manifest.commit import CleanedUp, CleanupJob, CleanupOutcome
from magicfs.errors import Unavailable
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.manifest_scene import Driver, ManifestScene

ATTEMPTS = 10
BASE = Fault(Kind.ERROR_BEFORE, operation="delete_tree", skip=0)


def with_attempts(directory: Path, **options: Any) -> ManifestScene:
    scene = ManifestScene(directory, **options)
    scene.set_up()
    for number in range(ATTEMPTS):
        scene.write(number, {"a": b"", "d/b": b""})
    return scene


def clean_up(scene: ManifestScene, *faults: Fault) -> tuple[CleanedUp, Driver]:
    driver = scene.driver(*faults)
    return scene.run(CleanupJob(driver.config()).run(None)), driver


def failing(skip: int = 0, times: int | None = 1) -> Fault:
    return Fault(Kind.ERROR_BEFORE, operation="delete_tree", skip=skip, times=times)


@pytest.mark.parametrize(
    ("options", "faults", "outcome", "deletes"),
    [
        ({}, [], "PARALLEL_DELETE", ATTEMPTS + 1),
        ({"cleanup_parallel_delete_base_first": True}, [], "DELETED", 1),
        ({"cleanup_parallel_delete": False}, [], "DELETED", 1),
        ({}, [failing(skip=3)], "DELETED", ATTEMPTS + 1),
        ({"cleanup_parallel_delete_base_first": True}, [failing(times=2)], "DELETED", ATTEMPTS + 2),
    ],
)
def test_149_matrix(
    tmp_path: Path, options: dict[str, Any], faults: list[Fault], outcome: str, deletes: int
) -> None:
    scene = with_attempts(tmp_path, **options)
    done, driver = clean_up(scene, *faults)
    assert (done.outcome.name, done.deletes, done.error) == (outcome, deletes, None)
    assert len(driver.operations("delete_tree")) == deletes
    assert scene.everything() == []
    again, _ = clean_up(scene)
    assert (again.outcome, again.deletes) == (CleanupOutcome.NOTHING_TO_CLEAN_UP, 0)


def test_149_disabled(tmp_path: Path) -> None:
    scene = with_attempts(tmp_path, cleanup_skipped=True)
    before = scene.everything()
    done, driver = clean_up(scene)
    assert (done.outcome, driver.traffic.log) == (CleanupOutcome.DISABLED, [])
    assert scene.everything() == before


@pytest.mark.parametrize("ignored", [False, True])
def test_149_all_deletes_fail(tmp_path: Path, ignored: bool) -> None:
    scene = with_attempts(tmp_path, cleanup_failures_ignored=ignored)
    if ignored:
        done, _ = clean_up(scene, failing(times=None))
        assert (done.outcome, done.deletes) == (CleanupOutcome.FAILURE, ATTEMPTS + 1)
        assert isinstance(done.error, Unavailable)
    else:
        with pytest.raises(Unavailable):
            clean_up(scene, failing(times=None))
    assert len(scene.everything()) > ATTEMPTS


def test_149_no_tasks_directory(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path)
    scene.set_up()
    done, _ = clean_up(scene)
    assert (done.outcome, done.deletes) == (CleanupOutcome.DELETED, 1)
    assert scene.everything() == []


def test_attempts_that_cannot_be_listed_go_with_the_job(tmp_path: Path) -> None:
    scene = with_attempts(tmp_path)
    done, _ = clean_up(scene, Fault(Kind.ERROR_BEFORE, operation="entries"))
    assert (done.outcome, done.deletes) == (CleanupOutcome.DELETED, 1)


def test_work_of_all_attempts_of_the_job_goes_and_of_other_jobs_stays(tmp_path: Path) -> None:
    scene, other = with_attempts(tmp_path), ManifestScene(tmp_path)
    scene.set_up(attempt=1)
    scene.write(0, {"a": b""}, job_attempt=1)
    other.set_up()
    other.write(0, {"a": b""})
    done, _ = clean_up(scene)
    assert (done.outcome.name, done.deletes) == ("PARALLEL_DELETE", ATTEMPTS + 2)
    assert (other.work_directory("attempt-000000-0") / "a").exists()
    assert not scene.job_directory.exists()
    clean_up(other)
    assert other.everything() == []


def test_hadoops_names_of_the_outcomes() -> None:
    assert {one.name for one in CleanupOutcome} == {
        "DISABLED",
        "NOTHING_TO_CLEAN_UP",
        "PARALLEL_DELETE",
        "DELETED",
        "FAILURE",
    }
