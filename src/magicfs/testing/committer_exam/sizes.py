"""Jobs that fill more than one page of a listing and more than one bulk request."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

from typing import Any

import pytest

from magicfs.testing.committer_exam.base import Examined, body
from magicfs.testing.committer_exam.bench import Bench

__all__ = ["SizesExam"]

# Marker and .pending of each fill a page of 1,000 and begin the next; two such tasks do so with uploads.
_MORE_THAN_HALF_A_PAGE = 510
_LOSERS = {"store": 1, "memory": 2}


class SizesExam(Examined):
    """Many files."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run tests that ask for ``tracking`` in those of ``modes`` that need no more to be said."""
        super().pytest_generate_tests(metafunc)
        rows = [(name, losers) for name, losers in _LOSERS.items() if name in self.modes]
        if "losers" in metafunc.fixturenames:
            metafunc.parametrize(("tracking", "losers"), rows)
        elif "tracking" in metafunc.fixturenames:
            metafunc.parametrize("tracking", [name for name, _ in rows])

    def many(self, number: int, files: int) -> dict[str, bytes]:
        """Files of one row each."""
        return {f"d={n % 7}/part-{number}-{n}.txt": body(number, str(n)) for n in range(files)}

    def test_task_of_many_files_is_published_whole(self, bench: Bench, tracking: Any) -> None:
        job = self.job(bench, tracking=tracking)
        files = self.many(0, 200)
        with job.task(0) as task:
            self.write(task, files)
        assert job.commit(job.commits).files == 200
        assert self.rows(bench) == {content.decode().strip(): 1 for content in files.values()}
        self.assert_nothing_left(bench)

    def test_more_files_than_a_page_are_published_and_more_losers_are_swept(
        self, bench: Bench, tracking: Any, losers: int
    ) -> None:
        """Hadoop purges one page of uploads (``cleanup`` of ``AbstractS3ACommitter``)."""
        job = self.job(bench, tracking=tracking)
        files = self.many(0, _MORE_THAN_HALF_A_PAGE)
        for _ in range(losers):
            self.write(job.task(0).setup(), files)
        with job.task(0) as task:
            self.write(task, files)
        report = job.commit(job.commits)
        assert (report.files, report.uploads_aborted) == (len(files), losers * len(files))
        assert len(self.published_names(bench)) == len(files)
        self.assert_nothing_left(bench)

    def test_job_with_more_uploads_than_a_page_is_aborted_whole(self, bench: Bench) -> None:
        job = self.job(bench, tracking="memory")
        for number in range(2):
            with job.task(number) as task:
                self.write(task, self.many(number, _MORE_THAN_HALF_A_PAGE))
        job.abort()
        assert not bench.listed()
        assert not bench.pending()

    def published_names(self, bench: Bench) -> list[str]:
        """Keys of data, bodies unread."""
        return [key for key in bench.listed() if not key.endswith("_SUCCESS") and "/_magicfs/" not in key]
