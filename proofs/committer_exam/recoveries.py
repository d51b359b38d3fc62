"""Drivers that die, are overtaken or come back: every job ends as exactly old or exactly new."""

from __future__ import annotations

from typing import Any

import pytest
from fsspec.asyn import sync

from magicfs.datasets import abort, recover
from magicfs.errors import CommitDenied, PermissionDenied, ProtocolViolation
from magicfs.job.job import Job
from magicfs.report import RecoverReport
from magicfs.stores.port import Store
from proofs.committer_exam.base import DESTINATION, rows_of
from proofs.committer_exam.bench import Bench
from proofs.committer_exam.drivers import Denying, Overtaken, driver_on, dying
from proofs.committer_exam.modes import NEW, ConflictsExam
from proofs.committer_exam.selection import concerns

__all__ = ["RecoveriesExam"]

_URL = f"/{DESTINATION}"


class RecoveriesExam(ConflictsExam):
    """Recovery, rollback, take-over, runs that are run again."""

    def recovered(self, bench: Bench, **how: Any) -> RecoverReport:
        """Recover the destination, as a process would that knows nothing else."""
        return recover(f"{bench.url}{_URL}", **bench.options(), **how)

    def state(self, bench: Bench) -> dict[str, bytes]:
        """All but work objects; of ``_SUCCESS`` only whose it is, for it may be written anew."""
        found = {
            key: bench.read(key)
            for key in bench.listed()
            if "/__magic" not in key and "/_temporary/" not in key
        }
        if f"{DESTINATION}/_SUCCESS" in found:
            found[f"{DESTINATION}/_SUCCESS"] = self.success(bench).job_id.encode()
        return found

    def job_key(self, job: Job) -> str:
        """Beginning of the keys of the job object's versions."""
        return job.spec.work_layout.job_object_key.removesuffix("json")

    def die_among_files(self, job: Job, cut: int) -> None:
        """Commit by a driver that dies after some of the files; after all, but before it has said so."""
        if cut < len(NEW):
            dying(job, job.commits, "complete_upload", cut)
        else:
            moves = 1 if job.spec.options.mode == "append" else 2
            dying(job, job.commits, "put", moves, self.job_key(job))

    def test_job_whose_driver_died_among_its_files_is_finished(
        self, bench: Bench, mode: str, cut: int
    ) -> None:
        self.old_state(bench, mode)
        job = self.new_job(bench, mode)
        self.die_among_files(job, cut)
        assert self.job_object(bench, job).state == "committing"
        assert f"{DESTINATION}/_SUCCESS" not in bench.listed()
        # Everything old is still there.
        assert self.rows(bench) == self.old_rows(mode) + rows_of(*list(enumerate(NEW))[:cut])
        assert [one.action for one in self.recovered(bench, dry_run=True).jobs] == ["would finish"]
        (done,) = self.recovered(bench).jobs
        assert (done.job_id, done.found, done.action) == (job.id, "committing", "finished")
        assert (done.files, done.warnings) == (3, ())
        self.assert_published(bench, job, mode)
        assert self.recovered(bench) == RecoverReport(f"{bench.url}{_URL}")
        # The driver was only slow: it learns that its job is published.
        report = job.commit(job.commits)
        assert (report.files, report.warnings) == (3, ("another process finished the job",))
        self.assert_published(bench, job, mode)

    def test_job_whose_driver_died_among_its_files_is_rolled_back(
        self, bench: Bench, mode: str, cut: int
    ) -> None:
        self.old_state(bench, mode)
        before = self.state(bench)
        job = self.new_job(bench, mode)
        self.die_among_files(job, cut)
        with pytest.raises(CommitDenied, match="is committing and stays so"):
            self.recovered(bench, abort=True)
        (done,) = self.recovered(bench, rollback=True).jobs
        assert (done.job_id, done.found, done.action) == (job.id, "committing", "reverted")
        assert self.state(bench) == before
        self.assert_nothing_left(bench)
        assert not self.recovered(bench).jobs
        with pytest.raises(CommitDenied, match="was not published: another process"):
            job.commit(job.commits)
        job.abort()
        assert self.state(bench) == before

    def test_job_whose_driver_died_when_all_was_visible_can_only_be_finished(
        self, bench: Bench, way: dict[str, Any], mode: str
    ) -> None:
        self.old_state(bench, mode)
        job = self.new_job(bench, mode, **way)
        dying(job, job.commits, "put", 0, f"{DESTINATION}/_magicfs/")
        state, work = self.state(bench), self.work(bench)
        assert self.job_object(bench, job).state == "completed"
        for how in ({"rollback": True}, {"abort": True}):
            with pytest.raises(CommitDenied, match="every file of it is visible; run recover to finish it"):
                self.recovered(bench, **how)
        with pytest.raises(ProtocolViolation, match="is published; nothing was removed"):
            job.abort()
        assert (self.state(bench), self.work(bench)) == (state, work)
        assert self.recovered(bench).jobs[0].action == "finished"
        self.assert_published(bench, job, mode)

    def test_driver_that_is_called_again_after_it_died_goes_on(
        self, bench: Bench, way: dict[str, Any], mode: str
    ) -> None:
        self.old_state(bench, mode)
        job = self.new_job(bench, mode, **way)
        dying(job, job.commits, "complete_upload", 1)
        assert job.commit(job.commits).files == 3
        self.assert_published(bench, job, mode)

    def test_job_that_died_before_its_commit_point_waits_for_somebody_to_decide(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        replacing = self.replacing()[0]
        self.old_state(bench, replacing)
        before = self.state(bench)
        job = self.new_job(bench, replacing, **way)
        dying(job, job.commits, "put", 1, self.job_key(job))
        assert self.job_object(bench, job).state == "prepared"
        work = self.work(bench)
        report = self.recovered(bench)
        assert [(one.job_id, one.action) for one in report.jobs] == [(job.id, "left")]
        assert report.undecided
        assert (self.state(bench), self.work(bench)) == (before, work)
        assert self.recovered(bench, abort=True).jobs[0].action == "aborted"
        assert self.state(bench) == before
        self.assert_nothing_left(bench, elsewhere=True)
        with pytest.raises(CommitDenied, match="was not published: another process"):
            job.commit(job.commits)
        assert self.state(bench) == before
        self.assert_nothing_left(bench)

    @pytest.mark.parametrize("winners", ["given", "listed"])
    @pytest.mark.parametrize("state", ["open", "prepared"])
    def test_new_driver_takes_the_job_of_a_dead_one_over(
        self, bench: Bench, stored_mode: dict[str, Any], state: str, winners: str
    ) -> None:
        """``AbstractITCommitProtocol.testAMWorkflow``; the dead one may be alive after all."""
        replacing = self.replacing()[0]
        first = self.new_job(bench, replacing, **stored_mode)
        commits = first.commits if winners == "given" else None
        if state == "prepared":
            dying(first, commits, "put", 1, self.job_key(first))
        assert self.job_object(bench, first).state == state
        second = self.job(bench, mode=replacing, job_id=first.id, **stored_mode)
        for call in (lambda: first.commit(commits), first.abort):
            with pytest.raises(CommitDenied, match="was taken over by another driver"):
                call()
        assert not self.published(bench)
        assert second.commit(commits, tasks=3).files == 3
        self.assert_published(bench, second, "error")

    def test_job_that_is_being_published_is_not_taken_over(self, bench: Bench) -> None:
        job = self.new_job(bench, self.replacing()[0])
        dying(job, None, "complete_upload", 1)
        work = self.work(bench)
        with pytest.raises(CommitDenied, match="is committing; nothing was changed; run magicfs recover"):
            self.job(bench, mode=job.spec.options.mode, job_id=job.id)
        assert self.work(bench) == work

    def test_rollback_of_two_dead_jobs_wants_a_name(self, bench: Bench) -> None:
        jobs = []
        for number in range(2):
            job = self.job(bench)
            self.run_task(job, number, f"{number}.txt")
            dying(job, job.commits, "complete_upload", 0)
            jobs.append(job)
        state, work = self.state(bench), self.work(bench)
        with pytest.raises(ValueError, match=f"(?s)2 jobs .*{jobs[0].id}.*{jobs[1].id}"):
            self.recovered(bench, rollback=True)
        assert (self.state(bench), self.work(bench)) == (state, work)
        assert self.recovered(bench, job=jobs[1].id).jobs[0].action == "finished"
        assert self.rows(bench) == rows_of((1, "1.txt"))
        assert self.recovered(bench, rollback=True).jobs[0].action == "reverted"
        assert self.rows(bench) == rows_of((1, "1.txt"))
        self.assert_nothing_left(bench)

    def test_recovery_finishes_two_dead_jobs(self, bench: Bench) -> None:
        for number in range(2):
            job = self.job(bench)
            self.run_task(job, number, f"{number}.txt")
            dying(job, job.commits, "complete_upload", 0)
        assert [one.action for one in self.recovered(bench).jobs] == ["finished", "finished"]
        assert self.rows(bench) == rows_of((0, "0.txt"), (1, "1.txt"))
        self.assert_nothing_left(bench)

    def test_recovery_beside_a_living_driver_changes_nothing(self, bench: Bench) -> None:
        """Both complete all files, and one of them ends the job."""
        job = self.new_job(bench, "append")

        async def recovered(store: Store) -> None:
            other = driver_on(job, store)
            await other.commit_job(None)

        store = Overtaken(job.spec.store(), "complete_upload", recovered)
        report = sync(job.spec.loop, driver_on(job, store, 1).commit_job, job.commits, job.found.driver)
        assert store.done
        assert report.files == 3
        self.assert_published(bench, job, "error")

    def test_rollback_beside_a_living_driver_wins_until_the_job_is_completed(self, bench: Bench) -> None:
        job = self.new_job(bench, "append")

        async def rolled_back(store: Store) -> None:
            await driver_on(job, store).abort_job(())

        # After the last file: some servers answer 500 for a complete of an upload that was aborted.
        store = Overtaken(job.spec.store(), "complete_upload", rolled_back, "/more")
        with pytest.raises(CommitDenied, match="was not published: another process"):
            sync(job.spec.loop, driver_on(job, store, 1).commit_job, job.commits, job.found.driver)
        assert store.done
        self.assert_ended(bench)

    @pytest.mark.parametrize("died", ["never", "open", "committing", "completed"])
    def test_run_that_is_run_again_is_published_once(
        self, bench: Bench, way: dict[str, Any], died: str
    ) -> None:
        first = self.new_job(bench, "append", run_id="2026-11-21", **way)
        match died:
            case "never":
                first.commit(first.commits)
            case "committing":
                dying(first, first.commits, "complete_upload", 1)
            case "completed":
                dying(first, first.commits, "put", 0, f"{DESTINATION}/_magicfs/")
        again = self.new_job(bench, "append", run_id="2026-11-21", **way)
        report = again.commit(again.commits)
        published = again if died == "open" else first
        assert (report.published_before, report.job_id) == (died != "open", published.id)
        if died == "open" and self.untold(way, 1):
            untold = self.untold(way, len(NEW))
            assert len(bench.pending()) == (untold if bench.uploads_apart else 0)
        else:
            self.assert_published(bench, published, "error", elsewhere=died != "never")
        if died == "open":
            with pytest.raises(CommitDenied):
                first.commit(first.commits)
        other = self.job(bench, run_id="2026-11-22", **way)
        assert other.found.published is None
        other.abort()
        self.assert_published(bench, published, "error", elsewhere=died in {"committing", "completed"})

    def test_job_does_its_work_without_the_right_to_list_uploads(self, bench: Bench) -> None:
        """HADOOP-17547: not everybody may; what is on record is discarded all the same."""
        job = self.job(bench)
        self.run_task(job, 0, "a.txt")
        self.leave(job, 1, {"lost.txt": b"lost\n"})
        unrecorded = f"{DESTINATION}/z-000002-{job.id}.txt"
        upload = (unrecorded, bench.open_upload(unrecorded))
        driver = driver_on(job, Denying(job.spec.store(), "list_uploads"))
        assert sync(job.spec.loop, driver.setup_job).uploads is None
        report = sync(job.spec.loop, driver.commit_job, job.commits)
        assert report.uploads_aborted == self.waiting(1)
        assert [warning.startswith("uploads of attempts that left no") for warning in report.warnings] == [
            True
        ]
        assert bench.pending() == {upload}
        assert self.rows(bench) == rows_of((0, "a.txt"))
        # Who may list them finds the rest.
        abort(job.url, job=job.id, **bench.options())
        assert not bench.pending()
        assert self.rows(bench) == rows_of((0, "a.txt"))

    def test_abort_without_the_right_to_list_uploads_says_so(self, bench: Bench) -> None:
        job = self.job(bench)
        self.run_task(job, 0, "a.txt")
        self.leave(job, 1, {"lost.txt": b"lost\n"})
        driver = driver_on(job, Denying(job.spec.store(), "list_uploads"))
        with pytest.raises(PermissionDenied, match="list_uploads"):
            sync(job.spec.loop, driver.abort_job, ())
        self.assert_ended(bench)

    @concerns("uploads")
    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_what_a_zombie_leaves_during_the_sweep_is_swept_a_second_time(
        self, bench: Bench, end: str
    ) -> None:
        job = self.job(bench)
        self.run_task(job, 0, "a.txt")
        self.leave(job, 1, {"lost.txt": b"lost\n"})
        late = f"{DESTINATION}/late-000001-{job.id}.txt"

        async def write(store: Store) -> None:
            await store.create_upload(late, metadata={})
            await store.put(f"{job.spec.work_layout.job_directory}/00/tasks/late/__base/late.txt", b"")

        store = Overtaken(job.spec.store(), "delete", write, "/__magic")
        driver = driver_on(job, store)
        if end == "commit":
            assert sync(job.spec.loop, driver.commit_job, job.commits).uploads_aborted == self.waiting(1) + 1
            assert self.rows(bench) == rows_of((0, "a.txt"))
        else:
            sync(job.spec.loop, driver.abort_job, ())
            assert not bench.listed()
        assert store.done
        self.assert_nothing_left(bench)
