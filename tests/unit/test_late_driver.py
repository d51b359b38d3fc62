"""What a driver hears whose job another process ended, or whose store fell silent at the commit point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

import magicfs
from magicfs import datasets
from magicfs.errors import CommitDenied, CommitOutcomeUnknown, ProtocolViolation, Unavailable
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.protocol.identity import CommittedFile, unpublished
from magicfs.protocol.ids import TaskId
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Store
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.job_scene import JobScene

pytestmark = pytest.mark.sample(most=2)

FILES = [{"a.bin": b"0"}, {"a.bin": b"1"}, {"a.bin": b"2"}]


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def operator_commits(scene: JobScene, job: Job) -> None:
    assert datasets.commit(scene.url, job.id, filesystem=scene.filesystem).files


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_committed_task_that_another_process_did_not_publish_is_named(scene: JobScene, mode: str) -> None:
    job = scene.job(mode)
    commits = scene.wrote(job, *FILES)
    assert scene.commit(job, commits[:2]) is not None  # by somebody who did not see the third
    with pytest.raises(CommitDenied) as caught:
        job.commit(commits, tasks=3)
    key = f"sales/a-000002-{job.id}.bin"
    assert caught.value.failed == (key,)
    assert "published 2 files. 1 committed files, of tasks 000002, are not among them" in str(caught.value)
    assert "write the data of these tasks again with another job" in str(caught.value)
    assert (scene.bodies(), scene.uploads(), scene.work()) == ([b"0", b"1"], [], [])


def test_a_with_block_whose_task_was_not_published_raises(scene: JobScene) -> None:
    with (
        pytest.raises(CommitDenied, match="of tasks 000001, are not among them") as caught,
        magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem) as job,
    ):
        for number in range(2):
            with job.task(number) as task:
                task.filesystem.pipe_file(f"{task.path}/a.bin", b"%d" % number)
            if not number:
                operator_commits(scene, job)
    assert not hasattr(caught.value, "__notes__")
    assert repr(job).endswith("ended>")


def test_a_driver_whose_whole_job_was_published_is_told_so(scene: JobScene) -> None:
    job = scene.job()
    commits = scene.wrote(job, *FILES)
    operator_commits(scene, job)
    report = job.commit(commits, tasks=3)
    assert (report.files, report.warnings) == (3, ("another process finished the job",))


def test_another_attempt_of_a_task_is_not_the_one_that_was_committed(scene: JobScene) -> None:
    job = scene.job()
    first = scene.wrote(job, FILES[0])
    scene.wrote(job, {"a.bin": b"another"})  # the last in a listing
    operator_commits(scene, job)
    with pytest.raises(CommitDenied, match="another attempt's file is there"):
        job.commit(first)


def test_a_commit_whose_set_is_gone_is_looked_for_by_names_and_told_where_they_cannot_tell(
    scene: JobScene,
) -> None:
    def without_content(commits: list[TaskCommit]) -> list[TaskCommit]:
        return [replace(one, content=None) for one in commits]

    job = scene.job()
    commits = without_content(scene.wrote(job, *FILES[:1]))
    operator_commits(scene, job)
    assert job.commit(commits).warnings == ("another process finished the job",)
    job = scene.job(unique_names=False)
    commits = without_content(scene.wrote(job, {"b.bin": b"0"}))
    operator_commits(scene, job)
    warning = job.commit(commits).warnings[1]
    assert warning.startswith("files of tasks 000000 may or may not have been published")


def test_a_driver_that_knows_how_many_tasks_there_are_is_not_told_of_fewer(scene: JobScene) -> None:
    job = scene.job()
    commits = scene.wrote(job, *FILES[:2])
    operator_commits(scene, job)
    with pytest.raises(ProtocolViolation, match=r"2 tasks of job .* are committed and 3 are expected"):
        job.commit(commits, tasks=3)


def test_a_driver_that_finds_others_facts_compares_them_with_its_commits(scene: JobScene) -> None:
    job = scene.job()
    commits = scene.wrote(job, *FILES[:2])
    other = scene.job(job_id=job.id)
    dies = Fault(Kind.CRASH_BEFORE, operation="complete_upload")
    assert scene.commit(other, commits[:1], dies) is None
    assert scene.state(job) == "committing"
    job._found = other.found
    with pytest.raises(CommitDenied, match="of tasks 000001, are not among them"):
        job.commit(commits)
    assert scene.bodies() == [b"0"]


@pytest.mark.parametrize(
    ("committed", "published", "missing"),
    [
        ([("a", "1")], {"a": "1"}, []),
        ([("a", "1")], {"b": "1"}, ["a"]),
        ([("a", "1")], {"a": "2"}, ["a"]),
        ([("a", None)], {"a": "2"}, []),
        ([("a", "1")], {"a": None}, []),
        ([("a", "1"), ("b", "2")], {"a": "1", "c": "3"}, ["b"]),
        ([], {"a": "1"}, []),
    ],
)
def test_what_is_not_published(
    committed: list[tuple[str, str | None]], published: dict[str, str | None], missing: list[str]
) -> None:
    files = [CommittedFile(TaskId("0"), key, write_id) for key, write_id in committed]
    assert [one.key for one in unpublished(files, published)] == missing


# -- silence at the commit point -----------------------------------------------------------------------


class Silent(MemoryFileSystem):
    """A bucket that does one write of a job object, or does not, and answers nothing from then on."""

    def __init__(self) -> None:
        super().__init__(world=World())
        self.world.create_bucket("bucket")
        self.writes_left, self.applied, self.silent = -1, False, False

    def store(self, bucket: str) -> Store:
        return _SilentStore(MemoryStore(bucket, self.world), self)


class _SilentStore(DelegatingStore):
    def __init__(self, inner: Store, rule: Silent) -> None:
        super().__init__(inner)
        self._rule = rule

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[Any]]) -> Any:
        rule = self._rule
        if operation == "put" and key.endswith("/job.json") and rule.writes_left > 0:
            rule.writes_left -= 1
            if not rule.writes_left:
                rule.silent = True
                if rule.applied:
                    await request()
        if rule.silent:
            raise Unavailable(operation, key, "no answer")
        return await request()


@pytest.mark.parametrize(("mode", "writes"), [("append", 1), ("overwrite", 2)])
@pytest.mark.parametrize("applied", [True, False])
def test_silence_at_the_commit_point_is_an_unknown_outcome(mode: str, writes: int, applied: bool) -> None:
    files = Silent()
    job = Job("memory://bucket/sales", mode=mode, filesystem=files).setup()  # type: ignore[arg-type]
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.bin", b"0")
    files.writes_left, files.applied = writes, applied
    with pytest.raises(CommitOutcomeUnknown, match="commit again, or run magicfs recover"):
        job.commit(job.commits)
    assert repr(job).endswith("undecided>")
    with pytest.raises(ProtocolViolation, match="the store did not report whether it is published"):
        _ = job.report
    files.silent = False
    assert job.commit(job.commits).files == 1
    assert [key for key in files.world.find("bucket").objects if key.endswith(".bin")] == [
        f"sales/a-000000-{job.id}.bin"
    ]


def test_a_with_block_does_not_abort_a_job_whose_commit_is_undecided() -> None:
    files = Silent()
    with (
        pytest.raises(CommitOutcomeUnknown) as caught,
        Job("memory://bucket/sales", mode="append", filesystem=files) as job,
    ):
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.bin", b"0")
        files.writes_left, files.applied = 1, True
    assert not hasattr(caught.value, "__notes__")
    files.silent = False
    (done,) = magicfs.Dataset("memory://bucket/sales", filesystem=files).recover().jobs
    assert (done.action, done.files) == ("finished", 1)
