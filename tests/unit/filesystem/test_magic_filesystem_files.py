"""Open files answer as fsspec's do, and lead back to the filesystem through which they were opened."""

from __future__ import annotations

from typing import Any

import pytest
from fsspec.asyn import AbstractAsyncStreamedFile, sync
from fsspec.spec import AbstractBufferedFile

from magicfs.filesystem import MagicFileSystem
from proofs.scenes.memory_scene import MemoryScene

PATH = "bucket/dataset1/__magic/mine/__base/day=1/a b%+#é.csv"
# How AbstractBufferedFile keeps what it has not sent, and what it knows of files that are read.
ITS_OWN = {
    *("buffer", "offset", "forced", "location", "start", "end", "kwargs", "cache", "details"),
    *("DEFAULT_BLOCK_SIZE", "readinto1", "readuntil", "readinto"),
}


def public(file: object) -> set[str]:
    return {name for name in dir(file) if not name.startswith("_")}


def test_file_has_what_files_of_fsspec_have(scene: MemoryScene) -> None:
    fs = scene.filesystem
    theirs = AbstractBufferedFile(fs, PATH, "wb")
    with fs.open(PATH, "wb") as file:
        assert public(theirs) - public(file) - ITS_OWN == set()
        assert (file.fs, file.path, file.mode, file.autocommit) == (fs, PATH, "wb", True)
        assert file.full_name == theirs.full_name == f"magic::memory://{PATH}"
        assert (file.readable(), file.writable(), file.seekable(), file.closed) == (False, True, False, False)
        assert file.blocksize > 0
        file.write(b"12")
        assert file.flush(True) is file.flush(force=True) is file.flush() is None
        assert (file.loc, file.tell()) == (2, 2)
        file.write(b"3")
        with pytest.raises(ValueError, match="being written"):
            file.info()
    assert file.closed
    assert scene.publish() == {"dataset1/day=1/a b%+#é.csv": b"123"}
    theirs.closed = True


@pytest.mark.parametrize("mode", ["wb", "xb"])
def test_file_tells_how_it_was_opened(scene: MemoryScene, mode: str) -> None:
    with scene.filesystem.open(f"memory://{PATH}", mode, autocommit=False) as file:
        assert (file.mode, file.path, file.autocommit) == (mode, PATH, False)
        file.discard()


def test_file_of_coroutines_has_what_files_of_fsspec_have(scene: MemoryScene) -> None:
    fs = scene.filesystem
    theirs = AbstractAsyncStreamedFile(fs, PATH, "wb")
    ours_lacks = {"read", "seek", "isatty", "fileno", "readline", "readlines", "truncate", "writelines"}

    async def write() -> Any:
        file = await fs.open_async(PATH, "wb")
        assert public(theirs) - public(file) - ITS_OWN - ours_lacks - {"info", "full_name"} == set()
        assert (file.fs, file.path, file.mode, file.autocommit) == (fs, PATH, "wb", True)
        await file.write(b"12")
        await file.flush(True)
        assert (file.loc, file.writable(), file.readable(), file.seekable()) == (2, True, False, False)
        await file.close()
        return file

    assert sync(fs.loop, write).closed
    theirs.closed = True


def test_file_that_is_read_leads_to_no_visible_write(scene: MemoryScene) -> None:
    scene.put("old é", b"1")
    fs = scene.filesystem
    for path, mode in (("bucket/old é", "rb"), ("bucket/new", "wb")):
        with fs.open(path, mode) as file:
            assert file.fs is fs
            with file.fs.open(PATH, "wb") as other:
                other.write(b"2")
            file.fs.rm(PATH)
    assert scene.uploads() == []
    assert set(scene.objects()) == {"old é", "new"}


def test_file_below_a_magic_path_that_is_read_leads_back(scene: MemoryScene) -> None:
    scene.put(f"{PATH}.plain".removeprefix("bucket/"), b"1")
    with scene.filesystem.open(f"{PATH}.plain", "rb") as file:
        assert isinstance(file.fs, MagicFileSystem)
        assert file.read() == b"1"
