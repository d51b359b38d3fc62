"""The four modes in memory: what they do about data that is there, and about other jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from magicfs.committers.magic import MagicCommitter
from magicfs.datasets import recover_jobs
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    MagicError,
    OutputExists,
    ProtocolViolation,
    UsageError,
)
from magicfs.job.job import Job
from magicfs.protocol import paths
from magicfs.protocol.modes import WRITE_MODES
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from magicfs.transaction import prepare
from magicfs.transaction.context import JobSetup
from proofs.scenes.job_scene import BUCKET, JobScene

pytestmark = pytest.mark.sample(most=3)

NEW = {"p=1/a.bin": b"new"}
MODES = pytest.mark.parametrize("mode", WRITE_MODES)


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def put(scene: JobScene, files: Mapping[str, bytes]) -> None:
    for name, body in files.items():
        scene.put(name, body)


def unchanged_by(scene: JobScene, work: Callable[[], Any], told: str, kind: type[MagicError]) -> None:
    before = scene.everything()
    with pytest.raises(kind, match=told):
        work()
    assert scene.everything() == before


# -- fail ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", ["a.bin", "p=1/deep/a.bin", "a b%.bin"])
def test_fail_refuses_data_at_setup_and_changes_nothing(scene: JobScene, there: str) -> None:
    scene.put(there, b"old")
    unchanged_by(scene, lambda: scene.job("error"), rf"already has data, such as sales/{there}", OutputExists)


@pytest.mark.parametrize(
    "there",
    [
        "_SUCCESS",
        "_logs/x",
        ".hidden",
        "p=1/",
        "p=1/.part.crc",
        "_temporary/0/a.bin",
        "_magicfs/x.json",
        "__magic_job-x/a",
        "_metadata",
    ],
)
def test_fail_does_not_take_for_data_what_engines_do_not(scene: JobScene, there: str) -> None:
    scene.put(there)
    scene.published(NEW, mode="error")
    assert scene.bodies() == ([b"", b"new"] if there == "p=1/" else [b"new"])
    assert there == "_SUCCESS" or there in scene.below()


def test_fail_looks_again_before_the_commit_point(scene: JobScene) -> None:
    job = scene.job("error")
    commits = scene.wrote(job, NEW)
    scene.put("p=1/somebody.bin", b"theirs")
    with pytest.raises(OutputExists, match=r"such as sales/p=1/somebody\.bin.*nothing was changed"):
        job.commit(commits)
    assert (scene.state(job), scene.bodies(), len(scene.uploads())) == ("open", [b"theirs"], 1)
    scene.delete("p=1/somebody.bin")
    assert job.commit(commits).files == 1
    assert scene.bodies() == [b"new"]


def test_fail_in_a_with_block_leaves_nothing(scene: JobScene) -> None:
    job = Job(scene.url, mode="error", filesystem=scene.filesystem)
    with pytest.raises(OutputExists), job:
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.bin", b"new")
        scene.put("theirs.bin", b"theirs")
    assert (scene.below(), scene.uploads()) == (["theirs.bin"], [])


# -- append --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "error"])
def test_name_that_is_taken_after_the_look_is_refused_by_the_store(scene: JobScene, mode: str) -> None:
    job = scene.job(mode, unique_names=False)
    commits = scene.wrote(job, {**NEW, "p=2/b.bin": b"new 2"})
    traffic = Traffic(before=taken_before("complete_upload", "sales/p=1/a.bin", scene, "p=1/a.bin"))
    with pytest.raises(CommitFailed, match=r"could not be published; the .* visible files were"):
        scene.commit(job, commits, traffic=traffic)
    assert scene.data() == {"p=1/a.bin": b"theirs"}
    assert (scene.work(), scene.uploads(), scene.success()) == ([], [], None)


def taken_before(operation: str, key: str, scene: JobScene, name: str) -> Callable[[Request], None]:
    """Somebody writes a file just before a request."""

    def taken(request: Request) -> None:
        if (request.operation, request.key) == (operation, key) and name not in scene.data():
            scene.put(name, b"theirs")

    return taken


# -- replace -------------------------------------------------------------------------------------------

KEPT = {
    "_temporary/0/a.bin": b"hadoop's",
    "p=0/_temporary_x/a.bin": b"hive's",
    "_logs/x": b"log",
    ".hidden/x": b"hidden",
    "p=0/_x": b"underscore",
    "p=0/.x.crc": b"crc",
    "_magicfs/notes.txt": b"notes",
    "p=0/": b"",
    "p=0/__magic/x": b"hadoop's job",
    "p=0/__magic_job-x/a": b"another's job",
}
GONE = {
    "a.bin": b"1",
    "p=0/a.bin": b"2",
    "p=1/x/y.bin": b"3",
    "_metadata": b"4",
    "p=0/_common_metadata": b"5",
}


def test_replace_removes_data_and_never_what_is_no_data(scene: JobScene) -> None:
    put(scene, {**KEPT, **GONE})
    job = scene.published(NEW, mode="overwrite")
    assert job.report.files_deleted == len(GONE)
    below = scene.below()
    assert not set(below) & GONE.keys()
    assert set(below) >= KEPT.keys()
    assert scene.bodies() == sorted([b"", b"new"])
    assert "replaced    5 old files" in str(job.report)


@pytest.mark.slow
@pytest.mark.parametrize("number", [999, 1000, 1001])
def test_replace_of_more_than_one_chunk(scene: JobScene, number: int) -> None:
    for each in range(number):
        scene.put(f"old-{each:04d}.bin", b"old")
    job = scene.published(NEW, mode="overwrite")
    assert job.report.files_deleted == number
    assert scene.bodies() == [b"new"]


def test_nothing_old_is_removed_before_everything_new_is_visible(scene: JobScene) -> None:
    scene.published({"a.bin": b"old 0"}, {"a.bin": b"old 1"})
    job = scene.job("overwrite")
    commits = scene.wrote(job, *({"b.bin": b"new %d" % number} for number in range(3)))
    seen: list[tuple[list[bytes], bool]] = []
    scene.commit(job, commits, traffic=Traffic(after=lambda _: seen.append((scene.bodies(), marked(scene)))))
    old, new = [b"old 0", b"old 1"], [b"new 0", b"new 1", b"new 2"]
    for bodies, is_marked in seen:
        assert set(bodies) >= set(old) or set(bodies) >= set(new)
        assert not is_marked or bodies in (old, new), "a reader that waits for _SUCCESS sees old or new"
    assert seen[0] == (old, True)
    assert seen[-1] == (new, True)


def marked(scene: JobScene) -> bool:
    return "_SUCCESS" in scene.below()


def test_file_that_somebody_wrote_anew_stays_and_is_told(scene: JobScene) -> None:
    put(scene, {"a.bin": b"old", "b.bin": b"old"})
    job = scene.job("overwrite")
    commits = scene.wrote(job, NEW)

    def rewrite(request: Request) -> None:
        if request.operation == "complete_upload":
            scene.put("a.bin", b"theirs")

    report = scene.commit(job, commits, traffic=Traffic(before=rewrite))
    assert report is not None
    assert report.files_deleted == 1
    assert report.warnings == ("sales/a.bin was rewritten by another program and stays",)
    assert scene.bodies() == [b"new", b"theirs"]


@MODES
def test_neighbour_whose_name_begins_alike_is_untouched(mode: str) -> None:
    scene, neighbour = JobScene("data/set1"), JobScene("data/set10")
    neighbour.filesystem = scene.filesystem
    neighbour.plain = scene.plain
    neighbour.published({"p=1/a.bin": b"theirs"})
    waiting = neighbour.job()
    neighbour.wrote(waiting, {"p=1/b.bin": b"theirs"})
    theirs = {key: value for key, value in scene.objects().items() if "set10" in key}
    uploads = scene.uploads()
    first = scene.published(NEW, mode=mode)
    if mode != "error":
        scene.published({"p=1/b.bin": b"newer"}, mode=mode)
    assert {key: value for key, value in scene.objects().items() if "set10" in key} == theirs
    assert scene.uploads() == uploads
    assert first.found.jobs == ()
    assert first.found.uploads == ()


def test_whole_bucket_can_be_replaced() -> None:
    scene = JobScene("")
    scene.published({"a.bin": b"old"}, {"x/b.bin": b"old"})
    scene.published(NEW, mode="overwrite")
    assert scene.bodies() == [b"new"]
    assert scene.manifest_files() == set(scene.data())


# -- overwrite_partitions --------------------------------------------------------------------------------


def test_overwrite_partitions_removes_what_lies_in_touched_partitions_only(scene: JobScene) -> None:
    gone = {"p=1/q=1/a.bin": b"1", "p=1/q=1/_metadata": b"2", "p=1/q=1/deep/x.bin": b"3"}
    stay = {
        "p=1/q=10/a.bin": b"4",
        "p=1/q=2/a.bin": b"5",
        "p=1/root.bin": b"6",
        "root.bin": b"7",
        "p=1/q=1/_x": b"8",
        "p=1/q=1/_temporary/a": b"9",
        "p=1/_metadata": b"10",
        "_metadata": b"11",
    }
    put(scene, {**gone, **stay})
    job = scene.published({"p=1/q=1/n.bin": b"new"}, {"p=3/q=1/n.bin": b"new"}, mode="overwrite_partitions")
    assert job.report.files_deleted == len(gone)
    assert not set(scene.below()) & gone.keys()
    assert set(scene.below()) >= stay.keys()


# -- empty jobs ----------------------------------------------------------------------------------------


# -- equal keys ----------------------------------------------------------------------------------------


def equal(scene: JobScene) -> tuple[Job, list[Any]]:
    """A job that replaces one file by another of the same name, and one by one of another."""
    put(scene, {"p=1/a.bin": b"old", "p=1/z.bin": b"old z"})
    scene.put("_SUCCESS", b"")
    job = scene.job("overwrite", unique_names=False)
    return job, scene.wrote(job, {"p=1/a.bin": b"new", "p=0/b.bin": b"new b"})


def test_equal_key_is_replaced_last_and_not_deleted(scene: JobScene) -> None:
    job, commits = equal(scene)
    traffic = Traffic()
    report = scene.commit(job, commits, traffic=traffic)
    assert report is not None
    assert (report.files, report.files_deleted, report.warnings) == (2, 1, ())
    completes = [request.key for request in traffic.log if request.operation == "complete_upload"]
    assert completes == ["sales/p=0/b.bin", "sales/p=1/a.bin"]
    assert scene.data() == {"p=0/b.bin": b"new b", "p=1/a.bin": b"new"}


def test_equal_key_takes_the_way_back_only_once_it_is_being_replaced(scene: JobScene) -> None:
    job, commits = equal(scene)
    assert scene.commit(job, commits, Fault(Kind.CRASH_BEFORE, operation="complete_upload", skip=1)) is None
    found = scene.job_object(job)
    assert found is not None
    assert (found.equal_keys, found.irreversible) == (("sales/p=1/a.bin",), True)
    before = scene.everything()
    for how in ({"rollback": True}, {"abort": True}):
        with pytest.raises(CommitDenied, match="nothing was changed"):
            scene.recover(**how)
    with pytest.raises(
        CommitDenied, match=r"can no longer be rolled back: old files have been replaced by new ones"
    ):
        job.abort()
    assert scene.everything() == before
    scene.recover()
    assert scene.data() == {"p=0/b.bin": b"new b", "p=1/a.bin": b"new"}


def test_equal_key_has_a_way_back_before(scene: JobScene) -> None:
    job, commits = equal(scene)
    assert scene.commit(job, commits, Fault(Kind.CRASH_AFTER, operation="complete_upload")) is None
    scene.recover(rollback=True)
    assert scene.data() == {"p=1/a.bin": b"old", "p=1/z.bin": b"old z"}
    assert marked(scene)
    assert (scene.work(), scene.uploads()) == ([], [])


def test_equal_key_that_cannot_be_replaced_is_taken_back_with_all_others(scene: JobScene) -> None:
    job, commits = equal(scene)
    upload = next(upload for upload in scene.uploads() if upload[0] == "sales/p=1/a.bin")

    def aborted(request: Request) -> None:
        if request.operation == "complete_upload" and request.key == upload[0]:
            contents = scene.filesystem.world.find(BUCKET)
            assert contents is not None
            contents.uploads.pop(upload[1], None)

    with pytest.raises(CommitFailed, match="1 visible files were removed again") as caught:
        scene.commit(job, commits, traffic=Traffic(before=aborted))
    assert (caught.value.done, caught.value.failed) == (("sales/p=0/b.bin",), ("sales/p=1/a.bin",))
    assert scene.state(job) is None
    assert scene.data() == {"p=1/a.bin": b"old", "p=1/z.bin": b"old z"}
    assert (scene.work(), scene.uploads()) == ([], [])


# -- table formats, files ------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize(
    ("there", "whose"),
    [
        ("_delta_log/00000000000000000000.json", "Delta Lake"),
        ("metadata/00001-abc.metadata.json", "Apache Iceberg"),
        ("metadata/version-hint.text", "Apache Iceberg"),
    ],
)
def test_table_of_another_format_is_refused(scene: JobScene, mode: str, there: str, whose: str) -> None:
    put(scene, {there: b"{}", "data/a.parquet": b"old"})
    unchanged_by(scene, lambda: scene.job(mode), f"is a table of {whose}, as sales/{there} shows", UsageError)


# -- _SUCCESS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_success_of_old_is_hidden_from_the_commit_point_until_the_end(scene: JobScene, mode: str) -> None:
    first = scene.published({"p=1/old.bin": b"old"})
    job = scene.job(mode)
    assert scene.success().job_id == first.id, "setting a job up removes nothing"
    commits = scene.wrote(job, NEW, {"p=2/b.bin": b"new 2"})
    seen: list[tuple[str | None, str | None]] = []

    def look(_: Request) -> None:
        success = scene.success()
        seen.append((scene.state(job), success.job_id if success else None))

    scene.commit(job, commits, traffic=Traffic(after=look))
    before = [whose for state, whose in seen if state in {"open", "prepared"}]
    assert before
    assert set(before) == {first.id}
    completing = [whose for state, whose in seen if state == "committing"]
    assert completing.count(None) >= 2
    assert {whose for state, whose in seen if state == "completed"} <= {None, job.id}
    assert seen[-1] == (None, job.id)


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
@pytest.mark.parametrize("body", [b"", b"somebody's own", b"{}"])
def test_success_of_somebody_else_is_restored_as_it_was(scene: JobScene, mode: str, body: bytes) -> None:
    put(scene, {"p=1/old.bin": b"old", "_SUCCESS": body})
    job = scene.job(mode)
    commits = scene.wrote(job, NEW, {"p=2/b.bin": b"new 2"})
    scene.commit(job, commits, Fault(Kind.CRASH_AFTER, operation="complete_upload"))
    assert not marked(scene)
    scene.recover(rollback=True)
    # Another ETag: a request of the dead driver that is still on its way, to delete the old one, must miss.
    assert scene.objects()["sales/_SUCCESS"][0] == body + b"\n"
    assert scene.data() == {"p=1/old.bin": b"old"}


@MODES
def test_job_that_fails_takes_everything_back(scene: JobScene, mode: str) -> None:
    old = {} if mode == "error" else {"p=1/old.bin": b"old", "p=2/old.bin": b"old"}
    if old:
        scene.published(old)
    before = scene.data()
    job = scene.job(mode)
    commits = scene.wrote(job, NEW, {"p=2/b.bin": b"new 2"}, {"p=2/c.bin": b"new 3"})
    contents = scene.filesystem.world.find(BUCKET)
    assert contents is not None
    del contents.uploads[sorted((u.key, i) for i, u in contents.uploads.items())[1][1]]
    with pytest.raises(CommitFailed, match="1 visible files were removed again") as caught:
        scene.commit(job, commits)
    assert [len(caught.value.done), len(caught.value.failed), len(caught.value.not_started)] == [1, 1, 1]
    assert scene.data() == before
    assert marked(scene) == bool(old)
    assert (scene.work(), scene.uploads(), scene.state(job)) == ([], [], None)
    with pytest.raises(CommitDenied, match="was not published: another process"):
        job.commit(commits)


# -- two jobs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["error", "overwrite", "overwrite_partitions"])
def test_job_that_replaces_backs_out_beside_one_that_commits(scene: JobScene, mode: str) -> None:
    other = scene.job("append")
    theirs = scene.wrote(other, {"p=1/theirs.bin": b"theirs"}, {"p=1/more.bin": b"more"})
    job = scene.job(mode)
    commits = scene.wrote(job, NEW)
    scene.commit(other, theirs, Fault(Kind.CRASH_BEFORE, operation="complete_upload"))
    with pytest.raises(CommitDenied, match=rf"cannot be published now: job {other.id} on .* is committ"):
        job.commit(commits)
    assert (scene.state(job), scene.state(other), scene.bodies()) == ("open", "committing", [])
    found = scene.job_object(job)
    assert found is not None
    assert (found.deletions, found.equal_keys, found.partitions) == ((), (), None)
    scene.recover()
    if mode == "error":
        with pytest.raises(OutputExists):
            job.commit(commits)
        return
    assert job.commit(commits).files_deleted == 2
    assert scene.bodies() == [b"new"]
    assert scene.manifest_files() == set(scene.data())


def test_job_that_was_published_between_look_and_commit_point_is_seen(scene: JobScene) -> None:
    """An append that begins and ends between the listing and the announcement."""
    scene.put("old.bin", b"old")
    job = scene.job("overwrite")
    commits = scene.wrote(job, NEW)
    other = scene.job("append")
    theirs = scene.wrote(other, {"p=1/theirs.bin": b"theirs"})
    done: list[Any] = []

    def meanwhile(request: Request) -> None:
        if not done and request.operation == "put" and "deletions-" in request.key:
            context, driver = other.spec.context, other.found.driver
            done.append(
                scene.elsewhere(lambda engine: MagicCommitter(context, engine).commit_job(theirs, driver))
            )

    report = scene.commit(job, commits, traffic=Traffic(before=meanwhile))
    assert report is not None
    assert [one.files for one in done] == [1]
    assert report.files_deleted == 2, "it backed out, looked again, and replaced the other's file, too"
    assert scene.bodies() == [b"new"]
    assert scene.manifest_files() == set(scene.data())


def test_setup_tells_unfinished_jobs_and_pending_uploads(scene: JobScene) -> None:
    dead = scene.job("append", run_id="nightly")
    scene.wrote(dead, NEW)
    found = scene.job("append").found
    (other,) = found.jobs
    assert (other.job_id, other.state, other.run_id, other.problem) == (dead.id, "open", "nightly", "")
    assert other.created > 1e9
    assert other.host
    assert found.uploads is not None
    assert [(upload.key, upload.upload_id) for upload in found.uploads] == scene.uploads()
    assert found.uploads[0].initiated > 1e9


# -- take-over -----------------------------------------------------------------------------------------


@MODES
def test_older_driver_that_is_committing_while_a_newer_one_takes_over_stops(
    scene: JobScene, mode: str
) -> None:
    older = scene.job(mode)
    commits = scene.wrote(older, NEW)
    context = replace(older.spec.context, layout=replace(older.spec.work_layout, attempt=1))
    newer: list[JobSetup] = []

    def takes_over(request: Request) -> None:
        if not newer and request.operation == "put" and request.key.endswith("/job.json"):
            newer.append(scene.elsewhere(lambda engine: MagicCommitter(context, engine).setup_job()))

    with pytest.raises(CommitDenied, match="was taken over by another driver, attempt 1"):
        scene.commit(older, commits, traffic=Traffic(before=takes_over))
    assert (scene.state(older), scene.bodies()) == ("open", [])
    driver = newer[0].driver
    scene.elsewhere(lambda engine: MagicCommitter(context, engine).commit_job(commits, driver))
    assert scene.bodies() == [b"new"]


# -- stores --------------------------------------------------------------------------------------------


def test_store_without_conditional_writes_is_refused_unless_vouched_for() -> None:
    scene = JobScene(ignores=frozenset({"put_if_absent", "put_if_match"}))
    unchanged_by(scene, scene.job, "ignores conditional writes.*'single_driver': True", UsageError)
    for body in (b"old", b"new"):
        scene.published({"p=1/a.bin": body}, mode="overwrite", single_driver=True)
    assert scene.bodies() == [b"new"]
    assert scene.work() == []


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("ignores", ["put_if_match", "delete", "bulk_delete", "complete_if_absent"])
def test_every_mode_on_stores_that_honour_less(mode: str, ignores: str) -> None:
    honoured = {"delete", "bulk_delete"} if ignores == "delete" else {ignores}
    scene = JobScene(ignores=frozenset(honoured))
    if mode != "error":
        scene.published({"p=1/old.bin": b"old"}, {"p=2/old.bin": b"old 2"})
    scene.published(NEW, mode=mode)
    old = {"append": [b"old", b"old 2"], "overwrite_partitions": [b"old 2"]}.get(mode, [])
    assert scene.bodies() == sorted([b"new", *old])
    assert scene.manifest_files() == set(scene.data())
    assert (scene.work(), scene.uploads()) == ([], [])


# -- silence -------------------------------------------------------------------------------------------


@MODES
def test_silence_while_committing_is_told_and_a_second_commit_goes_on(scene: JobScene, mode: str) -> None:
    job = scene.job(mode)
    commits = scene.wrote(job, NEW, {"p=2/b.bin": b"new 2"})
    silent = [
        Fault(Kind.ERROR_BEFORE, operation=operation, prefix="sales/p=2", times=None)
        for operation in ("complete_upload", "head")
    ]
    with pytest.raises(CommitOutcomeUnknown, match="1 of 2 files are published, and the state of") as caught:
        scene.commit(job, commits, *silent)
    assert (len(caught.value.done), len(caught.value.failed)) == (1, 1)
    assert scene.state(job) == "committing"
    assert job.commit(commits).files == 2
    assert scene.bodies() == [b"new", b"new 2"]
    with pytest.raises(ProtocolViolation):
        job.abort()


@MODES
def test_swap_whose_answer_was_lost_is_read_back(scene: JobScene, mode: str) -> None:
    job = scene.job(mode)
    commits = scene.wrote(job, NEW)
    key = job.spec.work_layout.job_object_key
    lost = Fault(Kind.REPLY_LOST, operation="put", prefix=key, times=None)
    report = scene.commit(job, commits, lost)
    assert report is not None
    assert (report.files, report.warnings) == (1, ())
    assert scene.bodies() == [b"new"]
    assert scene.work() == []


def test_a_job_that_ends_between_two_looks_at_others_is_seen(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs are looked for before the pointer is read again: one that has ended in between has moved it."""
    monkeypatch.setattr(prepare, "_PAUSE_S", 0)
    scene.published({"old %+#1.txt": b"old"})
    rival, job = scene.job(), scene.job("overwrite")
    commits = scene.wrote(rival, {"p=1/theirs.bin": b"theirs", "p=2/theirs.bin": b"theirs"})
    second = Fault(Kind.CRASH_BEFORE, operation="complete_upload", skip=1)
    assert scene.commit(rival, commits, second) is None
    assert scene.bodies() == [b"old", b"theirs"]
    ended: list[str] = []

    def look(request: Request) -> None:
        if request.operation == "list_directories" and not ended and scene.state(job) == "prepared":
            ended.append(request.key)
            scene.elsewhere(lambda engine: recover_jobs(engine, paths.parse_url(scene.url)))

    scene.commit(job, scene.wrote(job, NEW), traffic=Traffic(before=look))
    assert ended
    assert scene.bodies() == [b"new"]
    assert scene.manifest_files() == set(scene.data())
