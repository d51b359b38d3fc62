"""Giving up, at every stage, once and again: nothing of the attempt or the job is left."""

# ruff: noqa: PT012 - the names of tests are sentences

from __future__ import annotations

import pickle
from typing import Any

import pytest
from fsspec.asyn import sync

from magicfs.errors import CommitFailed, ProtocolViolation
from proofs.committer_exam.base import DESTINATION, Examined, body, rows_of
from proofs.committer_exam.bench import Bench
from proofs.committer_exam.selection import concerns

__all__ = ["AbortsExam"]

_TASK_STAGES = ["set up", "written", "open stream"]
_JOB_STAGES = ["set up", "task set up", "task written", "task committed", "task aborted", "mixed"]


class AbortsExam(Examined):
    """Aborts of tasks and jobs."""

    @pytest.mark.parametrize("stage", _TASK_STAGES)
    def test_aborted_task_leaves_nothing(self, bench: Bench, way: dict[str, Any], stage: str) -> None:
        """``AbstractITCommitProtocol.testAbortTaskNoWorkDone``, ``testAbortTaskThenJob``; twice is once."""
        job = self.job(bench, **way)
        task = job.task(0).setup()
        if stage == "written":
            self.write(task, {"a.txt": b"lost\n", "d/b.txt": b"lost\n"})
        if stage == "open stream":
            with pytest.raises(ZeroDivisionError), self.place.open(task, "a.txt") as file:
                file.write(b"lost\n")
                raise ZeroDivisionError
        task.abort()
        task.abort()
        self.assert_only_set_up(bench, job)
        with pytest.raises(ProtocolViolation, match="already aborted"):
            task.commit()

    @pytest.mark.parametrize("stage", _JOB_STAGES)
    def test_aborted_job_leaves_nothing(self, bench: Bench, way: dict[str, Any], stage: str) -> None:
        """``testAbortJobNoWorkDone``, ``testAbortJobNotTask``, ``testFailAbort``.

        Hadoop's magic committer leaves the uploads of committed tasks pending unless it purges all uploads
        of the destination.
        """
        bench.write(f"{DESTINATION}/old.txt", b"old\n")
        job = self.job(bench, **way)
        if stage in {"task set up", "mixed"}:
            self.vanish(job, 0, {})
        if stage in {"task written", "mixed"}:
            self.vanish(job, 1, {"a.txt": b"lost\n"})
        if stage in {"task committed", "mixed"}:
            self.run_task(job, 2, "b.txt", "d/c.txt")
        if stage in {"task aborted", "mixed"}:
            task = job.task(3).setup()
            self.write(task, {"e.txt": b"lost\n"})
            task.abort()
        job.abort()
        job.abort()
        self.assert_ended(bench, f"{DESTINATION}/old.txt")

    def test_job_is_aborted_by_a_driver_that_knows_only_its_id(
        self, bench: Bench, stored_mode: dict[str, Any]
    ) -> None:
        job = self.job(bench, **stored_mode)
        self.run_task(job, 0, "a.txt")
        self.vanish(job, 1, {"b.txt": b"lost\n"})
        self.job(bench, job_id=job.id, **stored_mode).abort()
        self.assert_ended(bench)

    def test_task_is_aborted_by_another_committer(self, bench: Bench, way: dict[str, Any]) -> None:
        """``AbstractITCommitProtocol.testAMWorkflow``: the driver aborts what a dead worker left."""
        job = self.job(bench, **way)
        task = job.task(0).setup()
        self.write(task, {"a.txt": b"lost\n"})
        elsewhere = pickle.loads(pickle.dumps(job.spec))  # noqa: S301 - our own bytes
        for _ in range(2):
            sync(elsewhere.loop, elsewhere.make_committer().abort_task, task.attempt_id)
        self.assert_only_set_up(bench, job)

    def test_aborting_one_attempt_leaves_the_other(self, bench: Bench, way: dict[str, Any]) -> None:
        job = self.job(bench, **way)
        lost, kept = job.task(0).setup(), job.task(0).setup()
        self.write(lost, {"a.txt": b"lost\n"})
        self.write(kept, {"a.txt": b"kept\n"})
        lost.abort()
        job.commit([kept.commit()])
        assert self.rows(bench) == {"kept": 1}
        self.assert_nothing_left(bench)

    def test_body_that_raises_aborts_the_job(self, bench: Bench, way: dict[str, Any]) -> None:
        with pytest.raises(ZeroDivisionError), self.job(bench, **way) as job:
            self.run_task(job, 0, "a.txt")
            raise ZeroDivisionError
        self.assert_ended(bench)

    def test_set_that_nobody_handed_over_stops_the_with_block(
        self, bench: Bench, stored_mode: dict[str, Any]
    ) -> None:
        with (
            pytest.raises(ProtocolViolation, match=r"tasks 000001 .* their commits were not passed"),
            self.job(bench, **stored_mode) as job,
        ):
            self.run_task(job, 0, "a.txt")
            with pickle.loads(pickle.dumps(job.task(1))) as elsewhere:  # noqa: S301 - our own bytes
                self.write(elsewhere, {"b.txt": b"forgotten\n"})
        self.assert_ended(bench)

    @concerns("uploads")
    def test_file_that_is_still_open_fails_its_task(self, bench: Bench, way: dict[str, Any]) -> None:
        job = self.job(bench, **way)
        task = job.task(0).setup()
        self.write(task, {"a.txt": b"lost\n"})
        stream = self.place.open(task, "open.txt")
        with pytest.raises(
            CommitFailed, match=r"open\.txt'? is still open(?: for writing)?; close every file"
        ):
            task.commit()
        assert len(bench.pending()) == self.uploads_of(1)
        self.place.discard(stream)
        self.assert_only_set_up(bench, job)
        self.run_task(job, 0, "a.txt")
        job.commit(job.commits)
        assert self.rows(bench) == rows_of((0, "a.txt"))

    def test_task_is_not_committed_before_its_files(self, bench: Bench, way: dict[str, Any]) -> None:
        """As pyarrow, which closes its files after a source has failed: they prove nothing about the task."""
        with pytest.raises(ZeroDivisionError), self.job(bench, **way) as job, job.task(0) as task:
            with self.place.open(task, "whole.txt") as file:
                file.write(body(0, "whole.txt"))
            raise ZeroDivisionError
        self.assert_ended(bench)
