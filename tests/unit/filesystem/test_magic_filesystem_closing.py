"""Closing is not committing, raising aborts, and garbage collection publishes nothing."""

from __future__ import annotations

import bz2
import gc
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pytest

from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.stores.memory.store import default_world
from proofs.scenes.memory_scene import MemoryScene

BASE = "bucket/dataset1/__magic/job 1/__base"
FILE = f"{BASE}/day=1/a b%.csv"
FINAL = "dataset1/day=1/a b%.csv"
TEXT = "zażółć\n" * 50_000

Open = Callable[[MagicFileSystem, str], Any]
BINARY: dict[str, Open] = {
    "wb": lambda fs, path: fs.open(path, "wb"),
    "xb": lambda fs, path: fs.open(path, "xb"),
    "gzip": lambda fs, path: fs.open(path, "wb", compression="gzip"),
    "bz2": lambda fs, path: fs.open(path, "wb", compression="bz2"),
    "xz": lambda fs, path: fs.open(path, "wb", compression="xz"),
    "zip": lambda fs, path: fs.open(path, "wb", compression="zip"),
    "infer nothing": lambda fs, path: fs.open(path, "wb", compression="infer"),
}
TEXTUAL: dict[str, Open] = {
    "w": lambda fs, path: fs.open(path, "w", encoding="utf-8"),
    "wt": lambda fs, path: fs.open(path, "wt", encoding="utf-8"),
    "x": lambda fs, path: fs.open(path, "x", encoding="utf-8"),
    "gzip text": lambda fs, path: fs.open(path, "wt", encoding="utf-8", compression="gzip"),
    "bz2 text": lambda fs, path: fs.open(path, "w", encoding="utf-8", compression="bz2"),
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "gzip text": gzip.decompress,
    "bz2": bz2.decompress,
    "bz2 text": bz2.decompress,
    "xz": lzma.decompress,
}


def write(file: Any, way: str) -> None:
    file.write(TEXT if way in TEXTUAL else TEXT.encode())


@pytest.mark.parametrize("way", [*BINARY, *TEXTUAL])
def test_file_holds_what_was_written(scene: MemoryScene, way: str) -> None:
    with ({**BINARY, **TEXTUAL})[way](scene.filesystem, FILE) as file:
        write(file, way)
    [(key, body)] = scene.publish().items()
    assert key == FINAL
    if way != "zip":
        assert UNPACK.get(way, lambda plain: plain)(body).decode() == TEXT


def test_compression_is_inferred_from_the_name(scene: MemoryScene) -> None:
    with scene.filesystem.open(f"{BASE}/a.gz", "wt", compression="infer") as file:
        file.write("text")
    assert gzip.decompress(scene.publish()["dataset1/a.gz"]) == b"text"


# Python's own ZipFile complains when it is collected in the middle of a member.
ABANDONED = sorted({*BINARY, *TEXTUAL} - {"zip"})


@pytest.mark.parametrize("way", ABANDONED)
def test_body_that_raises_aborts(scene: MemoryScene, way: str) -> None:
    with pytest.raises(ZeroDivisionError), ({**BINARY, **TEXTUAL})[way](scene.filesystem, FILE) as file:
        write(file, way)
        raise ZeroDivisionError
    assert (scene.uploads(), scene.objects()) == ([], {})
    file.close()
    assert (scene.uploads(), scene.objects()) == ([], {})


@pytest.mark.slow
@pytest.mark.parametrize("way", ABANDONED)
def test_file_that_is_collected_unclosed_publishes_nothing(scene: MemoryScene, way: str) -> None:
    file = ({**BINARY, **TEXTUAL})[way](scene.filesystem, FILE)
    write(file, way)
    assert scene.uploads() == [FINAL]
    del file
    gc.collect()
    scene.settle()
    assert (scene.uploads(), scene.objects()) == ([], {})


def cycle(file: Any) -> Any:
    kept: list[Any] = [file]
    kept.append(kept)
    return kept


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "BufferedWriter": lambda file: io.BufferedWriter(file, 1000),
    "TextIOWrapper": lambda file: io.TextIOWrapper(file, "utf-8"),
    "TextIOWrapper on BufferedWriter": lambda file: io.TextIOWrapper(io.BufferedWriter(file), "utf-8"),
    "GzipFile": lambda file: gzip.GzipFile(fileobj=file, mode="wb"),
    "PythonFile": lambda file: pa.PythonFile(file, mode="w"),
    "CSVWriter": lambda file: pyarrow.csv.CSVWriter(
        pa.PythonFile(file, mode="w"), pa.schema([("a", "int8")])
    ),
    "reference cycle": cycle,
}


@pytest.mark.slow
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # what Python says of files that nobody closed
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_file_in_a_wrapper_that_is_collected_publishes_nothing(scene: MemoryScene, wrapper: str) -> None:
    wrapped = WRAPPERS[wrapper](scene.filesystem.open(FILE, "wb"))
    if hasattr(wrapped, "write") and wrapper != "CSVWriter":
        wrapped.write("text" if "Text" in wrapper else b"bytes")
    assert scene.uploads() == [FINAL]
    del wrapped
    gc.collect()
    scene.settle()
    assert (scene.uploads(), scene.objects()) == ([], {})


@pytest.fixture
def url() -> Iterator[str]:
    """Of a file in a bucket of this process's own memory, where chained URLs lead."""
    bucket = f"closing-{uuid4().hex}"
    yield f"magic::memory://{bucket}/dataset1/__magic/job 1/__base/a b%.csv"
    default_world().delete_bucket(bucket)


def left_at(url: str) -> list[str]:
    filesystem, path = fsspec.core.url_to_fs(url)
    directory = path.rpartition("/")[0]
    return [name.rpartition("/")[2] for name in filesystem.find(directory)]


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_wrappers_that_only_close_leave_nothing_when_their_body_raises(
    url: str, mode: str, compression: str | None
) -> None:
    with pytest.raises(ZeroDivisionError), fsspec.open(url, mode, compression=compression) as file:
        file.write("x" if mode == "w" else b"x")
        raise ZeroDivisionError
    assert left_at(url) == []


class Bad:
    def __str__(self) -> str:
        raise ZeroDivisionError


def test_pandas_leaves_nothing_when_its_source_fails(url: str) -> None:
    with pytest.raises(ZeroDivisionError):
        pd.DataFrame({"a": [1, Bad()]}).to_csv(url)
    assert left_at(url) == []


def test_pandas_on_an_open_file_leaves_nothing_when_its_source_fails(scene: MemoryScene) -> None:
    with pytest.raises(ZeroDivisionError), scene.filesystem.open(FILE, "w") as file:
        pd.DataFrame({"a": [1, Bad()]}).to_csv(file)
    assert (scene.uploads(), scene.objects()) == ([], {})


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_fsspec_open_that_is_collected_unclosed_publishes_nothing(url: str, mode: str) -> None:
    file = fsspec.open(url, mode).open()
    file.write("x" if mode == "w" else b"x")
    del file
    gc.collect()
    assert left_at(url) == []


def test_second_close_and_flush_change_nothing(scene: MemoryScene) -> None:
    file = scene.filesystem.open(FILE, "wb")
    file.write(b"x")
    file.flush()
    assert scene.objects() == {}
    file.close()
    left = scene.objects()
    file.close()
    assert (file.closed, scene.objects()) == (True, left)


def test_file_says_what_it_can_do(scene: MemoryScene) -> None:
    with scene.filesystem.open(FILE, "wb") as file:
        file.write(b"12345")
        assert (file.tell(), file.writable(), file.readable(), file.seekable()) == (5, True, False, False)
        with pytest.raises(io.UnsupportedOperation):
            file.read()
        with pytest.raises(io.UnsupportedOperation):
            file.seek(0)
        with pytest.raises(io.UnsupportedOperation):
            file.truncate()
    assert not file.writable()
    with pytest.raises(UsageError, match="open it again"):
        file.write(b"late")


def test_abort_after_close_takes_everything_back(scene: MemoryScene) -> None:
    file = scene.filesystem.open(FILE, "wb")
    file.close()
    file.abort()
    assert (scene.uploads(), scene.objects()) == ([], {})


def test_unknown_compression_leaves_no_upload(scene: MemoryScene) -> None:
    with pytest.raises(ValueError, match="no such"):
        scene.filesystem.open(FILE, "wb", compression="no such")
    assert scene.uploads() == []


def test_keyboard_interrupt_in_a_body_aborts(scene: MemoryScene) -> None:
    with pytest.raises(KeyboardInterrupt), scene.filesystem.open(FILE, "wb") as file:
        file.write(b"x")
        raise KeyboardInterrupt
    scene.settle()
    assert (scene.uploads(), scene.objects()) == ([], {})
