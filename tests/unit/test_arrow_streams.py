"""Datasets that pyarrow writes through buffers of its own: whole, or not at all."""

from __future__ import annotations

import gc
import io
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

import magicfs
from magicfs.errors import CommitFailed, MagicError, StoreError
from magicfs.filesystem.write_only_file import Sink
from magicfs.job.arrow_streams import arrow_filesystem
from magicfs.stores.memory.store import MemoryStore
from proofs.scenes.job_scene import JobScene

ROWS = 50_000


def table(rows: int = ROWS) -> pa.Table:
    numbers = np.arange(rows)
    return pa.table({"part": numbers % 7, **{f"c{n}": numbers * n % 1000 for n in range(5)}})


def write(task: magicfs.Task, rows: Any) -> None:
    ds.write_dataset(
        rows,
        f"{task.path}/é %+#",
        schema=table(0).schema if not isinstance(rows, pa.Table) else None,
        filesystem=task.arrow_filesystem,
        format="parquet",
        partitioning=["part"],
    )


@pytest.mark.parametrize("committer", ["magic", "direct", "stocator"])
def test_dataset_is_published_whole(committer: str) -> None:
    scene = JobScene()
    with scene.job(committer=committer) as job, job.task(0) as task:
        write(task, table())
    found = [pq.read_table(io.BytesIO(body)) for body in scene.data().values()]
    assert len(found) == 7
    assert sum(one.num_rows for one in found) == ROWS


def test_sink_is_reached_in_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    wrote = Sink.write

    def counted(self: Sink, data: Any) -> int:
        sizes.append(len(data))
        return wrote(self, data)

    monkeypatch.setattr(Sink, "write", counted)
    task = JobScene().job().task(0).setup()
    write(task, table())
    assert len(sizes) <= 7 * 2 + sum(sizes) // (64 * 2**10)


def batches(scene: JobScene) -> Iterator[pa.RecordBatch]:
    while not scene.uploads():
        yield from table().to_batches()
    raise RuntimeError("the source has gone")


def test_files_that_arrow_left_are_not_recorded(capfd: pytest.CaptureFixture[str]) -> None:
    scene = JobScene()
    with pytest.raises(CommitFailed), scene.job() as job, job.task(0) as task:
        with suppress(RuntimeError):
            write(task, batches(scene))
        gc.collect()
    assert scene.uploads() == []
    assert scene.data() == {}
    assert "Error ignored" not in capfd.readouterr().err


def test_task_that_fails_leaves_nothing() -> None:
    scene = JobScene()
    with (
        pytest.raises(RuntimeError, match="the source has gone"),
        scene.job() as job,
        job.task(0) as task,
    ):
        write(task, batches(scene))
    assert scene.uploads() == []
    assert scene.below() == []


def test_file_of_a_filesystem_that_is_let_go_is_discarded() -> None:
    scene = JobScene()
    task = scene.job().task(0).setup()
    filesystem = task.arrow_filesystem
    stream = filesystem.open_output_stream(f"{task.path}/a.bin")
    stream.write(b"1")
    del filesystem, stream
    gc.collect()
    with pytest.raises(MagicError):
        task.commit()
    task.abort()
    assert scene.uploads() == []


def test_file_that_is_closed_is_recorded_once() -> None:
    scene = JobScene()
    with scene.job() as job, job.task(0) as task:
        filesystem = task.arrow_filesystem
        with filesystem.open_output_stream(f"{task.path}/a b%.bin") as stream:
            stream.write(b"12")
            stream.flush()
            assert stream.tell() == 2
        stream.close()
    assert list(scene.data().values()) == [b"12"]


def test_what_the_store_refuses_fails_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise StoreError("put", "a", "no more room")

    scene = JobScene()
    monkeypatch.setattr(MemoryStore, "put_part", refuse)
    with pytest.raises(StoreError, match="no more room"), scene.job() as job, job.task(0) as task:
        write(task, table())
    assert scene.uploads() == []
    assert scene.data() == {}


def test_filesystem_travels_to_other_processes() -> None:
    filesystem = arrow_filesystem(LocalFileSystem())
    again = pickle.loads(pickle.dumps(filesystem))
    assert again == filesystem
    assert type(again.handler) is type(filesystem.handler)


@pytest.mark.process
def test_interpreter_ends_with_files_open() -> None:
    program = """
import magicfs, sys
from magicfs.job.arrow_streams import arrow_filesystem
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
inner = MemoryFileSystem(world=World())
inner.mkdir("b")
filesystem = arrow_filesystem(magicfs.MagicFileSystem(inner))
stream = filesystem.open_output_stream("b/d/__magic/job/__base/a.bin")
stream.write(b"1")
print("written")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "written\n", "")


def test_stream_is_closed_after_its_end() -> None:
    task = JobScene().job().task(0).setup()
    filesystem = task.arrow_filesystem
    stream = filesystem.open_output_stream(f"{task.path}/a.bin")
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        stream.write(b"1")
