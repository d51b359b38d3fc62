"""A run that is run again under its name finds what the first one left."""

from __future__ import annotations

import json
from typing import Any

import pytest

import magicfs
from magicfs.committers.magic import MagicCommitter
from magicfs.datasets import recover_jobs
from magicfs.errors import CommitDenied, OutputExists
from magicfs.formats.pointer import RUNS_KEPT
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.protocol import paths
from magicfs.protocol.ids import TaskId
from magicfs.protocol.modes import WRITE_MODES
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from magicfs.transaction.context import JobSetup
from magicfs.transaction.driver import JobTransaction
from proofs.scenes.job_scene import Files, JobScene

RUN = "sink 7/día 12"
MODES = pytest.mark.parametrize("mode", WRITE_MODES)


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def first(scene: JobScene, mode: str, *faults: Fault, run: str = RUN) -> Job:
    """The first job of a run; its driver dies if faults are given."""
    job = scene.job(mode, run_id=run)
    commits = scene.wrote(job, {"p=1/a.bin": b"first"}, {"p=1/b.bin": b"first"})
    assert (scene.commit(job, commits, *faults) is None) == bool(faults)
    return job


def again(scene: JobScene, mode: str, run: str = RUN) -> Job:
    job = scene.job(mode, run_id=run)
    job.commit(scene.wrote(job, {"p=1/a.bin": b"again"}, {"p=1/b.bin": b"again"}))
    return job


def assert_clean(scene: JobScene) -> None:
    assert (scene.work(), scene.uploads()) == ([], [])
    assert scene.manifest_files() == set(scene.data())


@MODES
def test_run_that_is_published_is_not_published_again(scene: JobScene, mode: str) -> None:
    one = first(scene, mode)
    before = scene.objects()
    job = again(scene, mode)
    report = job.report
    assert (report.published_before, report.job_id, report.files) == (True, one.id, 0)
    assert "already published" in str(report)
    assert job.found.published == one.id
    assert scene.objects() == before
    assert_clean(scene)


def test_another_run_still_minds_the_data_and_leaves_nothing(scene: JobScene) -> None:
    first(scene, "error")
    before = scene.objects()
    with pytest.raises(OutputExists, match="already has data"):
        again(scene, "error", run="another")
    assert scene.objects() == before
    assert_clean(scene)


@MODES
@pytest.mark.parametrize("completes", [0, 1, 2])
def test_run_whose_first_job_had_begun_to_publish_is_finished(
    scene: JobScene, mode: str, completes: int
) -> None:
    how: dict[str, Any] = {"operation": "complete_upload", "prefix": "sales/"}
    dies = (
        Fault(Kind.CRASH_AFTER, skip=completes - 1, **how) if completes else Fault(Kind.CRASH_BEFORE, **how)
    )
    one = first(scene, mode, dies)
    job = again(scene, mode)
    assert (job.report.published_before, job.report.job_id) == (True, one.id)
    assert scene.bodies() == [b"first", b"first"]
    assert_clean(scene)


@MODES
def test_run_whose_first_job_had_not_begun_to_publish_is_aborted(scene: JobScene, mode: str) -> None:
    one = first(scene, mode, Fault(Kind.CRASH_BEFORE, operation="put", prefix="sales/", skip=0))
    job = again(scene, mode)
    assert (job.report.published_before, job.report.files) == (False, 2)
    assert scene.state(one) is None
    assert scene.bodies() == [b"again", b"again"]
    assert_clean(scene)


def test_run_that_was_being_taken_back_is_taken_back_and_run(scene: JobScene) -> None:
    one = first(scene, "append", Fault(Kind.CRASH_AFTER, operation="complete_upload"))
    assert scene.recover(Fault(Kind.CRASH_BEFORE, operation="abort_upload"), rollback=True) is None
    assert scene.state(one) == "reverting"
    assert not again(scene, "append").report.published_before
    assert scene.bodies() == [b"again", b"again"]
    assert_clean(scene)


def test_other_runs_and_jobs_without_a_run_are_left_alone(scene: JobScene) -> None:
    other = scene.job("append", run_id="another")
    nameless = scene.job("append")
    first(scene, "append", run="a third")
    job = again(scene, "append")
    assert (job.report.published_before, job.found.published) == (False, None)
    assert (scene.state(other), scene.state(nameless)) == ("open", "open")
    assert scene.bodies() == [b"again", b"again", b"first", b"first"]


def test_runs_of_another_destination_do_not_count() -> None:
    one, other = JobScene("data/set1"), JobScene("data/set10")
    other.filesystem, other.plain = one.filesystem, one.plain
    first(other, "append")
    assert not again(one, "append").report.published_before
    assert one.bodies() == [b"again", b"again"]


def test_run_is_found_behind_later_ones(scene: JobScene) -> None:
    one = first(scene, "append")
    for number in range(5):
        first(scene, "overwrite", run=f"later {number}")
    assert again(scene, "append").report.job_id == one.id
    assert RUNS_KEPT >= 1000


@pytest.mark.parametrize("compacted", [False, True])
def test_run_that_the_pointer_has_forgotten_is_found_in_the_manifests(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch, compacted: bool
) -> None:
    monkeypatch.setattr("magicfs.formats.pointer.RUNS_KEPT", 2)
    one = first(scene, "append")
    for number in range(4):
        first(scene, "append", run=f"later {number}")
        if compacted and number == 2:
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    pointer = json.loads(scene.objects()["sales/_magicfs/current.json"][0])
    assert RUN not in dict(pointer["runs"])
    before = scene.objects()
    job = again(scene, "append")
    assert (job.report.published_before, job.report.job_id) == (True, one.id)
    assert scene.objects() == before
    assert not again(scene, "append", run="new").report.published_before


def test_run_that_is_new_asks_for_no_manifest_although_the_pointer_has_forgotten_others(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magicfs.formats.pointer.RUNS_KEPT", 2)
    for number in range(4):
        first(scene, "append", run=f"{number}")
    job = magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem, run_id="new")
    traffic = Traffic()
    scene.lived(lambda: MagicCommitter(job.spec.context, scene.engine(traffic)).setup_job())
    read = [one.key for one in traffic.log if one.operation == "get" and "_magicfs/" in one.key]
    assert read == ["sales/_magicfs/current.json"]


def test_of_two_jobs_of_one_run_that_start_at_once_not_both_are_published(scene: JobScene) -> None:
    """The second sets itself up between the first one's object and the first one's look."""
    one, two = (
        magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem, run_id=RUN) for _ in range(2)
    )
    found: dict[str, JobSetup] = {}

    def at_once(request: Request) -> None:
        if not found and request.operation == "list_directories" and request.key.endswith("/__magic"):
            context = two.spec.context
            found["two"] = scene.elsewhere(lambda engine: MagicCommitter(context, engine).setup_job())

    engine = scene.engine(Traffic(before=at_once))
    found["one"] = scene.lived(MagicCommitter(one.spec.context, engine).setup_job)
    published = []
    for name, job in (("two", two), ("one", one)):
        commits = wrote_elsewhere(scene, job, {"a.bin": name.encode()})
        context, driver = job.spec.context, found[name].driver
        try:
            scene.elsewhere(lambda engine: MagicCommitter(context, engine).commit_job(commits, driver))  # noqa: B023
        except CommitDenied:
            continue
        published.append(name.encode())
    assert len(published) <= 1
    assert scene.bodies() == published
    assert again(scene, "append").report.published_before == bool(published)
    assert len(scene.bodies()) == (1 if published else 2)


def wrote_elsewhere(scene: JobScene, job: Job, files: Files) -> list[TaskCommit]:
    """As a worker does, of a job that another process has set up."""
    task = magicfs.Task(job.spec, TaskId("000000")).setup()
    for name, body in files.items():
        task.filesystem.pipe_file(f"{task.path}/{name}", body)
    return [task.commit()]


def test_run_is_named_in_the_job_object_and_the_manifest(scene: JobScene) -> None:
    job = scene.job("append", run_id=RUN)
    found = scene.job_object(job)
    assert found is not None
    assert found.options.run_id == RUN
    job.commit(scene.wrote(job, {"a.bin": b"1"}))
    assert f'"runId":"{RUN}"'.encode() in scene.objects()[f"sales/_magicfs/{job.id}.json"][0]


@pytest.mark.parametrize("ends", [False, True])
def test_a_rerun_that_meets_a_move_of_the_first_leaves_nothing(scene: JobScene, ends: bool) -> None:
    """Somebody else takes the first job over, or ends it, as the rerun is about to discard it."""
    one = scene.job("append", run_id=RUN)
    scene.wrote(one, {"p=1/a.bin": b"first"})
    moved: list[str] = []

    def before(request: Request) -> None:
        if request.operation != "put" or one.id not in request.key or "/job." not in request.key or moved:
            return
        moved.append(request.key)
        if ends:
            scene.elsewhere(lambda engine: recover_jobs(engine, place, job=one.id, abort=True))
        else:
            scene.elsewhere(lambda engine: JobTransaction(engine, one.spec.context).take_over())

    place = paths.parse_url(scene.url)
    rerun = magicfs.Job(scene.url, mode="append", run_id=RUN, filesystem=scene.filesystem)
    committer = MagicCommitter(rerun.spec.context, scene.engine(Traffic(before=before)))
    with pytest.raises(CommitDenied):
        scene.lived(committer.setup_job)
    assert moved
    assert scene.job_object(rerun) is None
    assert (scene.state(one) is None) == ends
    again(scene, "append")
    assert scene.bodies() == [b"again", b"again"]
    assert_clean(scene)
