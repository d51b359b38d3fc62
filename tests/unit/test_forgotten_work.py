"""Work that goes past its job, and jobs in processes that are not theirs: refused, or told of."""

from __future__ import annotations

import os
import pickle
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitFailed, OutputExists, ProtocolViolation, UsageError
from magicfs.job.job import Job
from magicfs.job.task import Task
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def write(task: Task, body: bytes = b"row") -> None:
    task.filesystem.pipe_file(f"{task.path}/a.bin", body)


# -- tasks that nobody commits -------------------------------------------------------------------------


def test_a_task_that_was_set_up_and_never_committed_is_told_of(
    scene: JobScene, caplog: pytest.LogCaptureFixture
) -> None:
    with magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem) as job:
        with job.task(0) as task:
            write(task)
        write(job.task(3).setup())
    (warning,) = job.report.warnings
    assert warning.startswith("task 000003 was set up but never committed: its files are not published")
    assert warning in caplog.text
    assert warning in str(job.report)


@pytest.mark.parametrize("commits", [(), None])
def test_attempts_that_lost_or_were_aborted_are_not_told_of(scene: JobScene, commits: Any) -> None:
    job = scene.job()
    write(job.task(0).setup())
    with job.task(0) as task:
        write(task)
    job.task(1).setup().abort()
    assert job.commit(None if commits is None else job.commits).warnings == ()


def test_a_task_that_failed_where_nobody_looks_is_warned_about(
    scene: JobScene, caplog: pytest.LogCaptureFixture
) -> None:
    failing = {1, 2}

    def rank(number: int) -> None:
        with job.task(number) as task:
            write(task)
            if number in failing:
                raise OSError("no more memory")

    with magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem) as job:
        with ThreadPoolExecutor(2) as pool:
            pool.map(rank, range(4))  # nobody reads the results
        failing.clear()
        rank(2)
    (warning,) = job.report.warnings
    assert warning.startswith("task 000001 was ended by an error, and no other attempt of it committed")
    assert warning in caplog.text
    assert len(scene.data()) == 3


def test_a_task_whose_commit_failed_is_warned_about(scene: JobScene) -> None:
    job = scene.job()
    with job.task(0) as task:
        write(task)
    with pytest.raises(CommitFailed), job.task(1) as task:
        task.filesystem.open(f"{task.path}/a.bin", "wb").write(b"row")  # and never closed
    (warning,) = job.commit(job.commits).warnings
    assert warning.startswith("task 000001 was ended by an error")


def test_a_job_none_of_whose_tasks_was_committed_is_refused(scene: JobScene) -> None:
    with (
        pytest.raises(
            ProtocolViolation, match=r"no task of job .* was committed, but tasks 000000, 000001 were set"
        ),
        magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem) as job,
    ):
        write(job.task(0).setup())
        write(job.task(1).setup())
    assert (scene.data(), scene.uploads(), scene.work()) == ({}, [], [])
    assert repr(job).endswith("aborted>")
    with magicfs.Job(
        scene.url, mode="append", filesystem=scene.filesystem, options={"allow_empty": True}
    ) as job:
        job.task(0).setup()
    assert job.report.warnings


def test_a_write_outside_of_the_task_is_warned_about(
    scene: JobScene, caplog: pytest.LogCaptureFixture
) -> None:
    job = scene.job()
    with job.task(0) as task:
        write(task)
        assert caplog.text == ""
        files = task.filesystem
        files.pipe_file("bucket/sales/a.bin", b"row")
        files.pipe_file("bucket/sales/b.bin", b"row")
        with files.open("bucket/other/a.bin", "wb") as file:
            file.write(b"row")
    told = [record.getMessage() for record in caplog.records]
    assert [one.split()[0] for one in told] == ["bucket/sales/a.bin", "bucket/other/a.bin"]
    assert (
        "was changed at once, and stays changed even if the job is aborted; write below task.path" in told[0]
    )


# -- runs that are run again ---------------------------------------------------------------------------


def run(scene: JobScene, body: bytes, mode: str = "append", **options: Any) -> Job:
    with (
        magicfs.Job(
            scene.url,
            mode=mode,
            run_id="day 1",
            filesystem=scene.filesystem,
            **arranged(**options),  # type: ignore[arg-type]
        ) as job,
        job.task(0) as task,
    ):
        write(task, body)
    return job


def test_a_run_that_is_skipped_says_so_at_setup_and_first_of_all(
    scene: JobScene, caplog: pytest.LogCaptureFixture
) -> None:
    one = run(scene, b"first")
    assert one.report.published
    job = magicfs.Job(scene.url, mode="append", run_id="day 1", filesystem=scene.filesystem).setup()
    assert job.found.published == one.id
    assert f"was already published by job {one.id}: nothing that job {job.id} writes will be" in caplog.text
    report = job.commit([])
    assert not report.published
    assert str(report).split()[0] == "skipped"
    assert f"was already published, by job {one.id}; nothing was published now" in str(report)


def test_a_run_that_must_not_be_run_again_fails_at_setup(scene: JobScene) -> None:
    one = run(scene, b"first", rerun="error")
    before = scene.everything()
    with pytest.raises(OutputExists, match=f"was already published at .* by job {one.id}, and rerun='error'"):
        run(scene, b"again", rerun="error")
    assert scene.everything() == before


def test_a_run_is_published_again_in_place_of_the_first(scene: JobScene) -> None:
    run(scene, b"first", "overwrite")
    job = run(scene, b"corrected", "overwrite", rerun="overwrite")
    assert job.report.published
    assert (scene.bodies(), scene.manifest_files()) == ([b"corrected"], set(scene.data()))
    assert run(scene, b"late", "overwrite").report.job_id == job.id


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"rerun": "overwrite"}, "rerun='overwrite' needs mode='overwrite' or 'overwrite_partitions'"),
        ({"rerun": "overwrite", "mode": "error"}, "replaces nothing"),
        ({"rerun": "error", "run_id": None}, "give run_id"),
        ({"rerun": "again"}, "rerun='again' is unknown; choose one of skip, overwrite, error"),
    ],
)
def test_a_rerun_that_cannot_be_is_refused(scene: JobScene, options: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {"mode": "append", "run_id": "day 1", **options}
    with pytest.raises(UsageError, match=match):
        magicfs.Job(scene.url, filesystem=scene.filesystem, **arranged(**given))


# -- map takes both kinds of functions -----------------------------------------------------------------


def with_block(task: Task) -> None:
    with task:
        write(task)


def commits_itself(task: Task) -> None:
    write(task)
    task.commit()


def sets_up_itself(task: Task) -> None:
    task.setup()
    write(task)
    task.commit()


@pytest.mark.parametrize("function", [write, with_block, commits_itself, sets_up_itself])
@pytest.mark.parametrize("committer", ["magic", "direct"])
def test_map_takes_functions_that_use_the_task_in_a_block_of_their_own(
    scene: JobScene, function: Any, committer: str
) -> None:
    with ThreadPoolExecutor(2) as pool, scene.job(committer=committer) as job:
        assert len(job.map(function, range(3), executor=pool)) == 3
    assert job.report.files == 3


def test_map_runs_a_function_again_whose_own_block_raised(scene: JobScene) -> None:
    seen: list[str] = []

    def fails_once(task: Task) -> None:
        with task:
            write(task)
            seen.append(task.attempt_id)
            if len(seen) == 1:
                raise ZeroDivisionError

    with ThreadPoolExecutor(1) as pool, scene.job() as job:
        job.map(fails_once, [0], executor=pool)
    assert (len(set(seen)), job.report.files) == (2, 1)


class TakesEqualCallsForOne(ThreadPoolExecutor):
    """As Dask's client does: by the content of the arguments."""

    def __init__(self) -> None:
        super().__init__(1)
        self.calls: dict[str, Future[Any]] = {}

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:  # type: ignore[override]
        call = repr((function, arguments))
        if call not in self.calls:
            self.calls[call] = super().submit(function, *arguments)
        return self.calls[call]


def test_map_runs_a_task_again_where_equal_calls_are_one(scene: JobScene) -> None:
    seen: list[str] = []

    def fails_once(task: Task) -> None:
        seen.append(task.attempt_id)
        write(task)
        if len(seen) == 1:
            raise ZeroDivisionError

    with TakesEqualCallsForOne() as pool, scene.job() as job:
        job.map(fails_once, [0], executor=pool)
    assert (len(set(seen)), job.report.files) == (2, 1)


# -- forks -----------------------------------------------------------------------------------------------


def in_fork(deed: Any) -> int:
    """Run something in a fork; returns its exit code, 0 if the deed said True."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = int(not deed())
        except BaseException:  # noqa: BLE001 - shown by the parent
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.mark.process
@pytest.mark.parametrize("error", [None, SystemExit(3), ZeroDivisionError()])
def test_a_fork_that_leaves_the_blocks_touches_nothing(
    scene: JobScene, caplog: pytest.LogCaptureFixture, error: BaseException | None
) -> None:
    job = scene.job()
    with job.task(0) as task:
        write(task)
        inner = job.task(1)
        inner.__enter__()
        write(inner)
        before = scene.everything()

        def leaves() -> bool:
            inner.__exit__(type(error) if error else None, error, None)
            job.__exit__(type(error) if error else None, error, None)
            return (
                scene.everything() == before
                and repr(job).endswith("open>")
                and "a forked process left the with block; nothing was done there" in caplog.text
            )

        assert in_fork(leaves) == 0
        inner.__exit__(None, None, None)
    job.__exit__(None, None, None)
    assert job.report.files == 2


@pytest.mark.process
def test_a_fork_may_run_tasks_and_nothing_else(scene: JobScene) -> None:
    job = scene.job()

    def refused() -> bool:
        for call in (lambda: job.add(None), job.commit, job.abort, job.setup, job.recover_tasks):  # type: ignore[arg-type, list-item]
            with pytest.raises(ProtocolViolation, match="of which this process is a fork"):
                call()
        return repr(job.task(0)) == f"<Task 000000 of job {job.id}, new>"

    assert in_fork(refused) == 0
    job.abort()


@pytest.mark.process
def test_a_pickled_job_belongs_to_the_process_that_loads_it(scene: JobScene) -> None:
    job = magicfs.Job("memory://bucket-of-forks/sales", mode="append")
    raw = pickle.dumps(job)

    def loads() -> bool:
        other = pickle.loads(raw)
        other._state = "open"
        return isinstance(other.task(0), Task) and not other._is_forked

    assert in_fork(loads) == 0
