"""fsspec's transactions: commit writes marker and ``.pending``, discard aborts, threads do not mix."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from fsspec.asyn import sync

from magicfs.errors import Unavailable, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.job.job import Job
from magicfs.stores.port import Body, ObjectInfo
from magicfs.testing.counting_store import CountingStore
from proofs.scenes.memory_scene import MemoryScene

BASE = "bucket/dataset1/__magic/job 1/__base"
FILE = f"{BASE}/day=1/a b%.csv"
FINAL = "dataset1/day=1/a b%.csv"
JOB = "0b0b0b0b-0000-4000-8000-000000000001"
KEY = FILE.removeprefix("bucket/")
Way = Callable[[MagicFileSystem, str, Path], None]


def by_open(fs: MagicFileSystem, path: str, _local: Path) -> None:
    with fs.open(path, "wb") as file:
        file.write(b"body")


def by_text(fs: MagicFileSystem, path: str, _local: Path) -> None:
    with fs.open(path, "w") as file:
        file.write("body")


def by_pipe_file(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.pipe_file(path, b"body")


def by_put_file(fs: MagicFileSystem, path: str, local: Path) -> None:
    (local / "body").write_bytes(b"body")
    fs.put_file(str(local / "body"), path)


def by_cp_file(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.cp_file("bucket/source", path)


def by_touch(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.touch(path)


def by_open_async(fs: MagicFileSystem, path: str, _local: Path) -> None:
    async def write() -> None:
        async with await fs.open_async(path, "wb") as file:
            await file.write(b"body")

    sync(fs.loop, write)


WAYS = [by_open, by_text, by_pipe_file, by_put_file, by_cp_file, by_touch, by_open_async]


@pytest.fixture
def scene() -> MemoryScene:
    scene = MemoryScene()
    scene.put("source", b"body")
    return scene


def pending_keys(scene: MemoryScene) -> set[str]:
    return set(scene.objects()) - {"source"}


@pytest.mark.parametrize("write", WAYS)
def test_commit_writes_marker_and_pending_file(scene: MemoryScene, tmp_path: Path, write: Way) -> None:
    with scene.filesystem.transaction:
        write(scene.filesystem, FILE, tmp_path)
        assert scene.uploads() == [FINAL]
        assert pending_keys(scene) == set()
    assert pending_keys(scene) == {KEY, f"{KEY}.pending"}
    assert scene.publish() == {FINAL: b"" if write is by_touch else b"body"}


@pytest.mark.parametrize("write", WAYS)
def test_error_in_a_transaction_aborts_everything(scene: MemoryScene, tmp_path: Path, write: Way) -> None:
    with pytest.raises(ZeroDivisionError), scene.filesystem.transaction:
        write(scene.filesystem, FILE, tmp_path)
        write(scene.filesystem, f"{BASE}/other", tmp_path)
        raise ZeroDivisionError
    assert (scene.uploads(), pending_keys(scene)) == ([], set())


@pytest.mark.parametrize("write", WAYS)
def test_transaction_is_started_and_ended_by_calls(scene: MemoryScene, tmp_path: Path, write: Way) -> None:
    scene.filesystem.start_transaction()
    write(scene.filesystem, FILE, tmp_path)
    assert pending_keys(scene) == set()
    scene.filesystem.end_transaction()
    assert pending_keys(scene) == {KEY, f"{KEY}.pending"}


def test_transaction_is_over_afterwards(scene: MemoryScene) -> None:
    with scene.filesystem.transaction:
        pass
    scene.filesystem.pipe_file(FILE, b"body")
    assert pending_keys(scene) == {KEY, f"{KEY}.pending"}


def test_transaction_with_a_file_that_was_aborted_commits_nothing(scene: MemoryScene) -> None:
    fs = scene.filesystem
    with pytest.raises(UsageError, match="was aborted; write it again"), fs.transaction:
        with pytest.raises(ZeroDivisionError), fs.open(f"{BASE}/bad", "wb"):
            raise ZeroDivisionError
        fs.pipe_file(FILE, b"body")
    assert (scene.uploads(), pending_keys(scene)) == ([], set())


def test_ordinary_files_in_a_transaction_are_the_wrapped_filesystems(scene: MemoryScene) -> None:
    with scene.filesystem.transaction:
        by_open(scene.filesystem, "bucket/plain", Path())
        assert "plain" not in scene.objects()
    assert scene.objects()["plain"] == b"body"
    with pytest.raises(ZeroDivisionError), scene.filesystem.transaction:
        by_open(scene.filesystem, "bucket/never", Path())
        raise ZeroDivisionError
    assert "never" not in scene.objects()


def test_file_that_was_never_closed_is_committed_whole(scene: MemoryScene) -> None:
    with scene.filesystem.transaction:
        file = scene.filesystem.open(FILE, "wb")
        file.write(b"body")
    assert file.closed
    assert scene.publish() == {FINAL: b"body"}


class Refusing(CountingStore):
    """Refuses the pending file of one name."""

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        if key.endswith("2.pending"):
            raise Unavailable("put", key, "made to fail")
        return await super().put(key, body, **options)


def test_commit_that_fails_half_way_discards_the_rest_and_ends_the_transaction() -> None:
    scene = MemoryScene(lambda store: Refusing(store, Counter()))
    fs = scene.filesystem
    with pytest.raises(Unavailable), fs.transaction:
        for number in (1, 2, 3):
            fs.pipe_file(f"{BASE}/{number}", b"body")
    assert scene.uploads() == ["dataset1/1"]
    assert scene.publish() == {"dataset1/1": b"body"}
    fs.pipe_file(f"{BASE}/4", b"body")
    assert f"{BASE}/4.pending".removeprefix("bucket/") in scene.objects()


def test_transactions_of_two_threads_do_not_mix(scene: MemoryScene) -> None:
    fs = scene.filesystem
    both_open, first_over = threading.Barrier(3), threading.Event()

    def failing() -> None:
        with pytest.raises(ZeroDivisionError), fs.transaction:
            fs.pipe_file(f"{BASE}/fails", b"1")
            both_open.wait()
            raise ZeroDivisionError
        first_over.set()

    def succeeding() -> None:
        with fs.transaction:
            fs.pipe_file(f"{BASE}/succeeds", b"2")
            both_open.wait()
            first_over.wait()
            assert pending_keys(scene) == {f"{KEY}{end}" for end in ("", ".pending")}

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(failing), pool.submit(succeeding)]
        fs.pipe_file(FILE, b"3")  # no transaction here
        both_open.wait()
        for future in running:
            future.result()
    assert scene.publish() == {FINAL: b"3", "dataset1/succeeds": b"2"}


def test_threads_that_a_transaction_starts_write_outside_of_it_unless_given_its_context(
    scene: MemoryScene,
) -> None:
    fs = scene.filesystem

    async def inside() -> None:
        await asyncio.to_thread(fs.pipe_file, f"{BASE}/in context", b"1")

    with ThreadPoolExecutor(1) as pool, fs.transaction:
        pool.submit(fs.pipe_file, FILE, b"2").result()
        assert scene.publish() == {FINAL: b"2"}
        asyncio.run(inside())
        assert f"{BASE}/in context.pending".removeprefix("bucket/") not in scene.objects()


def failing_source(scene: MemoryScene) -> Iterator[pa.RecordBatch]:
    """Fails when files of what came before have been opened, most of them closed."""
    while not scene.uploads():
        yield pa.record_batch({"day": [1, 2] * 1000, "value": [1.0, 2.0] * 1000})
    raise ZeroDivisionError


@pytest.mark.parametrize("use_threads", [True, False])
@pytest.mark.parametrize("form", ["parquet", "csv", "feather"])
def test_dataset_written_in_a_transaction_whose_source_raises_leaves_no_upload(
    scene: MemoryScene, form: str, use_threads: bool
) -> None:
    schema = pa.schema([("day", pa.int64()), ("value", pa.float64())])
    source = pa.RecordBatchReader.from_batches(schema, failing_source(scene))
    with pytest.raises(ZeroDivisionError), scene.filesystem.transaction:
        pyarrow.dataset.write_dataset(
            source,
            BASE,
            filesystem=scene.filesystem,
            format=form,
            partitioning=["day"],
            use_threads=use_threads,
            max_rows_per_file=1000,
            max_rows_per_group=1000,
        )
    assert (scene.uploads(), pending_keys(scene)) == ([], set())


@pytest.mark.parametrize("use_threads", [True, False])
def test_dataset_written_in_a_transaction_is_committed_with_it(scene: MemoryScene, use_threads: bool) -> None:
    with scene.filesystem.transaction:
        pyarrow.dataset.write_dataset(
            pa.table({"day": [1, 2], "value": [1.0, 2.0]}),
            BASE,
            filesystem=scene.filesystem,
            format="parquet",
            partitioning=["day"],
            use_threads=use_threads,
        )
        assert pending_keys(scene) == set()
    assert sorted(scene.publish()) == ["dataset1/1/part-0.parquet", "dataset1/2/part-0.parquet"]


@pytest.mark.parametrize("existing", ["error", "overwrite_or_ignore"])
def test_dataset_without_a_transaction_is_not_drawn_into_that_of_another_task(
    scene: MemoryScene, existing: str
) -> None:
    job = Job(
        "memory://bucket/dataset1",
        mode="append",
        filesystem=scene.wrapped,
        job_id=JOB,
        options={"unique_names": False, "hadoop": "3.3"},
    ).setup()
    attempts = [job.task(n).setup().path for n in range(2)]
    fs = scene.filesystem
    with pytest.raises(ZeroDivisionError), fs.transaction:
        fs.pipe_file(f"{attempts[0]}/mine", b"1")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(write_dataset, fs, attempts[1], existing).result()
        raise ZeroDivisionError
    assert list(scene.publish()) == ["dataset1/part-0.csv"]


def test_datasets_of_two_threads_stay_in_their_own_transactions(scene: MemoryScene) -> None:
    fs = scene.filesystem
    directories = {name: f"bucket/{name}/__magic/job/__base" for name in ("fails", "succeeds")}
    both_written = threading.Barrier(2)

    def write(name: str) -> None:
        with fs.transaction:
            write_dataset(fs, directories[name], "error")
            both_written.wait()
            if name == "fails":
                raise ZeroDivisionError

    with ThreadPoolExecutor(2) as pool:
        fails, succeeds = (pool.submit(write, name) for name in directories)
        succeeds.result()
        with pytest.raises(ZeroDivisionError):
            fails.result()
    assert list(scene.publish()) == ["succeeds/part-0.csv"]
    assert scene.uploads() == []


def test_dataset_that_could_belong_to_two_transactions_is_refused(scene: MemoryScene) -> None:
    fs = scene.filesystem
    both_open = threading.Barrier(2)

    def write() -> None:
        with fs.transaction:
            both_open.wait()
            try:
                write_dataset(fs, BASE, "overwrite_or_ignore")
            finally:
                both_open.wait()

    with ThreadPoolExecutor(2) as pool:
        for running in [pool.submit(write) for _ in range(2)]:
            with pytest.raises(UsageError, match=r"first access its directory inside its transaction"):
                running.result()
    assert (scene.uploads(), pending_keys(scene)) == ([], set())


def write_dataset(fs: MagicFileSystem, directory: str, existing: str) -> None:
    pyarrow.dataset.write_dataset(
        pa.table({"day": [1, 2]}), directory, filesystem=fs, format="csv", existing_data_behavior=existing
    )
