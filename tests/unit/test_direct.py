"""The direct committer: what it does, and the weaknesses that it declares."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from magicfs.committers.final.tracking import final_tracker
from magicfs.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    OutputExists,
    ProtocolViolation,
    Unavailable,
    UsageError,
)
from magicfs.formats.file_list import FileList
from magicfs.formats.task_commit import pack, unpack
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.destination_scene import ONE, TWO, raising_at_first
from proofs.scenes.final_scene import FinalScene, another_process


@pytest.fixture(params=["memory", "local"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> FinalScene:
    another_process()
    return FinalScene("direct", tmp_path if request.param == "local" else None)


@pytest.fixture
def memory() -> FinalScene:
    another_process()
    return FinalScene("direct")


# -- what it does ------------------------------------------------------------------------------------------


def test_files_are_visible_at_once_and_the_job_adds_success(scene: FinalScene) -> None:
    scene.put("old.csv")
    job = scene.job().setup()
    commits = job.wrote(ONE, TWO)
    names = [
        f"day=1/part-0-000000-{job.id}.csv",
        f"day=1/part-0-000001-{job.id}.csv",
        f"day=2/part-0-000000-{job.id}.csv",
    ]
    assert sorted(scene.files()) == [*names, "old.csv"]
    assert [(one.files, one.bytes, one.set_key) for one in commits] == [(2, 8, None), (1, 4, None)]
    report = job.commit([pickle.loads(pickle.dumps(one)) for one in reversed(commits)], tasks=2)
    assert (report.tasks, report.files, report.bytes, report.committer) == (2, 3, 12, "direct")
    assert report.filenames == tuple(f"{scene.location.url}/{names[place]}" for place in (0, 2, 1))
    assert not report.warnings
    success = scene.success()
    assert success is not None
    assert (success.job_id, success.committer, len(success.filenames)) == (job.id, "direct", 3)
    assert success.statistics.counters["committer_bytes_committed"] == 12
    assert sorted(scene.data()) == [*names, "old.csv"]
    before = scene.data()
    assert job.commit(commits).files == 3, "a second call does the same again"
    assert scene.data() == before


def test_task_commit_tells_names_and_sizes(scene: FinalScene) -> None:
    job = scene.job().setup()
    attempt = job.attempt("a.b")
    assert not attempt.needs_commit()
    attempt.write("ü 1%.csv", b"row")
    assert attempt.needs_commit()
    commit = attempt.commit()
    assert commit.content is not None
    told = FileList.from_bytes("commit", unpack("commit", commit.content))
    assert told == FileList(job.id, "a.b", attempt.id, ((f"ü 1%-a.b-{job.id}.csv", 3),))
    assert not attempt.needs_commit()
    assert attempt.commit().files == 0, "the first call has forgotten them"
    assert scene.run(job.committer.committed_tasks) == []


def test_fail_minds_data_that_is_there(scene: FinalScene) -> None:
    scene.put("old.csv")
    with pytest.raises(OutputExists):
        scene.job("fail").setup()


def test_needs_unique_names(scene: FinalScene) -> None:
    with pytest.raises(UsageError, match="unique_names=True"):
        scene.job(unique_names=False).setup()


def test_an_empty_job_and_an_empty_task(scene: FinalScene) -> None:
    job = scene.job().setup()
    report = job.commit([job.attempt(0).commit()])
    assert (report.tasks, report.files) == (1, 0)
    assert job.commit([], tasks=0).tasks == 0
    assert list(scene.files()) == ["_SUCCESS"]


# -- task commits that fail --------------------------------------------------------------------------------


def test_a_file_that_is_still_open_fails_the_task(scene: FinalScene) -> None:
    attempt = scene.job().setup().attempt()
    attempt.write("a.csv")
    file = attempt.filesystem.open(f"{attempt.path}/b.csv", "wb")
    with pytest.raises(CommitFailed, match="still open"):
        attempt.commit()
    with pytest.raises(UsageError, match="closed too late"):
        file.close()
    assert scene.files() == {}
    assert not attempt.needs_commit()


def test_a_file_that_could_not_be_written_fails_the_task(scene: FinalScene) -> None:
    attempt = scene.job().setup().attempt()
    attempt.write("a.csv")
    final_tracker().doubtful(attempt.filesystem._scope, [f"{attempt.path}/b.csv"])
    with pytest.raises(CommitFailed, match="could not be written") as caught:
        attempt.commit()
    assert caught.value.failed == ("b.csv",)
    assert scene.files() == {}


def test_a_file_that_is_gone_fails_the_task(scene: FinalScene) -> None:
    attempt = scene.job().setup().attempt()
    attempt.write("a.csv")
    attempt.write("b.csv")
    (name,) = (name for name in attempt.filesystem.written.finished if "/b-" in name)
    scene.filesystem.rm(name)
    with pytest.raises(CommitFailed, match="no such"):
        attempt.commit()
    assert scene.files() == {}


def test_a_silent_store_fails_the_task(scene: FinalScene) -> None:
    attempt = scene.job().setup().with_faults(Fault(Kind.ERROR_BEFORE, operation="head")).attempt()
    attempt.write("a.csv")
    with pytest.raises(Unavailable):
        attempt.commit()
    assert scene.files() == {}


def test_a_name_that_utf8_cannot_hold_fails_the_task(tmp_path: Path) -> None:
    scene = FinalScene("direct", tmp_path)
    attempt = scene.job().setup().attempt()
    attempt.write("a.csv")
    attempt.write(os.fsdecode(b"\xff.csv"))
    with pytest.raises(CommitFailed, match="UTF-8"):
        attempt.commit()
    assert scene.files() == {}


# -- aborts ------------------------------------------------------------------------------------------------


def test_an_aborted_task_leaves_nothing_that_this_process_wrote(scene: FinalScene) -> None:
    scene.put("old.csv")
    job = scene.job().setup()
    kept = job.wrote(ONE)
    attempt = job.attempt(1)
    attempt.write("a.csv")
    attempt.abort()
    attempt.abort()
    job.attempt(2).abort()
    assert job.commit(kept).files == 2
    assert len(scene.data()) == 3


def test_an_abort_that_fails_can_be_repeated(scene: FinalScene) -> None:
    job = scene.job().setup()
    attempt = job.with_faults(Fault(Kind.ERROR_BEFORE, operation="delete")).attempt()
    attempt.write("a.csv")
    with pytest.raises(Unavailable):
        attempt.abort()
    assert len(scene.files()) == 1
    attempt.abort()
    assert scene.files() == {}


def test_an_aborted_job_deletes_what_commits_tell_and_what_this_process_knows(scene: FinalScene) -> None:
    scene.put("old.csv")
    job, other = scene.job().setup(), scene.job().setup()
    commits, theirs = job.wrote(ONE), other.wrote(ONE)
    another_process()
    job.attempt(1).write("a.csv")
    broken = replace(commits[0], task_id="000009", content=b"x")  # type: ignore[arg-type]
    job.abort([*commits, broken, *theirs])
    job.abort(commits)
    assert len(scene.data()) == 3, "the old file and the other job's"
    assert other.commit(theirs).files == 2


def test_a_job_that_is_published_is_not_aborted(scene: FinalScene) -> None:
    job = scene.job().setup()
    commits = job.wrote(ONE)
    job.commit(commits)
    before = scene.files()
    with pytest.raises(ProtocolViolation, match="is published"):
        job.abort(commits)
    job.abort()
    assert scene.files() == before


def test_uploads_that_killed_writers_have_left_are_aborted(memory: FinalScene) -> None:
    job, other = memory.job().setup(), memory.job().setup()

    async def leave() -> None:
        for one in (job, other):
            await memory.store.create_upload(f"sales/a-000000-{one.id}.csv", metadata={})

    memory.run(leave)
    assert job.commit(job.wrote(ONE)).uploads_aborted == 1
    assert len(memory.uploads()) == 1
    other.abort()
    assert len(memory.uploads()) == 0


def test_uploads_that_cannot_be_looked_for_are_a_warning(memory: FinalScene) -> None:
    job = memory.job().setup()
    commits = job.wrote(ONE)
    faulty = job.with_faults(Fault(Kind.ERROR_BEFORE, operation="list_uploads", times=None))
    (warning,) = faulty.commit(commits).warnings
    assert "could not be looked for" in warning
    assert memory.success() is not None


# -- job commits that fail ---------------------------------------------------------------------------------


def test_commits_that_do_not_belong_together_are_refused(scene: FinalScene) -> None:
    job = scene.job().setup()
    commits = job.wrote(ONE, TWO)
    for given in (
        None,
        [*commits, commits[0]],
        [*commits, replace(commits[0], attempt_id="attempt-000000-other")],  # type: ignore[arg-type]
        [replace(commits[0], job_id="another")],  # type: ignore[arg-type]
    ):
        with pytest.raises(ProtocolViolation):
            job.commit(given)
    with pytest.raises(ProtocolViolation, match="3 are expected"):
        job.commit(commits, tasks=3)
    assert scene.success() is None
    assert len(scene.data()) == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"content": None}, "another committer made it"),
        ({"content": b"x"}, "is cut short"),
        ({"content": pack(b"{}")}, "format"),
        ({"attempt_id": "attempt-000000-zz"}, "tells of attempt"),
    ],
)
def test_a_commit_that_cannot_be_believed_is_refused(
    memory: FinalScene, change: dict[str, Any], problem: str
) -> None:
    job = memory.job().setup()
    (commit,) = job.wrote(ONE)
    with pytest.raises(CommitFailed, match=problem):
        job.commit([replace(commit, **change)])
    assert memory.success() is None


def test_two_tasks_of_one_file_are_refused(memory: FinalScene) -> None:
    job = memory.job().setup()
    name = f"mine-{job.id}.csv"
    commits = job.wrote({name: b"one"}, {name: b"two"})
    with pytest.raises(CommitFailed, match="written by two tasks"):
        job.commit(commits)
    assert memory.success() is None


@pytest.mark.parametrize("change", ["gone", "replaced"])
def test_a_file_that_is_no_more_what_was_committed_fails_the_job(scene: FinalScene, change: str) -> None:
    job = scene.job().setup()
    commits = job.wrote(ONE)
    name = f"day=2/part-0-000000-{job.id}.csv"
    if change == "replaced":
        scene.put(name, b"longer\n")
    else:
        scene.filesystem.rm(f"{scene.location.path}/{name}")
    with pytest.raises(CommitFailed, match="gone or were replaced") as caught:
        job.commit(commits)
    assert caught.value.failed == (name,)
    assert scene.success() is None


def test_silence_about_success_is_not_taken_for_a_failure(scene: FinalScene) -> None:
    job = scene.job().setup()
    commits = job.wrote(ONE)
    for kind in (Kind.ERROR_BEFORE, Kind.REPLY_LOST):
        with pytest.raises(CommitOutcomeUnknown, match="commit the job again"):
            job.with_faults(Fault(kind, operation="put")).commit(commits)
    assert job.commit(commits).files == 2


@pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
def test_a_commit_that_dies_anywhere_can_be_repeated(kind: Kind) -> None:
    for number in count(1):
        scene = FinalScene("direct")
        job = scene.job().setup()
        commits = job.wrote(ONE, TWO)
        died = job.dies(Fault(kind, number=number), commits)
        if died:
            job.commit(commits)
        assert scene.bodies() == [b"one\n", b"two\n", b"uno\n"]
        assert scene.success() is not None
        if not died:
            break
    assert number > 5


# -- the weaknesses that it declares -----------------------------------------------------------------------


def test_what_it_promises(memory: FinalScene) -> None:
    promised = memory.job().committer.guarantees.to_dict()
    assert {name for name, value in promised.items() if value} == {
        "uncommitted_output_observable",
        "committed_task_output_observable",
        "repeatable_job_commit",
    }
    committer = memory.job().committer
    assert not committer.is_recovery_supported
    assert committer.is_commit_job_repeatable
    with pytest.raises(UsageError, match="cannot use what an earlier attempt"):
        memory.run(committer.recover_tasks)


def test_weakness_an_aborted_attempt_deletes_the_files_of_the_one_that_won(scene: FinalScene) -> None:
    job = scene.job().setup()
    slow, quick = job.attempt(0), job.attempt(0)
    slow.write("part-0.csv", b"row\n")
    slow_knows = slow.filesystem.written.finished
    another_process()
    quick.write("part-0.csv", b"row\n")
    commit = quick.commit()
    final_tracker().doubtful(slow.filesystem._scope, slow_knows)  # back in the slow one's process
    slow.abort()
    assert scene.data() == {}
    with pytest.raises(CommitFailed, match="gone"):
        job.commit([commit])


def test_weakness_files_of_a_dead_attempt_stay_and_are_read(scene: FinalScene) -> None:
    job = scene.job().setup()
    dead = job.attempt(0)
    dead.write("part-0.csv", b"dead\n")
    dead.write("part-1.csv", b"dead\n")
    another_process()
    dead.abort()
    again = job.attempt(0)
    again.write("part-0.csv", b"row\n")
    job.commit([again.commit()])
    assert scene.bodies() == [b"dead\n", b"row\n"], "of equal names the last counts, the others stay"


def test_weakness_an_aborted_job_leaves_what_other_processes_wrote(scene: FinalScene) -> None:
    job = scene.job().setup()
    job.wrote(ONE)
    another_process()
    job.abort()
    assert len(scene.data()) == 2


def test_weakness_a_zombie_adds_to_what_is_published(scene: FinalScene) -> None:
    job = scene.job().setup()
    zombie, best = job.attempt(0), job.attempt(0)
    best.write("part-0.csv", b"row\n")
    job.commit([best.commit()])
    zombie.write("part-1.csv", b"late\n")
    assert zombie.commit().files == 1
    assert scene.bodies() == [b"late\n", b"row\n"]


# -- the list that travels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"format":"magicfs.files/2"}', "format"),
        (b'{"format":"magicfs.files/1","jobId":"j","taskId":"t","attemptId":"a"}', "files"),
        (b'{"format":"magicfs.files/1","files":[{"key":"../a","size":1}]}', "files[0].key"),
        (b'{"format":"magicfs.files/1","files":[{"key":"a//b","size":1}]}', "files[0].key"),
        (b'{"format":"magicfs.files/1","files":[{"key":"","size":1}]}', "files[0].key"),
        (b'{"format":"magicfs.files/1","files":[{"key":"a","size":-1}]}', "files[0].size"),
        (
            b'{"format":"magicfs.files/1","files":[{"key":"a","size":1},{"key":"a","size":1}]}',
            "files[1].key",
        ),
        (b'{"format":"magicfs.files/1","files":[],"jobId":"j","taskId":"t"}', "attemptId"),
        (b"[]", ""),
    ],
)
def test_a_list_of_files_is_read_strictly(body: bytes, field: str) -> None:
    with pytest.raises(FormatError) as caught:
        FileList.from_bytes("commit", body)
    assert caught.value.field == field


# -- through Job and Task ----------------------------------------------------------------------------------


def test_a_job_publishes_and_a_task_that_raises_leaves_nothing(memory: FinalScene) -> None:
    with ThreadPoolExecutor(1) as pool, memory.users_job() as job:
        assert len(job.map(raising_at_first(), range(3), executor=pool)) == 3
    assert memory.bodies() == [b"000000\n", b"000001\n", b"000002\n"]
    assert job.report.files == 3


def test_a_job_whose_body_raises_leaves_nothing(memory: FinalScene) -> None:
    def run() -> None:
        with memory.users_job() as job:
            for number in range(2):
                with job.task(number) as task:
                    task.filesystem.pipe_file(f"{task.path}/part-0.csv", b"row\n")
            open_task = job.task(2).setup()
            open_task.filesystem.pipe_file(f"{open_task.path}/part-0.csv", b"row\n")
            raise RuntimeError("bad row")

    with pytest.raises(RuntimeError, match="bad row"):
        run()
    assert memory.files() == {}


def test_no_url_leads_to_where_a_task_writes(memory: FinalScene) -> None:
    with memory.users_job() as job:
        task = job.task(0).setup()
        with pytest.raises(UsageError, match=r"task\.filesystem"):
            _ = task.storage_options
        task.abort()
