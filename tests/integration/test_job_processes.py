"""Jobs whose tasks run in other processes: what travels, what is retried, what a dead process leaves."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from magicfs.job.job import Job
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

WRITERS = '''
"""What runs in the other processes, which cannot import a test."""

import os
import signal
from pathlib import Path


def write(task):
    with task.filesystem.open(f"{task.path}/part-0.txt", "wb") as file:
        file.write(f"{task.id}\\n".encode())


def fail_once(task):
    write(task)
    try:
        open(Path(__file__).with_name(f"{task.job_id}-{task.id}"), "x").close()
    except FileExistsError:
        return
    raise ConnectionError(task.id)


def die_in_task_2(task):
    write(task)
    if task.id == "000002":
        os.kill(os.getpid(), signal.SIGKILL)


def die_once(task):
    file = task.filesystem.open(f"{task.path}/part-0.txt", "wb")
    file.write(f"{task.id}\\n".encode())
    file.flush()
    try:
        open(Path(__file__).with_name(f"died-{task.job_id}"), "x").close()
    except FileExistsError:
        file.close()
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def commit(task):
    with task:
        write(task)
    return os.getpid(), task.committed
'''


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory, ministack: Server) -> Iterator[ModuleType]:
    """What runs elsewhere. The secrets are in the environment, as pickles leave inline ones behind."""
    directory = tmp_path_factory.mktemp("writers")
    (directory / "writers_in_processes.py").write_text(WRITERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", ministack.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", ministack.secret_key)
        patch.syspath_prepend(str(directory))
        patch.delitem(sys.modules, "writers_in_processes", raising=False)
        yield import_module("writers_in_processes")


@pytest.fixture(scope="module", params=["spawn", "forkserver", "fork"])
def method(request: pytest.FixtureRequest) -> multiprocessing.context.BaseContext:
    return multiprocessing.get_context(request.param)


@pytest.fixture(scope="module")
def pool(method: multiprocessing.context.BaseContext, writers: ModuleType) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=method) as pool:
        yield pool


@pytest.fixture
def make(ministack: Server, bucket_factory: Callable[..., str]) -> Callable[..., Job]:
    bucket = bucket_factory(ministack, "processes")

    def job(**options: Any) -> Job:
        storage_options = {"endpoint_url": ministack.endpoint, "client_kwargs": {"region_name": "us-east-1"}}
        return Job(
            f"s3://{bucket}/sales", mode="append", storage_options=storage_options, **arranged(**options)
        )

    return job


def published(server: Server, job: Job) -> list[bytes]:
    bucket = job.spec.location.bucket
    client = server.s3_client()
    keys = server.visible_keys(bucket, "sales/")
    return sorted(client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys)


def assert_nothing_left(server: Server, job: Job) -> None:
    bucket = job.spec.location.bucket
    assert not server.pending_uploads(bucket)
    assert not [key for key in server.all_keys(bucket) if "/__magic" in key]


EVERY_ROW = [b"%06d\n" % number for number in range(4)]
# Python warns of forking while threads run; that is what this is about.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.sample(most=1),
]


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_tasks_in_processes_are_retried_and_published_once(
    ministack: Server,
    make: Callable[..., Job],
    pool: ProcessPoolExecutor,
    writers: ModuleType,
    tracking: Any,
) -> None:
    with make(tracking=tracking) as job:
        job.map(writers.fail_once, range(4), executor=pool)
    assert job.report.tasks == 4
    assert published(ministack, job) == EVERY_ROW
    assert_nothing_left(ministack, job)


def test_commits_of_processes_are_published_by_a_driver_that_was_pickled(
    ministack: Server, make: Callable[..., Job], pool: ProcessPoolExecutor, writers: ModuleType
) -> None:
    job = make(tracking="memory").setup()
    results = list(pool.map(writers.commit, [job.task(number) for number in range(4)]))
    assert os.getpid() not in {process for process, _ in results}
    driver: Job = pickle.loads(pickle.dumps(job))
    report = driver.commit([commit for _, commit in results])
    assert report.files == 4
    # A child that closes what it inherited makes the connections of its parent silent for 15 s.
    assert report.seconds < 10
    assert published(ministack, job) == EVERY_ROW
    assert_nothing_left(ministack, job)


def test_process_that_dies_in_mid_task_leaves_nothing_behind(
    ministack: Server,
    make: Callable[..., Job],
    method: multiprocessing.context.BaseContext,
    writers: ModuleType,
) -> None:
    with (
        ProcessPoolExecutor(2, mp_context=method) as mortal,
        pytest.raises((BrokenProcessPool, ExceptionGroup)),
        make(tracking="memory") as job,
    ):
        job.map(writers.die_in_task_2, range(4), executor=mortal, retries=1)
    assert published(ministack, job) == []
    assert_nothing_left(ministack, job)


def test_pool_that_a_dead_process_broke_gives_way_to_a_new_one(
    ministack: Server,
    make: Callable[..., Job],
    method: multiprocessing.context.BaseContext,
    writers: ModuleType,
) -> None:
    pools: list[ProcessPoolExecutor] = []

    def new_pool() -> ProcessPoolExecutor:
        pools.append(ProcessPoolExecutor(2, mp_context=method))
        return pools[-1]

    with make(tracking="memory") as job:
        assert [one.task_id for one in job.map(writers.die_once, range(4), executor=new_pool)] == [
            f"{number:06d}" for number in range(4)
        ]
    assert len(pools) == 2
    for pool in pools:
        with pytest.raises(RuntimeError):  # they are shut down
            pool.submit(len, "")
    assert published(ministack, job) == EVERY_ROW
    assert_nothing_left(ministack, job)
