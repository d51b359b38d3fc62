"""The file committer, cut at every request, before and after the store does it, and carried on by others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from magicfs.datasets.commit import commit_listed
from magicfs.errors import CommitDenied, CommitOutcomeUnknown, MagicError, PermissionDenied, StoreError
from magicfs.formats.job_object import JobObject
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.formats.task_manifest import TaskManifest
from magicfs.protocol.modes import WriteMode
from magicfs.protocol.paths import parse_url
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.testing.store_faults import Fault, Kind
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.outcome import JobEnd
from proofs.doubles import virtual_time
from proofs.scenes.file_scene import JOB, FileScene, Process, attempt_of, run

pytestmark = [pytest.mark.slow, pytest.mark.sample(most=1)]

FILES = {"a.txt": b"a", "day=1/b.txt": b"bb"}
OLD = {"old.txt": b"old", "day=1/old.txt": b"older"}
NEW = {name.replace(".txt", f"-00000{n}.txt"): body for n in range(2) for name, body in FILES.items()}
# A crash before a request leaves what one after the request before it leaves.
KINDS = [Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.REPLY_LOST, Kind.REFUSED]
# On files a request takes many times as long, and most of the code is the same.
CUTS = [("files", Kind.CRASH_AFTER), *(("objects", kind) for kind in KINDS)]

Algorithm = Literal[1, 2]
Make = Callable[[], FileScene]


class Places:
    """Makes a new scene at each call, on files or on objects."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.made = 0

    def __call__(self, on: str) -> FileScene:
        self.made += 1
        if on == "files":
            return FileScene(LocalStore(), f"{self.directory}/{self.made}".strip("/"))
        world = World()
        world.create_bucket("bucket")
        return FileScene(MemoryStore("bucket", world), "root")


@pytest.fixture(params=CUTS, ids=lambda cut: f"{cut[0]}-{cut[1]}")
def cut(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Make, Kind]:
    """Where to make scenes, and what happens there."""
    on, kind = request.param
    return partial(Places(tmp_path), on), kind


@pytest.fixture(params=["files", "objects"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return partial(Places(tmp_path), request.param)


async def laid_down(make: Make, algorithm: Algorithm, *, tasks: int = 2) -> tuple[FileScene, Process]:
    """A job that is set up at a destination that holds something; with its driver."""
    scene = make()
    for name, body in (OLD | {"_SUCCESS": b"old"}).items():
        await scene.put(name, body)
    return scene, await scene.process(algorithm).setup()


async def committed(scene: FileScene, algorithm: Algorithm, tasks: int = 2) -> list[TaskCommit]:
    return [await scene.process(algorithm).task(n, FILES) for n in range(tasks)]


async def tried(process: Process, work: Awaitable[object]) -> Exception | None:
    """Do something that a fault disturbs; what it raised, None if the process died or nothing happened."""

    async def go() -> Exception | None:
        try:
            await work
        except MagicError as error:
            return error
        return None

    return await process.dies(go())


async def counted(one: Callable[[int], Awaitable[bool]]) -> int:
    """Call something with 1, 2, …, until it was behind the last; returns with which number that was."""
    number = 1
    while await one(number):
        number += 1
    return number


async def every_cut(run_one: Callable[[Fault], Awaitable[bool]], kind: Kind) -> int:
    """Run with a fault at each request in turn, until it is behind the last; returns how many there were."""
    return await counted(lambda number: run_one(Fault(kind, number=number))) - 1


async def assert_whole(scene: FileScene) -> None:
    assert await scene.visible() == OLD | NEW
    assert await scene.work() == []
    success = (await scene.keys())["_SUCCESS"]
    assert SuccessData.from_bytes("_SUCCESS", success).job_id == JOB


async def by_the_same_driver(
    scene: FileScene, algorithm: Algorithm, driver: str, done: list[TaskCommit]
) -> None:
    await scene.process(algorithm).committer.commit_job(done, driver)


async def by_somebody(scene: FileScene, algorithm: Algorithm, driver: str, done: list[TaskCommit]) -> None:
    """As ``magicfs recover`` does; a job that is open still is taken over by its next attempt."""
    committer = scene.process(algorithm).committer
    ended = await JobTransaction(committer.engine, committer.context).finish()
    if ended is not None and ended.end is JobEnd.LEFT:
        heir = await scene.process(algorithm, attempt=1).setup()
        await heir.commit(await heir.committer.recover_tasks())


@pytest.mark.parametrize(
    ("heir", "cut"),
    [
        *((by_the_same_driver, one) for one in CUTS),
        *((by_somebody, (on, Kind.CRASH_AFTER)) for on in ("files", "objects")),
    ],
    indirect=["cut"],
)
@pytest.mark.parametrize("algorithm", [1, 2])
def test_job_commit_that_stopped_is_carried_on(
    cut: tuple[Make, Kind], algorithm: Algorithm, heir: Callable[..., Awaitable[None]]
) -> None:
    make, kind = cut

    async def one(fault: Fault) -> bool:
        scene, driver = await laid_down(make, algorithm)
        done = await committed(scene, algorithm)
        process = scene.process(algorithm, faults=[fault], concurrency=1)
        await tried(process, process.committer.commit_job(done, driver.driver))
        await heir(scene, algorithm, driver.driver, done)
        # Where versions of a job object are numbered, some may be left when the first is gone.
        await scene.process(algorithm).committer.abort_job(())
        await assert_whole(scene)
        return process.traffic.met != []

    assert run(every_cut(one, kind)) > 15


def test_job_commit_that_stopped_twice_is_carried_on(tmp_path: Path) -> None:
    """A third of all pairs: after a request that changes something, and after any of the second call."""
    make = partial(Places(tmp_path), "objects")

    async def one(first: int, second: int) -> bool:
        scene, driver = await laid_down(make, 1)
        done = await committed(scene, 1)
        for number in (first, second):
            process = scene.process(faults=[Fault(Kind.CRASH_AFTER, number=number)], concurrency=1)
            await tried(process, process.committer.commit_job(done, driver.driver))
        await by_the_same_driver(scene, 1, str(driver.driver), done)
        await assert_whole(scene)
        return process.traffic.met != []

    async def go() -> int:
        scene, driver = await laid_down(make, 1)
        process = scene.process(concurrency=1)
        await process.committer.commit_job(await committed(scene, 1), driver.driver)
        pairs = 0
        for first in [one.number for one in process.traffic.log if one.changes]:
            second = 1 + first % 3
            while await one(first, second):
                second += 3
                pairs += 1
        return pairs

    assert run(go()) > 60


@pytest.mark.parametrize("heir", [by_the_same_driver, by_somebody])
@pytest.mark.parametrize("algorithm", [1, 2])
def test_request_of_a_dead_driver_that_lands_late_changes_nothing(
    tmp_path: Path, algorithm: Algorithm, heir: Callable[..., Awaitable[None]]
) -> None:
    """It lands when the job is published, and another job after it."""
    make = partial(Places(tmp_path), "objects")

    async def one(number: int) -> bool:
        scene, driver = await laid_down(make, algorithm)
        done = await committed(scene, algorithm)
        late = Fault(Kind.LATE, number=number, seconds=1000.0)
        process = scene.process(algorithm, faults=[late], concurrency=1)
        await tried(process, process.committer.commit_job(done, driver.driver))
        await heir(scene, algorithm, driver.driver, done)
        await assert_whole(scene)
        await process.traffic.settle()
        assert await scene.visible() == OLD | NEW
        success = (await scene.keys())["_SUCCESS"]
        assert SuccessData.from_bytes("_SUCCESS", success).job_id == JOB
        # What it left is swept by an abort, which finds that the job is published.
        await scene.process(algorithm).committer.abort_job(())
        await assert_whole(scene)
        return process.traffic.met != []

    assert virtual_time.run(counted(one)) > 15


def test_request_of_a_dead_task_that_lands_late_adds_nothing(tmp_path: Path) -> None:
    make = partial(Places(tmp_path), "objects")

    async def one(number: int) -> bool:
        scene, driver = await laid_down(make, 1)
        late = Fault(Kind.LATE, number=number, seconds=1000.0)
        process = scene.process(faults=[late], concurrency=1)
        name, attempt = attempt_of(0, "dead")
        await process.write(attempt, {"a.txt": b"dead", "dead.txt": b"dead"})
        await tried(process, process.committer.commit_task(name, attempt))
        done = await committed(scene, 1)
        await process.traffic.settle()
        await driver.commit(done)
        await assert_whole(scene)
        return process.traffic.met != []

    assert virtual_time.run(counted(one)) > 5


def test_task_commit_that_stopped_counts_whole_or_not_at_all(cut: tuple[Make, Kind]) -> None:
    make, kind = cut

    async def one(fault: Fault) -> bool:
        scene, driver = await laid_down(make, 1)
        process = scene.process(faults=[fault], concurrency=1)
        name, attempt = attempt_of(0)
        await process.write(attempt, FILES)
        await tried(process, process.committer.commit_task(name, attempt))
        [other] = [await scene.process().task(1, FILES)]
        report = await driver.commit(None)
        assert report.tasks in (1, 2)
        task = {name: body for name, body in NEW.items() if "000000" in name}
        found = await scene.visible()
        assert found in (OLD | NEW, {k: v for k, v in (OLD | NEW).items() if k not in task})
        assert other.files == 2
        assert await scene.work() == []
        return process.traffic.met != []

    assert run(every_cut(one, kind)) > 5


@pytest.mark.parametrize("algorithm", [1, 2])
def test_task_commit_that_stopped_is_carried_on_by_the_same_attempt(
    cut: tuple[Make, Kind], algorithm: Algorithm
) -> None:
    make, kind = cut

    async def one(fault: Fault) -> bool:
        scene, driver = await laid_down(make, algorithm)
        process = scene.process(algorithm, faults=[fault], concurrency=1)
        name, attempt = attempt_of(0)
        await process.write(attempt, FILES)
        await tried(process, process.committer.commit_task(name, attempt))
        again = await scene.process(algorithm).committer.commit_task(name, attempt)
        assert (again.files, again.bytes) == (2, 3)
        await driver.commit([again, await scene.process(algorithm).task(1, FILES)])
        await assert_whole(scene)
        return process.traffic.met != []

    assert run(every_cut(one, kind)) > 5


def test_task_that_is_visible_in_part_is_published_whole_and_once(cut: tuple[Make, Kind]) -> None:
    """Algorithm 2: whatever comes after, no job commit ever publishes a part of a task, or two attempts."""
    make, kind = cut

    async def one(fault: Fault) -> bool:
        scene, driver = await laid_down(make, 2)
        process = scene.process(2, faults=[fault], concurrency=1)
        name, attempt = attempt_of(0)
        await process.write(attempt, FILES)
        await tried(process, process.committer.commit_task(name, attempt))
        await scene.process(2).task(1, FILES)
        with suppress(CommitDenied):
            await scene.process(2).task(0, FILES, "1")
        await driver.commit(None, tasks=2)
        await assert_whole(scene)
        return process.traffic.met != []

    assert run(every_cut(one, kind)) > 5


@pytest.mark.parametrize("algorithm", [1, 2])
def test_recovery_that_stopped_is_repeated(cut: tuple[Make, Kind], algorithm: Algorithm) -> None:
    make, kind = cut

    async def one(fault: Fault) -> bool:
        scene, _ = await laid_down(make, algorithm)
        done = await committed(scene, algorithm)
        heir = await scene.process(algorithm, attempt=1).setup()
        process = scene.process(algorithm, attempt=1, faults=[fault], concurrency=1)
        await tried(process, process.committer.recover_tasks())
        taken = await heir.committer.recover_tasks()
        assert [(c.task_id, c.attempt_id) for c in taken] == [(c.task_id, c.attempt_id) for c in done]
        await heir.commit(taken)
        await assert_whole(scene)
        return process.traffic.met != []

    assert run(every_cut(one, kind)) > 2


@pytest.mark.parametrize("algorithm", [1, 2])
def test_abort_that_stopped_is_repeated(cut: tuple[Make, Kind], algorithm: Algorithm) -> None:
    make, kind = cut

    async def one(fault: Fault) -> bool:
        scene, driver = await laid_down(make, algorithm)
        done = await committed(scene, algorithm)
        process = scene.process(algorithm, faults=[fault], concurrency=1)
        await tried(process, process.committer.abort_job(done, driver.driver))
        await driver.abort(done)
        assert await scene.work() == []
        assert (await scene.keys())["_SUCCESS"] == b"old"
        assert await scene.visible() == (OLD | NEW if algorithm == 2 else OLD)
        return process.traffic.met != []

    assert run(every_cut(one, kind)) > 5


@pytest.mark.parametrize("algorithm", [1, 2])
def test_setup_that_stopped_is_repeated(cut: tuple[Make, Kind], algorithm: Algorithm) -> None:
    make, kind = cut

    async def one(fault: Fault) -> bool:
        scene = make()
        for name, body in OLD.items():
            await scene.put(name, body)
        process = scene.process(algorithm, faults=[fault], concurrency=1)
        await tried(process, process.committer.setup_job())
        driver = await scene.process(algorithm).setup()
        await driver.commit(await committed(scene, algorithm))
        await assert_whole(scene)
        return process.traffic.met != []

    assert run(every_cut(one, kind)) > 5


def test_work_that_cannot_be_removed_is_a_warning(make: Make) -> None:
    async def go() -> None:
        scene, driver = await laid_down(make, 1)
        done = await committed(scene, 1)
        work = f"{scene.destination}/_temporary/{JOB}"
        operation = "delete_tree" if isinstance(scene.store, LocalStore) else "delete"
        fault = Fault(Kind.ERROR_BEFORE, operation=operation, prefix=work, times=None)
        process = scene.process(faults=[fault])
        report = await process.committer.commit_job(done, driver.driver)
        assert report.files == 4
        assert "cleaning up failed" in report.warnings[0]
        assert await scene.visible() == OLD | NEW
        assert await scene.work() != []
        await scene.process().committer.commit_job(done, driver.driver)
        await assert_whole(scene)

    run(go())


def test_silence_before_anything_was_published_changes_nothing(make: Make) -> None:
    async def go() -> None:
        scene, driver = await laid_down(make, 1)
        done = await committed(scene, 1)
        before = await scene.keys()
        process = scene.process(faults=[Fault(Kind.THROTTLE, operation="get", times=None)])
        with pytest.raises(StoreError):
            await process.committer.commit_job(done, driver.driver)
        assert await scene.keys() == before

    run(go())


# -- a claim that a driver finds before its task has looked at the job again ---------------------------


@pytest.mark.parametrize("dies_at", ["rename", "copy", "put"])
def test_driver_that_lists_a_claim_which_was_just_made_publishes_it(make: Make, dies_at: str) -> None:
    """Whatever the driver has come to when the task looks: its work files are still there."""

    async def go() -> None:
        scene, _ = await laid_down(make, 2)
        await scene.process(2).task(0, FILES)
        worker, (task, attempt) = scene.process(2), attempt_of(1)
        await worker.write(attempt, FILES)
        manifests = worker.committer._manifests
        claim = manifests.claim

        async def found_at_once(manifest: TaskManifest) -> TaskManifest:
            made = await claim(manifest)
            where = f"{scene.destination}/_magicfs/" if dies_at == "put" else ""
            fault = Fault(Kind.CRASH_BEFORE, operation=dies_at, prefix=where)
            driver = scene.process(2, faults=[fault])
            await driver.dies(driver.committer.commit_job(None))
            return made

        manifests.claim = found_at_once  # type: ignore[method-assign]
        with suppress(CommitDenied):
            await worker.committer.commit_task(task, attempt)
        await JobTransaction(scene.process(2).committer.engine, worker.committer.context).finish()
        assert await scene.visible() == OLD | NEW
        assert await scene.work() == []

    run(go())


def test_claim_of_a_job_that_goes_on_without_it_is_withdrawn(make: Make) -> None:
    async def go() -> None:
        scene, _ = await laid_down(make, 2)
        await scene.process(2).task(0, FILES)
        worker, (task, attempt) = scene.process(2), attempt_of(1)
        await worker.write(attempt, FILES)
        manifests = worker.committer._manifests
        claim = manifests.claim

        async def too_late(manifest: TaskManifest) -> TaskManifest:
            fault = Fault(Kind.CRASH_AFTER, operation="put", prefix=f"{scene.destination}/_magicfs/")
            driver = scene.process(2, faults=[fault])
            await driver.dies(driver.committer.commit_job(None))
            return await claim(manifest)

        manifests.claim = too_late  # type: ignore[method-assign]
        with pytest.raises(CommitDenied, match="too late"):
            await worker.committer.commit_task(task, attempt)
        await JobTransaction(scene.process(2).committer.engine, worker.committer.context).finish()
        assert set(await scene.visible()) == set(OLD) | {one for one in NEW if "000000" in one}
        assert await scene.work() == []

    run(go())


def test_claim_that_could_not_be_judged_keeps_its_files(make: Make) -> None:
    async def go() -> None:
        scene, driver = await laid_down(make, 2)
        good, (task, attempt) = await scene.process(2).task(0, FILES), attempt_of(1)
        worker = scene.process(2)
        await worker.write(attempt, FILES)
        manifests = worker.committer._manifests
        claim = manifests.claim

        async def then_denied(manifest: TaskManifest) -> TaskManifest:
            made = await claim(manifest)
            worker.committer._transaction.job = denied  # type: ignore[method-assign]
            return made

        async def denied() -> JobObject | None:
            raise PermissionDenied("get", "the job object", "no right to read it", hint="ask for it")

        manifests.claim = then_denied  # type: ignore[method-assign]
        with pytest.raises(CommitOutcomeUnknown, match="commit the same attempt again"):
            await worker.committer.commit_task(task, attempt)
        again = await scene.process(2).committer.commit_task(task, attempt)
        await driver.commit([good, again])
        assert await scene.visible() == OLD | NEW
        assert await scene.work() == []

    run(go())


@pytest.mark.parametrize("mode", ["error", "append"])
def test_open_job_is_committed_by_somebody_else_beside_files_that_its_tasks_have_published(
    make: Make, mode: WriteMode
) -> None:
    async def go() -> None:
        scene = make()
        driver = await scene.process(2, mode=mode).setup()
        for number in range(2):
            await scene.process(2, mode=mode).task(number, FILES)
        engine, where = driver.committer.engine, parse_url(driver.committer.context.url)
        report = await commit_listed(engine, where, JOB, driver_is_dead=True)
        assert report.files == 4
        assert await scene.visible() == NEW
        assert await scene.work() == []

    run(go())
