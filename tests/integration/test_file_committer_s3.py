"""The file committer against a real server and real files: datasets, processes, drivers that are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

import magicfs
from magicfs.errors import CommitDenied, ProtocolViolation
from magicfs.formats.success import SuccessData
from magicfs.report import Progress
from proofs.committer_exam.bench import Bench, LocalBench, ServerBench
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

TASKS = 3
ROWS = 40

WRITERS = '''
"""What runs in other processes, which cannot import a test."""

import os
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset


def write(task):
    number = int(task.id)
    table = pa.table({"task": [number] * 40, "row": range(40), "day": [f"d{n % 3}" for n in range(40)]})
    pyarrow.dataset.write_dataset(
        table,
        task.path,
        filesystem=task.filesystem,
        format="parquet",
        partitioning=["day"],
        partitioning_flavor="hive",
    )


def fail_once(task):
    write(task)
    try:
        open(Path(__file__).with_name(f"{task.job_id}-{task.id}"), "x").close()
    except FileExistsError:
        return
    raise ConnectionError(task.id)


def die_among_files(url, options):
    """A driver that is killed when the second file of its job has become visible."""
    import magicfs

    def die(progress):
        if progress.files_done == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    job = magicfs.Job(url, committer="file", mode="append", progress=die, concurrency=2, **options)
    with job:
        for number in range(3):
            with job.task(number) as task:
                write(task)
'''

pytestmark = pytest.mark.sample(most=1)


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory, ministack: Server) -> Iterator[ModuleType]:
    """What runs elsewhere; the secrets are in the environment."""
    directory = tmp_path_factory.mktemp("writers")
    (directory / "file_writers.py").write_text(WRITERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", ministack.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", ministack.secret_key)
        patch.syspath_prepend(str(directory))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(directory), os.getenv("PYTHONPATH")])))
        patch.delitem(sys.modules, "file_writers", raising=False)
        yield import_module("file_writers")


@pytest.fixture(scope="module")
def pool(writers: ModuleType) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(params=["ministack", "files"])
def bench(
    request: pytest.FixtureRequest, ministack: Server, bucket_factory: Callable[..., str], tmp_path: Path
) -> Bench:
    if request.param == "files":
        return LocalBench(tmp_path / "bucket")
    return ServerBench(ministack, bucket_factory(ministack, "file"))


@pytest.fixture(params=[1, 2], ids=["algorithm-1", "algorithm-2"])
def algorithm(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


def job_of(bench: Bench, algorithm: int, **options: Any) -> magicfs.Job:
    how: dict[str, Any] = {"mode": "append", "committer_options": {"algorithm": algorithm}}
    return magicfs.Job(
        f"{bench.url}/sales 1", committer="file", **arranged(**{**bench.options(), **how, **options})
    )


def table_of(bench: Bench, job: magicfs.Job) -> pa.Table:
    """What a reader of the destination finds, without any list of ours."""
    dataset = pyarrow.dataset.dataset(
        job.spec.location.path, filesystem=job.spec.wrapped(), format="parquet", partitioning="hive"
    )
    return dataset.to_table().sort_by([("task", "ascending"), ("row", "ascending")])


def assert_published(bench: Bench, job: magicfs.Job, tasks: int = TASKS, times: int = 1) -> None:
    table = table_of(bench, job)
    expected = [(task, row) for task in range(tasks) for row in range(ROWS) for _ in range(times)]
    found = list(zip(table["task"].to_pylist(), table["row"].to_pylist(), strict=True))
    assert found == expected
    assert set(table["day"].to_pylist()) == {"d0", "d1", "d2"}
    assert [key for key in bench.listed("sales 1/") if "_temporary" in key] == []
    assert not bench.pending()


def test_datasets_of_several_tasks_are_published(bench: Bench, algorithm: int, writers: ModuleType) -> None:
    told: list[Progress] = []
    for run in (1, 2):
        with job_of(bench, algorithm, progress=told.append) as job:
            for number in range(TASKS):
                with job.task(number) as task:
                    writers.write(task)
            assert (len(bench.listed("sales 1/day=d0/")) > 3 * (run - 1)) == (algorithm == 2)
        assert_published(bench, job, times=run)
        assert (job.report.tasks, job.report.files) == (TASKS, 3 * TASKS)
        success = SuccessData.from_bytes("_SUCCESS", bench.read("sales 1/_SUCCESS"))
        assert (success.job_id, success.committer) == (job.id, "file")
        assert success.statistics.counters["committer_commits_completed"] == 3 * TASKS
    assert len(told) == 2 * 3 * TASKS


@pytest.mark.nightly
def test_tasks_in_processes_that_fail_once_are_run_again(
    bench: Bench, algorithm: int, writers: ModuleType, pool: ProcessPoolExecutor
) -> None:
    with job_of(bench, algorithm) as job:
        job.map(writers.fail_once, range(TASKS), executor=pool)
    assert_published(bench, job)


def test_job_whose_driver_was_killed_among_its_files_is_finished_by_recover(
    bench: Bench, writers: ModuleType
) -> None:
    job_id = "5f0c2a36-1f9b-4b61-9e2e-7c1d8a0b4e55"
    options = {**bench.options(), "job_id": job_id}
    code = f"import file_writers; file_writers.die_among_files({f'{bench.url}/sales 1'!r}, {options!r})"
    killed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "sales 1/_SUCCESS" not in bench.listed("sales 1/")
    heir = job_of(bench, 1, job_id=job_id, attempt=1)
    with pytest.raises(CommitDenied, match="is committing"):
        heir.setup()
    url = heir.url
    (done,) = magicfs.Dataset(url, **bench.options()).recover().jobs
    assert (done.action, done.files) == ("finished", 3 * TASKS)
    assert_published(bench, heir)
    with pytest.raises(CommitDenied, match="has ended"):
        job_of(bench, 1, job_id=job_id, attempt=2).setup()
    assert_published(bench, heir)


def test_tasks_of_a_driver_that_died_are_recovered(bench: Bench, algorithm: int, writers: ModuleType) -> None:
    first = job_of(bench, algorithm).setup()
    with first.task(0) as task:
        writers.write(task)
    lost = first.task(1).setup()
    writers.write(lost)
    heir = job_of(bench, algorithm, job_id=first.id, attempt=1)
    with heir:
        assert [commit.task_id for commit in heir.recover_tasks()] == ["000000"]
        for number in (1, 2):
            with heir.task(number) as task:
                writers.write(task)
    with pytest.raises(CommitDenied):
        lost.commit()
    with pytest.raises(ProtocolViolation, match="is published"):
        first.abort()
    assert_published(bench, heir)
