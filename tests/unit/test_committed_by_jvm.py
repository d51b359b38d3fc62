"""A JVM commits a job of ours: its driver learns that from ``_SUCCESS``, and adds the manifest."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.datasets import abort, commit
from magicfs.errors import CommitDenied, ProtocolViolation
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.statistics import Statistics
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.stores.port import Part
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.job_scene import JobScene
from proofs.scenes.manifests import published_manifest
from proofs.scenes.staged_scene import StagedScene
from tests.sample import Some

pytestmark = pytest.mark.sample(most=2)

FILES = [{"día=1/50% + #1.bin": b"0"}, {"a.bin": b"1", "b.bin": b"2"}]
BODIES = [b"0", b"1", b"2"]
THEIRS = "part-00007-c000.bin"


@dataclass
class Jvm:
    """What S3A's job commit leaves, given the sets that it found."""

    scene: JobScene

    def commits(
        self,
        job: Job,
        sets: Sequence[PendingSet],
        committer: str = "magic",
        *,
        but: int = 0,
        named: int = 100,
    ) -> None:
        files = [one for each in sets for one in each.commits]
        files = files[: len(files) - but]
        for one in files:
            parts = [Part(n, part.etag) for n, part in enumerate(one.parts, 1)]
            self._now(self.scene.plain.complete_upload(one.destination_key, one.upload_id, parts))
        self.publishes(job, [one.destination_key for one in files], committer, named=named)
        if committer == "magic":
            self._now(self._remove(f"sales/__magic_job-{job.id}/"))

    def publishes(self, job: Job, keys: Sequence[str], committer: str = "magic", *, named: int = 100) -> None:
        success = SuccessData(
            committer=committer,
            job_id=job.id,
            job_id_source="fs.s3a.committer.uuid",
            timestamp_ms=1_760_000_000_000,
            filenames=tuple(f"/{key}" for key in keys[:named]),
            statistics=Statistics(counters={"committer_commits_completed": len(keys)}),
        )
        self.scene.put("_SUCCESS", success.to_bytes())

    async def _remove(self, prefix: str) -> None:
        await self.scene.plain.delete([one.key async for one in self.scene.plain.list(prefix)])
        async for upload in self.scene.plain.list_uploads("sales/"):
            await self.scene.plain.abort_upload(upload.key, upload.upload_id)

    @staticmethod
    def _now(work: Any) -> Any:
        return asyncio.run(work)


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def sets_of(scene: JobScene, job: Job) -> list[PendingSet]:
    """What lies where Hadoop's job commit looks."""
    directory = job.spec.work_layout.attempt_directory
    found = {key: body for key, (body, _, _) in scene.objects().items() if key.startswith(f"{directory}/")}
    names = [
        key for key in found if key.endswith(".pendingset") and key.count("/") == directory.count("/") + 1
    ]
    return [PendingSet.from_bytes(key, found[key]) for key in names]


def wrote(scene: JobScene, job: Job) -> list[TaskCommit]:
    return scene.wrote(job, *FILES)


def adopted(scene: JobScene, job: Job) -> None:
    """Raise unless everything is published and in the manifest, and nothing is left."""
    assert scene.bodies() == BODIES
    assert scene.manifest_files() == set(scene.data())
    assert (scene.uploads(), scene.work()) == ([], [])
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
    assert published_manifest(scene.url, filesystem=scene.filesystem).job_id == job.id


@pytest.mark.parametrize("handed", [True, False])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_driver_adds_the_manifest_and_says_so(scene: JobScene, mode: str, handed: bool) -> None:
    job = scene.job(mode, form={"sets": True})
    commits = wrote(scene, job)
    Jvm(scene).commits(job, sets_of(scene, job))
    assert scene.state(job) is None
    report = job.commit(commits if handed else None)
    assert (report.files, report.bytes, report.published) == (3, 3, True)
    assert "Hadoop's magic committer committed the job" in report.warnings[0]
    assert ("it appended" in " ".join(report.warnings)) is (mode == "overwrite")
    adopted(scene, job)
    before = scene.everything()
    again = magicfs.Job(scene.url, mode=mode, job_id=job.id, filesystem=scene.filesystem)
    with pytest.raises(CommitDenied, match="already published"):
        again.setup()
    assert scene.everything() == before


def test_with_block_ends_without_an_error(scene: JobScene) -> None:
    with magicfs.Job(
        scene.url, mode="append", filesystem=scene.filesystem, options={"hadoop": "3.4.1"}
    ) as job:
        for number, files in enumerate(FILES):
            with job.task(number) as task:
                for name, body in files.items():
                    task.filesystem.pipe_file(f"{task.path}/{name}", body)
        Jvm(scene).commits(job, sets_of(scene, job))
    adopted(scene, job)


def test_chain_goes_on(scene: JobScene) -> None:
    scene.published({"old.bin": b"old"})
    job = scene.job(hadoop="3.4.1")
    commits = wrote(scene, job)
    Jvm(scene).commits(job, sets_of(scene, job))
    job.commit(commits)
    scene.published({"new.bin": b"new"})
    assert scene.manifest_files() == set(scene.data())
    assert scene.bodies() == sorted([*BODIES, b"old", b"new"])


def test_files_from_before_are_told(scene: JobScene) -> None:
    scene.put("old.bin", b"old")
    job = scene.job(hadoop="3.4.1")
    commits = wrote(scene, job)
    Jvm(scene).commits(job, sets_of(scene, job))
    job.commit(commits)
    assert published_manifest(scene.url, filesystem=scene.filesystem).older_files


def test_files_of_tasks_in_the_jvm_are_in_the_manifest(scene: JobScene) -> None:
    job = scene.job(hadoop="3.4.1")
    commits = wrote(scene, job)
    scene.put(THEIRS, b"theirs")
    sets = sets_of(scene, job)
    Jvm(scene).commits(job, sets)
    Jvm(scene).publishes(
        job, [*(one.destination_key for each in sets for one in each.commits), f"sales/{THEIRS}"]
    )
    assert job.commit(commits).files == 4
    assert THEIRS in scene.manifest_files()


def test_more_files_than_success_names_are_told(scene: JobScene) -> None:
    job = scene.job(hadoop="3.4.1")
    wrote(scene, job)
    Jvm(scene).commits(job, sets_of(scene, job), named=1)
    report = job.commit()
    assert report.files == 1
    assert "2 files of the job are not in its manifest" in report.warnings[-1]
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    assert scene.manifest_files() == set(scene.data())


def test_task_that_the_jvm_did_not_publish_is_named(scene: JobScene) -> None:
    job = scene.job(hadoop="3.4.1")
    commits = wrote(scene, job)
    Jvm(scene).commits(job, sets_of(scene, job), but=1)
    with pytest.raises(CommitDenied, match="1 committed files, of tasks 000001, are not among them"):
        job.commit(commits)
    assert scene.manifest_files() == set(scene.data())


def test_another_job_in_success_is_no_proof(scene: JobScene) -> None:
    job, other = scene.job(hadoop="3.4.1"), scene.job()
    commits = wrote(scene, job)
    Jvm(scene).commits(job, sets_of(scene, job))
    scene.published({"other.bin": b"other"})
    with pytest.raises(CommitDenied, match="was not published: another process"):
        job.commit(commits)
    other.abort()


def test_commands_say_that_it_is_published(scene: JobScene) -> None:
    job = scene.job(hadoop="3.4.1")
    commits = wrote(scene, job)
    Jvm(scene).commits(job, sets_of(scene, job))
    before = scene.everything()
    with pytest.raises(CommitDenied, match="do not run the job again"):
        commit(scene.url, job.id, filesystem=scene.filesystem)
    [one] = abort(scene.url, job=job.id, filesystem=scene.filesystem).jobs
    assert one.reason == "it is published, and its files stay"
    for one_of_them in commits:
        job.add(one_of_them)
    with pytest.raises(ProtocolViolation, match="do not run the job again"):
        job.abort()
    assert scene.everything() == before


@pytest.mark.parametrize("handed", [True, False])
def test_staging_committer_of_a_jvm_leaves_our_job_object(tmp_path: Path, handed: bool) -> None:
    scene = StagedScene(tmp_path / "work", cluster=(tmp_path / "cluster").as_uri())
    (tmp_path / "work").mkdir()
    job = scene.job()
    commits = scene.wrote(job, *FILES)
    found = list((tmp_path / "cluster").rglob("*.pendingset"))
    sets = [PendingSet.from_bytes(str(path), path.read_bytes()) for path in found]
    Jvm(scene).commits(job, sets, "directory")
    shutil.rmtree(tmp_path / "cluster")
    (tmp_path / "cluster").mkdir()
    assert job.commit(commits if handed else None).files == 3
    adopted(scene, job)


@pytest.mark.slow
def test_driver_killed_at_each_of_its_requests(some: Some) -> None:
    def died(*faults: Fault) -> tuple[JobScene, Job, int]:
        scene = JobScene()
        job = scene.job(hadoop="3.4.1")
        commits = wrote(scene, job)
        Jvm(scene).commits(job, sets_of(scene, job))
        traffic = scene.traffic(*faults)
        scene.commit(job, commits, traffic=traffic)
        if faults:
            job.commit(commits)
        return scene, job, traffic.count

    requests = died()[2]
    for number in some(range(1, requests + 1), 8):
        for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
            scene, job, _ = died(Fault(kind, number=number))
            adopted(scene, job)


def test_success_of_ours_is_none_of_a_jvm(scene: JobScene) -> None:
    job = scene.published(*FILES)
    raw = json.loads(scene.objects()["sales/_SUCCESS"][0])
    assert raw["jobIdSource"] == "magicfs"
    [one] = abort(scene.url, job=job.id, filesystem=scene.filesystem).jobs
    assert one.reason == "it is published, and its files stay"
