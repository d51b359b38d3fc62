"""The stocator committer: one atomic write decides, losers are told by their names, a reader honours it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.classic.records import WINNERS_FIELD, Winners, unfinished_name
from magicfs.classic.tracking import final_tracker
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    FormatError,
    ObjectNotFound,
    OutputExists,
    PreconditionFailed,
    ProtocolViolation,
    UsageError,
)
from magicfs.formats.success import SuccessData
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import ObjectInfo, Update
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.committer_exam.classic import ClassicExam
from proofs.scenes.destination_scene import ONE, TWO
from proofs.scenes.final_scene import FinalJob, FinalScene, another_process


@pytest.fixture(params=["memory", "local"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> FinalScene:
    another_process()
    return FinalScene("stocator", tmp_path if request.param == "local" else None)


@pytest.fixture
def memory() -> FinalScene:
    another_process()
    return FinalScene("stocator")


def read(scene: FinalScene) -> list[bytes]:
    """What a reader sees who honours the list."""
    urls = magicfs.hadoop.stocator_files(scene.location.url, filesystem=scene.filesystem)
    return [scene.filesystem.cat_file(url) for url in urls]


def winners(scene: FinalScene) -> Winners:
    success = scene.success()
    assert success is not None
    found = Winners.of("_SUCCESS", success)
    assert found is not None
    return found


def refused(scene: FinalScene) -> None:
    """Nothing is published."""
    assert scene.success() is None
    with pytest.raises(ObjectNotFound, match="no job was published"):
        read(scene)


class TestStocator(ClassicExam):
    committer = "stocator"
    zombies_are_read = False
    promises = frozenset(
        {
            "speculative_tasks",
            "abortable_task",
            "abortable_job",
            "uncommitted_output_observable",
            "committed_task_output_observable",
            "atomic_task_commit",
            "atomic_job_commit_manifest",
            "repeatable_job_commit",
            "survives_driver_loss",
        }
    )

    def read(self, scene: FinalScene) -> list[bytes]:
        return sorted(read(scene))


# -- what it does ------------------------------------------------------------------------------------------


def test_success_lists_the_winners_and_readers_honour_it(scene: FinalScene) -> None:
    scene.put("old.csv")
    job = scene.job().setup()
    commits = job.wrote(ONE, TWO)
    refused(scene)
    job.commit(commits)
    assert winners(scene).jobs == {job.id: {commits[0].attempt_id: 2, commits[1].attempt_id: 1}}
    assert read(scene) == [b"one\n", b"uno\n", b"two\n"], "in the order of tasks"
    urls = magicfs.hadoop.stocator_files(scene.location.url, filesystem=scene.filesystem)
    assert urls[0] == f"{scene.location.url}/day=1/part-0-{commits[0].attempt_id}-{job.id}.csv"
    assert scene.bodies() == [b"old\n", b"one\n", b"two\n", b"uno\n"]


def test_all_attempts_are_listed_not_only_a_hundred(memory: FinalScene) -> None:
    job = memory.job().setup()
    job.commit(job.wrote(*[TWO] * 120))
    assert len(winners(memory).jobs[job.id]) == 120
    assert len(read(memory)) == 120
    success = memory.success()
    assert success is not None
    assert len(success.filenames) == 100


def test_appending_keeps_the_winners_of_earlier_jobs(scene: FinalScene) -> None:
    first, second = scene.job().setup(), scene.job().setup()
    one, two = first.wrote(ONE), second.wrote(TWO)
    second.commit(two)
    first.commit(one)
    assert list(winners(scene).jobs) == [second.id, first.id], "in the order of publication"
    assert read(scene) == [b"two\n", b"one\n", b"uno\n"]
    second.commit(two)
    assert list(winners(scene).jobs) == [first.id, second.id]


def test_fail_publishes_where_nothing_is_and_forgets_an_old_list(scene: FinalScene) -> None:
    old = scene.job().setup()
    old.commit(old.wrote(ONE))
    with pytest.raises(OutputExists):
        scene.job("error").setup()
    for name in scene.data():
        scene.filesystem.rm(f"{scene.location.path}/{name}")
    job = scene.job("error").setup()
    job.commit(job.wrote(TWO))
    assert list(winners(scene).jobs) == [job.id]
    assert read(scene) == [b"two\n"]


@pytest.mark.parametrize("old", [b"", b"{}", b"not JSON", SuccessData(committer="magic").to_bytes()])
def test_the_success_of_another_committer_lists_nothing(memory: FinalScene, old: bytes) -> None:
    memory.put("_SUCCESS", old)
    with pytest.raises((FormatError, UsageError)):
        read(memory)
    job = memory.job().setup()
    job.commit(job.wrote(TWO))
    assert read(memory) == [b"two\n"]


def test_losers_are_not_read_and_are_deleted_by_the_job_commit(scene: FinalScene) -> None:
    other = scene.job().setup()
    theirs = other.wrote(ONE)
    job = scene.job().setup()
    loser, winner, dead = job.attempt(0), job.attempt(0), job.attempt(1)
    for attempt, body in ((loser, b"lost\n"), (winner, b"won\n"), (dead, b"dead\n")):
        attempt.write("part-0.csv", body)
        another_process() if attempt is dead else None
    commit = job.attempt(0).commit()
    assert commit.files == 0
    winner.write("part-0.csv", b"won\n")
    loser.write("part-0.csv", b"lost\n")
    loser.commit()
    job.commit([winner.commit()])
    assert read(scene) == [b"won\n"]
    assert scene.bodies() == [b"one\n", b"uno\n", b"won\n"], "those of the other job stay"
    other.commit(theirs)
    assert read(scene) == [b"won\n", b"one\n", b"uno\n"]


def test_an_abort_of_a_published_job_deletes_the_files_of_a_zombie(scene: FinalScene) -> None:
    job = scene.job().setup()
    zombie, best = job.attempt(0), job.attempt(0)
    best.write("part-0.csv", b"won\n")
    job.commit([best.commit()])
    zombie.write("part-0.csv", b"late\n")
    zombie.commit()
    job.abort()
    assert scene.bodies() == [b"won\n"]
    assert read(scene) == [b"won\n"]


def test_names_that_speak_of_attempts_and_jobs(memory: FinalScene) -> None:
    job = memory.job().setup()
    loser, winner = job.attempt(0), job.attempt(0)
    for attempt, other, body in ((loser, winner, b"lost\n"), (winner, loser, b"won\n")):
        attempt.write(f"x-{other.id}-{job.id}.csv", body)
        attempt.write(f"run-{job.id}/a.csv", body)
        attempt.write(f"{job.id}", body)
        attempt.write(f"a.x-{other.id}-{job.id}", body)
    job.commit([winner.commit()])
    assert memory.bodies() == [b"won\n"] * 4
    assert read(memory) == [b"won\n"] * 4


# -- refusals ----------------------------------------------------------------------------------------------


def test_needs_unique_names_and_a_random_job_id(memory: FinalScene) -> None:
    with pytest.raises(UsageError, match="unique_names=True"):
        memory.job(unique_names=False).setup()
    with pytest.raises(UsageError, match="no UUID"):
        memory.job(job_id="daily").setup()


@pytest.mark.parametrize("change", ["gone", "longer", "more"])
def test_files_that_are_no_more_what_was_committed_fail_the_job(scene: FinalScene, change: str) -> None:
    job = scene.job().setup()
    commits = job.wrote(ONE)
    name = f"day=2/part-0-{commits[0].attempt_id}-{job.id}.csv"
    if change == "gone":
        scene.filesystem.rm(f"{scene.location.path}/{name}")
    else:
        scene.put(name if change == "longer" else name.replace("day=2", "day=3"), b"longer\n")
    with pytest.raises(CommitFailed, match="somebody removed or replaced"):
        job.commit(commits)
    refused(scene)


def test_a_list_that_grows_too_long_is_refused(memory: FinalScene, monkeypatch: pytest.MonkeyPatch) -> None:
    from magicfs.classic import stocator

    monkeypatch.setattr(stocator, "SUCCESS_SIZE_LIMIT", 1000)
    job = memory.job().setup()
    with pytest.raises(CommitFailed, match="list too many attempts"):
        job.commit(job.wrote(*[TWO] * 20))
    refused(memory)


@pytest.mark.parametrize(
    "field",
    [
        {"daily/x": {}},
        {"j": {"nothing": 1}},
        {"j": {"attempt-0-x": -1}},
        {"j": {"attempt-0-x": "1"}},
        {"j": 1},
        ["j"],
    ],
)
def test_a_list_that_cannot_be_believed_is_neither_read_nor_replaced(memory: FinalScene, field: Any) -> None:
    body = replace(SuccessData(committer="stocator"), unknown={WINNERS_FIELD: field}).to_bytes()
    memory.put("_SUCCESS", body)
    with pytest.raises(FormatError, match=r"magicfs\.winners"):
        read(memory)
    job = memory.job().setup()
    with pytest.raises(CommitFailed, match="cannot be read"):
        job.commit(job.wrote(TWO))
    with pytest.raises(FormatError):
        job.abort()
    assert memory.files()["_SUCCESS"] == body


def test_a_reader_notices_files_that_are_gone(scene: FinalScene) -> None:
    job = scene.job().setup()
    job.commit(job.wrote(ONE))
    scene.filesystem.rm(f"{scene.location.path}/{min(scene.data())}")
    with pytest.raises(FormatError, match=r"2 files of attempt .* are listed, but 1 exist"):
        read(scene)


# -- aborts ------------------------------------------------------------------------------------------------


def test_an_aborted_task_leaves_nothing_whoever_aborts_it(scene: FinalScene) -> None:
    job = scene.job().setup()
    kept = job.wrote(ONE)
    for elsewhere in (False, True):
        attempt = job.attempt(1)
        attempt.write("a.csv")
        attempt.write("d/_hidden")
        another_process() if elsewhere else None
        attempt.abort()
        attempt.abort()
        assert len(scene.files()) == 2
    job.commit(kept)
    assert len(read(scene)) == 2


def test_an_aborted_job_is_gone_whoever_aborts_it(scene: FinalScene) -> None:
    scene.put("old.csv")
    job, other = scene.job().setup(), scene.job().setup()
    other.wrote(ONE)
    commits = job.wrote(ONE)
    job.attempt(1).write("a.csv")
    another_process()
    FinalJob(scene, job.context).abort(commits)
    assert len(scene.files()) == 3
    job.attempt(2).write("late.csv")
    job.abort()
    assert len(scene.files()) == 3
    refused(scene)


def test_a_job_that_is_published_is_not_aborted(scene: FinalScene) -> None:
    job, later = scene.job().setup(), scene.job().setup()
    commits = job.wrote(ONE)
    job.commit(commits)
    later.commit(later.wrote(TWO))
    with pytest.raises(ProtocolViolation, match="is published"):
        job.abort(commits)
    job.abort()
    assert read(scene) == [b"one\n", b"uno\n", b"two\n"]


def test_unfinished_files_and_uploads_of_killed_writers_go(scene: FinalScene) -> None:
    job = scene.job().setup()
    commits = job.wrote(ONE)
    killed = job.attempt(1)
    file = killed.filesystem.open(f"{killed.path}/a.csv", "wb")
    file.write(b"row")
    final_tracker().clear()
    key = f"{scene.location.key}/a-{killed.id}-{job.id}.csv"
    scene.run(lambda: scene.store.create_upload(key, metadata={}))
    if scene.store.capabilities.directories:
        assert len(scene.files()) == 3, "a hidden file"
    report = job.commit(commits)
    assert report.uploads_aborted == 1
    assert len(scene.files()) == 3, "two files and _SUCCESS"
    with pytest.raises(UsageError, match="closed too late"):
        file.close()


def test_an_unfinished_file_of_a_winner_is_none_of_its_files(scene: FinalScene) -> None:
    job = scene.job().setup()
    commits = job.wrote(ONE)
    scene.put(f"day=1/{unfinished_name('0' * 16, commits[0].attempt_id, job.id)}")
    job.commit(commits)
    assert read(scene) == [b"one\n", b"uno\n"]
    assert len(scene.files()) == 3


def test_losers_that_cannot_be_deleted_are_a_warning(memory: FinalScene) -> None:
    job = memory.job().setup()
    job.attempt(1).write("a.csv")
    faulty = job.with_faults(Fault(Kind.ERROR_BEFORE, operation="delete"))
    (warning,) = faulty.commit(job.wrote(ONE)).warnings
    assert "readers do not use" in warning
    assert len(read(memory)) == 2


# -- _SUCCESS between jobs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [False, True])
def test_two_jobs_that_commit_at_once_both_stay(memory: FinalScene, there: bool) -> None:
    if there:
        before = memory.job().setup()
        before.commit(before.wrote({"a": b"0"}))
    job, rival = memory.job().setup(), memory.job().setup()
    commits, theirs = job.wrote(ONE), rival.wrote(TWO)
    done: list[str] = []

    def meanwhile(request: Request) -> None:
        if request.operation == "put" and not done:
            done.append(request.key)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(_commit_elsewhere, memory, rival, theirs).result()

    slow = FinalJob(memory, job.context, Traffic(before=meanwhile))
    slow.commit(commits)
    assert done
    assert list(winners(memory).jobs)[-2:] == [rival.id, job.id]
    assert read(memory)[-3:] == [b"two\n", b"one\n", b"uno\n"]


def _commit_elsewhere(scene: FinalScene, job: FinalJob, commits: Any) -> None:
    import asyncio

    asyncio.run(job.committer.commit_job(commits))  # type: ignore[arg-type]


def test_a_job_that_is_overtaken_each_time_gives_up(memory: FinalScene) -> None:
    job = memory.job().setup()
    commits = job.wrote(ONE)
    rivals = iter(range(100))

    def meanwhile(request: Request) -> None:
        if request.operation == "put":
            coroutine = memory.store.put(request.key, SuccessData(timestamp_ms=next(rivals)).to_bytes())
            with pytest.raises(StopIteration):
                coroutine.send(None)

    with pytest.raises(CommitDenied, match="commit it again"):
        FinalJob(memory, job.context, Traffic(before=meanwhile)).commit(commits)
    assert next(rivals) == 5
    job.commit(commits)
    assert len(read(memory)) == 2


def test_a_write_that_its_own_work_refused_has_succeeded(memory: FinalScene) -> None:
    for number in range(2):
        job = memory.job().setup()
        commits = job.wrote(ONE)
        job.with_faults(Fault(Kind.REFUSED, operation="put", times=None)).commit(commits)
        assert len(read(memory)) == 2 * (number + 1)


def test_a_store_that_refuses_every_if_match_takes_the_list_all_the_same(
    memory: FinalScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = MemoryStore.put

    async def refusing(self: MemoryStore, key: str, body: bytes, **how: Any) -> ObjectInfo:
        if isinstance(how.get("mode"), Update):
            raise PreconditionFailed("put", key, "another object is there")
        return await put(self, key, body, **how)

    monkeypatch.setattr(MemoryStore, "put", refusing)
    for number in range(2):
        job = memory.job().setup()
        job.commit(job.wrote(ONE))
        assert len(winners(memory).jobs) == number + 1


# -- what it promises --------------------------------------------------------------------------------------


def test_a_commit_that_dies_anywhere_ends_exactly_old_or_new() -> None:
    """For every request of a job commit: the driver dies, and another process aborts the job."""
    for number in count(1):
        scene = FinalScene("stocator")
        scene.put("old.csv")
        job = scene.job().setup()
        job.attempt(0).write("part-0.csv", b"lost\n")
        another_process()
        commits = job.wrote(ONE)
        if not job.dies(Fault(Kind.CRASH_AFTER, number=number), commits):
            break
        published = scene.success() is not None
        job.abort()
        assert scene.bodies() == sorted([b"old\n", *(ONE.values() if published else ())])
        if published:
            assert read(scene) == list(ONE.values())
        else:
            refused(scene)
    assert number > 5


def test_readers_at_every_moment_see_nothing_or_all(memory: FinalScene) -> None:
    job = memory.job().setup()
    job.attempt(0).write("part-0.csv", b"lost\n")
    commits = job.wrote(ONE, TWO)
    seen: list[int] = []

    def look(_: Request) -> None:
        raw = memory.filesystem.world.find("bucket").objects.get("sales/_SUCCESS")
        seen.append(0 if raw is None else sum(json.loads(raw.body)[WINNERS_FIELD][job.id].values()))

    FinalJob(memory, job.context, Traffic(after=look)).commit(commits)
    assert set(seen) == {0, 3}
    assert seen == sorted(seen)


# -- through Job and Task ----------------------------------------------------------------------------------


def test_storage_options_and_a_filesystem_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="not both"):
        magicfs.hadoop.stocator_files("memory://b/x", storage_options={"a": 1}, filesystem=MemoryFileSystem())
