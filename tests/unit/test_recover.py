"""A driver that is killed at any moment of its commit, and what ``Dataset.recover`` makes of the job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import magicfs
from magicfs.datasets.abort import abort
from magicfs.errors import CommitDenied, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol.modes import WRITE_MODES
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.job_scene import Files, JobScene

pytestmark = [pytest.mark.slow, pytest.mark.sample(most=1)]

TASKS: tuple[Files, ...] = (
    {"p=0/a.bin": b"new 0", "p=1/a.bin": b"new 1"},
    {"p=0/b.bin": b"new 2"},
    {"p=1/c.bin": b"new 3", "p=1/d.bin": b"new 4"},
)
NEW = [b"new %d" % number for number in range(5)]
OLD: tuple[Files, ...] = ({"p=0/old.bin": b"old 0", "p=1/old.bin": b"old 1", "p=2/old.bin": b"old 2"},)
FILES = len(NEW)
WHOLE = {
    "error": NEW,
    "append": [*NEW, b"old 0", b"old 1", b"old 2"],
    "overwrite": NEW,
    "overwrite_partitions": [*NEW, b"old 2"],
}


@dataclass
class Dying:
    """A job of three tasks that has not been committed yet, and the destination before it."""

    mode: str
    ignores: frozenset[str] = frozenset()
    options: dict[str, Any] = field(default_factory=dict)
    past: str = "chain"

    def __post_init__(self) -> None:
        self.scene = JobScene("día 50%/sales", ignores=self.ignores)
        if self.mode != "error":
            if self.past == "chain":
                self.scene.published(*OLD)
            else:
                for name, body in OLD[0].items():
                    self.scene.put(name, body)
                self.scene.put("_SUCCESS", b"")
        self.before = self.scene.data()
        self.beside = {name: self.scene.objects()[self.key(name)] for name in self.scene.below("_magicfs/")}
        self.listed = self.scene.manifest_files()
        self.marked = "_SUCCESS" in self.scene.below()
        self.first = self.scene.success() if self.past == "chain" else None
        self.job = self.scene.job(self.mode, **self.options)
        self.commits: list[TaskCommit] = self.scene.wrote(self.job, *TASKS)

    def key(self, name: str) -> str:
        return f"{self.scene.destination}/{name}"

    def killed_after(self, completes: int) -> None:
        """Its driver dies when so many of its files are visible."""
        how: dict[str, Any] = {"operation": "complete_upload", "prefix": self.scene.destination}
        fault = (
            Fault(Kind.CRASH_AFTER, skip=completes - 1, **how)
            if completes
            else Fault(Kind.CRASH_BEFORE, **how)
        )
        assert self.scene.commit(self.job, self.commits, fault) is None
        assert len(set(self.scene.bodies()) & set(NEW)) == completes

    def killed_when(self, state: str) -> None:
        """Its driver dies right after the job has reached a state."""
        swaps = {"prepared": 0, "committing": 0 if self.mode == "append" else 1}
        swaps["completed"] = swaps["committing"] + 1
        key = self.job.spec.work_layout.job_object_key.removesuffix(".json")
        fault = Fault(Kind.CRASH_AFTER, operation="put", prefix=key, skip=swaps[state])
        assert self.scene.commit(self.job, self.commits, fault) is None
        assert self.scene.state(self.job) == state

    def assert_whole(self) -> None:
        scene = self.scene
        assert scene.bodies() == WHOLE[self.mode]
        success = scene.success()
        assert success is not None
        assert success.job_id == self.job.id
        expected = (
            set(scene.data())
            if self.past == "chain" or self.mode in {"error", "overwrite"}
            else {name for name, body in scene.data().items() if body in NEW}
        )
        assert scene.manifest_files() == expected
        assert (scene.work(), scene.uploads()) == ([], [])

    def assert_as_before(self) -> None:
        scene = self.scene
        assert scene.data() == self.before
        assert ("_SUCCESS" in scene.below()) == self.marked
        if self.first is not None:
            found = scene.success()
            assert found is not None
            assert (found.job_id, found.filenames) == (self.first.job_id, self.first.filenames)
        assert {name: scene.objects()[self.key(name)] for name in scene.below("_magicfs/")} == self.beside
        assert scene.manifest_files() == self.listed
        assert (scene.work(), scene.uploads()) == ([], [])

    def assert_still_old(self) -> None:
        """Before the commit point: exactly old, and the old ``_SUCCESS`` in its place."""
        assert self.scene.data() == self.before
        assert ("_SUCCESS" in self.scene.below()) == self.marked


@pytest.fixture(params=WRITE_MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# -- killed after k of n completes ---------------------------------------------------------------------


@pytest.mark.parametrize("completes", [0, 2, FILES])
def test_recover_makes_the_dataset_whole(mode: str, completes: int) -> None:
    dying = Dying(mode, past="foreign")
    dying.killed_after(completes)
    (recovered,) = dying.scene.recover().jobs
    assert (recovered.job_id, recovered.found, recovered.action) == (dying.job.id, "committing", "finished")
    assert (recovered.files, recovered.warnings) == (FILES, ())
    dying.assert_whole()
    after = dying.scene.everything()
    assert dying.scene.recover().jobs == ()
    assert dying.scene.everything() == after


@pytest.mark.parametrize("completes", [0, 2, FILES])
def test_rollback_restores_the_old_state(mode: str, completes: int) -> None:
    dying = Dying(mode, past="foreign")
    dying.killed_after(completes)
    (recovered,) = dying.scene.recover(rollback=True).jobs
    assert (recovered.found, recovered.action, recovered.warnings) == ("committing", "reverted", ())
    dying.assert_as_before()
    assert dying.scene.recover().jobs == ()


@pytest.mark.parametrize(
    "ignores", [{"put_if_match"}, {"delete", "bulk_delete"}], ids=["no-if-match", "no-conditional-delete"]
)
@pytest.mark.parametrize("rollback", [False, True])
def test_recover_on_stores_that_honour_less(mode: str, ignores: set[str], rollback: bool) -> None:
    dying = Dying(mode, ignores=frozenset(ignores))
    dying.killed_after(2)
    dying.scene.recover(rollback=rollback)
    dying.assert_as_before() if rollback else dying.assert_whole()


@pytest.mark.parametrize(
    "options",
    [{"form": {"layout": "__magic"}}, {"tracking": "memory"}, {"unique_names": False}, {"job_id": "daily"}],
    ids="-".join,
)
@pytest.mark.parametrize("rollback", [False, True])
def test_recover_in_every_layout_and_tracking(mode: str, options: dict[str, Any], rollback: bool) -> None:
    dying = Dying(mode, options=options)
    dying.killed_after(3)
    dying.scene.recover(rollback=rollback)
    dying.assert_as_before() if rollback else dying.assert_whole()


# -- after the point of no return ----------------------------------------------------------------------


# -- cut at every request ------------------------------------------------------------------------------


def cuts(mode: str) -> Iterator[tuple[Dying, str]]:
    """The job once for every changing request of its commit, whose driver dies before it."""
    whole = Dying(mode)
    traffic = Traffic()
    whole.scene.commit(whole.job, whole.commits, traffic=traffic)
    changing = [request for request in traffic.log if request.changes]
    assert len(changing) > FILES + 5
    for request in changing:
        dying = Dying(mode)
        assert (
            dying.scene.commit(dying.job, dying.commits, Fault(Kind.CRASH_BEFORE, number=request.number))
            is None
        )
        yield dying, dying.scene.state(dying.job) or "ended"


def test_recover_after_a_cut_at_any_request(mode: str) -> None:
    met = set()
    for dying, state in cuts(mode):
        met.add(state)
        before = dying.scene.everything()
        report = dying.scene.recover()
        if state in {"open", "prepared"}:
            dying.assert_still_old()
            assert dying.scene.everything() == before, "nobody but its driver knows which tasks count"
            assert [one.action for one in report.jobs] == ["left"]
            assert report.undecided
            dying.scene.recover(abort=True)
            dying.assert_as_before()
        else:
            dying.assert_whole()
            assert not report.undecided
    assert met >= {"open", "committing", "completed"} | ({"prepared"} if mode != "append" else set())


def test_rollback_after_a_cut_at_any_request(mode: str) -> None:
    for dying, state in cuts(mode):
        before = dying.scene.everything()
        if state == "completed":
            with pytest.raises(CommitDenied):
                dying.scene.recover(rollback=True)
            assert dying.scene.everything() == before
            dying.scene.recover()
            dying.assert_whole()
        else:
            dying.scene.recover(rollback=True)
            dying.assert_as_before()


@pytest.mark.parametrize(
    ("rollback", "operation", "name"),
    [
        (False, "complete_upload", "p="),
        (False, "put", "_magicfs/"),
        (False, "put", "_SUCCESS"),
        (True, "abort_upload", "p="),
        (True, "delete_all_matching", "p="),
        (True, "put", "_SUCCESS"),
    ],
)
def test_recovery_that_died_itself_is_finished_by_the_next(rollback: bool, operation: str, name: str) -> None:
    dying = Dying("overwrite")
    dying.killed_after(3)
    cut = Fault(Kind.CRASH_AFTER, operation=operation, prefix=dying.key(name))
    assert dying.scene.recover(cut, rollback=rollback) is None
    dying.scene.recover()
    dying.assert_as_before() if rollback else dying.assert_whole()


# -- dry runs, choosing, bad input ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "how", "action"),
    [
        ("prepared", {}, "left"),
        ("prepared", {"abort": True}, "would abort"),
        ("prepared", {"rollback": True}, "would abort"),
        ("committing", {}, "would finish"),
        ("committing", {"rollback": True}, "would revert"),
        ("completed", {}, "would finish"),
    ],
)
def test_dry_run_tells_and_changes_nothing(state: str, how: dict[str, Any], action: str) -> None:
    dying = Dying("overwrite")
    dying.killed_when(state)
    before = dying.scene.everything()
    report = dying.scene.recover(dry_run=True, **how)
    (job,) = report.jobs
    assert (job.job_id, job.found, job.action, job.files) == (
        dying.job.id,
        state,
        action,
        0 if state == "prepared" else FILES,
    )
    assert job.age_s >= 0
    assert job.deleted == len(OLD[0])
    assert report.undecided
    assert report.to_dict()["jobs"][0]["action"] == action
    assert dying.scene.everything() == before


def test_recover_where_nothing_is_unfinished_does_nothing() -> None:
    scene = JobScene()
    scene.published({"a.bin": b"1"})
    before = scene.everything()
    report = scene.recover()
    assert (report.url, report.jobs, report.undecided) == (scene.url, (), False)
    for how in ({"rollback": True}, {"abort": True}, {"job": "daily"}):
        with pytest.raises(UsageError, match=r"no unfinished job .*nothing was changed"):
            scene.recover(**how)
    assert scene.everything() == before


def test_open_jobs_beside_are_reported_and_left() -> None:
    scene = JobScene()
    waiting = scene.job()
    dying = scene.job()
    fault = Fault(Kind.CRASH_BEFORE, operation="complete_upload", prefix=scene.destination)
    assert scene.commit(dying, scene.wrote(dying, {"a.bin": b"1"}), fault) is None
    found = {one.job_id: one.action for one in scene.recover().jobs}
    assert found == {waiting.id: "left", dying.id: "finished"}
    assert scene.state(waiting) == "open"
    waiting.commit(scene.wrote(waiting, {"b.bin": b"2"}))
    assert scene.bodies() == [b"1", b"2"]


def test_rollback_and_abort_together_are_refused() -> None:
    with pytest.raises(UsageError, match="give rollback or abort"):
        JobScene().recover(rollback=True, abort=True)
    with pytest.raises(UsageError, match="give either filesystem or storage_options"):
        magicfs.Dataset("memory://b/x", filesystem=JobScene().filesystem, storage_options={"a": 1}).recover()


@pytest.mark.parametrize("published", [True, False])
def test_abort_clears_the_versions_of_an_ended_job_whose_object_went_in_part(published: bool) -> None:
    """Where versions are numbered they go one by one, the first one first: then the job has ended."""
    scene = JobScene(ignores=frozenset({"put_if_match"}))
    job = scene.job()
    commits = scene.wrote(job, {"a": b"1"})
    (first,) = (key for key in scene.work() if key.endswith("/job.json"))
    second = f"sales/{first}".replace("job.json", "job.00001.json")
    assert scene.commit(job, commits, Fault(Kind.CRASH_BEFORE, operation="delete", prefix=second)) is None
    assert scene.state(job) is None
    left = [key.rpartition("/")[2] for key in scene.work()]
    assert left == [f"job.{number:05d}.json" for number in range(1, len(left) + 1)]
    if not published:
        scene.delete(f"_magicfs/{job.id}.json")
    how: dict[str, Any] = {"job": job.id, "filesystem": scene.filesystem}
    (would,) = abort(scene.url, dry_run=True, **how).jobs
    assert would.action == "would sweep"
    assert len(scene.work()) == len(left) > 0
    (done,) = abort(scene.url, **how).jobs
    assert done.action == "swept"
    assert scene.work() == []
    assert scene.bodies() == [b"1"]
