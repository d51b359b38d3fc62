"""Who may end a job of the file committer: two drivers at once, drivers that come back, contact."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

import pytest

import magicfs
from magicfs.committers.file.markers import CommitMarkers
from magicfs.errors import CommitDenied, CommitFailed, FormatError, MagicError, ProtocolViolation
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol.ids import JobId
from magicfs.report import JobReport
from magicfs.stores.memory import MemoryStore, World
from magicfs.stores.object_tree import tree_of
from magicfs.testing import virtual_time
from magicfs.testing.store_faults import Fault, Kind
from magicfs.transaction.current_driver import require_current_driver
from proofs.scenes.file_scene import JOB, FileScene, Process, attempt_of, run

FILES = {"a.txt": b"a", "day=1/b.txt": b"bb"}
NEW = {name.replace(".txt", f"-00000{n}.txt"): body for n in range(2) for name, body in FILES.items()}

Algorithm = Literal[1, 2]


@pytest.fixture(params=[1, 2], ids=["algorithm-1", "algorithm-2"])
def algorithm(request: pytest.FixtureRequest) -> Algorithm:
    found: Algorithm = request.param
    return found


def make() -> FileScene:
    world = World()
    world.create_bucket("bucket")
    return FileScene(MemoryStore("bucket", world), "root")


async def two_tasks(scene: FileScene, algorithm: Algorithm, attempt: int = 0) -> list[TaskCommit]:
    return [await scene.process(algorithm, attempt=attempt).task(n, FILES) for n in range(2)]


async def outcome(work: Any) -> Any:
    """A report, or the error."""
    try:
        return await work
    except MagicError as error:
        return error


async def assert_whole(scene: FileScene) -> None:
    assert await scene.visible() == NEW
    assert SuccessData.from_bytes("", (await scene.keys())["_SUCCESS"]).job_id == JOB


async def counted(one: Callable[[int], Awaitable[bool]]) -> int:
    """Call something with 1, 2, …, until it was behind the last; returns with which number that was."""
    number = 1
    while await one(number):
        number += 1
    return number


def wrote(process: Process, marker: str) -> bool:
    """Whether a process wrote a marker."""
    return any(one.operation == "put" and one.key.endswith(f"/{marker}") for one in process.traffic.log)


def paused(number: int) -> list[Fault]:
    """A pause before a request that is long enough for everybody else."""
    return [Fault(Kind.DELAY, number=number, seconds=1000.0)]


@pytest.mark.slow
def test_of_two_drivers_at_once_exactly_one_commits(algorithm: Algorithm) -> None:
    """The first pauses before each of its requests in turn, and the second comes and goes meanwhile."""

    async def one(comes: str, number: int) -> bool:
        scene = make()
        first = scene.process(algorithm, faults=paused(number), concurrency=1)
        token = (await scene.process(algorithm).setup()).driver
        second = await scene.process(algorithm).setup() if comes == "before" else scene.process(algorithm)
        done = await two_tasks(scene, algorithm)
        mine: list[Any] = []

        async def other() -> None:
            await asyncio.sleep(1.0)
            if comes == "between":
                second.driver = getattr(await outcome(second.committer.setup_job()), "driver", "none")
            mine.append(await outcome(second.commit(done)))

        driver = None if comes == "nameless" else token
        _, theirs = await asyncio.gather(other(), outcome(first.committer.commit_job(done, driver)))
        both = [mine[0], theirs]
        reports = [one for one in both if isinstance(one, JobReport)]
        published = [one for one in reports if not one.published_before]
        assert all(isinstance(one, JobReport | CommitDenied) for one in both), (number, both)
        if comes == "nameless":
            # Whoever names no driver vouches for being the one, so it may carry on.
            assert len(published) >= 1, (number, both)
        else:
            assert len(published) == 1, (number, both)
        await assert_whole(scene)
        assert await scene.work() == []
        assert not wrote(first, "COMMIT_FAIL")
        assert not wrote(second, "COMMIT_FAIL")
        return first.traffic.met != []

    for comes, least in (("before", 5), ("between", 16), ("nameless", 16)):
        assert virtual_time.run(counted(partial(one, comes))) >= least


@pytest.mark.parametrize("seed", range(10))
def test_of_many_drivers_in_any_order_exactly_one_commits(algorithm: Algorithm, seed: int) -> None:
    async def go() -> None:
        scene = make()
        drivers = [await scene.process(algorithm).setup() for _ in range(2)]
        done = await two_tasks(scene, algorithm)
        drivers += [scene.process(algorithm), scene.process(algorithm)]
        found = await asyncio.gather(*(outcome(one.commit(done)) for one in drivers))
        reports = [one for one in found if isinstance(one, JobReport) and not one.published_before]
        assert len(reports) >= 1
        assert all(isinstance(one, JobReport | CommitDenied) for one in found), found
        await assert_whole(scene)
        assert not any(wrote(one, "COMMIT_FAIL") for one in drivers)

    virtual_time.run(go(), seed=seed)


def test_driver_that_rises_from_the_dead_changes_nothing(algorithm: Algorithm) -> None:
    """The engine took it for dead before each of its requests in turn, and started another one."""

    async def one(number: int) -> bool:
        scene = make()
        zombie = scene.process(algorithm, faults=paused(number), concurrency=1)
        token = (await scene.process(algorithm).setup()).driver
        done = await two_tasks(scene, algorithm)

        async def heir() -> None:
            await asyncio.sleep(1.0)
            try:
                other = await scene.process(algorithm, attempt=1).setup()
            except CommitDenied:
                return  # the zombie had published and cleaned up before it fell asleep
            await other.commit(await other.committer.recover_tasks())
            await assert_whole(scene)

        _, theirs = await asyncio.gather(heir(), outcome(zombie.committer.commit_job(done, token)))
        assert isinstance(theirs, JobReport | CommitDenied), (number, theirs)
        await assert_whole(scene)
        assert await scene.work() == []
        assert not wrote(zombie, "COMMIT_FAIL")
        return zombie.traffic.met != []

    assert virtual_time.run(counted(one)) > 15


@pytest.mark.slow
@pytest.mark.parametrize("attempt", [0, 1], ids=["a-rival", "an-heir"])
def test_driver_that_goes_on_while_another_one_is_at_work(algorithm: Algorithm, attempt: int) -> None:
    """The second pauses before each of its requests in turn; the first, stopped anywhere, runs meanwhile."""

    async def one(first: int, second: int) -> tuple[bool, bool]:
        scene = make()
        zombie = scene.process(algorithm, faults=paused(first), concurrency=1)
        token = (await scene.process(algorithm).setup()).driver
        done = await two_tasks(scene, algorithm)
        pause = Fault(Kind.DELAY, number=second, seconds=5000.0)
        heir = scene.process(algorithm, attempt=attempt, faults=[pause], concurrency=1)

        async def inherit() -> Any:
            await asyncio.sleep(1.0)
            await heir.setup()
            return await heir.commit(await heir.committer.recover_tasks() if attempt else done)

        mine, theirs = await asyncio.gather(
            outcome(inherit()), outcome(zombie.committer.commit_job(done, token))
        )
        assert all(isinstance(one, JobReport | CommitDenied) for one in (mine, theirs)), (first, second)
        reports = [one for one in (mine, theirs) if isinstance(one, JobReport)]
        assert reports, (first, second, mine, theirs)
        if attempt == 0:
            assert len([one for one in reports if not one.published_before]) == 1, (first, second)
        await assert_whole(scene)
        assert await scene.work() == [], (first, second)
        assert not wrote(zombie, "COMMIT_FAIL")
        assert not wrote(heir, "COMMIT_FAIL")
        return zombie.traffic.met != [], heir.traffic.met != []

    async def go() -> int:
        pairs, first, more = 0, 1, True
        while more:
            # A quarter of the pairs.
            second, there = 1, True
            while there:
                more, there = await one(first, second)
                second += 1
                pairs += 1
            first += 4
        return pairs

    assert virtual_time.run(go()) > 150


@pytest.mark.parametrize("algorithm", [1])
def test_of_a_commit_and_an_abort_at_once_exactly_one_counts(algorithm: Algorithm) -> None:
    async def one(number: int) -> bool:
        scene = make()
        await scene.put("old.txt", b"old")
        driver = scene.process(algorithm, faults=paused(number), concurrency=1)
        token = (await scene.process(algorithm).setup()).driver
        done = await two_tasks(scene, algorithm)
        mine: list[Any] = []

        async def other() -> None:
            await asyncio.sleep(1.0)
            mine.append(await outcome(scene.process(algorithm).committer.abort_job(done)))

        _, theirs = await asyncio.gather(other(), outcome(driver.committer.commit_job(done, token)))
        if mine == [None]:
            assert isinstance(theirs, CommitDenied | CommitFailed), (number, theirs)
            assert await scene.visible() == {"old.txt": b"old"}
        else:
            assert isinstance(theirs, JobReport), (number, theirs)
            assert isinstance(mine[0], ProtocolViolation), (number, mine)
            assert await scene.visible() == {"old.txt": b"old", **NEW}
        assert await scene.work() == []
        return driver.traffic.met != []

    assert virtual_time.run(counted(one)) > 15


@pytest.mark.parametrize("attempt", [0, 1])
def test_driver_that_takes_over_what_ends_meanwhile_learns_so(algorithm: Algorithm, attempt: int) -> None:
    async def go() -> None:
        scene = make()
        first = await scene.process(algorithm).setup()
        done = await two_tasks(scene, algorithm)
        pause = Fault(Kind.DELAY, operation="put", prefix=f"{work(scene)}/{JOB}/driver.json", seconds=1000.0)
        late = scene.process(algorithm, attempt=attempt, faults=[pause])
        taking, _ = await asyncio.gather(outcome(late.committer.setup_job()), first.commit(done))
        if attempt:
            assert taking.published == JOB
        else:
            assert isinstance(taking, CommitDenied)
            assert "is published already" in str(taking)
        assert await scene.work() == []
        await assert_whole(scene)

    virtual_time.run(go())


def test_of_two_that_begin_at_the_same_moment_one_is_denied(algorithm: Algorithm) -> None:
    """Even if neither names its driver."""

    async def go() -> None:
        scene = make()
        await scene.process(algorithm).setup()
        done = await two_tasks(scene, algorithm)
        wait = Fault(
            Kind.DELAY, operation="put", prefix=f"{work(scene)}/{JOB}/COMMIT_STARTED", seconds=1000.0
        )
        first = scene.process(algorithm, faults=[wait])
        # The second has begun, and is on its way when the first one wakes.
        pause = Fault(Kind.DELAY, operation="put", prefix=f"{scene.destination}/_SUCCESS", seconds=5000.0)
        second = scene.process(algorithm, faults=[pause])
        results = await asyncio.gather(*(outcome(one.committer.commit_job(done)) for one in (first, second)))
        assert isinstance(results[0], CommitDenied)
        assert "at the same moment" in str(results[0])
        assert isinstance(results[1], JobReport)
        await assert_whole(scene)

    virtual_time.run(go())


def test_newest_driver_commits_and_an_older_one_is_denied(algorithm: Algorithm) -> None:
    async def go() -> None:
        scene = make()
        older, newer = await scene.process(algorithm).setup(), await scene.process(algorithm).setup()
        done = await two_tasks(scene, algorithm)
        with pytest.raises(CommitDenied, match="taken over"):
            await older.commit(done)
        with pytest.raises(CommitDenied, match="taken over"):
            await older.abort(done)
        await newer.commit(done)
        await assert_whole(scene)

    run(go())


def test_heir_publishes_what_its_predecessor_was_publishing() -> None:
    """It has run the tasks again, and one attempt of each task is visible all the same."""

    async def go() -> None:
        scene = make()
        first = await scene.process().setup()
        done = await two_tasks(scene, 1)
        dying = scene.process(faults=[Fault(Kind.CRASH_AFTER, operation="copy", skip=1)], concurrency=1)
        await dying.dies(dying.committer.commit_job(done, first.driver))
        with pytest.raises(CommitDenied, match="use a greater attempt"):
            await scene.process().setup()
        heir = await scene.process(attempt=1).setup()
        again = [
            await scene.process(attempt=1).task(n, {"other.txt": b"of the second attempt"}, "x")
            for n in range(2)
        ]
        with pytest.raises(CommitDenied, match="began with other tasks"):
            await heir.commit(again[:1])
        report = await heir.commit(again)
        assert "had begun to commit other attempts of 2 tasks" in report.warnings[0]
        assert (report.tasks, report.files) == (2, 4)
        await assert_whole(scene)
        assert await scene.work() == []

    run(go())


def test_restarted_driver_of_a_published_job_learns_so(algorithm: Algorithm) -> None:
    """Before the work was removed, while it was, and when another job has written ``_SUCCESS`` since."""

    async def one(skip: int) -> bool:
        scene = make()
        first = await scene.process(algorithm).setup()
        done = await two_tasks(scene, algorithm)
        # With algorithm 1 moving the files deletes four.
        skip += 4 if algorithm == 1 else 0
        fault = Fault(Kind.CRASH_BEFORE, operation="delete", prefix=work(scene), skip=skip)
        dying = scene.process(algorithm, faults=[fault], concurrency=1)
        await dying.dies(dying.committer.commit_job(done, first.driver))
        heir = scene.process(algorithm, attempt=1)
        setup = await heir.committer.setup_job()
        assert setup.published == JOB
        assert await heir.committer.recover_tasks() == []
        report = await heir.committer.commit_job([], setup.driver)
        assert report.published_before
        await assert_whole(scene)
        assert await scene.work() == []
        return dying.traffic.met != []

    async def go() -> int:
        skip = 0
        while await one(skip):
            skip += 1
        return skip

    assert run(go()) >= 3


def work(scene: FileScene) -> str:
    return f"{scene.destination}/_temporary"


class TestContact:
    """A driver ends the job only if its engine still wants it to; it asks before it writes anything."""

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_driver_without_contact_leaves_the_job_alone(self, algorithm: Algorithm, end: str) -> None:
        async def go() -> None:
            scene = make()
            driver = await scene.process(algorithm).setup()
            done = await two_tasks(scene, algorithm)
            before = await scene.keys()
            asked: list[dict[str, bytes]] = []

            def no() -> bool:
                asked.append(dict.fromkeys(asyncio.run(scene.keys()), b""))
                return False

            def broken() -> bool:
                raise OSError("no route to the engine")

            for answer, problem in ((no, "does not want this driver"), (broken, "no route to the engine")):
                with pytest.raises(CommitDenied, match=problem):
                    how = {"is_current_driver": answer}
                    await (driver.commit(done, **how) if end == "commit" else driver.abort(done, **how))
                assert await scene.keys() == before
            assert [set(keys) for keys in asked] == [set(before)]
            heir = await scene.process(algorithm, attempt=1).setup()
            await heir.commit(await heir.committer.recover_tasks())
            await assert_whole(scene)

        run(go())

    def test_driver_with_contact_commits_and_asks_once(self, algorithm: Algorithm) -> None:
        async def go() -> None:
            scene = make()
            driver = await scene.process(algorithm).setup()
            asked: list[bool] = []
            done = await two_tasks(scene, algorithm)
            await driver.commit(done, is_current_driver=lambda: asked.append(True) is None)
            assert asked == [True]
            await assert_whole(scene)

        run(go())

    @pytest.mark.parametrize("committer", ["file", "magic"])
    def test_job_of_any_committer_asks(self, committer: str) -> None:
        wanted = [False]
        url = f"memory://contact-{committer}/data"
        job = magicfs.Job(url, committer=committer, conflict="append", is_current_driver=lambda: wanted[0])
        with pytest.raises(CommitDenied, match="does not want this driver"), job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.txt", b"a")
        [commit] = job.commits
        wanted[0] = True
        assert job.commit([commit]).files == 1

    def test_job_forgets_whom_to_ask_when_it_is_pickled(self) -> None:
        import pickle

        job = magicfs.Job("memory://contact/data", committer="file", is_current_driver=lambda: False).setup()
        with pytest.raises(CommitDenied):
            job.abort()
        pickle.loads(pickle.dumps(job)).abort()

    def test_nobody_is_asked_where_nobody_is_named(self) -> None:
        run(require_current_driver(None, JobId(JOB)))


class TestFormat:
    """Markers are files of others."""

    def test_broken_marker_stops_everybody_and_is_left(self, algorithm: Algorithm) -> None:
        async def go() -> None:
            scene = make()
            driver = await scene.process(algorithm).setup()
            done = await two_tasks(scene, algorithm)
            directory = driver.committer.context.temporary.job_directory
            await scene.store.put(f"{directory}/COMMIT_STARTED", b"{}")
            before = await scene.keys()
            with pytest.raises(FormatError, match="COMMIT_STARTED"):
                await driver.commit(done)
            with pytest.raises(FormatError, match="COMMIT_STARTED"):
                await driver.abort(done)
            assert await scene.keys() == before

        run(go())

    def test_markers_lie_in_the_directory_of_the_job_under_the_names_of_hadoop(self) -> None:
        async def go() -> list[str]:
            scene = make()
            driver = await scene.process().setup()
            done = await two_tasks(scene, 1)
            fault = Fault(Kind.CRASH_BEFORE, operation="delete", prefix=work(scene), skip=4)
            dying = scene.process(faults=[fault], concurrency=1)
            await dying.dies(dying.committer.commit_job(done, driver.driver))
            markers = CommitMarkers(tree_of(scene.store), JobId(JOB), f"{work(scene)}/{JOB}")
            marks = await markers.read()
            assert marks.started is not None
            assert marks.success is not None
            assert [one.attempt for one in marks.started.tasks] == [attempt_of(n)[1] for n in range(2)]
            assert (marks.success.files, marks.success.nonce) == (4, marks.started.nonce)
            return await scene.work()

        found = run(go())
        assert {f"_temporary/{JOB}/COMMIT_STARTED", f"_temporary/{JOB}/COMMIT_SUCCESS"} <= set(found)
        assert not any("COMMIT_FAIL" in key for key in found)
