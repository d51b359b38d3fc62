"""The committer exam: the magic committer in memory and on three servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from magicfs.stores.memory import default_world
from magicfs.testing.committer_exam import CommitterExam, MemoryBench, ServerBench
from magicfs.testing.committer_exam.base import rows_of
from magicfs.testing.fault_proxy import Action, FaultProxy, Rule
from magicfs.testing.servers import Server

# How a job keeps its work is the committer's own affair, so for each day all of it in memory, and on servers
# one mode or two, are enough; ``tox run -e exams`` examines all servers in all modes, with drivers that die
# at every file.
EVERYWHERE = os.environ.get("MAGICFS_EXAMS") == "all"


class TestMagicOnMemory(CommitterExam):
    subject = "magic on memory"
    exact_clock = True

    @pytest.fixture
    def bench(self) -> Iterator[MemoryBench]:
        bench = MemoryBench()
        yield bench
        bench.close()


class ServerExam(CommitterExam):
    server: str
    modes = CommitterExam.modes if EVERYWHERE else ("store",)
    cuts = CommitterExam.cuts if EVERYWHERE else (1,)
    seeds = CommitterExam.seeds if EVERYWHERE else (20261121,)

    @pytest.fixture
    def bench(
        self,
        server: Callable[[str], Server],
        bucket_factory: Callable[..., str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[ServerBench]:
        before = default_world().buckets()
        running = server(self.server)
        bench = ServerBench(running, bucket_factory(running, "exam"))
        for name, value in bench.environment().items():
            monkeypatch.setenv(name, value)
        yield bench
        # A job that was resolved wrongly would pass in memory what it was to show on the server.
        assert default_world().buckets() == before


class TestMagicOnMinistack(ServerExam):
    subject = "magic on ministack"
    server = "ministack"

    def test_job_whose_policy_denies_to_list_uploads(self, bench: ServerBench) -> None:
        with FaultProxy(bench.server.endpoint) as proxy:
            proxy.add(Rule("ListMultipartUploads", Action.ERROR, status=403, code="AccessDenied"))
            denied = ServerBench(bench.server, bench.bucket, proxy.endpoint)
            job = self.job(denied)
            assert job.found.uploads is None
            self.run_task(job, 0, "a.txt")
            self.write(job.task(1).setup(), {"lost.txt": b"lost\n"})
            (warning,) = job.commit(job.commits).warnings
            assert "could not be looked for" in warning
            assert proxy.counts["ListMultipartUploads"] == 2
        assert self.rows(bench) == rows_of((0, "a.txt"))
        self.assert_nothing_left(bench)


class TestMagicOnMoto(ServerExam):
    subject = "magic on moto"
    server = "moto"

    if not EVERYWHERE:  # It is slow, and two other servers show the same each day.
        test_more_files_than_a_page_are_published_and_more_losers_are_swept = None  # type: ignore[assignment]
        test_job_with_more_uploads_than_a_page_is_aborted_whole = None  # type: ignore[assignment]


class TestMagicOnSeaweedFS(ServerExam):
    subject = "magic on seaweedfs"
    modes = CommitterExam.modes if EVERYWHERE else ("store", "memory")
    server = "seaweedfs"
