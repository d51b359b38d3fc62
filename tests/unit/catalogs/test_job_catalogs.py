"""A job that lets catalogs show the dataset as soon as it is published."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.catalogs import Delta, SymlinkManifest
from magicfs.errors import UsageError
from proofs.scenes.job_scene import JobScene

DEST = "env=prod/día 50% + #1"


@pytest.fixture
def scene() -> JobScene:
    return JobScene(DEST)


@dataclass
class Broken:
    """A catalog that is not there."""

    asked: list[str] = field(default_factory=list)

    def register(self, url: str, **_how: Any) -> None:
        self.asked.append(url)
        raise ConnectionError("nobody answers")


def manifests(scene: JobScene) -> str:
    return "".join(
        scene.objects()[f"{DEST}/{one}"][0].decode() for one in scene.below("_symlink_format_manifest")
    )


def test_each_job_is_shown_when_it_is_committed(scene: JobScene):
    for mode in ("append", "overwrite"):
        job = scene.published({"p=1/f.bin": b"1"}, mode=mode, catalogs=[SymlinkManifest()])
        assert job.report.warnings == ()
        assert manifests(scene).count(job.id) == manifests(scene).count("\n") == 1


def test_a_catalog_that_fails_is_a_warning_of_a_job_that_is_published(scene: JobScene):
    broken = Broken()
    job = scene.published({"f.bin": b"1"}, catalogs=[broken, Delta(), SymlinkManifest()])
    assert broken.asked == [scene.url]
    first, second = job.report.warnings
    assert "nobody answers; call Dataset.register again" in first
    assert "deltalake does not support memory://" in second
    assert manifests(scene).count(job.id) == 1, "the others are registered with all the same"
    assert scene.bodies() == [b"1"]


def test_a_rerun_registers_what_the_first_driver_did_not(scene: JobScene):
    """Its driver died between the commit and the registration."""
    first = scene.published({"f.bin": b"1"}, run_id="monday")
    assert manifests(scene) == ""
    second = scene.published({"f.bin": b"2"}, run_id="monday", catalogs=[SymlinkManifest()])
    assert second.report.published_before
    assert manifests(scene).count(first.id) == manifests(scene).count("\n") == 1


def test_what_is_no_catalog_and_what_leaves_no_manifest_is_refused(scene: JobScene):
    with pytest.raises(UsageError, match=r"catalogs holds 'delta'.*magicfs\.catalogs"):
        magicfs.Job(scene.url, filesystem=scene.filesystem, catalogs=["delta"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="catalogs need manifests"):
        magicfs.Job(scene.url, filesystem=scene.filesystem, committer="direct", catalogs=[Delta()])
    assert scene.objects() == {}


def test_they_are_the_drivers_and_are_not_pickled(tmp_path: Path):
    job = magicfs.Job(f"{tmp_path}/sales", catalogs=[Broken()]).setup()
    copy = pickle.loads(pickle.dumps(job))
    with copy.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/f.bin", b"1")
    assert copy.commit(copy.commits).warnings == ()
