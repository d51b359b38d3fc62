"""Several processes that move one job at once, and answers that prove nothing: exactly old or exactly new."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from magicfs import datasets
from magicfs.committers.magic import MagicCommitter
from magicfs.datasets import recover_jobs
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    MagicError,
    ProtocolViolation,
    Unavailable,
)
from magicfs.formats.manifest import Manifest
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.protocol import paths
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import PutMode
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Crash, Fault, Kind, Request
from proofs.scenes.job_scene import BUCKET, JobScene

pytestmark = [pytest.mark.slow, pytest.mark.sample(most=2)]

OLD = {"p=1/old.bin": b"old"}
NEW = [{"p=1/a.bin": b"new 0"}, {"p=1/b.bin": b"new 1"}, {"p=1/c.bin": b"new 2"}]
WHOLE = [b"new 0", b"new 1", b"new 2", b"old"]


class Play:
    """A job that appends three files, and what other processes do within its requests."""

    def __init__(self, mode: str = "append") -> None:
        self.scene = JobScene()
        self.first = self.scene.published(OLD)
        self.job: Job = self.scene.job(mode)
        self.commits: list[TaskCommit] = self.scene.wrote(self.job, *NEW)
        self.happened = 0

    def before(self, operation: str, part: str, deed: Callable[[], Any], *, skip: int = 0) -> Traffic:
        """Let something happen before one request of the driver."""
        seen = 0

        def look(request: Request) -> None:
            nonlocal seen
            if request.operation == operation and part in request.key:
                seen += 1
                if seen == skip + 1:
                    self.happened += 1
                    deed()

        return Traffic(before=look)

    def recover(self, *faults: Fault, **how: bool) -> Any:
        """Another process recovers the destination; None if it died of a fault."""
        place = paths.parse_url(self.scene.url)

        async def work(_: Any) -> Any:
            try:
                return await recover_jobs(self.scene.engine(Traffic(faults)), place, job=self.job.id, **how)
            except Crash:
                return None

        return self.scene.elsewhere(work)

    def commit(self, traffic: Traffic) -> Any:
        return self.scene.commit(self.job, self.commits, traffic=traffic)

    def assert_old(self) -> None:
        success = self.scene.success()
        assert success is not None
        assert success.job_id == self.first.id
        assert self.scene.bodies() == [b"old"]
        self.assert_clean()

    def assert_new(self) -> None:
        success = self.scene.success()
        assert success is not None
        assert success.job_id == self.job.id
        assert self.scene.bodies() == WHOLE
        self.assert_clean()

    def assert_clean(self) -> None:
        assert (self.scene.work(), self.scene.uploads()) == ([], [])
        assert self.scene.manifest_files() == set(self.scene.data())


def test_late_copy_of_the_setup_does_not_let_a_driver_publish_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    put, written = MemoryStore.put, []

    async def listening(self: MemoryStore, key: str, body: Any, **options: Any) -> Any:
        written.append((key, body, options.get("metadata")))
        return await put(self, key, body, **options)

    scene = JobScene()
    with monkeypatch.context() as context:
        context.setattr(MemoryStore, "put", listening)
        job = scene.job("overwrite")
    commits = scene.wrote(job, *NEW)
    assert datasets.commit(scene.url, job.id, filesystem=scene.filesystem).files == 3
    later = scene.published(OLD, mode="overwrite")
    key, body, metadata = next(one for one in written if one[0].endswith("/job.json"))
    scene.elsewhere(lambda engine: engine.store.put(key, body, metadata=metadata, mode=PutMode.CREATE))
    with pytest.raises(CommitDenied, match="was taken over by another driver"):
        scene.commit(job, commits)
    assert scene.bodies() == [b"old"]
    success = scene.success()
    assert success is not None
    assert success.job_id == later.id
    scene.recover()
    assert (scene.work(), scene.uploads()) == ([], [])


# -- a recovery beside a driver that lives ---------------------------------------------------------------


def test_driver_of_a_store_that_fails_for_uploads_of_a_rolled_back_job_learns_it() -> None:
    # moto answers 500 to the complete of an upload that was aborted.
    play = Play()
    traffic = play.before("complete_upload", "p=1", lambda: play.recover(rollback=True))
    traffic.faults = (Fault(Kind.ERROR_BEFORE, operation="complete_upload", times=None),)
    with pytest.raises(CommitDenied, match="was not published: another process"):
        play.commit(traffic)
    assert play.happened == 1
    play.assert_old()


@pytest.mark.parametrize("skip", range(3))
def test_driver_goes_on_with_a_rollback_that_died(skip: int) -> None:
    play = Play()
    dies = Fault(Kind.CRASH_BEFORE, operation="abort_upload")
    traffic = play.before("complete_upload", "p=1", lambda: play.recover(dies, rollback=True), skip=skip)
    with pytest.raises(CommitDenied, match="was reverted by another process; run the job again"):
        play.commit(traffic)
    assert play.happened == 1
    play.assert_old()


def test_driver_goes_on_with_an_abort_that_died() -> None:
    play = Play()
    dies = Fault(Kind.CRASH_BEFORE, operation="abort_upload")
    traffic = play.before("put", "/job.json", lambda: play.recover(dies, abort=True))
    with pytest.raises(CommitDenied, match="was aborted by another process; run the job again"):
        play.commit(traffic)
    play.assert_old()


def test_two_commits_of_one_driver_at_once_publish_once() -> None:
    """A copy of the job commits, too, and dies once it has announced what it replaces."""
    play = Play("overwrite")
    copy = MagicCommitter(
        play.job.spec.context,
        play.scene.engine(Traffic([Fault(Kind.CRASH_AFTER, operation="put", prefix=object_key(play.job))])),
    )

    async def announces(_: Any) -> None:
        with pytest.raises(Crash):
            await copy.commit_job(play.commits, play.job.found.driver)

    traffic = play.before("put", "/job.json", lambda: play.scene.elsewhere(announces))
    with pytest.raises(
        CommitDenied, match="was changed by another process, and is prepared; nothing was publ"
    ):
        play.commit(traffic)
    assert play.scene.bodies() == [b"old"]
    report = play.commit(Traffic())
    assert (report.files, report.files_deleted) == (3, 1)
    assert play.scene.bodies() == [b"new 0", b"new 1", b"new 2"]
    play.assert_clean()


def object_key(job: Job) -> str:
    return job.spec.work_layout.job_object_key


@pytest.mark.parametrize("number", range(1, 36))
def test_recovery_beside_a_driver_at_any_of_its_requests(number: int) -> None:
    """Whatever the driver is at: both come to the same end."""
    play = Play("overwrite")
    done: list[Any] = []

    def meanwhile(request: Request) -> None:
        if request.number == number:
            found = play.scene.state(play.job)
            done.append(found)
            if found is not None:
                assert play.recover().jobs[0].found == found

    traffic = Traffic(before=meanwhile)
    assert play.commit(traffic).files == 3
    assert len(done) == 1, f"there are but {traffic.count} requests"
    assert play.scene.bodies() == [b"new 0", b"new 1", b"new 2"]
    play.assert_clean()


@pytest.mark.parametrize("how", ["rollback", "abort"])
@pytest.mark.parametrize("number", range(1, 36))
def test_recovery_that_undoes_beside_a_driver_at_any_of_its_requests(number: int, how: str) -> None:
    """It is undone, or it is denied and published; never a part."""
    play = Play("overwrite")
    done: list[Any] = []

    def meanwhile(request: Request) -> None:
        if request.number == number:
            try:
                done.append(play.recover(**{how: True}).jobs[0].action)
            except CommitDenied:
                done.append("denied")

    try:
        play.commit(Traffic(before=meanwhile))
        published = True
    except CommitDenied:
        published = False
    assert published == (done == ["denied"])
    assert play.scene.bodies() == ([b"new 0", b"new 1", b"new 2"] if published else [b"old"])
    success = play.scene.success()
    assert success is not None
    assert success.job_id == (play.job.id if published else play.first.id)
    play.assert_clean()


# -- silence ---------------------------------------------------------------------------------------------


def test_silence_at_the_swap_to_completed_is_undecided_and_a_second_commit_finishes() -> None:
    play = Play()
    silent = Fault(Kind.ERROR_BEFORE, operation="put", prefix=object_key(play.job), skip=1, times=None)
    with pytest.raises(
        CommitOutcomeUnknown, match=r"the store did not answer while job .*nothing was removed"
    ):
        play.commit(Traffic([silent]))
    assert play.scene.state(play.job) == "committing"
    assert play.scene.bodies() == WHOLE
    assert play.commit(Traffic()).files == 3
    play.assert_new()


@pytest.mark.parametrize("kind", [Kind.ERROR_BEFORE, Kind.REPLY_LOST])
@pytest.mark.parametrize("skip", [0, 1])
def test_swap_in_doubt_is_settled_by_the_next_commit(kind: Kind, skip: int) -> None:
    play = Play()
    faults = [
        Fault(kind, operation="put", prefix=object_key(play.job), skip=skip),
        # Nor can it be read back.
        Fault(Kind.ERROR_BEFORE, operation="head", prefix=object_key(play.job), skip=1, times=1),
        Fault(Kind.ERROR_BEFORE, operation="get", prefix=object_key(play.job), skip=1, times=1),
    ]
    try:
        report = play.commit(Traffic(faults))
    except (Unavailable, CommitOutcomeUnknown):
        report = play.commit(Traffic())
    assert report.files == 3
    play.assert_new()


def test_undoing_that_fails_is_told_and_an_abort_finishes_it() -> None:
    play = Play()
    contents = play.scene.filesystem.world.find(BUCKET)
    assert contents is not None
    del contents.uploads[play.scene.uploads()[1][1]]
    failing = Fault(Kind.ERROR_BEFORE, operation="abort_upload", times=None)
    with pytest.raises(
        CommitFailed, match=r"is not published, and could not be fully undone: .*call job\.abort"
    ) as caught:
        play.commit(Traffic([failing]))
    assert [len(caught.value.done), len(caught.value.failed), len(caught.value.not_started)] == [1, 1, 1]
    assert "and undoing it failed: abort_upload of" in "".join(caught.value.__notes__)
    assert play.scene.state(play.job) == "reverting"
    play.job.abort()
    play.assert_old()


@pytest.mark.parametrize("operation", ["head", "abort_upload", "put", "delete_all_matching"])
def test_rollback_that_fails_can_be_repeated(operation: str) -> None:
    play = Play()
    assert play.commit(Traffic([Fault(Kind.CRASH_AFTER, operation="complete_upload")])) is None
    part = {"head": "sales/p=1", "put": "sales/_SUCCESS", "delete_all_matching": "sales/p=1"}
    failing = Fault(Kind.ERROR_BEFORE, operation=operation, prefix=part.get(operation, ""), times=None)
    with pytest.raises(MagicError):
        play.recover(failing, rollback=True)
    assert play.scene.state(play.job) == "reverting"
    play.recover()
    play.assert_old()


def test_file_that_appears_again_and_again_stops_the_rollback() -> None:
    play = Play()
    assert play.commit(Traffic([Fault(Kind.CRASH_AFTER, operation="complete_upload")])) is None
    (key,) = (f"sales/{name}" for name, body in play.scene.data().items() if body == b"new 0")
    metadata = asyncio.run(play.scene.plain.head(key)).metadata
    assert WRITE_ID in metadata

    def again(request: Request) -> None:
        if request.operation == "delete_all_matching" and request.key == key:
            play.scene.elsewhere(lambda engine: engine.store.put(key, b"new 0", metadata=metadata))

    place = paths.parse_url(play.scene.url)

    async def rolls_back(_: Any) -> Any:
        engine = play.scene.engine(Traffic(after=again))
        return await recover_jobs(engine, place, rollback=True)

    with pytest.raises(CommitFailed, match="reappears each time it is removed: a process is still publish"):
        play.scene.elsewhere(rolls_back)
    play.recover()
    play.assert_old()


# -- abort -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["abort", "rollback"])
def test_abort_goes_on_with_what_a_recovery_began(how: str) -> None:
    play = Play()
    if how == "rollback":
        assert play.commit(Traffic([Fault(Kind.CRASH_AFTER, operation="complete_upload")])) is None
    assert play.recover(Fault(Kind.CRASH_BEFORE, operation="abort_upload"), **{how: True}) is None
    play.job.abort()
    play.assert_old()
    play.job.abort()


def test_set_that_cannot_be_believed_is_told_even_if_the_abort_fails() -> None:
    play = Play()
    key = play.commits[0].set_key
    assert key is not None
    play.scene.put(key.removeprefix("sales/"), b"not a set")
    failing = Fault(Kind.ERROR_BEFORE, operation="abort_upload", times=None)
    with pytest.raises(CommitFailed, match="a pending set is malformed or inconsistent") as caught:
        play.scene.commit(play.job, None, failing)
    assert "could not be fully aborted: abort_upload of" in caught.value.__notes__[0]
    assert play.scene.state(play.job) == "aborting"
    play.job.abort()
    play.assert_old()


# -- _SUCCESS --------------------------------------------------------------------------------------------


def test_rollback_before_success_was_hidden_leaves_it_under_another_etag() -> None:
    play = Play()
    assert play.commit(Traffic([Fault(Kind.CRASH_BEFORE, operation="delete_all_matching")])) is None
    body, etag, _ = play.scene.objects()["sales/_SUCCESS"]
    play.recover(rollback=True)
    restored, fenced, _ = play.scene.objects()["sales/_SUCCESS"]
    assert restored == body + b"\n"
    assert fenced != etag
    play.assert_old()


def test_success_of_a_later_job_is_not_replaced_by_an_earlier_one() -> None:
    play = Play()
    assert play.commit(Traffic([Fault(Kind.CRASH_BEFORE, operation="put", prefix="sales/_SUCCESS")])) is None
    later = play.scene.published({"later.bin": b"later"})
    play.recover()
    success = play.scene.success()
    assert success is not None
    assert success.job_id == later.id
    assert play.scene.bodies() == sorted([*WHOLE, b"later"])
    play.assert_clean()


def test_success_of_somebody_else_is_replaced_by_that_of_the_newest_job() -> None:
    play = Play()
    assert play.commit(Traffic([Fault(Kind.CRASH_BEFORE, operation="put", prefix="sales/_SUCCESS")])) is None
    play.scene.put("_SUCCESS", b"somebody's own")
    play.recover()
    play.assert_new()


def test_success_that_is_written_already_is_left() -> None:
    play = Play()
    assert play.commit(Traffic([Fault(Kind.CRASH_AFTER, operation="put", prefix="sales/_SUCCESS")])) is None
    before = play.scene.objects()["sales/_SUCCESS"]
    play.recover()
    assert play.scene.objects()["sales/_SUCCESS"] == before
    play.assert_new()


# -- files -----------------------------------------------------------------------------------------------


def test_file_that_somebody_removed_is_still_in_the_manifest() -> None:
    play = Play()
    assert play.commit(Traffic([Fault(Kind.CRASH_BEFORE, operation="put", prefix="sales/_magicfs/")])) is None
    (name,) = (name for name, body in play.scene.data().items() if body == b"new 1")
    play.scene.delete(name)
    play.recover()
    key = f"sales/_magicfs/{play.job.id}.json"
    listed = {one.key: one.etag for one in Manifest.from_bytes(key, play.scene.objects()[key][0]).files}
    assert len(listed) == 3
    assert [one for one, etag in listed.items() if not etag] == [name]


def test_uploads_without_write_id_only_go_forward() -> None:
    """As those that Hadoop opened: files cannot be told from somebody else's."""
    play = Play()
    assert play.commit(Traffic([Fault(Kind.CRASH_BEFORE, operation="complete_upload")])) is None
    found = play.scene.job_object(play.job)
    assert found is not None
    (chunk,) = found.chunks
    document = json.loads(play.scene.objects()[chunk.key][0])
    for one in document["commits"]:
        one["extraData"] = {}
    raw = json.dumps(document).encode()
    play.scene.put(chunk.key.removeprefix("sales/"), raw)
    name = object_key(play.job)
    whole = json.loads(play.scene.objects()[name][0])
    whole["chunks"][0]["sha256"] = hashlib.sha256(raw).hexdigest()
    play.scene.put(name.removeprefix("sales/"), json.dumps(whole).encode())
    before = play.scene.everything()
    for act in (lambda: play.recover(rollback=True), play.job.abort):
        with pytest.raises(CommitDenied, match="can no longer be rolled back: its files carry no write id"):
            act()
    assert play.scene.everything() == before
    play.recover()
    play.assert_new()


# -- what is taken for a job -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "__magic/x/job.json",
        "__magic/job-a b/job.json",
        "__magic/job-/job.json",
        "__magic/job-x/job.txt",
        "__magic/job-x/deep/job.json",
        "__magic_job-x/job-y/job.json",
        "__magic_job-x/job.json",
        "__magical/job-x/job.json",
        "__magic/job-x/job.00001.json",
    ],
)
def test_what_is_no_job_object_is_none(name: str) -> None:
    scene = JobScene()
    scene.put(name, b"{}")
    assert scene.recover().jobs == ()
    assert scene.job("overwrite", allow_empty=True).found.jobs == ()


# -- how many tasks there are ----------------------------------------------------------------------------


@pytest.mark.parametrize("tasks", [2, 4])
@pytest.mark.parametrize("listed", [False, True])
def test_missing_or_surplus_tasks_publish_nothing(tasks: int, listed: bool) -> None:
    play = Play()
    before = play.scene.everything()
    with pytest.raises(
        ProtocolViolation, match=f"3 tasks of job .* were committed, but {tasks} were expected"
    ):
        play.job.commit(None if listed else play.commits, tasks=tasks)
    assert play.scene.everything() == before
    assert play.job.commit(None if listed else play.commits, tasks=3).tasks == 3
