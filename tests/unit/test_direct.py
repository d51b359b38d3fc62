"""The direct committer: what it does, and the weaknesses that it declares."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from magicfs.classic.records import FileList
from magicfs.classic.tracking import final_tracker
from magicfs.errors import (
    CommitFailed,
    Unavailable,
    UsageError,
)
from magicfs.formats.task_commit import pack, unpack
from magicfs.testing.store_faults import Fault, Kind
from proofs.committer_exam.classic import ClassicExam
from proofs.scenes.destination_scene import ONE, TWO
from proofs.scenes.final_scene import FinalScene, another_process


@pytest.fixture(params=["memory", "local"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> FinalScene:
    another_process()
    return FinalScene("direct", tmp_path if request.param == "local" else None)


@pytest.fixture
def memory() -> FinalScene:
    another_process()
    return FinalScene("direct")


class TestDirect(ClassicExam):
    committer = "direct"
    losers_are_read = True
    promises = frozenset(
        {"uncommitted_output_observable", "committed_task_output_observable", "repeatable_job_commit"}
    )


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
    assert [one.set_key for one in commits] == [None, None]
    report = job.commit(commits)
    assert report.filenames == tuple(f"{scene.location.url}/{names[place]}" for place in (0, 2, 1))
    assert sorted(scene.data()) == [*names, "old.csv"]


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


def test_needs_unique_names(scene: FinalScene) -> None:
    with pytest.raises(UsageError, match="unique_names=True"):
        scene.job(unique_names=False).setup()


# -- task commits that fail --------------------------------------------------------------------------------


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


def test_an_abort_that_fails_can_be_repeated(scene: FinalScene) -> None:
    job = scene.job().setup()
    attempt = job.with_faults(Fault(Kind.ERROR_BEFORE, operation="delete")).attempt()
    attempt.write("a.csv")
    with pytest.raises(Unavailable):
        attempt.abort()
    assert len(scene.files()) == 1
    attempt.abort()
    assert scene.files() == {}


# -- job commits that fail ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"content": None}, "another committer made it"),
        ({"content": pack(b"{}")}, "format"),
        ({"attempt_id": "attempt-000000-zz"}, "is of attempt"),
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


def test_two_tasks_that_put_the_job_into_their_files_names_do_not_meet(memory: FinalScene) -> None:
    job = memory.job().setup()
    name = f"mine-{job.id}.csv"
    assert job.commit(job.wrote({name: b"one"}, {name: b"two"})).files == 2
    assert memory.bodies() == [b"one", b"two"]


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


# -- the weaknesses that it declares -----------------------------------------------------------------------


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


# -- the list that travels ---------------------------------------------------------------------------------


# -- through Job and Task ----------------------------------------------------------------------------------
