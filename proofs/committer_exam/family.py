"""What every committer must do, whatever it promises: publish what was committed, once, and leave no work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from magicfs.errors import OutputExists, ProtocolViolation, UsageError
from magicfs.job.job import Job
from proofs.committer_exam.base import DESTINATION, Examined, body, committed, rows_of
from proofs.committer_exam.bench import Bench
from proofs.committer_exam.names import hostile
from proofs.committer_exam.places import Place

__all__ = ["FamilyExam"]

_OLD = {"old.txt": b"old\n", "day=1/old.txt": b"older\n"}


class FamilyExam(Examined):
    """A committer of any kind, through ``Job`` and ``Task`` alone.

    Attributes:
        options: Options of the committer.
        many: How many files a task of many files writes.
    """

    exam: ClassVar[str] = "family exam"
    options: ClassVar[Mapping[str, Any]] = {}
    many: ClassVar[int] = 1000

    @classmethod
    def kind_of_place(cls) -> type[Place]:
        """Every attempt writes through ``task.filesystem``."""
        return Place

    def job(self, bench: Bench, destination: str = DESTINATION, **options: Any) -> Job:
        return super().job(bench, destination, **{"committer_options": self.local(self.options), **options})

    def local(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, with directories of this test in place of ``work_directory``."""
        return dict(options)

    def lay_down(self, bench: Bench, destination: str = DESTINATION) -> None:
        """Old data of somebody else."""
        for name, content in _OLD.items():
            bench.write(f"{destination}/{name}", content)

    def assert_old(self, bench: Bench, destination: str = DESTINATION) -> None:
        """Nothing but the old data is visible."""
        assert self.published(bench, destination) == _OLD

    def assert_clean(self, bench: Bench, destination: str = DESTINATION) -> None:
        """No pending upload, and nothing of the job but what readers need."""
        assert not bench.pending(f"{destination}/")
        left = [
            key
            for key in bench.listed(f"{destination}/")
            if key.removeprefix(f"{destination}/").startswith(("__magic", "_temporary"))
        ]
        assert left == []

    def test_nested_partitions_of_several_tasks_are_published(self, bench: Bench) -> None:
        self.lay_down(bench)
        job = self.job(bench)
        names = ["a.txt", "day=1/b.txt", "day=1/hour=2/c.txt", "day=2/hour=3/minute=4/d.txt"]
        for number in range(3):
            self.run_task(job, number, *names)
        report = job.commit(job.commits)
        assert (report.tasks, report.files) == (3, 12)
        assert report.bytes == sum(len(body(n, name)) for n in range(3) for name in names)
        found = self.rows(bench)
        assert found == rows_of(*((n, name) for n in range(3) for name in names)) + rows_of_old()
        directories = {name.rpartition("/")[0] for name in self.published(bench)}
        assert directories == {"", "day=1", "day=1/hour=2", "day=2/hour=3/minute=4"}
        assert self.success(bench).committer == report.committer == self.committer
        assert self.success(bench).job_id == job.id
        self.assert_clean(bench)

    def test_tasks_without_files_and_a_job_without_tasks(self, bench: Bench) -> None:
        job = self.job(bench)
        with job.task(0) as task:
            assert not task.needs_commit()
        self.run_task(job, 1, "a.txt")
        assert job.commit(job.commits).files == 1
        assert self.rows(bench) == rows_of((1, "a.txt"))
        empty = self.job(bench, "empty")
        assert empty.commit([]).files == 0
        assert self.published(bench, "empty") == {}
        assert self.success(bench, "empty").job_id == empty.id
        self.assert_clean(bench, "empty")

    def test_a_task_of_many_files(self, bench: Bench) -> None:
        job = self.job(bench)
        names = [f"day={number % 7}/{number}.txt" for number in range(self.many)]
        self.run_task(job, 0, *names)
        assert job.commit(job.commits).files == self.many
        assert self.rows(bench) == rows_of(*((0, name) for name in names))
        self.assert_clean(bench)

    def test_a_task_that_raises_is_run_again(self, bench: Bench) -> None:
        self.lay_down(bench)
        job = self.job(bench)
        with pytest.raises(ZeroDivisionError):
            self._fail(job)
        self.run_task(job, 0, "a.txt")
        self.run_task(job, 1, "a.txt")
        job.commit(job.commits)
        assert self.rows(bench) == rows_of((0, "a.txt"), (1, "a.txt")) + rows_of_old()
        self.assert_clean(bench)

    def _fail(self, job: Job) -> None:
        with job.task(0) as task:
            self.write(task, {"a.txt": b"of the attempt that failed\n", "b.txt": b"lost\n"})
            raise ZeroDivisionError

    def _run_in_mode_fail(self, bench: Bench) -> None:
        job = self.job(bench, mode="error")
        self.run_task(job, 0, "day=1/a.txt")
        job.commit(job.commits)

    @pytest.mark.parametrize("stage", ["set up", "written", "committed"])
    def test_job_that_is_aborted_leaves_the_old_data_and_no_work(self, bench: Bench, stage: str) -> None:
        self.lay_down(bench)
        job = self.job(bench)
        if stage == "written":
            task = job.task(0).setup()
            self.write(task, {"a.txt": body(0, "a.txt")})
            task.abort()
        elif stage == "committed":
            self.run_task(job, 0, "a.txt", "day=1/b.txt")
        job.abort()
        job.abort()
        if stage != "committed" or self.abortable(job):
            self.assert_old(bench)
        else:
            assert {name: content for name, content in self.published(bench).items() if name in _OLD} == _OLD
        self.assert_clean(bench)
        assert f"{DESTINATION}/_SUCCESS" not in bench.listed(DESTINATION)

    def abortable(self, job: Job) -> bool:
        """Whether the committer says that an abort of the job takes back what tasks have committed."""
        return job.spec.make_committer().guarantees.abortable_job

    def test_two_jobs_at_one_destination_publish_both(self, bench: Bench) -> None:
        self.lay_down(bench)
        first, second = self.job(bench), self.job(bench)
        self.run_task(first, 0, "a.txt")
        self.run_task(second, 0, "a.txt")
        self.run_task(first, 1, "b.txt")
        first.commit(first.commits)
        self.run_task(second, 1, "b.txt")
        second.commit(second.commits)
        twice = rows_of((0, "a.txt"), (1, "b.txt"))
        assert self.rows(bench) == twice + twice + rows_of_old()
        self.assert_clean(bench)

    def test_a_job_leaves_destinations_of_like_names_alone(self, bench: Bench) -> None:
        names = ("dataset1", "dataset10", "dataset1/0", "data")
        for name in names:
            bench.write(f"{name}/old.txt", name.encode() + b"\n")
        jobs = [self.job(bench, name) for name in names[:2]]
        for job in jobs:
            self.run_task(job, 0, "a.txt")
        jobs[0].abort()
        jobs[1].commit(jobs[1].commits)
        later = self.job(bench, names[0])
        self.run_task(later, 0, "b.txt")
        later.commit(later.commits)
        assert self.rows(bench, "dataset10") == rows_of((0, "a.txt")) + Counter({"dataset10": 1})
        assert bench.read("dataset1/0/old.txt") == b"dataset1/0\n"
        assert bench.listed("data/") == ["data/old.txt"]
        for name in names[:2]:
            self.assert_clean(bench, name)

    def test_files_of_hostile_names(self, bench: Bench, seed: int) -> None:
        job = self.job(bench)
        names = [name for name in hostile(seed) if not any(e[0] in "_." for e in name.split("/"))]
        self.run_task(job, 0, *names)
        job.commit(job.commits)
        assert self.rows(bench) == rows_of(*((0, name) for name in names))
        self.assert_clean(bench)

    def test_mode_fail_refuses_data_and_append_keeps_it(self, bench: Bench) -> None:
        self._run_in_mode_fail(bench)
        with pytest.raises(OutputExists):
            self._run_in_mode_fail(bench)
        assert self.rows(bench) == rows_of((0, "day=1/a.txt"))

    def test_destination_that_is_a_file_is_refused(self, bench: Bench) -> None:
        bench.write("some/file", b"content")
        with pytest.raises(UsageError, match="is a file"):
            self.job(bench, "some/file")
        assert bench.listed("some") == ["some/file"]

    def test_commits_that_do_not_belong_together_publish_nothing(self, bench: Bench) -> None:
        job, other = self.job(bench), self.job(bench, "other")
        good, foreign = self.run_task(job, 0, "a.txt"), self.run_task(other, 0, "b.txt")
        before = self.published(bench)
        for commits, tasks in (([good, foreign], None), ([good, good], None), ([good], 2)):
            with pytest.raises(ProtocolViolation):
                job.commit(commits, tasks=tasks)
            assert self.published(bench) == before
        job.commit([good])
        assert self.rows(bench) == rows_of((0, "a.txt"))

    def test_a_large_file_and_an_empty_one(self, bench: Bench) -> None:
        job = self.job(bench)
        large = bytes(range(256)) * 4096 * 12
        with job.task(0) as task:
            self.write(task, {"large.bin": large, "day=1/empty.bin": b""})
        job.commit([committed(task)])
        assert sorted(self.published(bench).values(), key=len) == [b"", large]
        self.assert_clean(bench)


def rows_of_old() -> Counter[str]:
    """The rows of the old data."""
    return Counter(content.decode().strip() for content in _OLD.values())
