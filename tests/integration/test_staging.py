"""Staging committers on a real server: tasks in other processes, plain local files, processes that die."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from magicfs.errors import UsageError
from magicfs.job.job import Job
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)

WRITERS = '''
"""What runs in the other processes, which cannot import a test."""

import os
import signal
from pathlib import Path


def is_first(task):
    try:
        open(Path(__file__).with_name(f"killed-{task.job_id}"), "x").close()
    except FileExistsError:
        return False
    return True


def plain(task):
    directory = Path(task.path, f"day={int(task.id) % 2}")
    directory.mkdir()
    with open(directory / "part-0.txt", "w") as file:
        file.write(f"{task.id}\\n")
    (directory / "_temporary.txt").write_text("hidden")


def local_writers(task):
    import pandas as pd
    import pyarrow as pa
    import pyarrow.dataset as ds

    table = pa.table({"day": [1, 2], "task": [int(task.id)] * 2})
    ds.write_dataset(table, task.path, format="parquet", partitioning=["day"], partitioning_flavor="hive")
    pd.DataFrame({"task": [int(task.id)]}).to_csv(f"{task.path}/day=1/rows.csv", index=False)
    table.to_pandas().to_parquet(task.url("day=2/rows.parquet"), storage_options=task.storage_options or None)


def die_while_writing(task):
    plain(task)
    if is_first(task):
        os.kill(os.getpid(), signal.SIGKILL)


def die_while_committing(task):
    plain(task)
    if is_first(task):
        task.commit(progress=lambda _: os.kill(os.getpid(), signal.SIGKILL))


def commit(task):
    with task:
        plain(task)
    return task.committed


def attempt(task):
    """One attempt in this process, which may die."""
    with task:
        die_while_writing(task)
    return task.committed


def attempt_that_dies_later(task):
    task.setup()
    die_while_committing(task)
    return task.commit()
'''


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    directory = tmp_path_factory.mktemp("writers")
    (directory / "local_writers_in_processes.py").write_text(WRITERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(directory))
        yield import_module("local_writers_in_processes")
        patch.delitem(sys.modules, "local_writers_in_processes")


def spawned() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture
def pool(shared: list[ProcessPoolExecutor], place: Place) -> ProcessPoolExecutor:
    """Processes that were started with the secrets in their environment."""
    if not shared:
        shared.append(spawned())
    return shared[0]


@pytest.fixture(scope="module")
def shared() -> Iterator[list[ProcessPoolExecutor]]:
    made: list[ProcessPoolExecutor] = []
    yield made
    for each in made:
        each.shutdown()


class Place:
    """A bucket, a work directory, and the jobs of both."""

    def __init__(self, server: Server, bucket: str, work: Path) -> None:
        self.server = server
        self.bucket = bucket
        self.work = work
        self.options = {"endpoint_url": server.endpoint, "client_kwargs": {"region_name": "us-east-1"}}

    def job(self, committer: str, *, options: dict[str, Any] | None = None, **others: Any) -> Job:
        given: dict[str, Any] = {"mode": "append", "storage_options": self.options} | others
        local = {"work_directory": str(self.work)} | (options or {})
        return Job(
            f"s3://{self.bucket}/sales", committer=committer, **arranged(committer_options=local, **given)
        )

    def bodies(self) -> list[bytes]:
        client = self.server.s3_client()
        keys = self.server.visible_keys(self.bucket, "sales/")
        return sorted(client.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys)

    def assert_nothing_left(self) -> None:
        assert not self.server.pending_uploads(self.bucket)
        keys = self.server.all_keys(self.bucket)
        assert not [key for key in keys if "/__magic" in key or "staging-uploads" in key]
        assert not list(self.work.iterdir())


@pytest.fixture
def place(
    ministack: Server, bucket_factory: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    # Pickles leave secrets behind.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ministack.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ministack.secret_key)
    (tmp_path / "work").mkdir()
    return Place(ministack, bucket_factory(ministack, "staging"), tmp_path / "work")


ROWS = [b"%06d\n" % number for number in range(4)]


@pytest.mark.parametrize("committer", ["directory", "partitioned"])
def test_tasks_in_processes_write_plain_files(
    place: Place, writers: ModuleType, pool: ProcessPoolExecutor, committer: str
) -> None:
    with place.job(committer) as job:
        job.map(writers.plain, range(4), executor=pool)
    assert (job.report.tasks, job.report.files) == (4, 4)
    (warning,) = job.report.warnings
    assert warning.startswith("4 local files were left out")
    assert place.bodies() == ROWS
    keys = place.server.visible_keys(place.bucket, "sales/")
    assert {key.split("/")[1] for key in keys} == {"day=0", "day=1"}
    place.assert_nothing_left()


def test_pandas_and_pyarrow_write_as_to_any_disk(
    place: Place, writers: ModuleType, pool: ProcessPoolExecutor
) -> None:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from s3fs import S3FileSystem

    with place.job("partitioned") as job:
        job.map(writers.local_writers, range(2), executor=pool)
    assert job.report.files == 8
    fs = S3FileSystem(**place.options)
    parquet = [path for path in fs.find(f"{place.bucket}/sales") if path.endswith(".parquet")]
    found = ds.dataset(parquet, filesystem=fs, schema=pa.schema([("task", pa.int64())])).to_table()
    assert sorted(found["task"].to_pylist()) == [0] * 4 + [1] * 4
    place.assert_nothing_left()


@pytest.mark.parametrize("how", ["attempt", "attempt_that_dies_later"])
def test_task_whose_process_is_killed_is_run_again_and_leaves_nothing(
    place: Place, writers: ModuleType, pool: ProcessPoolExecutor, how: str
) -> None:
    """The first attempt dies while it writes, or after the first part of its commit was sent."""
    with place.job("directory") as job:
        with spawned() as first, pytest.raises(BrokenProcessPool):
            first.submit(getattr(writers, how), job.task(0)).result()
        assert len(list(place.work.iterdir())) == 2
        assert len(place.server.pending_uploads(place.bucket)) == (how != "attempt")
        for commit in pool.map(getattr(writers, how), [job.task(number) for number in range(4)]):
            job.add(commit)
        assert not list(place.work.iterdir())
    assert place.bodies() == ROWS
    assert job.report.uploads_aborted == (how != "attempt")
    place.assert_nothing_left()


def test_second_driver_publishes_what_tasks_of_the_first_committed(
    place: Place, writers: ModuleType, pool: ProcessPoolExecutor
) -> None:
    first = place.job("partitioned").setup()
    for future in [pool.submit(writers.commit, first.task(number)) for number in range(3)]:
        future.result()
    second = place.job("partitioned", job_id=first.id, attempt=1).setup()
    assert [one.task_id for one in second.recover_tasks()] == ["000000", "000001", "000002"]
    second.add(pool.submit(writers.commit, second.task(3)).result())
    second.commit(second.commits, tasks=4)
    assert place.bodies() == ROWS
    place.assert_nothing_left()


@pytest.mark.parametrize(("kind", "handed"), [("file", True), ("s3", False)])
def test_pending_sets_go_through_a_filesystem_of_the_cluster(
    place: Place, writers: ModuleType, pool: ProcessPoolExecutor, kind: str, handed: bool, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/cluster" if kind == "file" else f"s3://{place.bucket}/cluster"
    options: dict[str, Any] = {"cluster_directory": url}
    if kind == "s3":
        options["cluster_storage_options"] = place.options
    job = place.job("directory", options=options).setup()
    commits = list(pool.map(writers.commit, [job.task(number) for number in range(4)]))
    sets = [key for key in place.server.all_keys(place.bucket, "sales/") if key.endswith(".pendingset")]
    assert sets == []
    report = job.commit(commits if handed else None, tasks=4)
    (warning,) = report.warnings
    assert warning.startswith("4 local files were left out")
    assert place.bodies() == [b"%06d\n" % number for number in range(4)]
    assert not list((tmp_path / "cluster").rglob("*.pendingset"))
    place.assert_nothing_left()


def test_cluster_that_refuses_its_credentials_fails_the_setup(place: Place, seaweedfs: Server) -> None:
    wrong = seaweedfs.storage_options() | {"key": "wrong", "secret": "wrong"}
    options = {"cluster_directory": "s3://no.such.bucket.of.ours/x", "cluster_storage_options": wrong}
    with pytest.raises(UsageError, match=r"cluster_directory=.* cannot be used"):
        place.job("directory", options=options).setup()
    assert place.server.all_keys(place.bucket) == []


@pytest.mark.parametrize(
    ("committer", "mode", "left"),
    [("directory", "overwrite", [1]), ("partitioned", "overwrite_partitions", [0, 1])],
)
def test_replacing(
    place: Place,
    writers: ModuleType,
    pool: ProcessPoolExecutor,
    committer: str,
    mode: str,
    left: list[int],
) -> None:
    with place.job(committer) as job:
        job.map(writers.plain, [0, 3], executor=pool)
    with place.job(committer, mode=mode) as job:
        job.map(writers.plain, [1], executor=pool)
    assert place.bodies() == [ROWS[number] for number in left]
    place.assert_nothing_left()
