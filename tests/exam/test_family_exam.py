"""The family exam: every committer on every store that has what it needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from magicfs.committers.registry import committer_info
from proofs.committer_exam import LocalBench, MemoryBench, ServerBench
from proofs.committer_exam.family import FamilyExam
from proofs.doubles.servers import Server

COLUMNS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "magic": ("magic", {}),
    "directory": ("directory", {}),
    "partitioned": ("partitioned", {}),
    "manifest": ("manifest", {}),
    "file-v1": ("file", {"algorithm": 1}),
    "file-v2": ("file", {"algorithm": 2}),
    "direct": ("direct", {}),
    "stocator": ("stocator", {}),
    "task-completing": ("task-completing", {}),
}
# Every committer on every server takes long, and ``tox run -e exams`` does it. In the gate each is examined
# in memory, those that rename on local files, and some on one server of S3: each committer there, and each
# body; the magic one has the committer exam. At night each is on one server.

EVERYWHERE = os.environ.get("MAGICFS_EXAMS") == "all"
ON_CEPH = os.environ.get("MAGICFS_EXAMS") == "ceph"
ON_ONE = {
    "ministack": ("directory", "file-v1", "stocator", "task-completing"),
    "seaweedfs": ("partitioned", "direct"),
    "gcs": ("file-v2",),
}


class OnMemory(FamilyExam):
    @pytest.fixture
    def bench(self) -> Iterator[MemoryBench]:
        bench = MemoryBench()
        yield bench
        bench.close()


class OnLocal(FamilyExam):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> LocalBench:
        return LocalBench(tmp_path / "bucket")


@pytest.mark.sample(classes="servers")
class OnServer(FamilyExam):
    server: ClassVar[str]
    bucket_options: ClassVar[Mapping[str, Any]] = {}
    seeds = FamilyExam.seeds if EVERYWHERE else (20261121,)
    many = 1000 if EVERYWHERE else 50

    @pytest.fixture
    def bench(
        self,
        server: Callable[[str], Server],
        bucket_factory: Callable[..., str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> ServerBench:
        running = server(self.server)
        bench = ServerBench(running, bucket_factory(running, "family", **self.bucket_options))
        for name, value in bench.environment().items():
            monkeypatch.setenv(name, value)
        return bench


def examine(base: type[FamilyExam], column: str, place: str, **more: Any) -> None:
    """One committer on one store, as a class that pytest finds."""
    committer, options = COLUMNS[column]
    name = "".join(part.title() for part in f"{column}-on-{place}".split("-"))
    members = {"subject": f"{column} on {place}", "committer": committer, "options": options, **more}
    globals()[f"Test{name}"] = type(f"Test{name}", (base,), members | {"__module__": __name__})


for each in COLUMNS:
    needs = committer_info(COLUMNS[each][0]).needs
    if needs != "rename":
        examine(OnMemory, each, "memory")
    examine(OnLocal, each, "local", pytestmark=[pytest.mark.nightly] if needs == "uploads" else [])
# Work files are written by gcsfs and adlfs themselves, and they send them in a way that aiohttp warns of.
AS_THEY_SEND = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
AT_NIGHT: dict[str, Any] = {"pytestmark": [pytest.mark.nightly, AS_THEY_SEND]}
# Azure's pages hold 5,000, its bulk deletes 256; a thousand renamed one by one take Azurite minutes.
MORE: Mapping[str, Mapping[str, Any]] = {"ministack": {}, "azurite": {"many": 300, **AT_NIGHT}}
for where in ("ministack", "moto", "seaweedfs", "gcs", "azurite"):
    for each in COLUMNS if EVERYWHERE else ON_ONE.get(where, ()):
        if committer_info(COLUMNS[each][0]).needs != "rename":
            examine(OnServer, each, where, server=where, **MORE.get(where, AT_NIGHT))
for each in COLUMNS if ON_CEPH else ():
    if committer_info(COLUMNS[each][0]).needs != "rename":
        examine(OnServer, each, "ceph", server="ceph")
WITH_FOLDERS = {"bucket_options": {"hierarchicalNamespace": {"enabled": True}}, **AT_NIGHT}
for each in COLUMNS if EVERYWHERE else ("magic", "manifest", "file-v1"):
    examine(OnServer, each, "gcs-folders", server="gcs", **WITH_FOLDERS)
    examine(OnServer, each, "adls", server="adls", **AT_NIGHT)
