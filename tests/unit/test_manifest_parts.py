"""Manifests of very many files, which list them in parts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import magicfs
from magicfs.errors import FormatError
from magicfs.formats.manifest import Manifest
from magicfs.job.job import Job
from magicfs.manifests import chain, parts
from magicfs.report import VerifyReport
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.job_scene import JobScene

FILES = {f"p={number % 2}/{number}.bin": b"%d" % number for number in range(7)}


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parts, "FILES_IN_MANIFEST", 2)
    monkeypatch.setattr(parts, "FILES_IN_PART", 3)
    monkeypatch.setattr("magicfs.transaction.prepare.FILES_IN_MANIFEST", 2)
    return iter([None])


def published(scene: JobScene, mode: str = "append") -> Job:
    job = scene.job(mode)
    commits = scene.wrote(job, dict(list(FILES.items())[:4]), dict(list(FILES.items())[4:]))
    assert job.commit(commits).files == 7
    return job


def verify(scene: JobScene) -> VerifyReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify()


def manifest_of(scene: JobScene, job: Job) -> tuple[Manifest, list[str]]:
    objects = scene.objects()
    raw = objects[f"sales/_magicfs/{job.id}.json"][0]
    assert json.loads(raw)["requires"] == ["parts"]
    listed = sorted(key for key in objects if key.startswith(f"sales/_magicfs/{job.id}/"))
    return Manifest.from_bytes("m", raw), listed


def test_a_manifest_of_many_files_names_its_parts() -> None:
    scene = JobScene()
    job = published(scene)
    manifest, listed = manifest_of(scene, job)
    assert [part.files for part in manifest.parts] == [3, 3, 1]
    assert (manifest.count, manifest.size) == (7, 7)
    assert listed == [f"sales/_magicfs/{job.id}/{part.name}" for part in manifest.parts]


def test_readers_see_all_files_of_a_manifest_in_parts() -> None:
    scene = JobScene()
    job = published(scene)

    found = scene.elsewhere(lambda engine: chain.read(engine.store, "sales", job.id, chain.READING))
    assert found is not None
    assert len(found.files) == 7
    assert len({one.key for one in found.files}) == 7
    assert all(one.etag and one.write_id for one in found.files)
    assert verify(scene).ok


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_a_later_job_and_a_sum_stand_above_it(mode: str) -> None:
    scene = JobScene()
    published(scene)
    published(scene, mode)
    assert verify(scene).ok
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    assert verify(scene).ok
    assert verify(scene).files == (14 if mode == "append" else 7)


@pytest.mark.parametrize("damage", ["gone", "altered"])
def test_a_part_that_is_gone_or_altered_is_told(damage: str) -> None:
    scene = JobScene()
    job = published(scene)
    _, (first, *_) = manifest_of(scene, job)
    if damage == "gone":
        scene.delete(first.removeprefix("sales/"))
    else:
        scene.put(first.removeprefix("sales/"), scene.objects()[first][0].replace(b"p=0", b"p=1"))
    with pytest.raises(FormatError, match=r"missing, although|SHA-256 differs"):
        verify(scene)


@pytest.mark.parametrize("skip", range(5))
def test_a_driver_that_dies_amid_the_parts_is_finished_by_a_recovery(skip: int) -> None:
    scene = JobScene()
    job = scene.job("append")
    commits = scene.wrote(job, FILES)
    fault = Fault(Kind.CRASH_AFTER, operation="put", prefix="sales/_magicfs/", skip=skip)
    assert scene.commit(job, commits, fault) is None
    scene.recover()
    manifest, listed = manifest_of(scene, job)
    assert manifest.count == 7
    assert listed == [f"sales/_magicfs/{job.id}/{part.name}" for part in manifest.parts]
    assert verify(scene).ok
    assert scene.work() == []


def test_parts_that_a_dead_process_left_go_and_no_others() -> None:
    scene = JobScene()
    before = published(scene)
    job = scene.job("append")
    commits = scene.wrote(job, FILES)
    left, others = (f"_magicfs/{name}/00000-0123456789abcdef.json" for name in (job.id, f"{job.id}0"))
    scene.put(left, b"{}")
    scene.put(others, b"{}")
    job.commit(commits)
    manifest, listed = manifest_of(scene, job)
    assert listed == [f"sales/_magicfs/{job.id}/{part.name}" for part in manifest.parts]
    assert f"sales/{others}" in scene.objects()
    assert len(manifest_of(scene, before)[1]) == 3
    assert verify(scene).ok
