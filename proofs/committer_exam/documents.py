"""What tasks leave in the store for their job, in Hadoop's formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from magicfs.errors import CommitDenied, CommitFailed
from magicfs.formats.pending import EtagFormat, Pending
from magicfs.formats.pendingset import PendingSet
from proofs.committer_exam.base import DESTINATION, Examined, body, committed, rows_of
from proofs.committer_exam.bench import Bench
from proofs.committer_exam.selection import concerns
from proofs.scenes.known import all_ended

__all__ = ["DocumentsExam"]


class DocumentsExam(Examined):
    """``.pending`` and ``.pendingset`` files, believed and not believed."""

    @concerns("delayed uploads")
    def test_pending_file_describes_its_upload(self, bench: Bench) -> None:
        """``ITestCommitOperations.testCommitSmallFile``, ``testUploadSmallFile``."""
        job = self.job(bench)
        task = job.task(0).setup()
        self.write(task, {"d/a.txt": b"1234"})
        all_ended()
        (key,) = (key for key in self.work(bench) if key.endswith(".pending"))
        pending = Pending.from_bytes(key, bench.read(key))
        assert (pending.destination_key, pending.upload_id) in bench.pending()
        assert pending.length == 4
        assert len(pending.parts) == 1
        assert 0 < pending.created_ms <= pending.saved_ms
        task.abort()

    @concerns("uploads")
    def test_pending_set_names_job_task_and_attempt(self, bench: Bench, kept: dict[str, Any]) -> None:
        """``MagicS3GuardCommitter.innerCommitTask`` patches job and task into every commit."""
        job = self.job(bench, **kept)
        with job.task(0) as task:
            self.write(task, {name: body(0, name) for name in ("a.txt", "b.txt")})
        key = committed(task).set_key
        assert key is not None
        stored = PendingSet.from_bytes(key, self.place.read_set(bench, key))
        assert stored.job_id == job.id
        assert {(c.job_id, c.task_id) for c in stored.commits} == {(job.id, task.attempt_id)}
        assert stored.extra_data == {"task.id": "000000", "task.attempt.id": task.attempt_id}
        assert {(c.destination_key, c.upload_id) for c in stored.commits} == bench.pending()
        job.abort()

    @concerns("uploads")
    @pytest.mark.parametrize("etag_format", ["string", "object"])
    def test_sets_of_either_generation_are_published(
        self, bench: Bench, kept: dict[str, Any], etag_format: EtagFormat
    ) -> None:
        job = self.job(bench, form={"etag_format": etag_format}, **kept)
        self.run_task(job, 0, "a.txt")
        (key,) = self.sets(bench)
        (commit,) = json.loads(self.place.read_set(bench, key))["commits"]
        assert isinstance(commit["etags"][0], str if etag_format == "string" else dict)
        job.commit()
        assert self.rows(bench) == rows_of((0, "a.txt"))

    @concerns("uploads")
    def test_set_is_left_where_hadoop_looks_for_it_if_asked(self, bench: Bench) -> None:
        """HADOOP-17258: a second attempt overwrites the first one's set and does not fail."""
        job = self.job(bench, form={"sets": True})
        for name in ("first.txt", "last.txt"):
            self.run_task(job, 0, name)
        key = job.spec.work_layout.hadoop_set_key(job.commits[0].task_id)
        (commit,) = PendingSet.from_bytes(key, bench.read(key)).commits
        assert commit.task_id == job.commits[1].attempt_id
        assert job.commit().files == 1
        assert sum(self.rows(bench).values()) == 1
        self.assert_nothing_left(bench)

    @concerns("uploads")
    def test_set_without_a_job_id_is_published(self, bench: Bench, kept: dict[str, Any]) -> None:
        """Hadoop's staging committers leave it empty."""
        job = self.job(bench, **kept)
        self.run_task(job, 0, "a.txt")
        self.alter(bench, lambda stored: replace(stored, job_id=""))
        job.commit()
        assert self.rows(bench) == rows_of((0, "a.txt"))

    @concerns("uploads")
    @pytest.mark.parametrize("wrong", ["other job", "other version", "outside", "other bucket", "cut short"])
    def test_set_that_cannot_be_believed_publishes_nothing(
        self, bench: Bench, kept: dict[str, Any], wrong: str
    ) -> None:
        """``AbstractS3ACommitter.loadAndCommit``: "Mismatch in Job ID"; ``PersistentCommitData`` versions."""
        job = self.job(bench, **kept)
        self.run_task(job, 0, "good.txt")
        self.run_task(job, 1, "bad.txt")
        if wrong == "other job":
            self.alter(bench, lambda stored: replace(stored, job_id="other"))
        elif wrong == "outside":
            self.alter(bench, lambda stored: _moved(stored, destination_key=f"{DESTINATION}0/x"))
        elif wrong == "other bucket":
            self.alter(bench, lambda stored: _moved(stored, bucket="other"))
        else:
            key = self.sets(bench)[-1]
            raw = self.place.read_set(bench, key)
            wrote = raw[:-20] if wrong == "cut short" else raw.replace(b'"version":3', b'"version":2')
            self.place.write_set(bench, key, wrote)
        with pytest.raises(CommitFailed, match="nothing was published"):
            job.commit()
        if wrong in {"other version", "cut short"}:
            # As Hadoop's ``loadAndCommit``, which aborts what it can read; the job is over for every driver.
            self.assert_ended(bench)
            with pytest.raises(CommitDenied, match="was not published: another process"):
                job.commit()
        else:
            # Read well, and refused: whoever handed it over may think again.
            assert self.job_object(bench, job).state == "open"
        job.abort()
        self.assert_ended(bench)

    @concerns("uploads")
    def test_upload_that_no_readable_set_and_no_name_tells_is_left_alone(self, bench: Bench) -> None:
        """With plain names nobody can tell whose upload it is, so a lifecycle rule has to."""
        job = self.job(bench, unique_names=False)
        self.run_task(job, 0, "good.txt")
        self.run_task(job, 1, "bad.txt")
        key = self.sets(bench)[-1]
        bench.write(key, bench.read(key)[:-20])
        with pytest.raises(CommitFailed, match="nothing was published"):
            job.commit()
        assert not bench.listed()
        assert [upload[0] for upload in bench.pending()] == [f"{DESTINATION}/bad.txt"]

    def alter(self, bench: Bench, change: Callable[[PendingSet], PendingSet]) -> None:
        """Change the stored set of the task with the greatest id."""
        key = self.sets(bench)[-1]
        stored = PendingSet.from_bytes(key, self.place.read_set(bench, key))
        self.place.write_set(bench, key, change(stored).to_bytes())


def _moved(stored: PendingSet, **changes: Any) -> PendingSet:
    return replace(stored, commits=tuple(replace(commit, **changes) for commit in stored.commits))
