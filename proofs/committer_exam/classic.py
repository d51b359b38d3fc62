"""What direct, stocator and task-completing have in common: files are visible before the job commit."""

# ruff: noqa: S301 - they read only what they have pickled

from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from magicfs.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    OutputExists,
    ProtocolViolation,
    Unavailable,
    UsageError,
)
from magicfs.formats.task_commit import TaskCommit
from magicfs.stores.conditions import Conditions, assume
from magicfs.testing import strategies
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.destination_scene import ONE, TWO, raising_at_first
from proofs.scenes.final_scene import FinalScene, another_process

__all__ = ["ClassicExam"]

# Bytes of names that still fit a key when they have become unique.
_ROOM = 800
_ALL = [b"one\n", b"two\n", b"uno\n"]


class ClassicExam:
    """A committer that has no job object, and publishes no file by renaming it."""

    committer: ClassVar[str]
    promises: ClassVar[frozenset[str]]
    """The guarantees that are True."""
    losers_are_read: ClassVar[bool] = False
    """Whether a reader sees what an attempt wrote that did not commit before the job did."""
    zombies_are_read: ClassVar[bool] = True
    """Whether a reader sees what an attempt committed after the job."""
    abort_fault: ClassVar[Fault] = Fault(Kind.ERROR_BEFORE, operation="delete")
    """Keeps an abort of a job from removing what its commits tell of."""

    @pytest.fixture
    def memory(self) -> FinalScene:
        another_process()
        scene = FinalScene(self.committer)
        assume(scene.store, Conditions())
        return scene

    @pytest.fixture(params=["memory", "local"])
    def scene(self, request: pytest.FixtureRequest, tmp_path: Path) -> FinalScene:
        if request.param == "memory":
            return cast("FinalScene", request.getfixturevalue("memory"))
        another_process()
        return FinalScene(self.committer, tmp_path)

    def read(self, scene: FinalScene) -> list[bytes]:
        """The content of the files that a reader takes for data, sorted."""
        return scene.bodies()

    # -- what it does --------------------------------------------------------------------------------------

    def test_a_job_is_published_and_can_be_committed_again(self, scene: FinalScene) -> None:
        job = scene.job().setup()
        commits = job.wrote(ONE, TWO)
        assert [(one.files, one.bytes) for one in commits] == [(2, 8), (1, 4)]
        assert scene.success() is None
        report = job.commit([pickle.loads(pickle.dumps(one)) for one in reversed(commits)], tasks=2)
        assert (report.tasks, report.files, report.bytes) == (2, 3, 12)
        assert (report.job_id, report.committer, report.warnings) == (job.id, self.committer, ())
        assert set(report.filenames) == {f"{scene.location.url}/{name}" for name in scene.data()}
        success = scene.success()
        assert success is not None
        assert (success.committer, success.job_id) == (self.committer, job.id)
        assert set(success.filenames) == {f"/{scene.location.key}/{name}" for name in scene.data()}
        assert success.statistics.counters["committer_bytes_committed"] == 12
        before = scene.data()
        assert job.commit(commits).files == 3
        assert scene.data() == before
        assert self.read(scene) == _ALL
        assert sorted(scene.files()) == sorted([*before, "_SUCCESS"]), "no work is left"

    @pytest.mark.parametrize(
        "name", [one for one in strategies.leaves(strategies.HOSTILE_KEYS) if len(one.encode()) < _ROOM]
    )
    def test_hostile_names(self, memory: FinalScene, name: str) -> None:
        job = memory.job().setup()
        commits = job.wrote({name: b"one", f"d/{name}": b"one"}, {name: b"two"})
        job.attempt(0).write(f"e/{name}", b"lost")
        job.commit(commits)
        bodies = [body for other, body in memory.files().items() if other != "_SUCCESS"]
        assert sorted(bodies) == [*[b"lost"] * self.losers_are_read, b"one", b"one", b"two"]
        assert self.read(memory) == memory.bodies()
        memory.job().setup().abort()
        assert len(memory.files()) == len(bodies) + 1

    def test_an_empty_job_and_an_empty_task(self, scene: FinalScene) -> None:
        job = scene.job().setup()
        attempt = job.attempt(0)
        assert not attempt.needs_commit()
        report = job.commit([attempt.commit()])
        assert (report.tasks, report.files) == (1, 0)
        assert job.commit([], tasks=0).tasks == 0
        assert list(scene.files()) == ["_SUCCESS"]

    def test_fail_looks_at_the_data_that_is_there(self, scene: FinalScene) -> None:
        scene.put("old.csv")
        with pytest.raises(OutputExists):
            scene.job("error").setup()

    def test_what_it_promises(self, memory: FinalScene) -> None:
        committer = memory.job().committer
        promised = committer.guarantees.to_dict()
        assert {name for name, value in promised.items() if value} == self.promises
        assert not committer.is_recovery_supported
        assert committer.is_task_commit_repeatable
        with pytest.raises(UsageError, match="run the tasks again"):
            memory.run(committer.recover_tasks)

    # -- tasks ---------------------------------------------------------------------------------------------

    def test_a_file_that_is_still_open_fails_the_task(self, scene: FinalScene) -> None:
        attempt = scene.job().setup().attempt()
        attempt.write("a.csv")
        file = attempt.filesystem.open(f"{attempt.path}/b.csv", "wb")
        with pytest.raises(CommitFailed, match="still open"):
            attempt.commit()
        file.abort()
        assert scene.data() == {}
        assert not attempt.needs_commit()

    def test_an_aborted_task_leaves_nothing_of_its_own(self, scene: FinalScene) -> None:
        scene.put("old.csv")
        job = scene.job().setup()
        kept = job.wrote(ONE)
        attempt = job.attempt(1)
        attempt.write("a.csv")
        assert attempt.needs_commit()
        attempt.abort()
        attempt.abort()
        job.attempt(2).abort()
        assert job.commit(kept).files == 2
        assert scene.bodies() == [b"old\n", b"one\n", b"uno\n"]

    def test_a_zombie_adds_to_what_is_published(self, scene: FinalScene) -> None:
        job = scene.job().setup()
        zombie, best = job.attempt(0), job.attempt(0)
        best.write("part-0.csv", b"won\n")
        job.commit([best.commit()])
        zombie.write("part-1.csv", b"late\n")
        assert zombie.commit().files == 1
        assert scene.bodies() == [b"late\n", b"won\n"], "partitioned_executor_resilience is False"
        assert self.read(scene) == [*[b"late\n"] * self.zombies_are_read, b"won\n"]

    # -- job commits ---------------------------------------------------------------------------------------

    def test_commits_that_do_not_belong_together_are_refused(self, scene: FinalScene) -> None:
        job = scene.job().setup()
        commits = job.wrote(ONE, TWO)
        given: Sequence[list[TaskCommit] | None] = (
            None,
            [*commits, commits[0]],
            [*commits, _changed(commits[0], attempt_id="attempt-000000-other")],
            [_changed(commits[0], job_id="another")],
        )
        for one in given:
            with pytest.raises(ProtocolViolation):
                job.commit(one)
        with pytest.raises(ProtocolViolation, match="3 were expected"):
            job.commit(commits, tasks=3)
        with pytest.raises(CommitFailed, match="run its task again"):
            job.commit([_changed(commits[0], content=b"x")])
        assert scene.success() is None
        assert scene.bodies() == _ALL

    def test_silence_about_success_is_not_taken_for_a_failure(self, scene: FinalScene) -> None:
        job = scene.job().setup()
        commits = job.wrote(ONE)
        for kind in (Kind.ERROR_BEFORE, Kind.REPLY_LOST):
            with pytest.raises(CommitOutcomeUnknown, match="commit the job again"):
                job.with_faults(Fault(kind, operation="put")).commit(commits)
        assert job.commit(commits).files == 2
        assert self.read(scene) == [b"one\n", b"uno\n"]

    def test_uploads_of_killed_writers_are_aborted(self, memory: FinalScene) -> None:
        job, other = memory.job().setup(), memory.job().setup()
        for one in (job, other):
            memory.run(_left_upload, memory, one.id)
        assert job.commit(job.wrote(ONE)).uploads_aborted == 1
        assert len(memory.uploads()) == 1
        other.abort()
        assert memory.uploads() == []

    def test_uploads_that_cannot_be_looked_for_are_a_warning(self, memory: FinalScene) -> None:
        job = memory.job().setup()
        commits = job.wrote(ONE)
        faulty = job.with_faults(Fault(Kind.ERROR_BEFORE, operation="list_uploads", times=None))
        (warning,) = faulty.commit(commits).warnings
        assert "could not be listed" in warning
        assert memory.success() is not None

    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_a_commit_that_dies_anywhere_can_be_repeated(self, kind: Kind) -> None:
        for number in count(1):
            scene = FinalScene(self.committer)
            assume(scene.store, Conditions())
            job = scene.job().setup()
            commits = job.wrote(ONE, TWO)
            job.attempt(0).write("part-0.csv", b"lost\n")
            died = job.dies(Fault(kind, number=number), commits)
            if died:
                job.commit(commits)
            assert self.read(scene) == sorted([*[b"lost\n"] * self.losers_are_read, *_ALL])
            assert sorted(scene.files()) == sorted([*scene.data(), "_SUCCESS"])
            assert scene.uploads() == []
            if not died:
                break
        assert number > 3

    # -- aborts --------------------------------------------------------------------------------------------

    def test_an_aborted_job_removes_what_commits_tell_and_what_it_can_find(self, scene: FinalScene) -> None:
        scene.put("old.csv")
        job, other = scene.job().setup(), scene.job().setup()
        commits, theirs = job.wrote(ONE), other.wrote(ONE)
        another_process()
        job.attempt(1).write("a.csv")
        malformed = _changed(commits[0], task_id="000009", content=b"x")
        job.abort([*commits, malformed, *theirs])
        job.abort(commits)
        assert scene.bodies() == [b"old\n", b"one\n", b"uno\n"], "the old file and the other job's"
        assert scene.uploads() == []
        assert other.commit(theirs).files == 2

    def test_an_abort_that_fails_can_be_repeated(self, memory: FinalScene) -> None:
        job = memory.job().setup()
        commits = job.wrote(ONE)
        with pytest.raises(Unavailable):
            job.with_faults(self.abort_fault).abort(commits)
        job.abort(commits)
        assert memory.files() == {}

    def test_a_job_that_is_published_is_not_aborted(self, scene: FinalScene) -> None:
        job = scene.job().setup()
        commits = job.wrote(ONE)
        job.commit(commits)
        before = scene.files()
        with pytest.raises(ProtocolViolation, match="is published"):
            job.abort(commits)
        job.abort()
        assert scene.files() == before

    # -- through Job and Task ------------------------------------------------------------------------------

    def test_an_engines_task_that_raises_is_run_again(self, memory: FinalScene) -> None:
        with ThreadPoolExecutor(1) as pool, memory.users_job() as job:
            assert len(job.map(raising_at_first(), range(3), executor=pool)) == 3
        assert self.read(memory) == [b"000000\n", b"000001\n", b"000002\n"]
        assert (job.report.files, memory.uploads()) == (3, [])

    def test_a_job_whose_body_raises_leaves_nothing(self, memory: FinalScene) -> None:
        def run() -> None:
            with memory.users_job() as job:
                for number in range(2):
                    with job.task(number) as task:
                        task.filesystem.pipe_file(f"{task.path}/part-0.csv", b"row\n")
                open_task = job.task(2).setup()
                open_task.filesystem.pipe_file(f"{open_task.path}/part-0.csv", b"row\n")
                raise RuntimeError("bad row")

        with pytest.raises(RuntimeError, match="bad row"):
            run()
        assert memory.files() == {}
        assert memory.uploads() == []


def _changed(commit: TaskCommit, **values: Any) -> TaskCommit:
    return replace(commit, **values)


async def _left_upload(scene: FinalScene, job: str) -> None:
    await scene.store.create_upload(f"sales/a-000000-{job}.csv", metadata={})
