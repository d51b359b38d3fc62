"""Job commits whose files are completed by others: threads here, that die, do things twice and come late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from magicfs.committers import registry
from magicfs.committers.driven import DrivenCommitter
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, CommitOutcomeUnknown, UsageError
from magicfs.formats.job_object import Chunk
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.workers import CompleteFiles
from magicfs.report import JobReport, Progress
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind, Request
from magicfs.transaction import facts
from magicfs.transaction.delegate import (
    CompleteRemotely,
    CompletionRequest,
    CompletionResult,
    FileRange,
    complete_range,
)
from proofs.scenes.job_scene import JobScene
from proofs.scenes.memory_scene import BUCKET, CountingFileSystem

pytestmark = [pytest.mark.slow, pytest.mark.sample(most=2)]

OLD = {"p=1/old.bin": b"old", "p=7/kept.bin": b"kept"}
NEW = tuple({f"p=1/{n}.bin": b"new %d" % n} for n in range(5))
BODIES = [b"new %d" % n for n in range(5)]
AFTER = {
    "fail": BODIES,
    "append": [b"kept", *BODIES, b"old"],
    "replace": BODIES,
    "replace_partitions": [b"kept", *BODIES],
}


def troubles(report: JobReport) -> list[str]:
    """What is told of completing, without that ``replace`` takes p=7 away."""
    return [one for one in report.warnings if "replaced by nothing" not in one]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five files make three chunks."""
    monkeypatch.setattr(facts, "CHUNK_LENGTH", 2)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def scene_of(conflict: str) -> JobScene:
    scene = JobScene()
    if conflict != "fail":
        scene.published(OLD)
    return scene


def assert_whole(scene: JobScene, conflict: str) -> None:
    assert scene.bodies() == sorted(AFTER[conflict])
    assert scene.manifest_files() == set(scene.data())
    assert_nothing_left(scene)


def assert_old(scene: JobScene, conflict: str) -> None:
    assert scene.bodies() == ([] if conflict == "fail" else sorted(OLD.values()))
    assert_nothing_left(scene)


def assert_nothing_left(scene: JobScene) -> None:
    assert not scene.uploads()
    assert not scene.work()


@dataclass
class Workers:
    """Processes of their own that complete ranges: ``spread`` of a committer.

    A file_range whose worker died is given to another, as engines do, up to ``tries`` times.
    """

    scene: JobScene
    job: Job
    traffic: Traffic
    tries: int = 1
    orders: list[CompletionRequest] = field(default_factory=list)
    ranges: list[FileRange] = field(default_factory=list)

    def __call__(self, order: CompletionRequest, ranges: Sequence[FileRange]) -> Iterator[CompletionResult]:
        self.orders.append(order)
        self.ranges = list(ranges)
        for file_range in ranges:
            for attempt in range(self.tries):
                try:
                    yield self.work(replace(order, verify=order.verify or attempt > 0), file_range)
                    break
                except Crash:
                    continue

    def work(self, order: CompletionRequest, file_range: FileRange) -> CompletionResult:
        engine = Engine(faulty(self.scene.plain, self.traffic, Actor("worker")), 1)
        running = complete_range(engine, self.job.spec.context, order, file_range)
        return asyncio.run_coroutine_threadsafe(running, self.scene.filesystem.loop).result()


def commit(
    scene: JobScene,
    job: Job,
    commits: list[TaskCommit],
    spread: CompleteRemotely,
    traffic: Traffic | None = None,
) -> JobReport | None:
    """Commit in a process of its own, whose own requests are an actor's too; None if it died."""
    committer = registry.make(
        job.spec.options.committer, job.spec.context, scene.engine(traffic or Traffic())
    )
    assert isinstance(committer, DrivenCommitter)
    how = {"complete_remotely": spread}
    report: JobReport | None = scene.lived(lambda: committer.commit_job(commits, job.found.driver, **how))
    return report


# -- through the public face ---------------------------------------------------------------------------


@pytest.mark.parametrize("conflict", AFTER)
def test_a_pool_completes_the_files(pool: ThreadPoolExecutor, conflict: str) -> None:
    scene = scene_of(conflict)
    job = scene.job(conflict)
    report = job.commit(scene.wrote(job, *NEW), completer=pool.map)
    assert (report.files, report.tasks, troubles(report)) == (5, 5, [])
    assert_whole(scene, conflict)


def test_every_portion_is_given_once_and_none_is_left_to_the_driver() -> None:
    scene = JobScene()
    job, given = scene.job(), list[tuple[str, int, int]]()

    def completer(work: CompleteFiles, ranges: Sequence[FileRange]) -> Iterable[CompletionResult]:
        given.extend((one.chunk.key[-10:], one.start, one.stop) for one in ranges)
        return [work(one, first=True) for one in ranges]

    job.commit(scene.wrote(job, *NEW), completer=completer)
    assert given == [("00000.json", 0, 2), ("00001.json", 0, 2), ("00002.json", 0, 1)]


@pytest.mark.parametrize("files", [1, 2, 3])
def test_portions_can_be_cut_smaller(pool: ThreadPoolExecutor, files: int) -> None:
    scene = JobScene()
    job = scene.job()

    def completer(work: CompleteFiles, ranges: Sequence[FileRange]) -> Iterable[CompletionResult]:
        return pool.map(work, [small for one in ranges for small in one.cut(files)])

    assert job.commit(scene.wrote(job, *NEW), completer=completer).warnings == ()
    assert scene.bodies() == BODIES


@pytest.mark.parametrize(
    ("start", "stop", "files", "expected"),
    [(0, 5, 2, [(0, 2), (2, 4), (4, 5)]), (1, 3, 9, [(1, 3)]), (0, 4, 4, [(0, 4)]), (0, 0, 3, [])],
)
def test_cutting(start: int, stop: int, files: int, expected: list[tuple[int, int]]) -> None:
    cut = FileRange(Chunk("k", "", stop, 0), start, stop).cut(files)
    assert [(one.start, one.stop) for one in cut] == expected


@pytest.mark.parametrize("files", [0, -1])
def test_portions_of_nothing_are_refused(files: int) -> None:
    with pytest.raises(UsageError, match="choose 1 or more"):
        FileRange(Chunk("k", "", 3, 0), 0, 3).cut(files)


def test_progress_counts_what_others_have_completed(pool: ThreadPoolExecutor) -> None:
    scene, seen = JobScene(), list[Progress]()
    job = Job(scene.url, conflict="append", filesystem=scene.filesystem, progress=seen.append).setup()
    job.commit(scene.wrote(job, *NEW), completer=pool.map)
    assert [one.files_done for one in seen] == [1, 2, 3, 4, 5]


def test_a_completer_that_raises_leaves_the_rest_to_the_driver() -> None:
    scene = scene_of("replace")
    job = scene.job("replace")

    def completer(work: CompleteFiles, ranges: Sequence[FileRange]) -> Iterator[CompletionResult]:
        yield work(ranges[0])
        raise ConnectionError("the cluster is gone")

    report = job.commit(scene.wrote(job, *NEW), completer=completer)
    assert report.files == 5
    (warning,) = troubles(report)
    assert "3 of 5 files were left to the driver" in warning
    assert "ConnectionError: the cluster is gone" in warning
    assert_whole(scene, "replace")


def test_workers_that_cannot_reach_the_store_say_so_in_the_report(pool: ThreadPoolExecutor) -> None:
    scene, elsewhere = JobScene(), JobScene()
    job = scene.job()

    def completer(work: CompleteFiles, ranges: Sequence[FileRange]) -> Iterable[CompletionResult]:
        return pool.map(replace(work, spec=replace(work.spec, filesystem=elsewhere.filesystem)), ranges)

    (warning,) = job.commit(scene.wrote(job, *NEW), completer=completer).warnings
    assert "5 of 5 files were left to the driver" in warning
    assert_whole_append(scene)


def assert_whole_append(scene: JobScene) -> None:
    assert scene.bodies() == BODIES
    assert_nothing_left(scene)


def test_a_job_without_files_asks_nobody() -> None:
    scene = JobScene()
    job = scene.job()

    def completer(work: CompleteFiles, ranges: Sequence[FileRange]) -> Iterable[CompletionResult]:
        raise AssertionError("asked")

    assert job.commit([], completer=completer).files == 0


@pytest.mark.parametrize("committer", ["direct", "task-completing", "file"])
def test_committers_that_complete_nothing_in_the_job_commit_refuse(committer: str) -> None:
    scene = JobScene()
    job = scene.job(committer=committer)
    commits = scene.wrote(job, {"a.bin": b"a"})
    before = scene.everything()
    with pytest.raises(UsageError, match="leave completer out"):
        job.commit(commits, completer=map)
    assert scene.everything() == before
    assert job.commit(commits).files == 1


@pytest.mark.parametrize("committer", ["directory", "partitioned"])
def test_staged_files_are_completed_too(pool: ThreadPoolExecutor, committer: str, tmp_path: Any) -> None:
    scene = JobScene()
    job = scene.job(committer=committer, committer_options={"work_directory": str(tmp_path)})
    assert job.commit(scene.wrote(job, *NEW), completer=pool.map).warnings == ()
    assert_whole_append(scene)


def test_old_files_that_are_replaced_in_place_come_last_and_from_the_driver() -> None:
    scene = JobScene()
    scene.put("p=1/3.bin", b"old")
    job = scene.job("replace", unique_names=False)
    traffic = Traffic()
    workers = Workers(scene, job, traffic)
    report = commit(scene, job, scene.wrote(job, *NEW), workers)
    assert report is not None
    assert troubles(report) == []
    completed = [one.key for one in traffic.log if one.operation == "complete_upload"]
    assert completed == [f"sales/p=1/{n}.bin" for n in (0, 1, 2, 4)]
    assert_whole_append(scene)


# -- requests ------------------------------------------------------------------------------------------


def heads_of(verify_first: bool) -> int:
    scene = JobScene()
    job = scene.job()
    commits = scene.wrote(job, *NEW)
    traffic = Traffic()
    workers = Workers(scene, job, traffic)

    def again(order: CompletionRequest, ranges: Sequence[FileRange]) -> Iterator[CompletionResult]:
        assert not order.verify
        return workers(replace(order, verify=verify_first), ranges)

    commit(scene, job, commits, again)
    return heads(traffic)


def heads(traffic: Traffic) -> int:
    return len([one for one in traffic.log if one.operation == "head" and "/p=" in one.key])


def test_a_first_call_looks_at_no_file_and_a_repetition_at_each() -> None:
    assert (heads_of(False), heads_of(True)) == (0, 5)


def test_the_driver_looks_at_files_that_others_may_have_completed() -> None:
    scene = JobScene()
    job, driver = scene.job(), Traffic()
    commit(scene, job, scene.wrote(job, *NEW), lambda _order, _portions: (), driver)
    assert heads(driver) == 5


@pytest.mark.parametrize(("first", "looks"), [(True, 0), (False, 5)])
def test_a_call_that_may_be_a_repetition_looks_at_every_file(first: bool, looks: int) -> None:
    filesystem, counted = CountingFileSystem(), list[int]()
    filesystem.world.create_bucket(BUCKET)
    job = Job(f"memory://{BUCKET}/d", conflict="append", filesystem=filesystem).setup()
    with job.task(0) as task:
        for number in range(5):
            task.filesystem.pipe_file(f"{task.path}/{number}.bin", b"x")

    def completer(work: CompleteFiles, ranges: Sequence[FileRange]) -> Iterable[CompletionResult]:
        before = filesystem.counts["head"]
        told = [work(one, first=first) for one in ranges]
        counted.append(filesystem.counts["head"] - before)
        return told

    job.commit(job.commits, completer=completer)
    assert counted == [looks + 3]  # and at the job object, once for each file_range


# -- files that cannot be published --------------------------------------------------------------------


def lose_an_upload(scene: JobScene, number: int) -> None:
    key, upload_id = scene.uploads()[number]
    asyncio.run(scene.plain.abort_upload(key, upload_id))


Way = Callable[[JobScene, Job, list[TaskCommit]], JobReport | None]


def by_driver(scene: JobScene, job: Job, commits: list[TaskCommit]) -> JobReport | None:
    return scene.commit(job, commits)


def by_workers(scene: JobScene, job: Job, commits: list[TaskCommit]) -> JobReport | None:
    return commit(scene, job, commits, Workers(scene, job, Traffic()))


both_ways = pytest.mark.parametrize("way", [by_driver, by_workers])


@both_ways
@pytest.mark.parametrize("conflict", AFTER)
@pytest.mark.parametrize("number", [0, 3])
def test_a_lost_upload_takes_everything_back(way: Way, conflict: str, number: int) -> None:
    scene = scene_of(conflict)
    job = scene.job(conflict)
    commits = scene.wrote(job, *NEW)
    lost = scene.uploads()[number][0]
    lose_an_upload(scene, number)
    with pytest.raises(CommitFailed, match="could not be published") as caught:
        way(scene, job, commits)
    assert caught.value.failed == (lost,)
    lists = (*caught.value.done, *caught.value.failed, *caught.value.not_started)
    assert len(lists) == len(set(lists)) == 5
    assert len(caught.value.done) >= (3 if way is by_workers else number)
    assert_old(scene, conflict)


@both_ways
def test_a_file_that_nobody_hears_of_is_undecided_and_recovered(way: Way) -> None:
    scene = scene_of("replace")
    job = scene.job("replace")
    commits = scene.wrote(job, *NEW)
    silent = Fault(Kind.ERROR_BEFORE, operation="complete_upload", prefix=scene.uploads()[2][0], times=None)
    spread = Workers(scene, job, Traffic([silent])) if way is by_workers else lambda _order, _portions: ()
    with pytest.raises(CommitOutcomeUnknown, match="it is not known what became of"):
        commit(scene, job, commits, spread, Traffic([silent]))
    assert scene.state(job) == "committing"
    scene.recover()
    assert_whole(scene, "replace")


def test_what_only_the_workers_are_refused_the_driver_does() -> None:
    scene = scene_of("replace")
    job = scene.job("replace")
    commits = scene.wrote(job, *NEW)
    refused = Fault(Kind.ERROR_BEFORE, operation="complete_upload", prefix=scene.uploads()[2][0], times=None)
    report = commit(scene, job, commits, Workers(scene, job, Traffic([refused])))
    assert report is not None
    assert len(troubles(report)) == 1
    assert "500 InternalError" in troubles(report)[0]
    assert_whole(scene, "replace")


# -- processes that die --------------------------------------------------------------------------------

TROUBLE = [Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.REPLY_LOST, Kind.REFUSED, Kind.LATE]


def requests_of_workers() -> int:
    scene = scene_of("replace")
    job = scene.job("replace")
    traffic = Traffic()
    commit(scene, job, scene.wrote(job, *NEW), Workers(scene, job, traffic))
    return traffic.count


@pytest.mark.parametrize(("kind", "tries"), [(Kind.CRASH_AFTER, 3), *((kind, 1) for kind in TROUBLE)])
def test_one_worker_in_trouble_at_any_request_does_no_harm(kind: Kind, tries: int) -> None:
    for number in range(1, requests_of_workers() + 1):
        scene = scene_of("replace")
        job = scene.job("replace")
        traffic = Traffic([Fault(kind, number=number, seconds=0.002)])
        report = commit(scene, job, scene.wrote(job, *NEW), Workers(scene, job, traffic, tries))
        assert report is not None
        assert report.files == 5
        assert traffic.met
        assert_whole(scene, "replace")


@dataclass
class AllDie(Workers):
    """Workers whose driver dies with the first of them."""

    def __call__(self, order: CompletionRequest, ranges: Sequence[FileRange]) -> Iterator[CompletionResult]:
        for file_range in ranges:
            yield self.work(order, file_range)


@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize("conflict", ["append", "replace_partitions"])
def test_when_driver_and_workers_die_recover_finishes_or_takes_back(conflict: str, rollback: bool) -> None:
    for number in range(1, requests_of_workers() + 1):
        scene = scene_of(conflict)
        job = scene.job(conflict)
        workers = AllDie(scene, job, Traffic([Fault(Kind.CRASH_AFTER, number=number)]))
        assert commit(scene, job, scene.wrote(job, *NEW), workers) is None
        assert scene.state(job) == "committing"
        scene.recover(rollback=rollback)
        (assert_old if rollback else assert_whole)(scene, conflict)


@pytest.mark.parametrize("files", range(3))
def test_a_driver_that_commits_again_has_every_file_looked_at(files: int) -> None:
    scene = scene_of("replace")
    job = scene.job("replace")
    commits = scene.wrote(job, *NEW)
    traffic = Traffic([Fault(Kind.CRASH_AFTER, operation="complete_upload", skip=files)])
    assert commit(scene, job, commits, AllDie(scene, job, traffic)) is None
    workers = Workers(scene, job, Traffic())
    report = commit(scene, job, commits, workers)
    assert report is not None
    assert (report.files, troubles(report)) == (5, [])
    assert heads(workers.traffic) == 5
    assert_whole(scene, "replace")


# -- processes that come late --------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["published", "rolled back"])
def test_a_worker_that_comes_after_the_end_changes_nothing(end: str) -> None:
    scene = scene_of("replace")
    job = scene.job("replace")
    commits = scene.wrote(job, *NEW)
    late = Workers(scene, job, Traffic())
    if end == "published":
        commit(scene, job, commits, late)
    else:
        lose_an_upload(scene, 3)
        with pytest.raises(CommitFailed):
            commit(scene, job, commits, late)
    before = scene.everything()
    for file_range in late.ranges:
        told = late.work(late.orders[0], file_range)
        assert set(told.etags) == {None}
        assert "was moved by another process" in told.trouble
    assert scene.everything() == before


def test_two_workers_of_one_portion_at_the_same_time() -> None:
    scene = scene_of("replace")
    job = scene.job("replace")
    workers = Workers(scene, job, Traffic())

    def twice(order: CompletionRequest, ranges: Sequence[FileRange]) -> Iterator[CompletionResult]:
        with ThreadPoolExecutor(4) as threads:
            yield from threads.map(lambda one: workers.work(order, one), [*ranges, *ranges])

    report = commit(scene, job, scene.wrote(job, *NEW), twice)
    assert report is not None
    assert troubles(report) == []
    assert_whole(scene, "replace")


@pytest.mark.parametrize("after", range(5))
def test_a_rollback_in_the_middle_of_a_portion_wins(after: int) -> None:
    scene = scene_of("replace")
    job = scene.job("replace")
    commits = scene.wrote(job, *NEW)
    done = 0

    def rolled_back(request: Request) -> None:
        nonlocal done
        if request.operation == "complete_upload":
            done += 1
            if done == after + 1:
                scene.elsewhere(roll_back)

    async def roll_back(engine: Engine) -> None:
        from magicfs.datasets import recover_jobs
        from magicfs.protocol import paths

        await recover_jobs(engine, paths.parse_url(scene.url), rollback=True)

    workers, driver = Workers(scene, job, Traffic(before=rolled_back)), Traffic()
    with pytest.raises(CommitDenied, match="run the job again"):
        commit(scene, job, commits, workers, driver)
    assert "complete_upload" not in {one.operation for one in driver.log if "/p=" in one.key}
    assert_old(scene, "replace")


@pytest.mark.parametrize(
    "told",
    [
        CompletionResult("elsewhere", 0, ("e", "e")),
        CompletionResult("", -3, ("e",) * 9),
    ],
)
def test_what_is_told_of_other_files_is_not_believed(told: CompletionResult) -> None:
    scene = scene_of("replace")
    job = scene.job("replace")
    report = commit(scene, job, scene.wrote(job, *NEW), lambda _order, _portions: [told])
    assert report is not None
    assert "5 of 5 files were left" in troubles(report)[0]
    assert_whole(scene, "replace")


def test_a_worker_does_not_touch_a_chunk_that_the_job_does_not_name() -> None:
    scene = scene_of("append")
    job = scene.job()
    workers = Workers(scene, job, Traffic())
    seen: list[CompletionResult] = []

    def foreign(order: CompletionRequest, ranges: Sequence[FileRange]) -> Iterator[CompletionResult]:
        for one in ranges:
            altered = replace(one, chunk=replace(one.chunk, sha256="0" * 64))
            seen.append(workers.work(order, altered))
            yield seen[-1]

    report = commit(scene, job, scene.wrote(job, *NEW), foreign)
    assert report is not None
    assert ["is no chunk of job" in one.trouble for one in seen] == [True] * 3
    assert_whole(scene, "append")


def test_a_worker_with_an_order_of_an_earlier_version_of_the_job_does_nothing() -> None:
    scene = JobScene()
    job = scene.job()
    workers = Workers(scene, job, Traffic())

    def stale(order: CompletionRequest, ranges: Sequence[FileRange]) -> Iterator[CompletionResult]:
        told = [workers.work(replace(order, nonce="earlier"), one) for one in ranges]
        assert {etag for one in told for etag in one.etags} == {None}
        assert scene.bodies() == []
        yield from told

    (warning,) = commit(scene, job, scene.wrote(job, *NEW), stale).warnings  # type: ignore[union-attr]
    assert "was moved by another process" in warning
    assert_whole_append(scene)
