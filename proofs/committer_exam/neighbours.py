"""Other jobs and other people beside a job: nothing of theirs is touched."""

from __future__ import annotations

from typing import Any

import pytest

from proofs.committer_exam.base import DESTINATION, Examined, body, rows_of
from proofs.committer_exam.bench import Bench

__all__ = ["NeighboursExam"]

_SIBLINGS = ["dataset10", "dataset", "dataset1 ", "dataset1/nested", "dataset1.bak"]


class NeighboursExam(Examined):
    """Jobs at once, to one destination, to destinations that look alike, and foreign uploads."""

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_two_jobs_at_one_destination_do_not_meet(
        self, bench: Bench, way: dict[str, Any], end: str
    ) -> None:
        """``AbstractITCommitProtocol.testParallelJobsToSameDestination``; Hadoop needs purging off for it."""
        ending, going = self.job(bench, **way), self.job(bench, **way)
        self.run_task(ending, 0, "one.txt")
        self.run_task(going, 0, "other.txt")
        open_task = going.task(1).setup()
        stream = self.place.open(open_task, "stream.txt")
        stream.write(body(1, "stream"))
        self.write(open_task, {"closed.txt": body(1, "closed")})
        ending.commit(ending.commits) if end == "commit" else ending.abort()
        assert len(bench.pending()) == self.waiting(1) + self.uploads_of(2)
        stream.close()
        open_task.commit()
        going.commit(going.commits)
        expected = rows_of((0, "other.txt"), (1, "stream"), (1, "closed"))
        assert self.rows(bench) == expected + (rows_of((0, "one.txt")) if end == "commit" else rows_of())
        self.assert_nothing_left(bench)

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_jobs_at_destinations_of_similar_names_are_left_alone(
        self, bench: Bench, way: dict[str, Any], end: str
    ) -> None:
        """``AbstractITCommitProtocol.testParallelJobsToAdjacentPaths``."""
        ending = self.job(bench, "dataset1", **way)
        self.run_task(ending, 0, "one.txt")
        # An engine may call two jobs alike; below the destination itself only the id tells them apart.
        going = {
            sibling: self.job(bench, sibling, job_id=None if "/" in sibling else ending.id, **way)
            for sibling in _SIBLINGS
        }
        for job in going.values():
            self.run_task(job, 0, "other.txt")
            self.write(job.task(1).setup(), {"later.txt": b"later\n"})
        work = {sibling: self.work(bench, sibling) for sibling in _SIBLINGS}
        pending = len(bench.pending())
        ending.commit(ending.commits) if end == "commit" else ending.abort()
        assert {sibling: self.work(bench, sibling) for sibling in _SIBLINGS} == work
        assert len(bench.pending()) == pending - self.waiting(1)
        for sibling, job in going.items():
            job.commit(job.commits)
            assert self.rows(bench, sibling) == rows_of((0, "other.txt"))
        assert not bench.pending()

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_uploads_and_objects_of_others_under_the_destination_stay(
        self, bench: Bench, way: dict[str, Any], end: str
    ) -> None:
        job = self.job(bench, **way)
        names = [
            "part-0.parquet",
            f"part-0x{job.id}.parquet",
            f"part-0-{job.id}0.parquet",
            f"{job.id}/part-0.parquet",
            "part-0-6f9619ff-8b86-d011-b42d-00c04fc964ff.parquet",
            "__magic_job-other/job-other/00/tasks/t/__base/x",
        ]
        uploads = {(f"{DESTINATION}/{name}", bench.open_upload(f"{DESTINATION}/{name}")) for name in names}
        objects = [
            f"{DESTINATION}/old.parquet",
            f"{DESTINATION}/_temporary/0/x",
            f"{DESTINATION}/__magic_job-other/job-other/00/000000.pendingset",
            f"{DESTINATION}/__magic/job-other/00/000000.pendingset",
            f"{DESTINATION}/__magic_job-{job.id}0/x",
            f"{DESTINATION}/__magic_job-{job.id}/job-{job.id}0/x",
            f"{DESTINATION}/__magic/job-{job.id}0/x",
            f"{DESTINATION}0/__magic_job-{job.id}/job-{job.id}/x",
        ]
        for key in objects:
            bench.write(key, b"theirs")
        self.run_task(job, 0, "a.txt")
        self.vanish(job, 1, {"lost.txt": b"lost\n"})
        job.commit(job.commits) if end == "commit" else job.abort()
        assert bench.pending() == uploads
        assert set(objects) <= set(bench.listed())
        assert all(bench.read(key) == b"theirs" for key in objects)
        # A file, _SUCCESS, manifest and pointer.
        assert len(bench.listed()) == len(objects) + (4 if end == "commit" else 0)
        for upload in uploads:
            bench.abort_upload(*upload)

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_job_with_a_plain_id_takes_no_file_of_that_name_for_its_own(
        self, bench: Bench, stored_mode: dict[str, Any], end: str
    ) -> None:
        job = self.job(bench, job_id="daily", **stored_mode)
        foreign = {
            (f"{DESTINATION}/{name}", bench.open_upload(f"{DESTINATION}/{name}"))
            for name in ("report-daily.parquet", "daily", "part-0-000000-daily.txt")
        }
        self.run_task(job, 0, "part-0.txt")
        self.vanish(job, 1, {"lost.txt": b"lost\n"})
        job.commit(job.commits) if end == "commit" else job.abort()
        if not bench.uploads_apart:  # a file that is put there has dropped it, one that is copied need not
            dropped = {one for one in foreign if one[0] in bench.listed()}
            foreign -= dropped - bench.pending()
        assert bench.pending() == foreign
        for upload in foreign:
            bench.abort_upload(*upload)
        self.assert_nothing_left(bench)
