"""Jobs that fill more than one page of a listing and more than one bulk request."""

from __future__ import annotations

from typing import Any

import pytest

from proofs.committer_exam.base import Examined, body
from proofs.committer_exam.bench import Bench

__all__ = ["SizesExam"]

# Two such tasks fill a page of 1,000 uploads and begin the next.
_MORE_THAN_HALF_A_PAGE = 510


_in_the_gate = pytest.mark.sample(classes="sizes")


class SizesExam(Examined):
    """Many files."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run tests that ask for ``bulk`` in those of the modes in which jobs of many files run."""
        super().pytest_generate_tests(metafunc)
        if "bulk" in metafunc.fixturenames:
            names, modes = zip(*self.bulk_modes(), strict=True)
            metafunc.parametrize("bulk", modes, ids=names)

    def many(self, number: int, files: int) -> dict[str, bytes]:
        """Files of one row each."""
        return {f"d={n % 7}/part-{number}-{n}.txt": body(number, str(n)) for n in range(files)}

    @_in_the_gate
    def test_task_of_many_files_is_published_whole(self, bench: Bench, bulk: dict[str, Any]) -> None:
        job = self.job(bench, **bulk)
        files = self.many(0, 200)
        with job.task(0) as task:
            self.write(task, files)
        assert job.commit(job.commits).files == 200
        assert self.rows(bench) == {content.decode().strip(): 1 for content in files.values()}
        self.assert_nothing_left(bench)

    @_in_the_gate
    def test_more_files_than_a_page_are_published_and_more_losers_are_swept(
        self, bench: Bench, bulk: dict[str, Any]
    ) -> None:
        """Hadoop purges one page of uploads (``cleanup`` of ``AbstractS3ACommitter``)."""
        job = self.job(bench, **bulk)
        files = self.many(0, _MORE_THAN_HALF_A_PAGE)
        # Where there are markers, those of one loser and their .pending fill a page as well.
        losers = 1 if self.place.is_uploaded_at_once and "tracking" not in bulk else 2
        for _ in range(losers):
            self.leave(job, 0, files)
        with job.task(0) as task:
            self.write(task, files)
        report = job.commit(job.commits)
        assert report.files == len(files)
        self.assert_swept(bench, report.uploads_aborted, losers * len(files), losers * len(files))
        assert len(self.published_names(bench)) == len(files)
        self.assert_nothing_left(bench)

    @_in_the_gate
    def test_job_with_more_uploads_than_a_page_is_aborted_whole(self, bench: Bench) -> None:
        job = self.job(bench, **self.cheapest_mode())
        for number in range(2):
            with job.task(number) as task:
                self.write(task, self.many(number, _MORE_THAN_HALF_A_PAGE))
        job.abort()
        self.assert_ended(bench)

    def published_names(self, bench: Bench) -> list[str]:
        """Keys of data, bodies unread."""
        return [key for key in bench.listed() if not key.endswith("_SUCCESS") and "/_magicfs/" not in key]
