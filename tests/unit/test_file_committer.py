"""The file committer, both algorithms, on files and on objects."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import pytest

from magicfs.errors import CommitDenied, CommitFailed, OutputExists, ProtocolViolation, UsageError
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.manifests import chain
from magicfs.protocol import ids
from magicfs.stores.conditions import Conditions
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.trees import tree_of
from proofs.scenes.file_scene import JOB, FileScene, attempt_of, run

OTHER = "11111111-2222-4333-8444-555566667777"
FILES = {"a.txt": b"a", "day=1/b.txt": b"bb"}
NAMES = {"a-000000.txt": b"a", "day=1/b-000000.txt": b"bb"}

Algorithm = Literal[1, 2]


@pytest.fixture(params=["files", "objects"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> FileScene:
    if request.param == "files":
        return FileScene(LocalStore(), str(tmp_path).strip("/"))
    world = World()
    world.create_bucket("bucket")
    return FileScene(MemoryStore("bucket", world), "root")


@pytest.fixture(params=[1, 2], ids=["algorithm-1", "algorithm-2"])
def algorithm(request: pytest.FixtureRequest) -> Algorithm:
    found: Algorithm = request.param
    return found


def of(number: int, files: dict[str, bytes] = FILES) -> dict[str, bytes]:
    """What a reader sees of a task."""
    return {name.replace(".txt", f"-{number:06d}.txt"): body for name, body in files.items()}


def test_accepted_tasks_are_published_and_no_work_is_left(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        await scene.put("day=1/old.txt", b"old")
        await scene.put("_SUCCESS", b"")
        driver = await scene.process(algorithm).setup()
        commits = [await scene.process(algorithm).task(n, FILES) for n in range(3)]
        assert [(c.files, c.bytes) for c in commits] == [(2, 3)] * 3
        report = await driver.commit(commits)
        assert (report.tasks, report.files, report.bytes, report.warnings) == (3, 6, 9, ())
        assert len(report.filenames) == 6
        assert await scene.visible() == {"day=1/old.txt": b"old", **of(0), **of(1), **of(2)}
        assert await scene.work() == []
        success = SuccessData.from_bytes("_SUCCESS", (await scene.keys())["_SUCCESS"])
        assert (success.job_id, success.committer) == (JOB, "file")
        assert set(success.filenames) <= {f"/{scene.destination}/{name}" for name in await scene.keys()}
        tree = tree_of(scene.store)
        assert await tree.look(f"{scene.destination}/_temporary") is None
        assert report.statistics.counters["committer_commits_completed"] == 6

    run(go())


def test_nothing_shows_before_it_should(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        worker = scene.process(algorithm)
        name, attempt = attempt_of(0)
        assert not await worker.committer.needs_task_commit(attempt)
        await worker.write(attempt, FILES)
        assert await worker.committer.needs_task_commit(attempt)
        assert await scene.visible() == {}
        commit = await worker.committer.commit_task(name, attempt)
        assert await scene.visible() == (NAMES if algorithm == 2 else {})
        assert "_SUCCESS" not in await scene.keys()
        assert await driver.committer.committed_tasks() == [name]
        await driver.commit([commit])
        assert await scene.visible() == NAMES

    run(go())


def test_second_call_of_anything_returns_the_same(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        commit = await scene.process(algorithm).task(0, FILES)
        await scene.process(algorithm).write(attempt_of(0)[1], {"late.txt": b"after the commit"})
        again = await scene.process(algorithm).committer.commit_task(*attempt_of(0))
        assert again == commit
        first = await driver.commit([commit])
        keys = await scene.keys()
        second = await driver.commit([commit])
        assert (first.files, second.files) == (2, 2)
        assert await scene.keys() == keys
        for _ in range(2):
            await driver.committer.abort_job((), driver.driver)
        assert await scene.keys() == keys
        with pytest.raises(ProtocolViolation, match="is published"):
            await driver.abort([commit])

    run(go())


def test_listing_publishes_every_committed_task_once(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        await scene.process(algorithm).task(0, FILES)
        await scene.process(algorithm).task(1, {})
        if algorithm == 1:
            await scene.process(algorithm).task(0, {"z.txt": b"later"}, "1")
        with pytest.raises(ProtocolViolation, match=r"2 tasks .* 3 were expected"):
            await driver.commit(None, tasks=3)
        report = await driver.commit(None, tasks=2)
        assert report.tasks == 2
        assert await scene.visible() == (of(0, {"z.txt": b"later"}) if algorithm == 1 else NAMES)

    run(go())


def test_unaccepted_attempt_is_not_published(scene: FileScene) -> None:
    """Algorithm 1: neither one that lost, nor one that committed when its task had been accepted."""

    async def go() -> None:
        driver = await scene.process().setup()
        accepted = await scene.process().task(0, FILES, "a")
        await scene.process().task(0, {"a.txt": b"zombie", "c.txt": b"zombie"}, "z")
        await scene.process().task(1, FILES, "lost")
        await driver.commit([accepted])
        assert await scene.visible() == NAMES
        assert await scene.work() == []

    run(go())


def test_attempt_that_has_not_committed_is_refused(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        good = await scene.process(algorithm).task(0, FILES)
        name, attempt = attempt_of(1)
        await scene.process(algorithm).write(attempt, FILES)
        forged = TaskCommit(good.job_id, name, attempt, 2, 3, None, None)
        before = await scene.keys()
        with pytest.raises(CommitFailed, match=r"attempt-000001-0|task 000001"):
            await driver.commit([good, forged])
        assert await scene.keys() == before
        await driver.commit([good])
        assert await scene.visible() == NAMES

    run(go())


def test_visible_attempt_that_was_not_accepted_fails_the_job(scene: FileScene) -> None:
    """Algorithm 2 cannot take it back, so it says so."""

    async def go() -> None:
        driver = await scene.process(2).setup()
        good = await scene.process(2).task(0, FILES)
        await scene.process(2).task(1, FILES)
        with pytest.raises(CommitFailed, match="does not hold exactly the 1 accepted"):
            await driver.commit([good])
        assert "_SUCCESS" not in await scene.keys()

    run(go())


def test_other_attempt_cannot_commit_a_task_that_is_visible(scene: FileScene) -> None:
    async def go() -> None:
        driver = await scene.process(2).setup()
        good = await scene.process(2).task(0, FILES, "a")
        with pytest.raises(CommitDenied, match="was already committed by attempt-000000-a"):
            await scene.process(2).task(0, {"c.txt": b"zombie"}, "z")
        await driver.commit([good])
        assert await scene.visible() == NAMES

    run(go())


def test_zombie_of_a_job_that_has_ended_is_denied_and_leaves_nothing(
    scene: FileScene, algorithm: Algorithm
) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        good = await scene.process(algorithm).task(0, FILES)
        zombie = scene.process(algorithm)
        name, attempt = attempt_of(0, "z")
        await zombie.write(attempt, {"a.txt": b"early"})
        await driver.commit([good])
        await zombie.write(attempt, {"b.txt": b"late"})
        with pytest.raises(CommitDenied, match="has ended"):
            await zombie.committer.commit_task(name, attempt)
        assert await scene.visible() == NAMES
        await zombie.write(attempt, {"c.txt": b"later"})
        assert await scene.work() != []
        await driver.committer.abort_job((), driver.driver)
        assert await scene.work() == []
        assert await tree_of(scene.store).look(f"{scene.destination}/_temporary") is None
        assert await scene.visible() == NAMES

    run(go())


def test_aborted_job_leaves_what_was_there(
    scene: FileScene, algorithm: Algorithm, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        await scene.put("old.txt", b"old")
        await scene.put("_SUCCESS", b"old")
        before = await scene.keys()
        driver = await scene.process(algorithm).setup()
        commit = await scene.process(algorithm).task(0, FILES)
        await scene.process(algorithm).write(attempt_of(1)[1], FILES)
        await driver.abort([commit])
        await driver.abort()
        assert await scene.work() == []
        left = {name: body for name, body in (await scene.keys()).items() if JOB not in name}
        assert left == before
        assert (await scene.visible() == {"old.txt": b"old"}) == (algorithm == 1)
        with pytest.raises(CommitDenied, match="was not published"):
            await driver.commit([commit])

    with caplog.at_level(logging.WARNING, logger="magicfs"):
        run(go())
    assert ("up to 2 files of its tasks stay visible" in caplog.text) == (algorithm == 2)


def test_two_jobs_at_one_destination_leave_each_other_alone(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        first = await scene.process(algorithm).setup()
        second = await scene.process(algorithm, job=OTHER).setup()
        one = await scene.process(algorithm).task(0, FILES)
        other = await scene.process(algorithm, job=OTHER).task(0, {"a.txt": b"other"})
        await scene.process(algorithm, job=OTHER).write(attempt_of(1)[1], FILES)
        await first.commit([one])
        assert any(OTHER in name for name in await scene.work())
        assert not any(JOB in name for name in await scene.work())
        third = await scene.process(algorithm, job="33333333-2222-4333-8444-555566667777").setup()
        await third.abort()
        report = await second.commit([other])
        assert report.files == 1
        assert await scene.visible() == {**NAMES, f"a-000000-{OTHER}.txt": b"other"}
        assert await scene.work() == []

    run(go())


def test_first_manifest_takes_files_of_an_open_job_for_no_older_ones(
    scene: FileScene, algorithm: Algorithm
) -> None:
    async def go() -> None:
        first = await scene.process(algorithm).setup()
        second = await scene.process(algorithm, job=OTHER).setup()
        other = await scene.process(algorithm, job=OTHER).task(0, FILES)
        await first.commit([await scene.process(algorithm).task(0, FILES)])
        await second.commit([other])
        for job in (JOB, OTHER):
            found = await chain.read(scene.store, scene.destination, ids.job_id(job), Conditions())
            assert found is not None
            assert not found.older_files

    run(go())


def test_files_of_two_tasks_whose_names_hold_the_job_do_not_meet(scene: FileScene) -> None:
    async def go() -> None:
        driver = await scene.process().setup()
        commits = [await scene.process().task(n, {f"part-{JOB}.txt": b"%d" % n}) for n in range(2)]
        await driver.commit(commits)
        assert sorted((await scene.visible()).values()) == [b"0", b"1"]

    run(go())


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a.txt": b"", "_temporary/x": b""}, "such names are reserved"),
        ({"a.txt": b"", f"a-000000-{JOB}.txt": b""}, "with the same final name"),
    ],
)
def test_names_that_cannot_be_published_fail_the_task(
    scene: FileScene, algorithm: Algorithm, files: dict[str, bytes], problem: str
) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        with pytest.raises(CommitFailed, match=problem):
            await scene.process(algorithm).task(0, files)
        good = await scene.process(algorithm).task(0, FILES, "1")
        await driver.commit([good])
        assert await scene.visible() == NAMES
        assert await scene.work() == []

    run(go())


def test_old_success_is_gone_while_files_arrive(scene: FileScene) -> None:
    """Readers who wait for ``_SUCCESS`` do not see half a job of algorithm 1."""

    async def go() -> None:
        await scene.put("_SUCCESS", b"")
        await scene.process().setup()
        commits = [await scene.process().task(n, FILES) for n in range(2)]
        assert "_SUCCESS" in await scene.keys()
        seen: list[bool] = []
        operation = "rename" if await tree_of(scene.store).is_atomic() else "copy"

        def before(request: Any) -> None:
            if request.operation == operation:
                seen.append(request.key)

        driver = scene.process(before=before)
        log, success = driver.traffic.log, f"{scene.destination}/_SUCCESS"
        await driver.committer.commit_job(commits)
        deleted = next(r.number for r in log if r.operation.startswith("delete") and r.key == success)
        written = next(r.number for r in log if r.operation == "put" and r.key == success)
        moves = [r.number for r in log if r.operation == operation]
        assert len(moves) == len(seen) == 4
        assert deleted < min(moves) < max(moves) < written

    run(go())


def test_job_id_is_not_used_for_new_data(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        await driver.commit([await scene.process(algorithm).task(0, FILES)])
        with pytest.raises(CommitDenied, match="is already published"):
            await scene.process(algorithm).setup()
        assert await scene.work() == []

    run(go())


def test_store_that_ignores_conditions_needs_a_promise(algorithm: Algorithm) -> None:
    async def go() -> None:
        world = World(ignores=frozenset({"put_if_absent"}))
        world.create_bucket("bucket")
        scene = FileScene(MemoryStore("bucket", world), "root")
        with pytest.raises(UsageError, match="ignores conditional writes"):
            await scene.process(algorithm).setup()
        assert await scene.keys() == {}
        driver = await scene.process(algorithm, single_driver=True).setup()
        await driver.commit([await scene.process(algorithm).task(0, FILES)])
        assert await scene.visible() == NAMES

    run(go())


class TestRecovery:
    """A second job attempt uses what tasks of earlier ones have committed."""

    def test_committed_tasks_are_taken_and_others_run_again(
        self, scene: FileScene, algorithm: Algorithm
    ) -> None:
        async def go() -> None:
            await scene.process(algorithm).setup()
            await scene.process(algorithm).task(0, FILES)
            await scene.process(algorithm).task(1, {})
            await scene.process(algorithm).write(attempt_of(2)[1], {"lost.txt": b"lost"})
            heir = await scene.process(algorithm, attempt=1).setup()
            taken = await heir.committer.recover_tasks()
            assert [(c.task_id, c.attempt_id, c.files, c.bytes) for c in taken] == [
                ("000000", "attempt-000000-0", 2, 3),
                ("000001", "attempt-000001-0", 0, 0),
            ]
            assert await heir.committer.recover_tasks() == taken
            assert f"_temporary/{JOB}/00/tasks/attempt-000002-0/lost.txt" in await scene.work()
            run_again = await scene.process(algorithm, attempt=1).task(2, FILES)
            assert await heir.committer.recover_tasks() == taken
            assert len(await heir.committer.committed_tasks()) == (1 if algorithm == 1 else 3)
            report = await heir.commit([*taken, run_again])
            assert (report.tasks, report.files) == (3, 4)
            assert await scene.visible() == {**NAMES, **of(2)}
            assert await scene.work() == []

        run(go())

    def test_third_attempt_takes_from_both(self, scene: FileScene, algorithm: Algorithm) -> None:
        async def go() -> None:
            await scene.process(algorithm).setup()
            await scene.process(algorithm).task(0, FILES)
            await scene.process(algorithm, attempt=1).setup()
            await scene.process(algorithm, attempt=1).task(1, FILES)
            if algorithm == 1:
                # Attempt 1 did not ask, and ran the task itself.
                await scene.process(algorithm, attempt=1).task(0, {"n.txt": b"newer"}, "new")
            heir = await scene.process(algorithm, attempt=2).setup()
            taken = await heir.committer.recover_tasks()
            await heir.commit(taken)
            newer = of(0, {"n.txt": b"newer"}) if algorithm == 1 else NAMES
            assert await scene.visible() == {**newer, **of(1)}
            assert await scene.work() == []

        run(go())

    def test_task_of_an_earlier_attempt_that_commits_late_is_not_published(
        self, scene: FileScene, algorithm: Algorithm
    ) -> None:
        """With algorithm 2 it is denied, for it would be visible."""

        async def go() -> None:
            await scene.process(algorithm).setup()
            zombie = scene.process(algorithm)
            await zombie.write(attempt_of(0)[1], FILES)
            heir = await scene.process(algorithm, attempt=1).setup()
            with nullcontext() if algorithm == 1 else pytest.raises(CommitDenied, match="attempt 1 of job"):
                await zombie.committer.commit_task(*attempt_of(0))
            assert await scene.visible() == {}
            await heir.commit([await scene.process(algorithm, attempt=1).task(0, {"n.txt": b"n"}, "1")])
            assert await scene.visible() == {"n-000000.txt": b"n"}
            assert await scene.work() == []

        run(go())

    def test_first_attempt_has_nothing_to_recover(self, scene: FileScene, algorithm: Algorithm) -> None:
        async def go() -> None:
            driver = await scene.process(algorithm).setup()
            with pytest.raises(UsageError, match="attempt 0"):
                await driver.committer.recover_tasks()
            stranger = scene.process(algorithm, job=OTHER, attempt=1)
            with pytest.raises(CommitDenied, match="has ended or never started"):
                await stranger.setup()

        run(go())


def test_only_a_task_commit_of_algorithm_2_cannot_be_repeated(scene: FileScene) -> None:
    one, two = (scene.process(n).committer for n in (1, 2))
    for made in (one, two):
        assert made.is_recovery_supported
    assert (one.is_task_commit_repeatable, two.is_task_commit_repeatable) == (True, False)


def data(keys: dict[str, bytes]) -> dict[str, bytes]:
    """Without manifests, which lie beside the data."""
    return {name: body for name, body in keys.items() if not name.startswith("_magicfs/")}


def test_hidden_files_and_the_success_of_a_task(scene: FileScene, algorithm: Algorithm) -> None:
    """What begins with ``_`` or ``.`` is published, as by Hadoop; ``_SUCCESS`` is the job's to write."""

    async def go() -> None:
        driver = await scene.process(algorithm, unique=False).setup()
        files = {"_metadata": b"m", ".part.crc": b"c", "_SUCCESS": b"a lie", "a.txt": b"a"}
        commit = await scene.process(algorithm, unique=False).task(0, files)
        assert "_SUCCESS" not in await scene.keys()
        assert (await driver.commit([commit])).files == 3
        found = data(await scene.keys())
        assert SuccessData.from_bytes("_SUCCESS", found.pop("_SUCCESS")).job_id == JOB
        assert found == {name: body for name, body in files.items() if name != "_SUCCESS"}

    run(go())


@pytest.mark.parametrize("name", ["d//a.txt", "d/../a.txt"])
def test_name_with_an_element_that_is_none_fails_the_task(algorithm: Algorithm, name: str) -> None:
    async def go() -> None:
        scene = FileScene(objects(), "root")
        await scene.process(algorithm).setup()
        with pytest.raises(CommitFailed, match=r"is empty, '.' or '..'"):
            await scene.process(algorithm).task(0, {name: b""})

    run(go())


def objects() -> MemoryStore:
    world = World()
    world.create_bucket("bucket")
    return MemoryStore("bucket", world)


def test_aborted_attempt_leaves_nothing_behind(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        _, lost = attempt_of(0, "lost")
        await scene.process(algorithm).write(lost, FILES)
        for _ in range(2):
            await driver.committer.abort_task(lost)
        assert not await driver.committer.needs_task_commit(lost)
        good = await scene.process(algorithm).task(0, FILES)
        await driver.commit([good])
        assert await scene.visible() == NAMES

    run(go())


def test_attempt_that_is_aborted_once_it_has_committed(scene: FileScene, algorithm: Algorithm) -> None:
    """With algorithm 1 it never has; with algorithm 2 its files are visible, and the job's."""

    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        good = await scene.process(algorithm).task(0, FILES)
        await driver.committer.abort_task(attempt_of(0)[1])
        with nullcontext() if algorithm == 2 else pytest.raises(CommitFailed, match="was aborted"):
            await driver.commit([good])
        assert await scene.visible() == (NAMES if algorithm == 2 else {})

    run(go())


def test_two_tasks_that_write_one_file_fail_the_job(scene: FileScene) -> None:
    """Hadoop lets the last one win, and rows are lost without a word."""

    async def go() -> None:
        driver = await scene.process(unique=False).setup()
        commits = [await scene.process(unique=False).task(n, {"e.txt": b"%d" % n}) for n in range(2)]
        with pytest.raises(CommitFailed, match=r"e\.txt"):
            await driver.commit(commits)
        assert await scene.visible() == {}
        await driver.abort()
        assert await scene.work() == []

    run(go())


def test_task_that_publishes_finds_the_file_of_another_in_its_place(scene: FileScene) -> None:
    async def go() -> None:
        driver = await scene.process(2, unique=False).setup()
        first = await scene.process(2, unique=False).task(0, {"e.txt": b"0"})
        with pytest.raises(CommitFailed, match=r"e\.txt already exists as a file"):
            await scene.process(2, unique=False).task(1, {"e.txt": b"1"})
        await driver.commit([first])
        assert await scene.visible() == {"e.txt": b"0"}

    run(go())


def test_old_file_of_an_equal_name_stays_unless_it_may_go(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        await scene.put("a.txt", b"old")
        driver = await scene.process(algorithm, unique=False).setup()
        with pytest.raises((CommitFailed, OutputExists), match=r"a\.txt"):
            await driver.commit([await scene.process(algorithm, unique=False).task(0, FILES)])
        assert await scene.visible() == {"a.txt": b"old"}
        await driver.abort()
        how: Any = {"unique": False, "delete_obstacles": True, "job": OTHER}
        driver = await scene.process(algorithm, **how).setup()
        await driver.commit([await scene.process(algorithm, **how).task(0, FILES)])
        assert await scene.visible() == FILES
        assert await scene.work() == []

    run(go())


def test_mode_fail_refuses_data_and_not_what_its_own_tasks_have_published(
    scene: FileScene, algorithm: Algorithm
) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm, mode="error").setup()
        commit = await scene.process(algorithm, mode="error").task(0, FILES)
        # A restarted driver finds what its own job has made visible.
        heir = await scene.process(algorithm, mode="error", attempt=1).setup()
        with pytest.raises(CommitDenied):
            await driver.commit([commit])
        await heir.commit(await heir.committer.recover_tasks())
        assert await scene.visible() == NAMES
        with pytest.raises(OutputExists):
            await scene.process(algorithm, job=OTHER, mode="error").setup()
        assert await scene.work() == []

    run(go())


@pytest.mark.parametrize("unique", [True, False])
def test_replace_takes_the_place_of_all_that_was_there(scene: FileScene, unique: bool) -> None:
    async def go() -> None:
        await scene.put("a.txt", b"old")
        await scene.put("day=2/old.txt", b"old")
        how: Any = {"mode": "overwrite", "unique": unique}
        driver = await scene.process(**how).setup()
        report = await driver.commit([await scene.process(**how).task(0, FILES)])
        assert report.files == 2
        assert await scene.visible() == (NAMES if unique else FILES)
        assert await scene.work() == []

    run(go())


def test_run_is_published_once(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm, run_id="monday").setup()
        await driver.commit([await scene.process(algorithm, run_id="monday").task(0, FILES)])
        again = scene.process(algorithm, job=OTHER, run_id="monday")
        assert (await again.committer.setup_job()).published == JOB
        await again.committer.abort_job(())
        assert await scene.visible() == NAMES
        assert await scene.work() == []

    run(go())


def test_manifest_tells_each_file_as_it_lies_there(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        await driver.commit([await scene.process(algorithm).task(0, FILES)])
        manifest = await chain.read(scene.store, scene.destination, ids.job_id(JOB), Conditions())
        assert manifest is not None
        assert len(manifest.files) == 2
        for file in manifest.files:
            there = await scene.store.head(f"{scene.destination}/{file.key}")
            assert (file.size, file.etag) == (there.size, there.etag)

    run(go())


def test_manifest_of_another_attempt_fails_its_job(scene: FileScene) -> None:
    async def go() -> None:
        driver = await scene.process().setup()
        commit = await scene.process().task(0, FILES)
        places = driver.committer.context.temporary
        raw = await scene.store.get(places.manifest_key(commit.attempt_id))
        await scene.store.put(
            places.manifest_key(attempt_of(1)[1]), raw.replace(JOB.encode(), OTHER.encode())
        )
        with pytest.raises(CommitFailed, match="inconsistent|not " + JOB):
            await driver.commit(None)
        assert await scene.visible() == {}

    run(go())


def test_files_of_others_among_the_manifests_are_none(scene: FileScene, algorithm: Algorithm) -> None:
    async def go() -> None:
        driver = await scene.process(algorithm).setup()
        commit = await scene.process(algorithm).task(0, FILES)
        directory = f"_temporary/{JOB}/" + ("00/manifests" if algorithm == 1 else "claims")
        for name in (".hidden/x.json", "000000/.x.json", "x", "x y.json", "a/b/c-manifest.json"):
            await scene.put(f"{directory}/{name}", b"what is this?")
        assert await driver.committer.committed_tasks() == [commit.task_id]
        assert (await driver.commit(None, tasks=1)).files == 2
        assert await scene.visible() == NAMES
        assert await scene.work() == []

    run(go())


def test_file_in_the_place_of_the_work_is_named(tmp_path: Path, algorithm: Algorithm) -> None:
    async def go() -> None:
        scene = FileScene(LocalStore(), str(tmp_path).strip("/"))
        await scene.put("_temporary", b"a file")
        with pytest.raises(UsageError, match="has the name of a directory that the job needs"):
            await scene.process(algorithm).setup()
        assert await scene.keys() == {"_temporary": b"a file"}

    run(go())


def test_copies_only_go_forward_and_renames_are_taken_back(scene: FileScene) -> None:
    """A work file that somebody has removed while the job commits."""

    async def go() -> None:
        await scene.put("old.txt", b"old")
        await scene.process().setup()
        commits = [await scene.process().task(n, FILES) for n in range(2)]
        atomic = await tree_of(scene.store).is_atomic()
        seen: list[str] = []

        def before(request: Any) -> None:
            if request.operation == ("rename" if atomic else "copy"):
                seen.append(request.key)
                if len(seen) == 2:
                    remove(scene, request.key)

        driver = scene.process(before=before, concurrency=1)
        with pytest.raises(
            CommitFailed, match="taken back|removed again" if atomic else "can no longer be rolled back"
        ):
            await driver.committer.commit_job(commits)
        visible = await scene.visible()
        assert (visible == {"old.txt": b"old"}) == atomic
        assert (await scene.work() == []) == atomic

    run(go())


def remove(scene: FileScene, key: str) -> None:
    """Remove a file past all protocols, at once."""
    if isinstance(scene.store, MemoryStore):
        contents = scene.store.world.find(scene.store.bucket)
        assert contents is not None
        del contents.objects[key]
    else:
        Path(f"/{key}").unlink()
