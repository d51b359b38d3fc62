"""The task-completing committer: visible at task commit, and the weaknesses that it declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import magicfs
from magicfs.committers.base import Committer
from magicfs.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    ProtocolViolation,
)
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids, paths
from magicfs.stores.conditions import Conditions, assume
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault, Kind
from proofs.committer_exam.classic import ClassicExam
from proofs.scenes.arranged import arranged
from proofs.scenes.destination_scene import ONE, TWO, DestinationScene
from proofs.scenes.final_scene import FinalScene
from proofs.scenes.known import files_of

URL = "memory://bucket/sales"
TRACKING = pytest.mark.parametrize("tracking", ["store", "memory"])


class Files(MemoryFileSystem):
    """One process's way to the bucket."""

    def __init__(self, world: World, traffic: Traffic) -> None:
        super().__init__(world=world)
        self.traffic = traffic
        self.actor = Actor("process")

    def store(self, bucket: str) -> Store:
        """A store whose requests fail as told."""
        return faulty(super().store(bucket), self.traffic, self.actor)


class Scene(DestinationScene):
    """A destination in memory."""

    def __init__(self) -> None:
        self.world = World()
        self.world.create_bucket("bucket")
        super().__init__(MemoryStore("bucket", self.world), paths.parse_url(URL))
        assume(self.store, Conditions())

    def job(self, *faults: Fault, **options: Any) -> magicfs.Job:
        """A job in a process of its own, whose requests fail as told."""
        files = Files(self.world, Traffic(faults))
        given = {"committer": "task-completing", "mode": "append", "concurrency": 1, **options}
        return magicfs.Job(URL, filesystem=files, **arranged(**given))

    def again(self, job: magicfs.Job, *faults: Fault) -> magicfs.Job:
        """The same job in another process."""
        return self.job(*faults, job_id=job.id, tracking=job.spec.options.tracking).setup()

    def committer(self, job: magicfs.Job, *faults: Fault) -> Committer:
        """Its committer in another process."""
        return self.again(job, *faults).spec.make_committer()

    def abort(self, job: magicfs.Job, commits: Sequence[TaskCommit], *faults: Fault) -> None:
        """Abort it in another process."""
        self.run(self.committer(job, *faults).abort_job, commits)

    def requests(self, job: magicfs.Job) -> Counter[str]:
        """What a job's process has asked for since the last call."""
        traffic: Traffic = job.spec.filesystem.traffic  # type: ignore[union-attr]
        counted = Counter(request.operation for request in traffic.log)
        traffic.log.clear()
        return counted


@pytest.fixture
def scene() -> Scene:
    return Scene()


def begun(job: magicfs.Job, files: dict[str, bytes], number: int = 0) -> magicfs.Task:
    """A task that has written its files."""
    task = magicfs.Task(job.spec, ids.task_id(number)).setup()
    for name, body in files.items():
        task.filesystem.pipe_file(f"{task.path}/{name}", body)
    return task


def wrote(job: magicfs.Job, *tasks: dict[str, bytes]) -> list[TaskCommit]:
    return [begun(job, files, number).commit() for number, files in enumerate(tasks)]


class TestTaskCompleting(ClassicExam):
    committer = "task-completing"
    promises = frozenset(
        {
            "abortable_task",
            "committed_task_output_observable",
            "repeatable_job_commit",
            "speculative_tasks",
        }
    )
    abort_fault = Fault(Kind.ERROR_BEFORE, operation="head", prefix="sales/day")

    @pytest.fixture
    def scene(self, memory: FinalScene) -> FinalScene:
        """A store of this machine has no uploads."""
        return memory


# -- what it does ------------------------------------------------------------------------------------------


@TRACKING
def test_files_are_visible_from_their_task_commit_on(scene: Scene, tracking: str) -> None:
    job = scene.job(tracking=tracking).setup()
    first = begun(job, ONE)
    assert scene.data() == {}
    assert len(scene.uploads()) == 2
    commits = [first.commit()]
    names = [f"day=1/part-0-000000-{job.id}.csv", f"day=2/part-0-000000-{job.id}.csv"]
    assert sorted(scene.data()) == names
    assert scene.success() is None
    commits.append(begun(job, TWO, 1).commit())
    scene.requests(job)
    report = job.commit(commits, tasks=2)
    requests = scene.requests(job)
    assert (requests["put"], requests["complete_upload"], requests["head"]) == (1, 0, 0)
    assert (report.files, len(scene.data())) == (3, 3)
    assert scene.uploads() == []
    assert not files_of(first).open


def test_a_large_commit_travels_through_the_store(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    from magicfs.formats import task_commit

    monkeypatch.setattr(task_commit, "INLINE_LIMIT", 10)
    job = scene.job().setup()
    commits = wrote(job, ONE, TWO)
    assert [one.content for one in commits] == [None, None]
    assert scene.bodies() == [b"one\n", b"two\n", b"uno\n"]
    assert job.commit(commits).files == 3


def test_a_second_call_for_the_same_attempt_returns_the_same(scene: Scene) -> None:
    job = scene.job().setup()
    task = begun(job, ONE)
    commit = task.commit()
    assert scene.run(scene.committer(job).commit_task, task.id, task.attempt_id) == commit
    assert scene.bodies() == [b"one\n", b"uno\n"]
    assert job.commit([commit]).files == 2


# -- task commits that do not succeed ----------------------------------------------------------------------


@TRACKING
def test_an_upload_that_is_gone_fails_the_task_and_takes_back_the_others(scene: Scene, tracking: str) -> None:
    job = scene.job(tracking=tracking).setup()
    task = begun(job, {"a.csv": b"a", "b.csv": b"b", "c.csv": b"c"})

    async def lose() -> None:
        async for upload in scene.store.list_uploads("sales/b"):
            await scene.store.abort_upload(upload.key, upload.upload_id)

    scene.run(lose)
    with pytest.raises(CommitFailed, match="files were removed") as caught:
        task.commit()
    assert [len(one) for one in (caught.value.done, caught.value.failed, caught.value.not_started)] == [1] * 3
    assert caught.value.failed == (f"sales/b-000000-{job.id}.csv",)
    assert scene.data() == {}
    assert scene.uploads() == []
    assert scene.run(job.spec.make_committer().committed_tasks) == []
    job.commit(wrote(job, ONE))
    assert scene.bodies() == [b"one\n", b"uno\n"]


@TRACKING
def test_silence_leaves_all_as_it_is_and_the_task_commits_again(scene: Scene, tracking: str) -> None:
    silent = [Fault(Kind.ERROR_BEFORE, operation="complete_upload", skip=1)]
    silent.append(Fault(Kind.ERROR_BEFORE, operation="head", prefix="sales/day=2"))
    job = scene.job(*silent, tracking=tracking).setup()
    task = begun(job, ONE)
    with pytest.raises(CommitOutcomeUnknown, match="commit the task again") as caught:
        task.commit()
    assert [len(one) for one in (caught.value.done, caught.value.failed)] == [1, 1]
    assert scene.bodies() == [b"one\n"]
    commit = task.commit()
    assert (commit.files, scene.bodies()) == (2, [b"one\n", b"uno\n"])
    assert job.commit([commit]).files == 2


@TRACKING
@pytest.mark.parametrize("kind", [Kind.REPLY_LOST, Kind.REFUSED])
def test_a_lost_reply_is_read_back(scene: Scene, tracking: str, kind: Kind) -> None:
    job = scene.job(Fault(kind, operation="complete_upload"), tracking=tracking).setup()
    job.commit(wrote(job, ONE))
    assert scene.bodies() == [b"one\n", b"uno\n"]


# -- job commits and aborts --------------------------------------------------------------------------------


@TRACKING
def test_attempts_that_did_not_commit_are_swept(scene: Scene, tracking: str) -> None:
    job, other = scene.job(tracking=tracking).setup(), scene.job(tracking=tracking).setup()
    begun(job, {"lost.csv": b"lost"}, 1)
    theirs = begun(other, TWO)
    report = job.commit(wrote(job, ONE))
    assert report.uploads_aborted == 1
    assert scene.uploads() == [f"sales/day=1/part-0-000000-{other.id}.csv"]
    other.commit([theirs.commit()])
    assert scene.bodies() == [b"one\n", b"two\n", b"uno\n"]
    assert not [name for name in scene.files() if name.startswith("__magic")]


def test_commits_that_nobody_handed_over_are_noticed(scene: Scene) -> None:
    def run() -> None:
        with scene.job() as job:
            begun(job, ONE).commit()

    with pytest.raises(ProtocolViolation, match="000000"):
        run()
    assert scene.success() is None


def test_with_tracking_in_memory_no_listing_shows_tasks(scene: Scene) -> None:
    job = scene.job(tracking="memory").setup()
    wrote(job, ONE)
    assert scene.run(job.spec.make_committer().committed_tasks) == []


def test_two_tasks_of_one_key_are_refused(scene: Scene) -> None:
    job = scene.job(unique_names=False).setup()
    with pytest.raises(CommitFailed, match="written by two tasks") as caught:
        job.commit(wrote(job, TWO, TWO))
    assert "already visible" in caught.value.__notes__[0]
    assert scene.success() is None


def test_a_commit_that_names_a_set_of_somebody_else_is_refused(scene: Scene) -> None:
    job = scene.job().setup()
    (commit,) = wrote(job, ONE)
    with pytest.raises(CommitFailed, match="does not belong to job"):
        job.commit([replace(commit, content=None, set_key="elsewhere")])
    assert scene.success() is None


def test_an_abort_leaves_files_that_another_job_has_put_in_their_place(scene: Scene) -> None:
    job, later = scene.job(unique_names=False).setup(), scene.job(unique_names=False).setup()
    ours = wrote(job, ONE)
    theirs = wrote(later, TWO)
    scene.run(job.spec.make_committer().abort_job, ours)
    assert scene.bodies() == [b"two\n"]
    later.commit(theirs)


# -- what it promises, and the weaknesses that it declares -------------------------------------------------


def crashed(scene: Scene, job: magicfs.Job, task: magicfs.Task) -> None:
    """Commit a task in a process that dies after its first file has become visible."""
    fault = Fault(Kind.CRASH_AFTER, operation="complete_upload")
    assert scene.dies(scene.committer(job, fault).commit_task, task.id, task.attempt_id)


def test_weakness_a_task_commit_that_dies_shows_a_part(scene: Scene) -> None:
    job = scene.job().setup()
    dead = begun(job, {"a.csv": b"dead", "b.csv": b"dead"})
    crashed(scene, job, dead)
    assert scene.bodies() == [b"dead"]
    assert scene.run(job.spec.make_committer().committed_tasks) == ["000000"]
    again = begun(job, {"b.csv": b"row"})
    job.commit([again.commit()])
    assert scene.bodies() == [b"dead", b"row"], "what the next attempt does not name again stays"
    assert scene.uploads() == []


def test_a_task_commit_that_died_can_be_finished(scene: Scene) -> None:
    job = scene.job().setup()
    dead = begun(job, {"a.csv": b"row", "b.csv": b"row"})
    crashed(scene, job, dead)
    commit = scene.run(job.spec.make_committer().commit_task, dead.id, dead.attempt_id)
    assert (commit.files, len(scene.data())) == (2, 2)
    assert job.commit([commit]).files == 2


def test_weakness_two_attempts_that_commit_are_both_published(scene: Scene) -> None:
    job = scene.job().setup()
    loser, winner = begun(job, {"a.csv": b"lost", "b.csv": b"lost"}), begun(job, {"b.csv": b"won"})
    loser.commit()
    job.commit([winner.commit()])
    assert scene.bodies() == [b"lost", b"won"]


def test_weakness_an_aborted_job_leaves_what_it_is_not_told_of(scene: Scene) -> None:
    job = scene.job().setup()
    wrote(job, ONE)
    scene.abort(job, [])
    assert scene.bodies() == [b"one\n", b"uno\n"]
