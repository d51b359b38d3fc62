"""Jobs of the staging committers: modes, commits, aborts, recovery of their tasks.

Many of these are the cases of Hadoop's ``TestStagingCommitter``, ``TestStagingDirectoryOutputCommitter``,
``TestStagingPartitionedTaskCommit`` and ``TestStagingPartitionedJobCommit``; a replaced file goes here only
after every new one is visible.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from magicfs import datasets
from magicfs.committers import registry
from magicfs.errors import (
    CommitDenied,
    CommitUnfinished,
    FormatError,
    OutputExists,
    ProtocolViolation,
    UsageError,
)
from magicfs.formats.job_object import JobObject
from magicfs.formats.success import SuccessData
from magicfs.job.task import Task
from magicfs.protocol.modes import is_by_partition, overlap, partitions_to_check
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.job_scene import JobScene
from proofs.scenes.manifests import published_manifest
from proofs.scenes.staged_scene import StagedScene, write

pytestmark = pytest.mark.sample(most=2)

NEW = {"p=1/a.bin": b"new"}
KINDS = pytest.mark.parametrize("committer", ["directory", "partitioned"])


@pytest.fixture
def directory(tmp_path: Path) -> StagedScene:
    return StagedScene(tmp_path)


@pytest.fixture
def partitioned(tmp_path: Path) -> StagedScene:
    return StagedScene(tmp_path, "partitioned")


# -- commit and abort ----------------------------------------------------------------------------------


@KINDS
def test_every_step_can_be_repeated_and_tasks_recovered(tmp_path: Path, committer: str) -> None:
    made = StagedScene(tmp_path, committer).job().spec.make_committer()
    assert made.is_recovery_supported
    assert made.is_task_commit_repeatable


@KINDS
@pytest.mark.parametrize("mode", ["merge", "MERGE", "overwrite_partitions", "overwrite"])
def test_conflict_mode_that_is_none_is_refused_at_once(tmp_path: Path, committer: str, mode: Any) -> None:
    scene = StagedScene(tmp_path, committer)
    if (committer, mode) in {("directory", "overwrite"), ("partitioned", "overwrite_partitions")}:
        scene.job(mode)
        return
    with pytest.raises(UsageError, match=f"mode='{mode}'"):
        scene.job(mode)
    assert scene.objects() == {}


@KINDS
@pytest.mark.parametrize("ended", [False, True], ids=["open", "ended elsewhere"])
@pytest.mark.parametrize("call", ["commit", "abort"])
def test_driver_that_the_engine_does_not_want_makes_no_request(
    tmp_path: Path, committer: str, call: str, ended: bool
) -> None:
    """It cleans nothing up either: what is there belongs to the driver in its place."""
    scene = StagedScene(tmp_path, committer)
    job = scene.job("append")
    commits = scene.wrote(job, {"p=1/a.bin": b"a"})
    if ended:
        datasets.abort(scene.url, job=job.id, filesystem=scene.filesystem)
    before, traffic = scene.objects(), Traffic()
    fenced = registry.make(committer, job.spec.context, scene.engine(traffic))
    how = {"is_current_driver": lambda: False}
    with pytest.raises(CommitDenied, match="has replaced this driver"):
        if call == "commit":
            scene.lived(lambda: fenced.commit_job(commits, job.found.driver, **how))
        else:
            scene.lived(lambda: fenced.abort_job(commits, job.found.driver, **how))
    assert traffic.log == []
    assert scene.objects() == before


# -- directory -----------------------------------------------------------------------------------------


# -- partitioned: fail ---------------------------------------------------------------------------------


def test_fail_minds_touched_partitions_only(partitioned: StagedScene) -> None:
    for name in ("root.bin", "p=10/old.bin", "p=2/old.bin", "p=1/_x", "p=1/_temporary/0/a.bin"):
        partitioned.put(name, b"old")
    job = partitioned.published(NEW, {"p=3/q=4/b.bin": b"new"}, mode="error")
    assert job.report.files == 2
    assert partitioned.bodies() == [b"new", b"new", b"old", b"old", b"old"]
    assert partitioned.manifest_files() == {
        name for name, body in partitioned.data().items() if body == b"new"
    }


@pytest.mark.parametrize("there", ["p=1/old.bin", "p=1/deeper/old.bin"])
def test_fail_refuses_a_touched_partition_at_the_task_commit(partitioned: StagedScene, there: str) -> None:
    partitioned.put(there, b"old")
    job = partitioned.job("error")
    before = partitioned.everything()
    task = Task(job.spec, job.task(0).id).setup()
    write(task.path, {"p=0/x.bin": b"x", **NEW})
    with pytest.raises(OutputExists, match=rf"a partition of .* already has data, such as sales/{there}"):
        task.commit()
    assert partitioned.everything() == before
    assert partitioned.local() == []
    job.abort()


def test_fail_looks_again_before_the_commit_point(partitioned: StagedScene) -> None:
    job = partitioned.job("error")
    commits = partitioned.wrote(job, NEW)
    partitioned.put("p=2/other.bin", b"other")
    partitioned.put("p=1/theirs.bin", b"theirs")
    with pytest.raises(OutputExists, match=r"'append' or 'overwrite_partitions'"):
        job.commit(commits)
    assert (partitioned.state(job), partitioned.bodies()) == ("open", [b"other", b"theirs"])
    partitioned.delete("p=1/theirs.bin")
    job.commit(commits)
    assert partitioned.bodies() == [b"new", b"other"]


@pytest.mark.parametrize("there", ["p=7/old.bin", "old.bin"])
def test_fail_with_a_file_at_the_root_minds_the_whole_destination(
    partitioned: StagedScene, there: str
) -> None:
    job = partitioned.job("error")
    commits = partitioned.wrote(job, {"root.bin": b"new", **NEW})
    partitioned.put(there, b"old")
    with pytest.raises(OutputExists, match="files at the root only if the destination is empty"):
        job.commit(commits)
    with pytest.raises(OutputExists):
        partitioned.wrote(job, {"root2.bin": b"new"})
    partitioned.delete(there)
    job.commit(commits)
    assert partitioned.bodies() == [b"new", b"new"]


def test_fail_may_mix_partitions_of_any_depth(partitioned: StagedScene) -> None:
    partitioned.put("p=2/q=2/old.bin", b"old")
    partitioned.published({"p=1/a": b"1", "p=1/q=1/b": b"2", "p=2/q=1/c": b"3"}, mode="error")
    assert partitioned.bodies() == [b"1", b"2", b"3", b"old"]


def test_job_that_somebody_else_commits_minds_its_partitions_only(partitioned: StagedScene) -> None:
    partitioned.put("p=2/old.bin", b"old")
    job = partitioned.job("error")
    partitioned.wrote(job, NEW)
    partitioned.put("p=1/theirs.bin", b"theirs")
    with pytest.raises(OutputExists):
        datasets.commit(partitioned.url, job.id, filesystem=partitioned.filesystem)
    partitioned.delete("p=1/theirs.bin")
    report = datasets.commit(partitioned.url, job.id, filesystem=partitioned.filesystem)
    assert (report.committer, report.mode, report.files) == ("partitioned", "error", 1)
    assert partitioned.bodies() == [b"new", b"old"]


def test_manifest_of_a_job_that_failed_nowhere_replaces_nothing(partitioned: StagedScene) -> None:
    first = partitioned.published(NEW)
    second = partitioned.published({"p=2/b": b"2"}, mode="error")
    manifest = published_manifest(partitioned.url, job=second.id, filesystem=partitioned.filesystem)
    assert (manifest.partitions, manifest.deleted, manifest.hides) == (None, (), "nothing")
    assert manifest.previous == first.id
    assert partitioned.manifest_files() == set(partitioned.data())


def test_fail_says_its_partitions_in_the_job_object(partitioned: StagedScene) -> None:
    job = partitioned.job("error")
    commits = partitioned.wrote(job, NEW, {"p=2/b": b"2"})
    found: list[JobObject] = []

    def look(_: Request) -> None:
        held = partitioned.job_object(job)
        if held is not None:
            found.append(held)

    partitioned.commit(job, commits, traffic=Traffic(after=look))
    told = {(one.state.value, one.partitions) for one in found}
    assert ("prepared", ("p=1", "p=2")) in told
    assert ("committing", ("p=1", "p=2")) in told
    assert ("open", None) in told


@pytest.mark.parametrize("other", [{"p=1/b": b"other"}, {"p=2/b": b"other"}, {"root": b"other"}])
def test_prepared_jobs_exclude_each_other_only_where_their_partitions_overlap(
    partitioned: StagedScene, other: dict[str, bytes]
) -> None:
    waiting, job = partitioned.job("error"), partitioned.job("error")
    theirs = partitioned.wrote(waiting, other)
    ours = partitioned.wrote(job, NEW)
    dead = Fault(Kind.CRASH_BEFORE, operation="complete_upload")
    assert partitioned.commit(waiting, theirs, dead) is None
    assert partitioned.state(waiting) == "committing"
    if "p=2/b" in other:
        job.commit(ours)
    else:
        with pytest.raises(CommitDenied, match=f"job {waiting.id} .* is committing"):
            job.commit(ours)
        job.abort()
    partitioned.recover()
    assert b"other" in partitioned.bodies()


def test_run_that_is_published_already_is_not_refused_for_its_own_data(partitioned: StagedScene) -> None:
    partitioned.published(NEW, mode="error", run_id="batch-7")
    again = partitioned.job("error", run_id="batch-7")
    commits = partitioned.wrote(again, NEW)
    report = again.commit(commits)
    assert report.published_before
    assert partitioned.bodies() == [b"new"]
    partitioned.put("p=2/old.bin", b"old")
    other = partitioned.job("error", run_id="batch-8")
    commits = partitioned.wrote(other, {"p=2/a": b"2"})
    with pytest.raises(OutputExists):
        other.commit(commits)


# -- partitioned: append and replace -------------------------------------------------------------------


def test_replace_that_cannot_delete_is_published_and_says_so(partitioned: StagedScene) -> None:
    partitioned.put("p=1/old.bin", b"old")
    partitioned.put("p=2/old.bin", b"old")
    job = partitioned.job("overwrite_partitions")
    commits = partitioned.wrote(job, NEW, {"p=2/b.bin": b"new"})
    refused = Fault(Kind.ERROR_BEFORE, operation="delete_all_matching", prefix="sales/p=", times=None)
    with pytest.raises(CommitUnfinished, match="the job could not be finished"):
        partitioned.commit(job, commits, refused)
    partitioned.recover()
    assert partitioned.bodies() == [b"new", b"new"]


# -- scopes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "partitions"),
    [
        ([], ()),
        (["year=2017/month=10/a"], ("year=2017/month=10",)),
        (["p=1/a", "p=1/b", "p=1/q=2/c"], ("p=1", "p=1/q=2")),
        (["p=1/a", "root"], None),
        (["root"], None),
    ],
)
def test_partitions_that_fail_minds(names: list[str], partitions: tuple[str, ...] | None) -> None:
    assert partitions_to_check([f"sales/{name}" for name in names], "sales") == partitions
    assert partitions_to_check(names, "") == partitions


@pytest.mark.parametrize(
    ("mode", "committer", "expected"),
    [
        ("error", "partitioned", True),
        ("error", "directory", False),
        ("error", "magic", False),
        ("append", "partitioned", False),
        ("overwrite", "directory", False),
        ("overwrite_partitions", "partitioned", True),
        ("overwrite_partitions", "magic", True),
    ],
)
def test_modes_that_are_about_partitions(mode: str, committer: str, expected: bool) -> None:
    assert is_by_partition(mode, committer) is expected


def test_empty_scope_overlaps_with_none_but_the_whole() -> None:
    assert not overlap((), ("p=1",))
    assert overlap((), None)


# -- recovering tasks ----------------------------------------------------------------------------------


@pytest.fixture(params=["magic", "directory", "partitioned", "cluster"])
def any_scene(request: pytest.FixtureRequest, tmp_path: Path) -> JobScene:
    match request.param:
        case "magic":
            return JobScene()
        case "cluster":
            return StagedScene(tmp_path, cluster=f"file://{tmp_path}/cluster")
        case committer:
            return StagedScene(tmp_path, committer)


def test_later_attempt_publishes_what_the_earlier_one_has_committed(any_scene: JobScene) -> None:
    first = any_scene.job()
    any_scene.wrote(first, {"a": b"0"}, {"a": b"1"})
    second = any_scene.job(job_id=first.id, attempt=1)
    recovered = second.recover_tasks()
    assert [(one.task_id, one.files) for one in recovered] == [("000000", 1), ("000001", 1)]
    assert second.commits == tuple(recovered)
    fresh = Task(second.spec, second.task(2).id).setup()
    fresh.filesystem.pipe_file(f"{fresh.path}/a", b"2")
    report = second.commit([*recovered, fresh.commit()])
    assert (report.tasks, report.files) == (3, 3)
    assert any_scene.bodies() == [b"0", b"1", b"2"]
    assert (any_scene.uploads(), any_scene.work()) == ([], [])


def test_large_sets_are_recovered_by_their_place(
    any_scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magicfs.formats.task_commit.INLINE_LIMIT", 0)
    first = any_scene.job()
    any_scene.wrote(first, {"a": b"0"}, {"a": b"1"})
    second = any_scene.job(job_id=first.id, attempt=1)
    recovered = second.recover_tasks()
    assert [one.content for one in recovered] == [None, None]
    late = Task(first.spec, first.task(0).id).setup()
    late.filesystem.pipe_file(f"{late.path}/a", b"late")
    late.commit()
    second.commit(recovered)
    assert any_scene.bodies() == [b"0", b"1"]


def test_last_committed_attempt_of_a_task_is_recovered(any_scene: JobScene) -> None:
    first = any_scene.job()
    any_scene.wrote(first, {"a": b"0"}, {"a": b"1"})
    again = Task(first.spec, first.task(1).id).setup()
    again.filesystem.pipe_file(f"{again.path}/a", b"1 again")
    again.commit()
    second = any_scene.job(job_id=first.id, attempt=1)
    later = Task(second.spec, second.task(0).id).setup()
    later.filesystem.pipe_file(f"{later.path}/a", b"0 later")
    later.commit()
    third = any_scene.job(job_id=first.id, attempt=2)
    recovered = third.recover_tasks()
    assert [one.task_id for one in recovered] == ["000000", "000001"]
    third.commit(recovered)
    assert any_scene.bodies() == [b"0 later", b"1 again"]
    assert any_scene.uploads() == []


def test_with_block_of_a_later_attempt_publishes_recovered_and_new_tasks(any_scene: JobScene) -> None:
    first = any_scene.job()
    any_scene.wrote(first, {"a": b"0"})
    with any_scene.job(job_id=first.id, attempt=1) as second:
        done = {commit.task_id for commit in second.recover_tasks()}
        for number in range(2):
            if f"{number:06d}" not in done:
                with second.task(number) as task:
                    task.filesystem.pipe_file(f"{task.path}/a", b"%d" % number)
    assert any_scene.bodies() == [b"0", b"1"]


def test_nothing_committed_is_recovered_as_nothing(any_scene: JobScene) -> None:
    first = any_scene.job()
    second = any_scene.job(job_id=first.id, attempt=1)
    assert second.recover_tasks() == []
    assert second.recover_tasks() == []


def test_first_attempt_has_nothing_to_recover(any_scene: JobScene) -> None:
    with pytest.raises(UsageError, match="attempt 0, has no earlier attempt"):
        any_scene.job().recover_tasks()


def test_magic_that_tracks_in_memory_cannot_recover() -> None:
    scene = JobScene()
    first = scene.job(tracking="memory")
    second = scene.job(tracking="memory", job_id=first.id, attempt=1)
    committer = second.spec.make_committer()
    assert not committer.is_recovery_supported
    assert not committer.guarantees.recoverable_job
    with pytest.raises(
        UsageError, match=r"has tracking='memory'.*run the tasks again, or use tracking='store'"
    ):
        second.recover_tasks()


def test_recovered_commits_are_handed_over_once(any_scene: JobScene) -> None:
    first = any_scene.job()
    any_scene.wrote(first, {"a": b"0"})
    second = any_scene.job(job_id=first.id, attempt=1)
    second.recover_tasks()
    second.recover_tasks()
    with pytest.raises(ProtocolViolation, match="was committed twice"):
        second.commit(second.commits)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"garbage", ""),
        (b'{"version":3,"jobId":"other","commits":[]}', "jobId"),
        (b'{"version":3,"jobId":"%s","commits":[]}', "extraData.task.attempt.id"),
        (
            b'{"version":3,"jobId":"%s","commits":[],"extraData":{"task.attempt.id":"attempt-000009-a"}}',
            "extraData.task.attempt.id",
        ),
    ],
)
def test_committed_set_that_cannot_be_believed_is_not_recovered(
    any_scene: JobScene, tmp_path: Path, raw: bytes, field: str
) -> None:
    first = any_scene.job()
    body = raw.replace(b"%s", first.id.encode())
    if isinstance(any_scene, StagedScene) and "cluster_directory" in any_scene.options:
        (attempt,) = (tmp_path / "cluster").glob(f"*/{first.id}/staging-uploads")
        (attempt / "_temporary" / "0").mkdir(parents=True)
        (attempt / "_temporary" / "0" / "000000").write_bytes(body)
    else:
        key = first.spec.work_layout.set_key("attempt-000000-odd")  # type: ignore[arg-type]
        any_scene.put(key.removeprefix("sales/"), body)
    second = any_scene.job(job_id=first.id, attempt=1)
    with pytest.raises(FormatError) as caught:
        second.recover_tasks()
    assert caught.value.field == field
    assert any_scene.state(second) == "open"


def test_success_names_the_committer_of_a_recovered_job(partitioned: StagedScene) -> None:
    job = partitioned.job()
    commits = partitioned.wrote(job, NEW)
    assert partitioned.commit(job, commits, Fault(Kind.CRASH_AFTER, operation="complete_upload")) is None
    partitioned.recover()
    success: SuccessData | None = partitioned.success()
    assert success is not None
    assert success.committer == "partitioned"
