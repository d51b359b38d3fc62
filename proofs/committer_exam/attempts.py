"""Tasks that run more than once: one attempt counts, the others leave no trace."""

# ruff: noqa: PT012 - the names of tests are sentences

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from magicfs.datasets import abort
from magicfs.errors import CommitDenied, ProtocolViolation
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.task import Task
from proofs.committer_exam.base import DESTINATION, Examined, committed, rows_of
from proofs.committer_exam.bench import Bench
from proofs.committer_exam.drivers import dying_task
from proofs.committer_exam.selection import concerns

__all__ = ["AttemptsExam"]


class AttemptsExam(Examined):
    """Retries, duplicates, zombies."""

    def attempt(self, job: Job, number: int, name: str, row: str) -> TaskCommit:
        """One attempt of a task that writes one file with one row, and commits."""
        with job.task(number) as task:
            self.write(task, {name: f"{row}\n".encode()})
        return committed(task)

    @pytest.mark.parametrize("chosen", [0, 1], ids=["first", "last"])
    def test_of_two_committed_attempts_only_the_chosen_one_is_published(
        self, bench: Bench, way: dict[str, Any], chosen: int
    ) -> None:
        """``AbstractITCommitProtocol.testTwoTaskAttemptsCommit``, where the engine says which one counts."""
        job = self.job(bench, **way)
        # Alike if the first is chosen, so that both attempts have one final key.
        names = ["a.txt", "b.txt" if chosen else "a.txt"]
        attempts = [self.attempt(job, 0, name, f"attempt-{n}") for n, name in enumerate(names)]
        report = job.commit([attempts[chosen]])
        assert self.rows(bench) == {f"attempt-{chosen}": 1}
        assert report.files == 1
        self.assert_swept(bench, report.uploads_aborted, 1, 1 - chosen)
        assert len(self.success(bench).filenames) == 1
        self.assert_nothing_left(bench)

    def test_of_two_committed_attempts_a_listing_takes_one(
        self, bench: Bench, stored_mode: dict[str, Any]
    ) -> None:
        """``testTwoTaskAttemptsCommit``, HADOOP-17258: the last one, as far as the store's clock tells."""
        job = self.job(bench, **stored_mode)
        for n in range(2):
            self.attempt(job, 0, f"{n}.txt", f"attempt-{n}")
        assert job.commit().files == 1
        (row,) = self.rows(bench).elements()
        assert row == "attempt-1" or not self.exact_clock
        self.assert_nothing_left(bench)

    def test_one_pickled_task_that_runs_twice_at_once_is_two_attempts(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        job = self.job(bench, **way)
        pickled = pickle.dumps(job.task(3))
        both_wrote = threading.Barrier(2)

        def run(row: str) -> TaskCommit:
            task: Task = pickle.loads(pickled)  # noqa: S301 - our own bytes
            with task:
                self.write(task, {"part.txt": f"{row}\n".encode()})
                both_wrote.wait(60)
            return committed(task)

        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(run, ["one", "other"])
        assert one.attempt_id != other.attempt_id
        job.commit([other])
        assert self.rows(bench) == {"other": 1}
        self.assert_nothing_left(bench)

    def test_failed_attempt_is_discarded_at_once_and_its_retry_is_published(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        job = self.job(bench, **way)
        with pytest.raises(ZeroDivisionError), job.task(0) as failing:
            self.write(failing, {"a.txt": b"lost\n"})
            raise ZeroDivisionError
        self.assert_only_set_up(bench, job)
        self.run_task(job, 0, "a.txt")
        job.commit(job.commits)
        assert self.rows(bench) == rows_of((0, "a.txt"))
        self.assert_nothing_left(bench)

    def test_attempt_that_vanished_is_swept_by_the_job(self, bench: Bench, way: dict[str, Any]) -> None:
        """``AbstractITCommitProtocol.testCommitJobButNotTask``."""
        job = self.job(bench, **way)
        left = self.vanish(job, 0, {"a.txt": b"lost\n", "d/b.txt": b"lost\n"})
        self.run_task(job, 0, "a.txt")
        self.assert_swept(bench, job.commit(job.commits).uploads_aborted, left, self.uploads_of(1))
        assert self.rows(bench) == rows_of((0, "a.txt"))
        self.assert_nothing_left(bench)

    def test_stream_that_is_open_while_the_job_commits_publishes_nothing(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        job = self.job(bench, **way)
        zombie = job.task(0).setup()
        stream = self.place.open(zombie, "a.txt")
        stream.write(b"zombie\n")
        self.run_task(job, 0, "a.txt")
        job.commit(job.commits)
        # Where names do not tell, a stream that was never closed is recorded nowhere: it stays pending,
        # unless the winner's file, which has the same name, has dropped it.
        stays = way.get("unique_names") is False and bench.uploads_apart
        assert len(bench.pending()) == (stays and self.uploads_of(1))
        assert self.rows(bench) == rows_of((0, "a.txt"))
        self.place.discard(stream)
        self.assert_nothing_left(bench)

    def test_zombie_that_commits_before_the_job_does_is_left_out(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        job = self.job(bench, **way)
        zombie = pickle.loads(pickle.dumps(job.task(0))).setup()  # noqa: S301 - our own bytes
        chosen = self.run_task(job, 0, "a.txt")
        self.write(zombie, {"a.txt": b"zombie\n", "z.txt": b"zombie\n"})
        zombie.commit()
        self.assert_swept(bench, job.commit([chosen]).uploads_aborted, 2, 1)
        assert self.rows(bench) == rows_of((0, "a.txt"))
        self.assert_nothing_left(bench)

    def test_zombie_that_commits_after_the_job_changes_nothing_that_is_visible(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        """HADOOP-16632: what it leaves is harmless, and another abort of the job removes it."""
        job = self.job(bench, **way)
        zombie = Task(job.spec, job.task(0).id)  # which does not look whether its job is there
        pickled = pickle.loads(pickle.dumps(job.task(0)))  # noqa: S301 - our own bytes
        chosen = self.run_task(job, 0, "a.txt")
        job.commit([chosen])
        before = {key: bench.read(key) for key in bench.listed()}
        with pytest.raises(ProtocolViolation, match="was not started, and wrote nothing"):
            pickled.setup()
        zombie.setup()  # a process that has not heard of the end
        self.write(zombie, {"a.txt": b"zombie\n"})
        if self.place.makes_uploads:
            zombie.commit()
        else:  # the directory of manifests went with the job
            with pytest.raises(CommitDenied, match="comes too late"):
                zombie.commit()
        assert self.rows(bench) == rows_of((0, "a.txt"))
        with pytest.raises(CommitDenied, match="is already published; nothing was changed"):
            self.job(bench, job_id=job.id, **way)
        abort(job.url, job=job.id, **bench.options())
        assert {key: bench.read(key) for key in bench.listed()} == before
        assert len(bench.pending()) == (self.untold(way, 1) if bench.uploads_apart else self.hidden(way, 1))

    def test_file_that_is_written_twice_counts_once(self, bench: Bench, way: dict[str, Any]) -> None:
        job = self.job(bench, **way)
        with job.task(0) as task:
            for row in (b"first\n", b"last\n"):
                self.write(task, {"a.txt": row})
        job.commit(job.commits)
        assert self.rows(bench) == {"last": 1}
        self.assert_nothing_left(bench)

    @pytest.mark.parametrize("wrong", ["attempt twice", "two attempts", "other job"])
    def test_commits_that_do_not_belong_together_change_nothing(
        self, bench: Bench, way: dict[str, Any], wrong: str
    ) -> None:
        job, other = self.job(bench, **way), self.job(bench, **way)
        good = self.attempt(job, 0, "a.txt", "good")
        second = self.attempt(job, 0, "b.txt", "second")
        foreign = self.attempt(other, 1, "c.txt", "foreign")
        added = {"attempt twice": good, "two attempts": second, "other job": foreign}[wrong]
        pending = bench.pending()
        with pytest.raises(ProtocolViolation, match="was committed"):
            job.commit([good, added])
        assert not self.published(bench)
        assert bench.pending() == pending
        job.commit([good])
        other.commit([foreign])
        assert self.rows(bench) == {"good": 1, "foreign": 1}
        self.assert_nothing_left(bench)

    def test_nothing_can_be_committed_after_the_job(self, bench: Bench, way: dict[str, Any]) -> None:
        """``AbstractITCommitProtocol.testCommitterWithDuplicatedCommit``, ``CommitterFaultInjection``."""
        job = self.job(bench, **way)
        late = job.task(1).setup()
        chosen = self.run_task(job, 0, "a.txt")
        job.commit([chosen])
        for call in (late.commit, lambda: job.commit([chosen]), job.commit, job.abort):
            with pytest.raises(ProtocolViolation):
                call()
        assert self.rows(bench) == rows_of((0, "a.txt"))

    def test_second_job_attempt_works_apart_and_cleans_up_after_the_first(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        """``AbstractITCommitProtocol.testRecoveryAndCleanup``."""
        first = self.job(bench, **way)
        self.run_task(first, 0, "first.txt")
        second = self.job(bench, job_id=first.id, attempt=1, **way)
        chosen = self.run_task(second, 0, "second.txt")
        second.commit([chosen])
        assert self.rows(bench) == rows_of((0, "second.txt"))
        self.assert_nothing_left(bench)

    @concerns("delayed uploads")
    def test_second_job_attempt_has_work_of_its_own(self, bench: Bench, way: dict[str, Any]) -> None:
        first = self.job(bench, **way)
        second = self.job(bench, job_id=first.id, attempt=1, **way)
        path = second.task(0).setup().path
        assert f"{DESTINATION}/" in path
        assert path.split("/tasks/")[0].endswith("/01")

    @concerns("local files")
    @pytest.mark.parametrize("last", ["create_upload", "put_part"])
    def test_attempt_whose_process_died_in_its_commit_is_swept_by_the_job(
        self, bench: Bench, kept: dict[str, Any], last: str
    ) -> None:
        job = self.job(bench, **kept)
        assert self.died_committing(bench, job, last, 1) == (1 if last == "create_upload" else 2)
        left = len(bench.pending())
        self.run_task(job, 0, "a.txt")
        self.assert_swept(bench, job.commit(job.commits).uploads_aborted, left, left)
        assert self.rows(bench) == rows_of((0, "a.txt"))
        self.assert_nothing_left(bench)

    @concerns("local files")
    def test_attempt_whose_process_died_before_it_kept_its_set_is_swept_by_the_job(
        self, bench: Bench
    ) -> None:
        job = self.job(bench)
        assert self.died_committing(bench, job, "put", 0) == 2
        self.run_task(job, 0, "a.txt")
        self.assert_swept(bench, job.commit(job.commits).uploads_aborted, 2, 2)
        assert self.rows(bench) == rows_of((0, "a.txt"))
        self.assert_nothing_left(bench)

    def died_committing(self, bench: Bench, job: Job, operation: str, after: int) -> int:
        """An attempt of two files whose process dies in its commit; returns how many uploads it leaves."""
        task = job.task(0).setup()
        self.write(task, {"a.txt": b"lost\n", "d/b.txt": b"lost\n"})
        dying_task(job, task, operation, after)
        self.place.die(task)
        return len(bench.pending())
