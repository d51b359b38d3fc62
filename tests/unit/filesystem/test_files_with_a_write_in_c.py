"""The files whose ``write`` is C: what is in their buffer is never lost, published by mistake or copied."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from magicfs.errors import StoreError, UsageError
from magicfs.filesystem.write_only_file import Sink, WriteOnlyFile
from magicfs.stores.memory.store import MemoryStore
from proofs.scenes.job_scene import JobScene
from proofs.scenes.memory_scene import MemoryScene

FILE = "bucket/dataset1/__magic/job 1/__base/a b%.csv"
COMMITTERS = ["magic", "direct", "stocator"]
BUFFER = 128 * 2**10


@pytest.fixture(params=COMMITTERS)
def opened(request: pytest.FixtureRequest) -> Any:
    task = JobScene().job(committer=request.param).task(0).setup()
    file = task.filesystem.open(f"{task.path}/a.bin", "wb")
    yield file
    file.discard()


def test_write_is_that_of_python_itself(opened: Any) -> None:
    assert type(opened).write is io.BufferedWriter.write
    assert not isinstance(type(opened).write, type(lambda: None))


def test_threads_of_arrow_reach_the_sink_in_few_calls(
    scene: MemoryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    write = Sink.write

    def counted(self: Sink, data: Any) -> int:
        sizes.append(len(data))
        return write(self, data)

    monkeypatch.setattr(Sink, "write", counted)
    rows = np.arange(200_000)
    table = pa.table({"part": rows % 7, **{f"c{n}": rows * n % 1000 for n in range(9)}})
    pyarrow.dataset.write_dataset(
        table,
        FILE.rpartition("/")[0],
        filesystem=scene.filesystem,
        format="parquet",
        partitioning=["part"],
        file_options=pyarrow.dataset.ParquetFileFormat().make_write_options(data_page_size=1000),
    )
    published = scene.publish()
    assert sum(sizes) == sum(map(len, published.values()))
    assert len(published) == 7
    assert len(sizes) <= 7 * 2 + sum(sizes) // 1000, "one for each page of Parquet"
    read = pa.concat_tables([pa.parquet.read_table(io.BytesIO(body)) for body in published.values()])
    assert sorted(read["c1"].to_pylist()) == sorted(table["c1"].to_pylist())


class Gathering(Sink):
    """Remembers what it got, and where that lay in memory."""

    def __init__(self) -> None:
        super().__init__("somewhere")
        self.got: list[tuple[int, bytes]] = []

    def take(self, data: memoryview) -> None:
        address = ctypes.addressof(ctypes.c_char.from_buffer(_as_writable(data))) if data.nbytes else 0
        self.got.append((address, bytes(data)))


def _as_writable(view: memoryview) -> Any:
    return (ctypes.c_char * view.nbytes).from_address(np.frombuffer(view, np.uint8).ctypes.data)


class Plain(WriteOnlyFile):
    def abort(self) -> None:
        """Nothing to discard."""


def test_write_that_is_larger_than_the_buffer_is_not_copied_into_it() -> None:
    sink = Gathering()
    file = Plain(sink)
    body = np.arange(3 * BUFFER, dtype=np.uint8)
    file.write(b"head")
    file.write(body)
    assert [len(piece) for _, piece in sink.got] == [4, 3 * BUFFER]
    assert sink.got[1][0] == body.ctypes.data
    file.close()


@pytest.mark.parametrize("seed", range(5))
def test_pieces_of_any_size_come_out_in_order(scene: MemoryScene, seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.choice([0, 1, 66, 5000, BUFFER - 1, BUFFER, BUFFER + 1, 300_000]) for _ in range(60)]
    pieces = [chance.randbytes(size) for size in sizes]
    with scene.filesystem.open(FILE, "wb") as file:
        for number, piece in enumerate(pieces):
            assert file.write(piece) == len(piece)
            assert file.tell() == file.loc == sum(sizes[: number + 1])
            if chance.random() < 0.1:
                file.flush(chance.random() < 0.5)
    assert list(scene.publish().values()) == [b"".join(pieces)]
    assert file.tell() == sum(sizes)


def test_several_threads_write_whole_pieces(scene: MemoryScene) -> None:
    with scene.filesystem.open(FILE, "wb") as file, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: file.write(b"%07d\n" % number * 1000), range(400)))
    [body] = scene.publish().values()
    lines = body.split(b"\n")
    assert len(body) == 400 * 8000
    assert [line for line in lines[::1000] if line] == [line for line in lines[999::1000] if line]


# -- the end -----------------------------------------------------------------------------------------------


class Failing(MemoryStore):
    """Refuses every part."""

    async def put_part(self, *_: Any, **__: Any) -> Any:
        raise StoreError("put_part", "bucket/key", "disk full (507)")


ENDINGS: dict[str, Callable[[Any], None]] = {
    "large write": lambda file: [file.write(bytes(9 * 2**20)) for _ in range(9)] and None,
    "close": lambda file: file.close(),
    "body": lambda file: file.__exit__(None, None, None),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_buffered_when_the_store_fails_fails_the_file(
    monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    scene = MemoryScene()
    monkeypatch.setattr(MemoryStore, "put_part", Failing.put_part)
    file = scene.filesystem.open(FILE, "wb")
    assert file.write(b"in the buffer") == 13
    with pytest.raises(StoreError, match="disk full"):
        ENDINGS[ending](file)
    assert file.closed
    assert (scene.uploads(), scene.objects()) == ([], {})
    with pytest.raises(UsageError, match="is aborted; open it again"):
        file.write(b"more")
    with pytest.raises(ValueError, match="closed file"):
        file.writelines([b"more"])
    file.flush()
    file.close()
    with pytest.raises(UsageError, match="was aborted"):
        file.commit()
    assert (scene.uploads(), scene.objects()) == ([], {})


def test_flush_tells_what_an_earlier_part_met(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = MemoryScene(part_size=5 * 2**20)
    monkeypatch.setattr(MemoryStore, "put_part", Failing.put_part)
    file = scene.filesystem.open(FILE, "wb")
    with pytest.raises(StoreError, match="disk full"):
        for _ in range(60):
            file.write(bytes(BUFFER - 1))
            file.flush()
            time.sleep(0.001)
        file.write(bytes(5 * 2**20))
        file.write(bytes(5 * 2**20))
    assert file.closed
    assert scene.uploads() == []


def test_abort_from_another_thread_ends_a_write_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = MemoryScene(part_size=5 * 2**20)
    file = scene.filesystem.open(FILE, "wb")
    written = threading.Event()

    def write() -> None:
        for _ in range(50):
            try:
                file.write(bytes(2**20))
            except (UsageError, ValueError):  # aborted, or closed already
                break
            written.set()

    writer = threading.Thread(target=write)
    writer.start()
    written.wait(10)
    file.abort()
    writer.join(10)
    assert not writer.is_alive()
    assert (scene.uploads(), scene.objects()) == ([], {})


def test_two_threads_that_close_record_once(scene: MemoryScene) -> None:
    for number in range(20):
        file = scene.filesystem.open(f"{FILE}{number}", "wb")
        file.write(b"x" * 1000)
        threads = [threading.Thread(target=file.close) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert list(scene.publish().values()) == [b"x" * 1000] * 20


@pytest.mark.process
def test_signal_handler_may_abort_the_file_that_is_being_written(scene: MemoryScene) -> None:
    file = scene.filesystem.open(FILE, "wb")

    def end(*_: object) -> None:
        file.abort()
        raise SystemExit(3)

    before = signal.signal(signal.SIGTERM, end)
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        with pytest.raises(SystemExit):
            while True:
                file.write(bytes(BUFFER + 1))
    finally:
        signal.signal(signal.SIGTERM, before)
    scene.settle()
    assert file.closed
    assert (scene.uploads(), scene.objects()) == ([], {})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1, BUFFER, 2 * BUFFER, 6 * 2**20])
@pytest.mark.parametrize("in_cycle", [False, True])
def test_what_is_buffered_in_a_file_that_is_collected_goes_nowhere(
    scene: MemoryScene, size: int, in_cycle: bool
) -> None:
    file = scene.filesystem.open(FILE, "wb")
    file.write(bytes(size))
    if in_cycle:
        file.own = file
    del file
    if in_cycle:
        gc.collect()
    scene.settle()
    assert (scene.uploads(), scene.objects()) == ([], {})


def test_file_that_is_discarded_in_a_transaction_loses_its_buffer(scene: MemoryScene) -> None:
    fs = scene.filesystem
    with pytest.raises(ZeroDivisionError), fs.transaction:
        fs.open(FILE, "wb").write(b"buffered")
        raise ZeroDivisionError
    assert (scene.uploads(), scene.objects()) == ([], {})
    with fs.transaction:
        fs.open(FILE, "wb").write(b"buffered")
    assert list(scene.publish().values()) == [b"buffered"]


def test_file_that_is_committed_unclosed_is_whole(scene: MemoryScene) -> None:
    file = scene.filesystem.open(FILE, "wb", autocommit=False)
    file.write(b"buffered")
    file.commit()
    assert file.closed
    file.commit()
    assert list(scene.publish().values()) == [b"buffered"]


# -- the face ----------------------------------------------------------------------------------------------


def test_file_hides_what_lies_behind_its_buffer(opened: Any) -> None:
    opened.write(b"x")
    assert not hasattr(opened, "raw")
    assert not hasattr(opened, "name")
    for method in ("detach", "fileno", "read", "truncate"):
        with pytest.raises(io.UnsupportedOperation):
            getattr(opened, method)()
    with pytest.raises(io.UnsupportedOperation):
        opened.seek(0)
    assert (opened.mode, opened.closed, opened.tell(), opened.isatty()) == ("wb", False, 1, False)
    assert (opened.writable(), opened.readable(), opened.seekable()) == (True, False, False)


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_file_cannot_be_pickled_or_copied(opened: Any, way: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="cannot be pickled; open it where it is written"):
        way(opened)


def test_file_knows_what_files_of_fsspec_know(scene: MemoryScene) -> None:
    with scene.filesystem.open(FILE, "xb") as file:
        assert (file.path, file.fs, file.mode, file.autocommit) == (FILE, scene.filesystem, "xb", True)
        assert file.blocksize == 8 * 2**20
        assert file.full_name == scene.filesystem.unstrip_protocol(FILE)
        with pytest.raises(UsageError, match="is being written"):
            file.info()
        with pytest.raises(TypeError):
            file.write("text")
        file.write(b"bytes")
    assert list(scene.publish().values()) == [b"bytes"]


@pytest.mark.process
@pytest.mark.parametrize("size", [1, 2 * BUFFER])
def test_child_of_a_fork_cannot_write_and_the_parent_can(scene: MemoryScene, size: int) -> None:
    file = scene.filesystem.open(FILE, "wb")
    file.write(b"parent")
    child = os.fork()
    if not child:
        code = 1
        try:
            file.write(bytes(size))
        except UsageError as error:
            code = 0 if "opened in another process" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    file.close()
    assert list(scene.publish().values()) == [b"parent"]


def test_local_files_are_buffered_before_they_are_placed(tmp_path: Path) -> None:
    import magicfs

    fs = magicfs.MagicFileSystem(target_protocol="file")
    with fs.open(f"{tmp_path}/sales/__magic/job/task/__base/a", "wb") as file:
        for _ in range(1000):
            file.write(b"12345678\n")
        assert file.tell() == 9000
    fs.publish(f"{tmp_path}/sales/__magic/job")
    assert (tmp_path / "sales" / "a").read_bytes() == b"12345678\n" * 1000
