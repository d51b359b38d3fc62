"""Ordinary paths are the wrapped filesystem's, whatever is asked of them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import sync
from fsspec.implementations.local import LocalFileSystem

from magicfs.filesystem import MagicFileSystem
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from proofs.scenes.memory_scene import MemoryScene

BASE = "bucket/dataset1/__magic/mine/__base"
OLD = 10**9


@pytest.fixture
def fs() -> MagicFileSystem:
    return MagicFileSystem(LocalFileSystem())


def by_coroutine(fs: MagicFileSystem, source: str, target: str) -> None:
    sync(fs.loop, fs._mv_file, source, target)


@pytest.mark.parametrize("move", [MagicFileSystem.mv, MagicFileSystem.rename, by_coroutine])
def test_a_local_file_is_renamed_and_stays_itself(
    fs: MagicFileSystem, tmp_path: Path, move: Callable[..., Any]
) -> None:
    source, target = tmp_path / "a", tmp_path / "b é"
    source.write_bytes(b"secret")
    source.chmod(0o600)
    os.utime(source, (OLD, OLD))
    before = source.stat()
    move(fs, str(source), f"magic::file://{target}" if move is not by_coroutine else str(target))
    after = target.stat()
    assert (after.st_ino, after.st_mode, after.st_mtime) == (before.st_ino, before.st_mode, OLD)
    assert not source.exists()


@pytest.mark.parametrize("how", [{}, {"recursive": True}])
def test_a_local_directory_is_moved_with_what_is_broken_or_empty(
    fs: MagicFileSystem, tmp_path: Path, how: dict[str, Any]
) -> None:
    source = tmp_path / "tree"
    (source / "empty").mkdir(parents=True)
    (source / "a").write_bytes(b"1")
    (source / "broken").symlink_to("nowhere")
    fs.mv(str(source), str(tmp_path / "moved"), **how)
    assert sorted(one.name for one in (tmp_path / "moved").iterdir()) == ["a", "broken", "empty"]
    assert not source.exists()


def test_a_recursive_copy_of_local_files_is_whole(fs: MagicFileSystem, tmp_path: Path) -> None:
    """Directories are made before the files in them. All at once, three of ten copies lacked some."""
    source = tmp_path / "source"
    (source / "p" / "q" / "r").mkdir(parents=True)
    for name in ("file", "p/a", "p/q/b", "p/q/r/c"):
        (source / name).write_bytes(b"x")
    for number in range(30):
        fs.cp(str(source), str(tmp_path / f"{number}"), recursive=True)
        assert len([one for one in (tmp_path / f"{number}").rglob("*") if one.is_file()]) == 4


def test_a_broken_link_is_there(fs: MagicFileSystem, tmp_path: Path) -> None:
    (tmp_path / "broken").symlink_to("nowhere")
    assert (fs.lexists(str(tmp_path / "broken")), fs.exists(str(tmp_path / "broken"))) == (True, False)
    assert fs.islink(f"magic::file://{tmp_path}/broken")


class Plain(MemoryFileSystem):
    """A filesystem with habits of its own."""

    blocksize = 50 * 2**20
    root_marker = "root"

    def __init__(self) -> None:
        super().__init__(world=World())
        self.world.create_bucket("bucket")
        self.dropped: list[str | None] = []

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Keep a slash at the end, as gcsfs does."""
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return str(path).removeprefix("memory://")

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dropped.append(path)

    def split_path(self, path: str) -> list[str]:
        return path.split("/", 1)

    def rmdir(self, path: str, *, recursive: bool = False) -> str:
        return f"{path} {recursive}"

    def getxattr(self, path: str, attr: str) -> str:
        return f"{path} {attr}"

    def _walk(self, path: str, dirs: object, files: object) -> None:
        """A private function of this name, as adlfs has one."""


def test_sizes_markers_and_caches_are_the_wrapped_filesystems() -> None:
    wrapped = Plain()
    fs = MagicFileSystem(wrapped)
    assert (fs.blocksize, fs.root_marker) == (50 * 2**20, "root")
    fs.invalidate_cache()
    fs.invalidate_cache("magic::memory://bucket/d")
    assert wrapped.dropped == [None, "bucket/d"]
    assert fs.split_path("magic::memory://bucket/d/e") == ["bucket", "d/e"]


def test_methods_that_block_and_have_no_coroutine_are_called() -> None:
    fs = MagicFileSystem(Plain())
    removed: Any = MagicFileSystem.rmdir
    assert removed(fs, "bucket/d", recursive=True) == "bucket/d True"
    assert fs.getxattr("bucket/d", "k") == "bucket/d k"
    fs.pipe_file("bucket/d/x", b"1")
    assert list(fs.walk("bucket")) == [("bucket", ["d"], []), ("bucket/d", [], ["x"])]

    async def walk() -> list[Any]:
        return [step async for step in fs._walk("bucket")]

    assert sync(fs.loop, walk) == list(fs.walk("bucket"))


def test_a_slash_at_the_end_belongs_to_the_name_where_the_wrapped_filesystem_says_so() -> None:
    fs = MagicFileSystem(Plain())
    fs.touch("magic::memory://bucket/dir/")
    assert fs.cat_file("bucket/dir/") == b""
    assert fs._strip_protocol("magic+memory://bucket/dir/") == "bucket/dir/"
    assert fs._strip_protocol(f"magic+memory://{BASE}/dir/") == f"{BASE}/dir"


def test_paths_go_by_position_because_other_filesystems_call_them_otherwise(
    fs: MagicFileSystem, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"1")
    fs.put_file(lpath=str(tmp_path / "a"), rpath=str(tmp_path / "b"))
    fs.get_file(rpath=str(tmp_path / "b"), lpath=str(tmp_path / "c"))
    fs.mv(path2=str(tmp_path / "d"), path1=str(tmp_path / "c"))
    assert {one.name for one in tmp_path.iterdir()} == {"a", "b", "d"}


def test_a_call_with_one_magic_path_is_no_ordinary_call(scene: MemoryScene) -> None:
    scene.put("old", b"1")
    scene.filesystem.copy("bucket/old", f"{BASE}/new")
    scene.filesystem.pipe({"bucket/plain": b"2", f"{BASE}/other": b"3"})
    assert {key for key in scene.objects() if "__magic" not in key} == {"old", "plain"}
    assert scene.publish() == {"dataset1/new": b"1", "dataset1/other": b"3"}


@pytest.mark.parametrize(
    "change",
    [
        lambda fs: fs.mv("bucket/old", "bucket/out/new"),
        lambda fs: fs.copy("bucket/old", "bucket/out/new"),
        lambda fs: fs.pipe({"bucket/out/new": b""}),
        lambda fs: fs.rm(["bucket/out/old"]),
    ],
)
def test_a_change_outside_of_a_task_is_warned_about(
    scene: MemoryScene, caplog: pytest.LogCaptureFixture, change: Callable[[MagicFileSystem], Any]
) -> None:
    scene.put("old", b"1")
    scene.put("out/old", b"1")
    scene.filesystem.is_guarded = True
    with caplog.at_level(logging.WARNING, logger="magicfs"):
        change(scene.filesystem)
    assert "bucket/out/" in caplog.text
    assert "is outside the task's directory" in caplog.text
