"""The committer exam: every committer under a job object, in memory, on local files, on three servers,
on Azurite, and on doubles of GCS, also with folders, and of Azure Data Lake Storage."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

import magicfs
from magicfs.committers.registry import committer_info, committers
from magicfs.errors import CommitDenied, UsageError
from magicfs.stores.memory.store import default_world
from magicfs.testing.exam_summary import ExamSummary
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.committer_exam import CommitterExam, DirectoryBench, MemoryBench, NumberedServerBench, ServerBench
from proofs.committer_exam.base import Examined, rows_of
from proofs.committer_exam.bench import Bench
from proofs.committer_exam.drivers import dying
from proofs.committer_exam.lifecycle import LifecycleExam
from proofs.committer_exam.names import NamesExam
from proofs.committer_exam.selection import LeftOut
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

# How a job keeps its work, and what it makes of its drivers' deaths, is the committer's own affair, so in the
# gate each body runs in memory for magic, in one of the modes and with each other value once, and for one of
# the others; on local files for one. That the answers of servers mean what committers take them to mean one
# server of S3 shows of magic's lifecycle and of names; what servers answer is the store exam's own subject.
# ``tox run -e exams`` examines all committers on all servers in all modes, with drivers that die at every
# file, and jobs of many pages.
pytestmark = pytest.mark.sample
EVERYWHERE = os.environ.get("MAGICFS_EXAMS") == "all"
ON_CEPH = os.environ.get("MAGICFS_EXAMS") == "ceph"
DRIVEN = tuple(name for name, traits in committers().items() if traits.driven)


class OnMemory(CommitterExam):
    exact_clock = True

    @pytest.fixture
    def bench(self) -> Iterator[MemoryBench]:
        bench = MemoryBench()
        yield bench
        bench.close()


class OnLocal(CommitterExam):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> DirectoryBench:
        return DirectoryBench(tmp_path / "bucket")


@pytest.mark.sample(classes="servers")
class OnServer(Examined):
    server: ClassVar[str]
    watched: ClassVar[type[ServerBench]] = ServerBench
    bucket_options: ClassVar[Mapping[str, Any]] = {}
    modes = None if EVERYWHERE else ("store",)
    cuts = Examined.cuts if EVERYWHERE else (1,)
    seeds = Examined.seeds if EVERYWHERE else (20261121,)

    @pytest.fixture
    def bench(
        self,
        server: Callable[[str], Server],
        bucket_factory: Callable[..., str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[ServerBench]:
        before = default_world().buckets()
        running = server(self.server)
        bench = self.watched(running, bucket_factory(running, "exam", **self.bucket_options))
        for name, value in bench.environment().items():
            monkeypatch.setenv(name, value)
        yield bench
        # A job that was resolved wrongly would pass in memory what it was to show on the server.
        assert default_world().buckets() == before


class OnDenyingServer(OnServer):
    def test_job_whose_policy_denies_to_list_uploads(self, bench: ServerBench) -> None:
        with FaultProxy(bench.server.endpoint) as proxy:
            proxy.add(Rule("ListMultipartUploads", Action.ERROR, status=403, code="AccessDenied"))
            denied = ServerBench(bench.server, bench.bucket, proxy.endpoint)
            job = self.job(denied)
            assert job.found.uploads is None
            self.run_task(job, 0, "a.txt")
            self.leave(job, 1, {"lost.txt": b"lost\n"})
            (warning,) = job.commit(job.commits).warnings
            assert "could not be listed" in warning
            # At setup, beside the last steps of the commit, and, as that look failed, in the sweep.
            assert proxy.counts["ListMultipartUploads"] == 3
        assert self.rows(bench) == rows_of((0, "a.txt"))
        self.assert_nothing_left(bench)


class OnMinistack(OnDenyingServer, CommitterExam):
    pass


class OnServerWhole(OnServer, CommitterExam):
    pass


class OnServerInPart(OnServer, LifecycleExam, NamesExam):
    pass


class OnMinistackInPart(OnDenyingServer, OnServerInPart):
    pass


def examine(base: type[Examined], committer: str, place: str, **more: Any) -> None:
    """One committer on one store, as a class that pytest finds."""
    name = "".join(part.title() for part in f"{committer}-on-{place}".split("-"))
    members = {"subject": f"{committer} on {place}", "committer": committer, **more}
    globals()[f"Test{name}"] = type(f"Test{name}", (base,), members | {"__module__": __name__})


WITH_FOLDERS: dict[str, Any] = {"bucket_options": {"hierarchicalNamespace": {"enabled": True}}}
PARTITIONED_IN_PART: dict[str, Any] = {"modes": ("store",), "cuts": (1, 3), "seeds": (20261121,)}

UPLOADING = tuple(name for name in DRIVEN if committer_info(name).needs == "uploads")

OTHERS: dict[str, Any] = {"pytestmark": pytest.mark.sample(classes="other committers")}
for each in UPLOADING:
    others = {} if each == "magic" else OTHERS
    one_mode = {} if EVERYWHERE or each != "partitioned" else PARTITIONED_IN_PART
    examine(OnMemory, each, "memory", **others, **one_mode)
    if EVERYWHERE:
        examine(OnMinistack, each, "ministack", server="ministack")
        examine(OnServerWhole, each, "moto", server="moto")
        examine(OnServerWhole, each, "seaweedfs", server="seaweedfs")
        examine(OnServerWhole, each, "gcs", server="gcs")
        examine(OnServerWhole, each, "gcs-folders", server="gcs", **WITH_FOLDERS)
        examine(OnServerWhole, each, "azurite", server="azurite")
        examine(OnServerWhole, each, "adls", server="adls")
    if ON_CEPH:
        examine(OnServerInPart, each, "ceph", server="ceph", watched=NumberedServerBench)


class Copies(Examined):
    """Where files are copied, a job past its commit point only goes forward."""

    @pytest.mark.parametrize("finished", [0, 1, 2])
    def test_job_whose_driver_died_among_its_copies_only_goes_forward(
        self, bench: Bench, mode: Any, finished: int
    ) -> None:
        job = self.job(bench, mode=mode)
        commits = [self.run_task(job, n, "p=1/a.txt") for n in range(3)]
        dying(job, commits, "complete_upload", finished)
        with pytest.raises(CommitDenied, match="can no longer be rolled back"):
            magicfs.Dataset(job.url, **bench.options()).recover(rollback=True)
        with pytest.raises(CommitDenied, match="can no longer be rolled back"):
            job.abort()
        (done,) = magicfs.Dataset(job.url, **bench.options()).recover().jobs
        assert done.action == "finished"
        assert self.rows(bench) == rows_of(*((n, "p=1/a.txt") for n in range(3)))
        self.assert_nothing_left(bench)


class OnCopies(Copies, OnMemory):
    pass


class OnCopyingServer(Copies, OnServerWhole):
    pass


TAKEN_BACK = (
    "test_job_whose_driver_died_among_its_files_is_rolled_back",
    "test_rollback_of_two_dead_jobs_wants_a_name",
    "test_rollback_beside_a_living_driver_wins_until_the_job_is_completed",
)
# Fsspec's own files of an object store appear when they are closed, whoever closes them, and whenever.
CLOSED_LATE = (
    "test_files_behind_text_and_compression_outlive_their_wrappers",
    "test_stream_that_is_open_while_the_job_commits_publishes_nothing",
)
FOREIGN_FILES: dict[str, Any] = {
    name: LeftOut(getattr(OnMemory, name), "files that are the job's until closed") for name in CLOSED_LATE
}
COPIES: dict[str, Any] = FOREIGN_FILES | {
    name: LeftOut(getattr(OnMemory, name), "what can be taken back") for name in TAKEN_BACK
}
# Work files are written by gcsfs and adlfs themselves, and they send them in a way that aiohttp warns of.
AS_THEY_SEND: dict[str, Any] = {
    "pytestmark": pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
}
WITH_FOREIGN = FOREIGN_FILES | AS_THEY_SEND
if EVERYWHERE:
    # Elsewhere the manifest committer is refused: see the end of this file.
    for each in ("manifest", "file"):
        examine(OnServerWhole, each, "gcs-folders", server="gcs", **WITH_FOLDERS, **WITH_FOREIGN)
        examine(OnServerWhole, each, "adls", server="adls", **WITH_FOREIGN)
    for where in ("ministack", "seaweedfs", "gcs", "azurite"):
        examine(OnCopyingServer, "file", where, server=where, **COPIES, **AS_THEY_SEND)
examine(OnCopies, "file", "memory", **COPIES, **OTHERS, **({} if EVERYWHERE else PARTITIONED_IN_PART))
LOCAL_IN_PART: dict[str, Any] = {"modes": ("store",), "cuts": (1,), "seeds": (20261121,)}
for each in DRIVEN:
    # The manifest committer has no other place.
    one_of = {} if each == "manifest" else {"pytestmark": pytest.mark.sample(classes="local")}
    examine(OnLocal, each, "local", **one_of, **({} if EVERYWHERE else LOCAL_IN_PART))
if not EVERYWHERE:
    examine(OnMinistackInPart, "magic", "ministack", server="ministack")
    for where in ("seaweedfs", "gcs", "azurite"):
        examine(OnServerInPart, "magic", where, server=where, pytestmark=pytest.mark.nightly)

ONLY_DELAYED = (
    "test_listing_is_refused_where_it_shows_nothing",
    "test_pending_file_describes_its_upload",
    "test_second_job_attempt_has_work_of_its_own",
    "test_work_lies_where_the_layout_says",
    "test_work_of_memory_tracking_leaves_no_object",
)
ONLY_LOCAL = (
    "test_attempt_whose_process_died_before_it_kept_its_set_is_swept_by_the_job",
    "test_attempt_whose_process_died_in_its_commit_is_swept_by_the_job",
    "test_work_stays_on_its_machine_until_its_task_commits",
)
ONLY_PARTITIONS = (
    "test_job_that_died_while_it_published_does_not_stop_those_that_replace_apart",
    "test_partitions_that_cannot_be_told_change_nothing",
)
AT_SETUP = (
    "test_fail_refuses_data_before_any_task_runs",
    "test_partitions_of_a_column_that_begins_with_an_underscore_are_data",
)
BY_PARTITION = ("test_fail_refuses_data_in_a_partition_before_its_task_uploads_anything",)


@pytest.mark.parametrize(
    ("committer", "left_out"),
    [
        ("magic", {*ONLY_LOCAL, *BY_PARTITION}),
        ("directory", {*ONLY_DELAYED, *ONLY_PARTITIONS, *BY_PARTITION}),
        ("partitioned", {*ONLY_DELAYED, *AT_SETUP}),
    ],
)
def test_what_does_not_concern_a_committer_is_left_out_and_nothing_else(
    committer: str, left_out: set[str]
) -> None:
    examined: type[Examined] = globals()[f"Test{committer.title()}OnMemory"]
    assert set(examined.left_out) == left_out
    tests = {name for name in dir(CommitterExam) if name.startswith("test_")}
    collected = {name for name in tests if callable(getattr(examined, name))}
    assert collected == tests - left_out


def test_summary_counts_and_names_what_is_left_out(request: pytest.FixtureRequest) -> None:
    summary, said = ExamSummary(), io.StringIO()
    marked = ["committer exam", "mine", True, [], {"test_b": "local files", "test_a": "local files"}]
    where = ("test_x.py", 0, "test")
    properties = [("magicfs-exam", marked)]
    report = pytest.TestReport(
        "test_x.py::test", where, {}, "passed", None, "call", user_properties=properties
    )
    summary.pytest_runtest_logreport(report)
    summary.pytest_terminal_summary(pytest.TerminalReporter(request.config, said))
    assert "committer exam: mine: 1 collected, 1 passed, 0 failed, 0 skipped\n" in said.getvalue()
    assert "  2 left out, only for local files: test_a, test_b\n" in said.getvalue()


def test_every_committer_under_a_job_object_is_examined() -> None:
    assert DRIVEN == ("magic", "directory", "partitioned", "manifest", "file")


@pytest.mark.parametrize("where", ["ministack", "seaweedfs"])
def test_manifest_committer_is_refused_without_renames(
    where: str,
    server: Callable[[str], Server],
    bucket_factory: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = server(where)
    bench = ServerBench(running, bucket_factory(running, "flat"))
    for name, value in bench.environment().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="renames"):
        magicfs.Job(f"{bench.url}/sales", committer="manifest", **arranged(**bench.options())).setup()
    assert bench.listed() == []
