"""The committer exam: the magic committer in memory and on three servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from magicfs.stores.memory import default_world
from magicfs.testing.committer_exam import CommitterExam, MemoryBench, ServerBench
from magicfs.testing.servers import Server

# How a job keeps its work is the committer's own affair, so one server in every mode is enough for each day;
# ``tox run -e exams`` examines all of them in all modes.
EVERYWHERE = os.environ.get("MAGICFS_EXAMS") == "all"
DAILY = CommitterExam.modes if EVERYWHERE else ("store", "memory")


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


class TestMagicOnMoto(ServerExam):
    subject = "magic on moto"
    modes = DAILY
    server = "moto"


class TestMagicOnSeaweedFS(ServerExam):
    subject = "magic on seaweedfs"
    modes = DAILY
    server = "seaweedfs"
