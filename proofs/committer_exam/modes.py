"""What each mode makes of what is there, and of other jobs at the same destination."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from magicfs.datasets import recover
from magicfs.errors import CommitDenied, OutputExists, UsageError
from magicfs.job.job import Job
from magicfs.protocol.modes import is_by_partition
from proofs.committer_exam.base import DESTINATION, Examined, body, rows_of
from proofs.committer_exam.bench import Bench
from proofs.committer_exam.drivers import dying
from proofs.committer_exam.selection import concerns

__all__ = ["NEW", "OLD", "ConflictsExam"]

OLD = ("day=1/old.txt", "day=2/old.txt")
"""What the job before wrote."""

NEW = ("day=1/new.txt", "day=3/new.txt", "day=3/more.txt")
"""What the job that is examined writes, each file by a task of its own."""

_NEVER_DELETED = (
    "__magic_job-other/job-other/00/x",
    "_temporary/0/x",
    "_temporary_x/y",
    "_magicfs/other.json",
    "_hidden/x",
    ".dots/x",
    ".dot",
)


class ConflictsExam(Examined):
    """Its modes, one job after another and two at once."""

    def old_state(self, bench: Bench, mode: str) -> None:
        """What is there when a job of this mode begins, published by a job before; nothing for ``error``."""
        if mode != "error":
            job = self.job(bench)
            self.run_task(job, 0, *OLD)
            job.commit(job.commits)

    def new_job(self, bench: Bench, mode: str, **options: Any) -> Job:
        """A job whose three tasks are committed."""
        job = self.job(bench, mode=mode, **options)
        for number, name in enumerate(NEW):
            self.run_task(job, number, name)
        return job

    def old_rows(self, mode: str) -> Counter[str]:
        """The rows before a job of this mode."""
        return rows_of(*((0, name) for name in OLD if mode != "error"))

    def new_rows(self, mode: str) -> Counter[str]:
        """The rows after it."""
        new = rows_of(*enumerate(NEW))
        match mode:
            case "append":
                return new + self.old_rows(mode)
            case "overwrite_partitions":
                return new + rows_of((0, OLD[1]))
            case _:
                return new

    def assert_published(self, bench: Bench, job: Job, mode: str, *, elsewhere: bool = False) -> None:
        """The new state, for readers of listings and of manifests, and nothing else."""
        assert self.rows(bench) == self.new_rows(mode)
        assert self.success(bench).job_id == job.id
        assert self.manifested(job) == set(self.published(bench))
        self.assert_nothing_left(bench, elsewhere=elsewhere)

    def hurry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let a job that meets another one try again once, and at once."""
        monkeypatch.setattr("magicfs.transaction.prepare._TRIES", 2)
        monkeypatch.setattr("magicfs.transaction.prepare._PAUSE_S", 0.001)

    def test_job_makes_of_old_data_what_its_mode_says(
        self, bench: Bench, way: dict[str, Any], mode: str
    ) -> None:
        self.old_state(bench, mode)
        job = self.new_job(bench, mode, **way)
        assert self.rows(bench) == self.old_rows(mode)
        report = job.commit(job.commits)
        assert report.files_deleted == {"overwrite": 2, "overwrite_partitions": 1}.get(mode, 0)
        lost = [warning.partition(":")[0] for warning in report.warnings]
        told = ["1 partition is deleted without new data, such as day=2"] if mode == "overwrite" else []
        assert (report.files, report.mode, lost) == (3, mode, told)
        self.assert_published(bench, job, mode)

    def test_work_of_others_and_hidden_files_are_never_replaced(self, bench: Bench, replacing: str) -> None:
        kept = [f"{DESTINATION}/{name}" for name in _NEVER_DELETED]
        gone = [f"{DESTINATION}/day=1/old.txt", f"{DESTINATION}/day=3/_metadata"]
        if replacing == "overwrite":
            gone += [f"{DESTINATION}/{name}" for name in ("old.txt", "_common_metadata", "_day=1/old.txt")]
        else:
            kept += [
                f"{DESTINATION}/{name}" for name in ("old.txt", "day=2/old.txt", "_metadata", "day=11/x")
            ]
        for key in (*kept, *gone):
            bench.write(key, b"theirs\n")
        job = self.new_job(bench, replacing)
        assert job.commit(job.commits).files_deleted == len(gone)
        listed = bench.listed()
        assert set(kept) <= set(listed)
        assert not set(gone) & set(listed)
        assert all(bench.read(key) == b"theirs\n" for key in kept)
        assert len(listed) == len(kept) + len(NEW) + 3

    @concerns("fail at setup")
    def test_partitions_of_a_column_that_begins_with_an_underscore_are_data(self, bench: Bench) -> None:
        """As for Spark, whose readers look into ``_day=1``."""
        bench.write(f"{DESTINATION}/_day=1/old.txt", b"old\n")
        with pytest.raises(OutputExists, match="_day=1/old"):
            self.new_job(bench, "error")

    def test_fail_minds_data_only(self, bench: Bench) -> None:
        for name in ("_SUCCESS", "_hidden/x", ".dots/x", "_temporary/0/x", "day=1/_x", "__magic_job-other/x"):
            bench.write(f"{DESTINATION}/{name}", b"theirs\n")
        bench.write(f"{DESTINATION}0/data.txt", b"theirs\n")
        job = self.new_job(bench, "error")
        job.commit(job.commits)
        assert sum(self.rows(bench).values()) == len(NEW) + 3
        assert self.success(bench).job_id == job.id

    @concerns("fail by partition")
    def test_fail_refuses_data_in_a_partition_before_its_task_uploads_anything(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        """``PartitionedStagingCommitter.commitTaskInternal``: each task looks at what it touches."""
        old = f"{DESTINATION}/day=1/old.txt"
        bench.write(old, b"old\n")
        job = self.job(bench, mode="error", **way)
        for name in ("day=1/a.txt", "day=1/hour=2/a.txt", "root.txt"):
            task = job.task(0).setup()
            self.write(task, {name: body(0, name)})
            if "hour" in name:
                task.commit()
                continue
            with pytest.raises(OutputExists, match=r"already has data, such as .*old\.txt"):
                task.commit()
        assert len(bench.pending()) == 1
        self.run_task(job, 1, "day=3/a.txt")
        job.commit(job.commits)
        assert self.rows(bench) == Counter(["old"]) + rows_of((0, "day=1/hour=2/a.txt"), (1, "day=3/a.txt"))

    @concerns("fail at setup")
    def test_fail_refuses_data_before_any_task_runs(self, bench: Bench) -> None:
        bench.write(f"{DESTINATION}/day=1/old.txt", b"old\n")
        with pytest.raises(OutputExists, match=r"already has data, such as .*old\.txt"):
            self.job(bench, mode="error")
        assert bench.listed() == [f"{DESTINATION}/day=1/old.txt"]
        assert not bench.pending()

    def test_fail_refuses_data_that_came_while_tasks_ran(self, bench: Bench, way: dict[str, Any]) -> None:
        job = self.new_job(bench, "error", **way)
        old = (
            f"{DESTINATION}/day=1/old.txt"
            if is_by_partition("error", self.committer)
            else f"{DESTINATION}/old.txt"
        )
        bench.write(old, b"old\n")
        with pytest.raises(OutputExists, match="nothing was changed"):
            job.commit(job.commits)
        assert self.rows(bench) == {"old": 1}
        assert len(bench.pending()) == self.waiting(len(NEW))
        job.abort()
        self.assert_ended(bench, old)

    def test_job_without_files_deletes_nothing_unless_that_is_meant(
        self, bench: Bench, replacing: str
    ) -> None:
        self.old_state(bench, replacing)
        before = {key: bench.read(key) for key in bench.listed()}
        job = self.job(bench, mode=replacing)
        with pytest.raises(UsageError, match="'allow_empty': True"):
            job.commit([])
        job.abort()
        assert {key: bench.read(key) for key in bench.listed()} == before
        meant = self.job(bench, mode=replacing, allow_empty=True)
        assert meant.commit([]).files_deleted == (2 if replacing == "overwrite" else 0)
        assert self.rows(bench) == (Counter() if replacing == "overwrite" else self.old_rows(replacing))
        assert self.manifested(meant) == set(self.published(bench))
        self.assert_nothing_left(bench)

    @concerns("overwrite_partitions")
    @pytest.mark.parametrize("names", [("root.txt",), ("a=1/x.txt", "a=1/b=2/y.txt")], ids=["root", "depths"])
    def test_partitions_that_cannot_be_told_change_nothing(
        self, bench: Bench, names: tuple[str, ...]
    ) -> None:
        self.old_state(bench, "overwrite_partitions")
        job = self.job(bench, mode="overwrite_partitions")
        self.run_task(job, 0, *names)
        with pytest.raises(UsageError, match="overwrite_partitions needs"):
            job.commit(job.commits)
        assert self.rows(bench) == self.old_rows("overwrite_partitions")
        job.abort()
        self.assert_nothing_left(bench)

    def test_plain_names_that_are_taken_are_replaced_last_and_for_good(
        self, bench: Bench, replacing: str
    ) -> None:
        for name in ("day=1/new.txt", "day=1/other.txt"):
            bench.write(f"{DESTINATION}/{name}", b"old\n")
        job = self.new_job(bench, replacing, unique_names=False)
        assert job.commit(job.commits).files_deleted == 1
        self.assert_published(bench, job, "error")
        assert sorted(self.published(bench)) == sorted(NEW)

    @pytest.mark.parametrize("name", ["_delta_log/00000000000000000000.json", "metadata/v1.metadata.json"])
    def test_table_of_a_table_format_is_refused(self, bench: Bench, name: str) -> None:
        bench.write(f"{DESTINATION}/{name}", b"{}")
        with pytest.raises(UsageError, match="is a table of"):
            self.job(bench)
        assert bench.listed() == [f"{DESTINATION}/{name}"]

    def test_of_two_jobs_at_once_the_later_commit_meets_the_files_of_the_earlier(
        self, bench: Bench, mode: str
    ) -> None:
        one = self.job(bench, mode="error" if mode == "error" else "append")
        other = self.job(bench, mode=mode)
        self.run_task(one, 0, *OLD)
        for number, name in enumerate(NEW):
            self.run_task(other, number, name)
        assert [(job.job_id, job.state) for job in other.found.jobs] == [(one.id, "open")]
        one.commit(one.commits)
        assert self.rows(bench) == rows_of(*((0, name) for name in OLD))
        if mode == "error":
            with pytest.raises(OutputExists, match="already has data"):
                other.commit(other.commits)
            other.abort()
            assert self.rows(bench) == rows_of(*((0, name) for name in OLD))
            assert self.success(bench).job_id == one.id
        else:
            other.commit(other.commits)
            self.assert_published(bench, other, mode)
        self.assert_nothing_left(bench)

    def test_append_joins_a_job_that_replaced_meanwhile(self, bench: Bench, replacing: str) -> None:
        self.old_state(bench, "append")
        appending = self.job(bench)
        self.run_task(appending, 9, "appended.txt")
        other = self.new_job(bench, replacing)
        other.commit(other.commits)
        appending.commit(appending.commits)
        assert self.rows(bench) == self.new_rows(replacing) + rows_of((9, "appended.txt"))
        assert self.manifested(appending) == set(self.published(bench))
        self.assert_nothing_left(bench)

    def test_job_that_died_while_it_published_stops_those_that_would_delete_beside_it(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, mode: str
    ) -> None:
        self.stopped_or_not(bench, monkeypatch, mode, mode)

    @concerns("overwrite_partitions")
    def test_job_that_died_while_it_published_does_not_stop_those_that_replace_apart(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.stopped_or_not(bench, monkeypatch, "overwrite_partitions", "apart")

    def stopped_or_not(self, bench: Bench, monkeypatch: pytest.MonkeyPatch, mode: str, later: str) -> None:
        self.hurry(monkeypatch)
        going = self.job(bench, mode=mode) if later == "error" else None
        dead = self.job(bench, mode=self.replacing()[-1])
        self.run_task(dead, 5, "day=1/dead.txt", "day=3/dead.txt")
        dying(dead, dead.commits, "complete_upload", 0)
        job = going or self.job(bench, mode=mode)
        self.run_task(job, 0, "day=2/x.txt" if later == "apart" else "day=1/x.txt")
        if later in {"append", "apart"}:
            job.commit(job.commits)
        else:
            with pytest.raises(CommitDenied, match=f"job {dead.id} on .* is committing; nothing was publ"):
                job.commit(job.commits)
            assert not self.published(bench)
            assert [one.job_id for one in recover(dead.url, **bench.options(), job=dead.id).jobs] == [dead.id]
            if later == "error":
                with pytest.raises(OutputExists):
                    job.commit(job.commits)
                job.abort()
            else:
                job.commit(job.commits)
        recover(dead.url, **bench.options())
        left = {"overwrite": ["x"], "overwrite_partitions": ["dead", "x"]}.get(later, ["dead", "dead"])
        left += ["x"] if later in {"append", "apart"} else []
        found = [key.rpartition("/")[2].partition("-")[0] for key in self.published(bench)]
        assert sorted(found) == sorted(left)
        assert self.manifested(dead) == set(self.published(bench))
        self.assert_nothing_left(bench)

    def test_job_object_that_cannot_be_read_stops_a_replacing_job_but_no_appending_one(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, replacing: str
    ) -> None:
        self.hurry(monkeypatch)
        strange = f"{DESTINATION}/__magic_job-other/job-other/job.json"
        bench.write(strange, b'{"format":"magicfs.job/9"}')
        job = self.new_job(bench, replacing)
        assert [(one.job_id, one.state) for one in job.found.jobs] == [("other", None)]
        with pytest.raises(CommitDenied, match="the job object of job other cannot be read"):
            job.commit(job.commits)
        job.abort()
        appending = self.job(bench)
        self.run_task(appending, 0, "a.txt")
        appending.commit(appending.commits)
        assert self.rows(bench) == Counter([body(0, "a.txt").decode().strip()])
        assert self.work(bench) == [strange]
