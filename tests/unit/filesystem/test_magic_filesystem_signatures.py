"""Every method can be called, by position and by name, as fsspec and s3fs have it."""

from __future__ import annotations

import inspect
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.callbacks import Callback
from s3fs import S3FileSystem

from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from proofs.scenes.memory_scene import MemoryScene

BASE = "bucket/dataset1/__magic/mine/__base"
_POSITIONAL = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
OTHER_DEFAULTS = {
    ("_ls", "detail"): "what comes unasked is what the wrapped filesystem gives",
    ("_pipe_file", "value"): "s3fs calls it data, and either name is taken",
}


def _ours() -> list[str]:
    """Methods of ours that fsspec has, too."""
    of_ours = [kind for kind in MagicFileSystem.__mro__ if kind.__module__.startswith("magicfs.")]
    names = {name for kind in of_ours for name in vars(kind) if inspect.isfunction(vars(kind)[name])}
    return sorted(name for name in names if not name.startswith("__") and hasattr(AsyncFileSystem, name))


def _parameters(kind: type, name: str) -> dict[str, Parameter]:
    return dict(inspect.signature(getattr(kind, name)).parameters)


def test_the_methods_of_a_filesystem_are_compared() -> None:
    assert {"open", "_open", "_pipe_file", "_put_file", "_cp_file", "_info", "_find", "_rm", "mv"} <= {
        *_ours()
    }


@pytest.mark.parametrize("name", _ours())
def test_positions_are_those_of_fsspec(name: str) -> None:
    theirs = [one.name for one in _parameters(AsyncFileSystem, name).values() if one.kind in _POSITIONAL]
    ours = [one.name for one in _parameters(MagicFileSystem, name).values() if one.kind in _POSITIONAL]
    if name == "_walk" and "topdown" not in theirs:  # fsspec before 2026.7
        ours.remove("topdown")
    assert ours[: len(theirs)] == theirs


@pytest.mark.parametrize("name", _ours())
def test_defaults_are_those_of_fsspec(name: str) -> None:
    ours = _parameters(MagicFileSystem, name)
    others = [
        one.name
        for one in _parameters(AsyncFileSystem, name).values()
        if one.name in ours and ours[one.name].default != one.default
    ]
    assert others == [option for method, option in OTHER_DEFAULTS if method == name]


@pytest.mark.parametrize("kind", [AsyncFileSystem, S3FileSystem])
@pytest.mark.parametrize("name", _ours())
def test_names_of_arguments_are_those_of_fsspec_and_s3fs(kind: type, name: str) -> None:
    ours = _parameters(MagicFileSystem, name)
    if any(one.kind is Parameter.VAR_KEYWORD for one in ours.values()):
        return
    theirs = {one.name for one in _parameters(kind, name).values() if one.kind is not Parameter.VAR_KEYWORD}
    missing = theirs - set(ours)
    assert missing <= {"refresh"}, "s3fs's own listing cache"


class TestCalls:
    @pytest.fixture
    def fs(self, scene: MemoryScene) -> MagicFileSystem:
        scene.put("old é", b"0123456789")
        return scene.filesystem

    def test_open_by_position(self, scene: MemoryScene, fs: MagicFileSystem) -> None:
        with fs.open("bucket/old é", "rb", 1024) as file:
            assert file.read() == b"0123456789"
        with fs.open("bucket/old é", "rb", 1024, {}, None) as file:
            assert file.read() == b"0123456789"
        with (
            fs.open(f"{BASE}/a", "wb", 2**23, None, "gzip") as packed,
            fs.open(f"{BASE}/b", "wb", 2**23) as file,
        ):
            packed.write(b"1")
            file.write(b"1")
        left = scene.publish()
        assert (left["dataset1/a"][:2], left["dataset1/b"]) == (b"\x1f\x8b", b"1")

    def test_private_open_by_position(self, scene: MemoryScene, fs: MagicFileSystem) -> None:
        with fs._open("bucket/old é", "rb", 1024, True, None) as file:
            assert file.read() == b"0123456789"
        with fs._open(f"{BASE}/a", "wb", 2**23, True, None) as file:
            file.write(b"1")
        assert scene.publish() == {"dataset1/a": b"1"}

    @pytest.mark.parametrize("directory", [BASE, "bucket/dataset1"])
    def test_pipe_file_takes_its_value_by_either_name(
        self, scene: MemoryScene, fs: MagicFileSystem, directory: str
    ) -> None:
        fs.pipe_file(f"{directory}/1", b"1")
        fs.pipe_file(path=f"{directory}/2", value=b"2", mode="overwrite")
        fs.pipe_file(f"{directory}/3", data=b"3")
        fs.pipe_file(f"{directory}/4", b"4", "overwrite")
        fs.pipe_file(f"{directory}/5", value=b"")
        scene.publish()
        assert [scene.objects()[f"dataset1/{n}"] for n in range(1, 6)] == [b"1", b"2", b"3", b"4", b""]

    @pytest.mark.parametrize("directory", [BASE, "bucket/dataset1"])
    @pytest.mark.parametrize("values", [{}, {"value": b"1", "data": b"1"}])
    def test_pipe_file_takes_one_value(
        self, scene: MemoryScene, fs: MagicFileSystem, directory: str, values: dict[str, Any]
    ) -> None:
        with pytest.raises(UsageError, match="takes one value"):
            fs.pipe_file(f"{directory}/1", **values)
        assert (scene.uploads(), set(scene.objects())) == ([], {"old é"})

    @pytest.mark.parametrize("directory", [BASE, "bucket/dataset1"])
    def test_put_file_by_position_and_with_a_callback(
        self, scene: MemoryScene, fs: MagicFileSystem, directory: str, tmp_path: Path
    ) -> None:
        (tmp_path / "a").write_bytes(b"123")
        callback = Callback()
        fs.put_file(str(tmp_path / "a"), f"{directory}/a", "overwrite", callback=callback)
        fs.put_file(lpath=str(tmp_path / "a"), rpath=f"{directory}/b")
        scene.publish()
        assert (scene.objects()["dataset1/a"], scene.objects()["dataset1/b"]) == (b"123", b"123")
        assert (callback.size, callback.value) == (3, 3)

    def test_ranges_by_position(self, fs: MagicFileSystem) -> None:
        assert fs.cat_ranges(["bucket/old é"], [1], [3], None, None, "raise") == [b"12"]
        assert list(fs.walk("bucket", 1, False, "raise"))
