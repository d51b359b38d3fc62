"""Direct, stocator and task-completing against real servers: writers, processes, uploads, rival commits."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from s3fs import S3FileSystem

import magicfs
from magicfs.errors import CommitFailed
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)

COMMITTERS = pytest.mark.parametrize("committer", ["direct", "stocator", "task-completing"])
FINAL = pytest.mark.parametrize("committer", ["direct", "stocator"])
BLOCK = 5 * 2**20

WRITERS = '''
"""What runs in the other processes, which cannot import a test."""

import os
import signal
from pathlib import Path


def write(task):
    for name in ("a", "b"):
        with task.filesystem.open(f"{task.path}/{name}.txt", "w") as file:
            file.write(f"{task.id} {name}\\n")


def fail_once(task):
    write(task)
    try:
        open(Path(__file__).with_name(f"{task.job_id}-{task.id}"), "x").close()
    except FileExistsError:
        return
    raise ConnectionError(task.id)


def die(task):
    write(task.setup())
    os.kill(os.getpid(), signal.SIGKILL)


def commit(task):
    with task:
        write(task)
    return task.committed
'''


@pytest.fixture
def running(ministack: Server) -> Server:
    return ministack


@pytest.fixture
def bucket(running: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(running, "simple")


@pytest.fixture
def make(running: Server, bucket: str) -> Callable[..., magicfs.Job]:
    storage_options = {
        "endpoint_url": running.endpoint,
        "client_kwargs": {"region_name": running.region},
        "default_block_size": BLOCK,
    }

    def job(committer: str, **options: Any) -> magicfs.Job:
        options = {"mode": "append", "storage_options": storage_options, **options}
        return magicfs.Job(f"s3://{bucket}/sales 1", committer=committer, **arranged(**options))

    return job


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory, ministack: Server) -> Iterator[ModuleType]:
    """What runs elsewhere; the secrets are in the environment."""
    directory = tmp_path_factory.mktemp("writers")
    (directory / "simple_writers.py").write_text(WRITERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", ministack.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", ministack.secret_key)
        patch.syspath_prepend(str(directory))
        patch.delitem(sys.modules, "simple_writers", raising=False)
        yield import_module("simple_writers")


@pytest.fixture(autouse=True)
def _secrets(writers: ModuleType) -> None:
    """Inline secrets would stay behind in pickles."""


@pytest.fixture(scope="module")
def pool(writers: ModuleType) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def bodies(running: Server, bucket: str) -> list[bytes]:
    """What another reader finds in the destination."""
    client = running.s3_client()
    keys = running.visible_keys(bucket, "sales 1/")
    return sorted(client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys)


def beside(running: Server, bucket: str) -> list[str]:
    """Everything that a reader does not take for data."""
    visible = set(running.visible_keys(bucket, "sales 1/"))
    return [key for key in running.all_keys(bucket) if key not in visible]


def rows(*tasks: int) -> list[bytes]:
    return sorted(f"{task:06d} {name}\n".encode() for task in tasks for name in ("a", "b"))


# -- writers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committer", ["stocator", "task-completing"])
def test_pyarrow_and_pandas_publish_every_row_each_time(
    running: Server, bucket: str, make: Callable[..., magicfs.Job], committer: str
) -> None:
    table = pa.table({"day": ["mon", "tue"] * 5, "amount": list(range(10))})
    for run in (1, 2):
        with make(committer) as job:
            for number in range(2):
                with job.task(number) as task:
                    pa.dataset.write_dataset(
                        table,
                        task.path,
                        filesystem=task.filesystem,
                        format="parquet",
                        partitioning=["day"],
                        partitioning_flavor="hive",
                    )
            with job.task(2) as task, task.filesystem.open(f"{task.path}/day=wed/a.parquet", "wb") as file:
                pd.DataFrame({"amount": [100]}).to_parquet(file)
        assert job.report.files == 5
        assert not job.report.warnings
        assert len(running.visible_keys(bucket, "sales 1/")) == 5 * run
        filesystem = S3FileSystem(
            **running.storage_options(), skip_instance_cache=True, use_listings_cache=False
        )
        read = pa.dataset.dataset(
            f"{bucket}/sales 1", filesystem=filesystem, format="parquet", partitioning="hive"
        )
        amounts = read.to_table()["amount"].to_pylist()
        assert sorted(amounts) == sorted([*range(10), *range(10), 100] * run)
    assert beside(running, bucket) == ["sales 1/_SUCCESS"]
    assert not running.pending_uploads(bucket)


# -- uploads of s3fs ---------------------------------------------------------------------------------------


@FINAL
def test_a_file_of_several_parts_is_published_whole_or_not_at_all(
    running: Server, bucket: str, make: Callable[..., magicfs.Job], committer: str
) -> None:
    chunk = bytes(range(256)) * 4096

    def fail(task: magicfs.Task) -> None:
        with task.filesystem.open(f"{task.path}/bad.bin", "wb") as file:
            for _ in range(12):
                file.write(chunk)
            assert running.pending_uploads(bucket)
            assert not running.visible_keys(bucket)
            raise RuntimeError("bad row")

    with make(committer) as job, job.task(0) as task:
        with pytest.raises(RuntimeError, match="bad row"):
            fail(task)
        assert not running.pending_uploads(bucket), "aborted at once"
        with task.filesystem.open(f"{task.path}/good.bin", "wb") as file:
            for _ in range(12):
                file.write(chunk)
    assert bodies(running, bucket) == [chunk * 12]
    assert job.report.bytes == 12 * len(chunk)


@FINAL
def test_the_upload_of_a_file_that_nobody_closed_is_discarded_with_its_task(
    running: Server, bucket: str, make: Callable[..., magicfs.Job], committer: str
) -> None:
    with make(committer) as job, make(committer) as other, other.task(0) as theirs:
        task = job.task(0).setup()
        kept = theirs.filesystem.open(f"{theirs.path}/kept.bin", "wb")
        kept.write(bytes(6 * 2**20))
        lost = task.filesystem.open(f"{task.path}/lost.bin", "wb")
        lost.write(bytes(6 * 2**20))
        assert len(running.pending_uploads(bucket)) == 2
        del lost
        gc.collect()
        with pytest.raises(CommitFailed, match="opened and never closed"):
            task.commit()
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.txt", b"row\n")
        assert job.commit(job.commits).files == 1
        assert len(running.pending_uploads(bucket)) == 1, "the other job's"
        kept.close()
    assert bodies(running, bucket) == [bytes(6 * 2**20), b"row\n"]
    assert not running.pending_uploads(bucket)


# -- processes ---------------------------------------------------------------------------------------------


@COMMITTERS
def test_tasks_in_processes_are_retried(
    running: Server,
    bucket: str,
    make: Callable[..., magicfs.Job],
    writers: ModuleType,
    pool: ProcessPoolExecutor,
    committer: str,
) -> None:
    with make(committer) as job:
        assert len(job.map(writers.fail_once, range(3), executor=pool)) == 3
    assert bodies(running, bucket) == rows(0, 1, 2)
    assert beside(running, bucket) == ["sales 1/_SUCCESS"]
    assert not running.pending_uploads(bucket)


@COMMITTERS
@pytest.mark.nightly
def test_what_a_killed_process_leaves(
    running: Server,
    bucket: str,
    make: Callable[..., magicfs.Job],
    writers: ModuleType,
    pool: ProcessPoolExecutor,
    committer: str,
) -> None:
    job = make(committer).setup()
    mortal = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with mortal, pytest.raises(BrokenProcessPool):
        mortal.submit(writers.die, job.task(1)).result()
    assert bodies(running, bucket) == ([] if committer == "task-completing" else rows(1))
    commits = [pool.submit(writers.commit, job.task(number)).result() for number in range(2)]
    job.commit(commits)
    assert bodies(running, bucket) == rows(0, 1)
    assert beside(running, bucket) == ["sales 1/_SUCCESS"]
    assert not running.pending_uploads(bucket)


# -- a local disk ------------------------------------------------------------------------------------------


@FINAL
def test_processes_publish_to_a_local_disk(
    tmp_path: Path, writers: ModuleType, pool: ProcessPoolExecutor, committer: str
) -> None:
    with magicfs.Job(f"file://{tmp_path}/sales 1", committer=committer) as job:
        assert len(job.map(writers.fail_once, range(3), executor=pool)) == 3
    found = [path for path in (tmp_path / "sales 1").rglob("*") if path.name != "_SUCCESS"]
    assert sorted(path.read_bytes() for path in found) == rows(0, 1, 2)
    if committer == "stocator":
        assert len(magicfs.hadoop.stocator_files(job.url)) == 6
