"""Drivers that stand still at the end of their commit while others finish their job and publish more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from magicfs.committers import registry
from magicfs.datasets import recover_jobs
from magicfs.engine import Engine
from magicfs.errors import Unavailable
from magicfs.filesystem.tracking import StoreRecorder
from magicfs.filesystem.upload import AsyncDelayedFile, Upload
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.protocol import ids, paths
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.magic import locate
from magicfs.stores.retrying import RETRIES, RetryingStore
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind, Request
from magicfs.transaction import record
from proofs.scenes.job_scene import BUCKET, JobScene

pytestmark = pytest.mark.sample(most=2)

SAME = {"k #1.txt": b"same bytes"}


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was heard of a job object is out of date."""
    monkeypatch.setattr(record, "_HEARD_S", 0.0)


class Late:
    """A driver that stands still before one of its requests, while something else happens."""

    def __init__(self, scene: JobScene, operation: str, end: str, deed: Callable[[], None]) -> None:
        self.scene, self.operation, self.end, self.deed = scene, operation, end, deed
        self.happened = False
        self.troubles: list[BaseException] = []

    def commit(self, job: Job, commits: list[TaskCommit]) -> None:
        self.scene.commit(job, commits, traffic=Traffic(before=self._look))
        assert self.happened
        for trouble in self.troubles:
            raise trouble

    def _look(self, request: Request) -> None:
        if request.operation == self.operation and request.key.endswith(self.end) and not self.happened:
            self.happened = True
            try:
                self.deed()
            except BaseException as error:  # noqa: BLE001 - a store's caller would take it for the store's
                self.troubles.append(error)


def recover(scene: JobScene, **how: Any) -> Any:
    """Another process recovers the destination."""
    place = paths.parse_url(scene.url)
    return scene.elsewhere(lambda _: recover_jobs(scene.engine(Traffic()), place, **how))


def commit(scene: JobScene, job: Job, commits: list[TaskCommit], *faults: Fault) -> None:
    """Another process commits a job, or dies of a fault."""
    committer = registry.make("magic", job.spec.context, scene.engine(Traffic(faults)))

    async def process(_: Engine) -> None:
        with suppress(Crash):
            await committer.commit_job(commits, job.found.driver)

    scene.elsewhere(process)


@pytest.mark.usefixtures("asleep")
def test_a_file_that_a_later_job_has_published_again_is_not_deleted(scene: JobScene) -> None:
    scene.published(SAME, unique_names=False)
    job = scene.job("overwrite", unique_names=False)
    commits = scene.wrote(job, {"other.txt": b"new"})
    later = scene.job(unique_names=False)
    again = scene.wrote(later, SAME)

    def meanwhile() -> None:
        recover(scene, job=job.id)
        assert scene.data() == {"other.txt": b"new"}
        commit(scene, later, again)

    Late(scene, "put", f"{job.id}.json", meanwhile).commit(job, commits)
    assert scene.data() == {"other.txt": b"new", **SAME}
    assert scene.manifest_files() == {"other.txt", *SAME}
    assert (scene.work(), scene.uploads()) == ([], [])


@pytest.mark.usefixtures("asleep")
def test_a_request_that_deletes_is_not_made_again_after_others_have_ended_the_job(scene: JobScene) -> None:
    # The machine slept while the request was on its way: its connection is broken when it wakes.
    scene.published(SAME, unique_names=False)
    job = scene.job("overwrite", unique_names=False)
    commits = scene.wrote(job, {"other.txt": b"new"})
    later = scene.job(unique_names=False)
    again = scene.wrote(later, SAME)
    slept: list[str] = []

    def sleep(request: Request) -> None:
        if request.operation == "delete_all_matching" and request.key.endswith("k #1.txt") and not slept:
            slept.append(request.key)
            recover(scene, job=job.id)
            commit(scene, later, again)
            raise Unavailable(request.operation, request.key, "connection broken")

    store = faulty(scene.plain, Traffic(before=sleep), Actor("driver"))
    retries = {operation: replace(row, first_s=0.0) for operation, row in RETRIES.items()}
    committer = registry.make("magic", job.spec.context, Engine(RetryingStore(store, retries=retries), 1))
    report = scene.lived(lambda: committer.commit_job(commits, job.found.driver))
    assert slept
    assert report.files == 1
    assert scene.data() == {"other.txt": b"new", **SAME}
    assert scene.manifest_files() == {"other.txt", *SAME}
    assert (scene.work(), scene.uploads()) == ([], [])


def test_a_late_success_marker_is_taken_away_from_a_job_that_is_half_visible(scene: JobScene) -> None:
    job = scene.job()
    commits = scene.wrote(job, {"a.txt": b"first"})
    second = scene.job("append")
    more = scene.wrote(second, {"b.txt": b"second", "c.txt": b"second"})

    def meanwhile() -> None:
        recover(scene, job=job.id)
        assert scene.success() is not None
        commit(scene, second, more, Fault(Kind.CRASH_BEFORE, operation="complete_upload", skip=1))
        assert scene.success() is None
        assert scene.state(second) == "committing"

    Late(scene, "put", "/_SUCCESS", meanwhile).commit(job, commits)
    assert scene.success() is None
    scene.recover()
    success = scene.success()
    assert success is not None
    assert success.job_id == second.id
    assert scene.bodies() == [b"first", b"second", b"second"]


@pytest.mark.parametrize("ended", [True, False])
def test_a_success_marker_stays_if_nobody_hides_it(scene: JobScene, ended: bool) -> None:
    job = scene.job()
    commits = scene.wrote(job, {"a.txt": b"first"})

    def meanwhile() -> None:
        if ended:
            recover(scene)
            scene.delete("_SUCCESS")

    Late(scene, "put", "/_SUCCESS", meanwhile).commit(job, commits)
    success = scene.success()
    assert success is not None
    assert success.job_id == job.id


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
def test_a_file_that_lies_where_an_old_one_lay_is_not_deleted(scene: JobScene, mode: str) -> None:
    # The tasks named their files as if names were not unique, with the bytes of the day before.
    scene.published({"d=1/k.txt": b"same bytes", "d=1/old.txt": b"old"}, unique_names=False)
    job = scene.job(mode, unique_names=False)
    commits = scene.wrote(job, {"d=1/k.txt": b"same bytes"})
    context = job.spec.context.asked(unique_names=True)
    engine = scene.engine(Traffic())
    scene.lived(lambda: registry.make("magic", context, engine).commit_job(commits, job.found.driver))
    assert scene.data() == {"d=1/k.txt": b"same bytes"}
    assert scene.manifest_files() == {"d=1/k.txt"}


def test_a_process_that_goes_on_asks_nobody_about_its_job(scene: JobScene) -> None:
    scene.published(SAME)
    job = scene.job("overwrite")
    commits = scene.wrote(job, {"other.txt": b"new"})
    reads: list[str] = []
    deletes: list[str] = []

    def look(request: Request) -> None:
        if request.operation in {"get", "head"} and request.key == job.spec.work_layout.job_object_key:
            reads.append(request.key)
        if request.operation == "delete_all_matching":
            deletes.append(request.key)

    scene.commit(job, commits, traffic=Traffic(before=look))
    assert deletes
    # HEAD and GET when it begins.
    assert len(reads) == 2


@pytest.mark.parametrize("unique_names", [True, False])
@pytest.mark.parametrize("operation", ["list", "list_uploads"])
def test_nothing_is_left_of_a_task_that_writes_between_the_listings_of_a_cleanup(
    scene: JobScene, operation: str, unique_names: bool
) -> None:
    """They are made while the job is published, the work first: no record goes whose upload was not seen."""
    job = scene.job(unique_names=unique_names)
    commits = scene.wrote(job, {"here.txt": b"new"})
    layout = job.spec.work_layout
    attempt = ids.attempt_id(ids.task_id(7), "late")
    completed: list[str] = []
    wrote: list[str] = []

    async def write(engine: Engine) -> None:
        path = locate(f"{BUCKET}/{layout.work_directory(attempt)}/late %+#é.txt")
        relative = path.relative
        if unique_names:
            relative = unique_name(relative, ids.task_of_attempt(attempt), layout.job)
        upload = Upload(
            engine.store,
            "/".join((*path.parents, *relative)),
            5 * 1024**2,
            StoreRecorder(engine.store, path, etag_format="object"),
        )
        async with await AsyncDelayedFile(upload).open() as file:
            await file.write(b"late")

    def look(request: Request) -> None:
        completed.extend(["yes"] * (request.operation == "complete_upload"))
        if completed and request.operation == operation and not wrote:
            scene.elsewhere(write)
            wrote.append(request.key)

    report = scene.commit(job, commits, traffic=Traffic(before=look))
    assert report is not None
    assert wrote
    assert report.uploads_aborted == 1
    assert (scene.uploads(), scene.work()) == ([], [])
    assert scene.bodies() == [b"new"]
