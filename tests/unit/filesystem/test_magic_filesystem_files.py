"""``MagicFileSystem`` around the files of this machine: absolute paths, and no bucket."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.stores.local.held import UPLOADS

MAKERS: dict[str, Any] = {
    "instance": lambda: MagicFileSystem(LocalFileSystem()),
    "file": lambda: MagicFileSystem(target_protocol="file"),
    "local": lambda: MagicFileSystem(target_protocol="local"),
    "by name": lambda: fsspec.filesystem("magic", target_protocol="file"),
    "chained name": lambda: fsspec.filesystem("magic::file"),
    "other chained name": lambda: fsspec.filesystem("magic::local"),
    "chained URL": lambda: fsspec.core.url_to_fs("magic::file:///tmp/x")[0],
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_every_way_to_make_it_writes_files_when_they_are_published(make: Any, tmp_path: Path) -> None:
    fs = make()
    path = f"{tmp_path}/sales/__magic/job/task/__base/day=1/part 0+#%2F.csv"
    with fs.open(path, "w") as file:
        file.write("x,y\n1,2\n")
    assert fs.info(path)["size"] == 8
    assert fs.info(path)["magic_pending"]
    assert fs.ls(f"{tmp_path}/sales/__magic/job", detail=False) == [f"{tmp_path}/sales/__magic/job/task"]
    with pytest.raises(UsageError, match="is pending and cannot be read"):
        fs.cat_file(path)
    final = tmp_path / "sales" / "day=1" / "part 0+#%2F.csv"
    assert not final.parent.exists()
    fs.publish(f"{tmp_path}/sales/__magic/job")
    assert final.read_text() == "x,y\n1,2\n"
    assert sorted(one.name for one in (tmp_path / "sales").iterdir()) == ["_SUCCESS", "_magicfs", "day=1"]


@pytest.mark.parametrize("spelled", ["magic::file://{}", "file://{}", "local://{}", "{}", "{}/"])
def test_every_spelling_is_one_path(tmp_path: Path, spelled: str) -> None:
    fs = MagicFileSystem(target_protocol="file")
    path = f"{tmp_path}/a b"
    fs.pipe_file(spelled.format(path).rstrip("/"), b"body")
    assert fs._strip_protocol(spelled.format(path)) == path
    assert fs._strip_protocol([spelled.format(path)]) == [path]
    assert fs._parent(spelled.format(path)) == str(tmp_path)
    assert fs.cat(spelled.format(path).rstrip("/")) == b"body"
    assert fs.unstrip_protocol(path) == f"magic::file://{path}"
    opened, (found,) = fsspec.core.url_to_fs(f"magic::file://{path}")[0], [path]
    assert opened._strip_protocol(found) == path
    assert MagicFileSystem._strip_protocol(f"magic::file://{path}") == path
    assert MagicFileSystem._strip_protocol("magic::s3://bucket/key/") == "bucket/key"


def test_root_is_its_own_parent(tmp_path: Path) -> None:
    fs = MagicFileSystem(target_protocol="file")
    assert (fs._strip_protocol("file:///"), fs._parent("/"), fs._parent("/tmp")) == ("/", "/", "/")
    assert fs.isdir("/")
    assert fs.exists(str(tmp_path))


def test_what_passes_through_is_what_the_wrapped_filesystem_does(tmp_path: Path) -> None:
    fs, plain = MagicFileSystem(target_protocol="file"), LocalFileSystem()
    root = f"{tmp_path}/lake"
    fs.makedirs(f"{root}/a/b", exist_ok=True)
    fs.pipe({f"{root}/a/1.csv": b"1", f"{root}/a/b/2.csv": b"22"})
    assert fs.find(root) == plain.find(root)
    assert fs.glob(f"{root}/**/*.csv") == plain.glob(f"{root}/**/*.csv")
    assert list(fs.walk(root)) == list(plain.walk(root))
    assert fs.ls(f"{root}/a") == plain.ls(f"{root}/a")
    assert fs.info(f"{root}/a/1.csv") == plain.info(f"{root}/a/1.csv")
    assert fs.du(root) == plain.du(root) == 3
    assert fs.cat_ranges([f"{root}/a/b/2.csv"], [1], [2]) == [b"2"]
    assert (fs.checksum(f"{root}/a/1.csv"), fs.ukey(f"{root}/a/1.csv")) != (None, None)
    assert fs.modified(f"{root}/a/1.csv") == plain.modified(f"{root}/a/1.csv")
    fs.cp(f"{root}/a/1.csv", f"{root}/a/3.csv")
    fs.mv(f"{root}/a/3.csv", f"{root}/4.csv")
    fs.get(f"{root}/4.csv", f"{tmp_path}/got")
    fs.put(f"{tmp_path}/got", f"{root}/5.csv")
    fs.touch(f"{root}/6.csv")
    with fs.open(f"{root}/5.csv", "ab") as file:
        file.write(b"more")
    assert fs.cat(f"{root}/5.csv") == b"1more"
    fs.rm(f"{root}/a", recursive=True)
    fs.rm_file(f"{root}/6.csv")
    assert sorted(path.name for path in Path(root).iterdir()) == ["4.csv", "5.csv"]
    fs.mkdir(f"{root}/empty")
    fs.rmdir(f"{root}/empty")
    assert not Path(f"{root}/empty").exists()
    with pytest.raises(FileNotFoundError):
        fs.info(f"{root}/empty")


def test_removed_file_is_published_by_nobody(tmp_path: Path) -> None:
    fs = MagicFileSystem(target_protocol="file")
    base = f"{tmp_path}/sales/__magic/job/task/__base"
    fs.pipe({f"{base}/a": b"a", f"{base}/b": b"b"})
    fs.rm(f"{base}/a")
    fs.publish(f"{tmp_path}/sales/__magic/job")
    assert (tmp_path / "sales" / "b").read_bytes() == b"b"
    assert not (tmp_path / "sales" / "a").exists()
    fs.pipe_file(f"{base}/c", b"c")
    fs.discard(f"{tmp_path}/sales/__magic/job")
    assert not (tmp_path / "sales" / "c").exists()
    assert not list(tmp_path.rglob(UPLOADS))
    assert not list(tmp_path.rglob("__magic"))


def test_path_that_is_not_absolute_is_refused_below_magic(tmp_path: Path) -> None:
    fs = MagicFileSystem(target_protocol="file")
    for path in (
        "sales/__magic/job/__base/a",
        f"{tmp_path}//x/__magic/job/__base/a",
        "/__magic/job/__base/a",
    ):
        with pytest.raises(UsageError):
            fs.pipe_file(path, b"")
    assert list(tmp_path.iterdir()) == []


def test_pickle_finds_the_same_files(tmp_path: Path) -> None:
    fs = pickle.loads(pickle.dumps(MagicFileSystem(target_protocol="file")))
    fs.pipe_file(f"{tmp_path}/x", b"x")
    assert pickle.loads(pickle.dumps(MagicFileSystem(LocalFileSystem()))).cat(f"{tmp_path}/x") == b"x"
    assert fs.from_json(fs.to_json()).cat(f"{tmp_path}/x") == b"x"


def test_files_for_coroutines_are_refused(tmp_path: Path) -> None:
    fs = MagicFileSystem(target_protocol="file")
    with pytest.raises(UsageError, match=r"filesystem\.open"):
        fsspec.asyn.sync(fs.loop, fs.open_async, f"{tmp_path}/x", "rb")
