"""Every public method of fsspec on ordinary paths: the same through ``MagicFileSystem`` as without it.

Each call is made twice, by the plain filesystem in one bucket and by the wrapped one in another that holds
the same. What it returns or raises is compared, and what the store holds afterwards.
"""

from __future__ import annotations

import bz2
import datetime as dt
import inspect
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem, sync
from fsspec.implementations.local import LocalFileSystem

from magicfs.filesystem import MagicFileSystem

Call = Callable[[Any, str], Any]

FILES = {
    "a.txt": b"0123456789",
    "d/b.csv": b"x,y\n1,2\n",
    "d/e/c é 1.txt": b"deep",
    "d/e/page.html": b"<p>",
    "other/a.txt": b"old",
}
LAYERS = ("plain", "magic")
CHANGES_FROM_CALL_TO_CALL = re.compile(
    r"(?i)e_?tag|.*modified.*|created|creation_?time|mtime|ino|.*generation|(media|self)link|id|.*updated|time.*|date"
    r"|.*request.*|x-amz.*|.*version.*|.*lease.*|destination"
)

# -- the places ----------------------------------------------------------------------------------------------


@dataclass
class Place:
    """A filesystem, plain and wrapped, and what holds its files."""

    name: str
    plain: Any
    magic: Any
    roots: Mapping[str, str]  # bucket or directory of each layer
    write: Callable[[str, str, bytes], Any]
    held: Callable[[str, str], Any]
    number: int = 0  # of calls that change something; each has files of its own

    def __post_init__(self) -> None:
        for root in self.roots.values():
            self._fill(root, "000")

    def looks(self, call: Call) -> list[Any]:
        """What a call returns or raises, without and with magicfs around."""
        return [self._seen(layer, call, "000") for layer in LAYERS]

    def changes(self, call: Call) -> list[Any]:
        """The same, and what it does to the same files."""
        self.number += 1
        name, seen = f"{self.number:03}", []
        for layer, root in self.roots.items():
            self._fill(root, name)
            seen.append((*self._seen(layer, call, name), self.held(root, name)))
        return seen

    def _fill(self, root: str, name: str) -> None:
        for file, body in FILES.items():
            self.write(root, f"{name}/{file}", body)

    def _seen(self, layer: str, call: Call, name: str) -> tuple[Any, ...]:
        root, fs = self.roots[layer], getattr(self, layer)
        fs.invalidate_cache()
        shown = partial(_shown, names={root: "<root>", type(self.plain).__name__: "<filesystem>"})
        try:
            return "returned", shown(call(fs, f"{root}/{name}"))
        except Exception as error:  # noqa: BLE001 - compared
            return "raised", type(error).__name__, getattr(error, "errno", None), shown(str(error))


def _shown(found: Any, names: Mapping[str, str]) -> Any:
    """A result without what differs between two buckets and two moments."""
    again = partial(_shown, names=names)
    if isinstance(found, str):
        for name, word in (*names.items(), ("MagicFileSystem", "<filesystem>")):
            found = found.replace(name, word)
        return re.sub(r"0x[0-9a-f]+|[0-9a-fA-F-]{32,}|:\d{4,5}\b|(\d{4})?-\d\d-\d\dT\S*|\d{13,}", "…", found)
    if isinstance(found, Mapping):
        return {
            again(name): "…" if CHANGES_FROM_CALL_TO_CALL.fullmatch(str(name)) else again(value)
            for name, value in found.items()
        }
    if isinstance(found, list | tuple):
        return [again(one) for one in found]
    if isinstance(found, set):
        return sorted(again(one) for one in found)
    if isinstance(found, dt.datetime):
        return "a time"
    if found is None or isinstance(found, bool | int | float | bytes):
        return found
    if isinstance(found, Exception):
        return type(found).__name__, again(str(found))
    return again(vars(found)) if hasattr(found, "__dict__") else str(found)


def _on_server(server: Any, make: Callable[..., Any]) -> Iterator[Place]:
    roots = {layer: server.create_bucket(f"{layer}-{uuid4().hex[:12]}") for layer in LAYERS}

    def held(bucket: str, prefix: str) -> Any:
        return {key.removeprefix(prefix): server.read(bucket, key) for key in server.all_keys(bucket, prefix)}

    options = server.storage_options()
    plain, wrapped = (make(**options, skip_instance_cache=True) for _ in LAYERS)
    yield Place(make.__name__, plain, MagicFileSystem(wrapped), roots, server.write, held)
    for bucket in roots.values():
        server.remove_bucket(bucket)


def _on_files(directory: Path, make: Callable[..., Any]) -> Place:
    roots = {layer: str(directory / layer) for layer in LAYERS}

    def write(root: str, name: str, body: bytes) -> None:
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        if name.endswith("a.txt"):
            path.chmod(0o600)
            os.utime(path, (10**9, 10**9))

    def held(root: str, prefix: str) -> Any:
        found = {}
        for path in sorted(Path(root, prefix).rglob("*")):
            state = path.lstat()
            is_file = stat.S_ISREG(state.st_mode)
            times = int(state.st_mtime) if state.st_mtime == 10**9 else "now"
            found[path.relative_to(Path(root, prefix)).as_posix()] = (
                *(stat.filemode(state.st_mode), times if is_file else None),
                path.read_bytes() if is_file else None,
            )
        return found

    return Place("local", make(), MagicFileSystem(make()), roots, write, held)


PLACES = [
    *("s3", "gcs", "local", "local, making directories"),
    pytest.param("azure", marks=pytest.mark.nightly),  # Azurite
]


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    kind = request.param
    if kind.startswith("local"):
        make = partial(LocalFileSystem, auto_mkdir=kind != "local", skip_instance_cache=True)
        yield _on_files(tmp_path_factory.mktemp("files"), make)
        return
    server = request.getfixturevalue({"s3": "ministack", "gcs": "gcs", "azure": "azurite"}[kind])
    if kind == "s3":
        from s3fs import S3FileSystem as Found
    elif kind == "gcs":
        from gcsfs.core import GCSFileSystem as Found
    else:
        from adlfs import AzureBlobFileSystem as Found
    yield from _on_server(server, Found)


# -- the calls -----------------------------------------------------------------------------------------------


def _open(fs: Any, path: str, mode: str, *what: Any, **how: Any) -> Any:
    with fs.open(path, mode, **how) as file:
        return file.write(what[0]) if what else file.read()


def _local(fs: Any, work: Callable[[Path], Any]) -> Any:
    """Work with a directory of this machine, and show what lies there."""
    import tempfile

    with tempfile.TemporaryDirectory() as found:
        directory = Path(found)
        (directory / "up" / "deep").mkdir(parents=True)
        (directory / "up" / "1.html").write_bytes(b"one")
        (directory / "up" / "deep" / "2").write_bytes(b"two")
        try:
            returned = str(work(directory)).replace(found, "")
        except Exception as error:  # noqa: BLE001 - compared
            returned = f"{type(error).__name__} {error}".replace(found, "")
        files = sorted(one for one in directory.rglob("*") if one.is_file())
        return returned, {str(one.relative_to(directory)): one.read_bytes() for one in files}


def _coroutine(name: str, *paths: str, **how: Any) -> Call:
    """A coroutine of asynchronous filesystems, or the method of others."""

    def call(fs: Any, base: str) -> Any:
        given = [f"{base}/{one}" for one in paths]
        if isinstance(fs, AsyncFileSystem) and hasattr(fs, name):
            return sync(fs.loop, getattr(fs, name), *given, **how)
        return getattr(fs, {"_mv_file": "mv"}.get(name, name.removeprefix("_")))(*given, **how)

    return call


def _with(name: str, *paths: Any, **how: Any) -> Call:
    return lambda fs, base: getattr(fs, name)(*(f"{base}/{one}" for one in paths), **how)


def _in_lists(name: str, *lists: list[str], **how: Any) -> Call:
    return lambda fs, base: getattr(fs, name)(*([f"{base}/{one}" for one in each] for each in lists), **how)


def _walked(path: str, **how: Any) -> Call:
    return lambda fs, base: [(at, sorted(d), sorted(f)) for at, d, f in fs.walk(f"{base}/{path}", **how)]


LOOKS: dict[str, Call] = {
    "blocksize": lambda fs, _: fs.blocksize,
    "root_marker": lambda fs, _: fs.root_marker,
    "sep": lambda fs, _: fs.sep,
    # looking
    "info": _with("info", "a.txt"),
    "info: directory": _with("info", "d"),
    "info: missing": _with("info", "no"),
    "info: slash at the end": _with("info", "d/"),
    "info: slash before the bucket": lambda fs, base: fs.info("/" + base),
    "stat": _with("stat", "a.txt"),
    "exists": _with("exists", "a.txt"),
    "exists: missing": _with("exists", "no"),
    "exists: slash at the end": _with("exists", "a.txt/"),
    "lexists": _with("lexists", "a.txt"),
    "isdir": _with("isdir", "d"),
    "isfile": _with("isfile", "d"),
    "size": _with("size", "a.txt"),
    "size: missing": _with("size", "no"),
    "sizes": _in_lists("sizes", ["a.txt", "d/b.csv"]),
    "ls": _with("ls", ""),
    "ls: details": _with("ls", "d", detail=True),
    "ls: file": _with("ls", "a.txt", detail=False),
    "ls: missing": _with("ls", "no"),
    "ls: refresh": _with("ls", "d", refresh=True),
    "listdir": _with("listdir", "d"),
    "walk": _walked(""),
    "walk: depth": _walked("", maxdepth=1),
    "walk: bottom up": _walked("d", topdown=False),
    "walk: details": lambda fs, base: list(fs.walk(f"{base}/d", detail=True)),
    "walk: missing": _walked("no"),
    "walk: missing, raise": _walked("no", on_error="raise"),
    "find": _with("find", ""),
    "find: depth": _with("find", "", maxdepth=2),
    "find: directories": _with("find", "", withdirs=True),
    "find: details": _with("find", "d", detail=True),
    "find: file": _with("find", "a.txt"),
    "find: prefix": _with("find", "d", prefix="b"),
    "find: missing": _with("find", "no"),
    "glob": _with("glob", "d/*"),
    "glob: directories alone": _with("glob", "*/"),
    "glob: deep": _with("glob", "**/*.txt"),
    "glob: depth": _with("glob", "**", maxdepth=1),
    "glob: details": _with("glob", "d/*.csv", detail=True),
    "glob: nothing": _with("glob", "no*"),
    "du": _with("du", ""),
    "du: each": _with("du", "d", total=False),
    "du: depth": _with("du", "", maxdepth=1),
    "disk_usage": _with("disk_usage", "d"),
    "tree": _with("tree", ""),
    "expand_path": _with("expand_path", "*.txt"),
    "expand_path: recursive": _with("expand_path", "d", recursive=True),
    "expand_path: depth": _with("expand_path", "", recursive=True, maxdepth=1),
    "expand_path: several": _in_lists("expand_path", ["a.txt", "d/*"]),
    "expand_path: missing": _with("expand_path", "no*"),
    "created": _with("created", "a.txt"),
    "modified": _with("modified", "a.txt"),
    "modified: missing": _with("modified", "no"),
    "checksum": lambda fs, base: fs.checksum(f"{base}/a.txt") == fs.checksum(f"{base}/a.txt"),
    "checksum: missing": _with("checksum", "no"),
    "ukey": lambda fs, base: len(fs.ukey(f"{base}/a.txt")),
    "ukey: missing": _with("ukey", "no"),
    "sign": lambda fs, base: bool(fs.sign(f"{base}/a.txt")),
    "getxattr": lambda fs, base: fs.getxattr(f"{base}/a.txt", "none"),
    "split_path": lambda fs, base: fs.split_path(f"{base}/a.txt"),
    "islink": _with("islink", "a.txt"),
    "invalidate_cache": _with("invalidate_cache", "d"),
    "fsid": lambda fs, _: fs.fsid,
    # reading
    "cat": _with("cat", "a.txt"),
    "cat: recursive": _with("cat", "d", recursive=True),
    "cat: pattern": _with("cat", "d/*"),
    "cat: several": _in_lists("cat", ["a.txt", "d/b.csv"]),
    "cat: missing": _with("cat", "no"),
    "cat: missing, omit": _in_lists("cat", ["a.txt", "no"], on_error="omit"),
    "cat: missing, return": _in_lists("cat", ["a.txt", "no"], on_error="return"),
    "cat_file": _with("cat_file", "a.txt", start=2, end=5),
    "cat_file: from the end": _with("cat_file", "a.txt", start=-3),
    "cat_file: directory": _with("cat_file", "d"),
    "cat_ranges": lambda fs, base: fs.cat_ranges([f"{base}/a.txt"] * 2, [0, 3], [2, 5]),
    "cat_ranges: missing": lambda fs, base: fs.cat_ranges([f"{base}/no"], [0], [2]),
    "cat_ranges: missing, raise": lambda fs, base: fs.cat_ranges([f"{base}/no"], [0], [2], on_error="raise"),
    "head": _with("head", "a.txt", size=3),
    "tail": _with("tail", "a.txt", size=3),
    "read_block": lambda fs, base: fs.read_block(f"{base}/d/b.csv", 1, 4, b"\n"),
    "read_bytes": _with("read_bytes", "a.txt"),
    "read_text": _with("read_text", "d/b.csv"),
    "open": lambda fs, base: _open(fs, f"{base}/a.txt", "rb"),
    "open: text": lambda fs, base: _open(fs, f"{base}/d/b.csv", "r", newline="\n"),
    "open: missing": lambda fs, base: _open(fs, f"{base}/no", "rb"),
    "get": lambda fs, base: _local(fs, lambda to: fs.get(f"{base}/a.txt", f"{to}/got")),
    "get: recursive": lambda fs, base: _local(
        fs, lambda to: fs.get(f"{base}/d", f"{to}/got", recursive=True)
    ),
    "get: into a directory": lambda fs, base: _local(fs, lambda to: fs.get(f"{base}/d/", f"{to}/up/")),
    "get: pattern": lambda fs, base: _local(fs, lambda to: fs.get(f"{base}/*.txt", f"{to}/got/")),
    "get: missing": lambda fs, base: _local(fs, lambda to: fs.get(f"{base}/no", f"{to}/got")),
    "get_file": lambda fs, base: _local(fs, lambda to: fs.get_file(f"{base}/a.txt", f"{to}/got")),
    "get_file: directory": lambda fs, base: _local(fs, lambda to: fs.get_file(f"{base}/d", f"{to}/got")),
    "download": lambda fs, base: _local(fs, lambda to: fs.download(f"{base}/a.txt", f"{to}/got")),
    "get_mapper": lambda fs, base: dict(fs.get_mapper(f"{base}/d")),
    "url": lambda fs, base: bool(fs.url(f"{base}/a.txt")),
}

CHANGES: dict[str, Call] = {
    "open: written": lambda fs, base: _open(fs, f"{base}/d/new.html", "wb", b"1"),
    "open: written as text": lambda fs, base: _open(fs, f"{base}/new", "w", "é"),
    "open: compressed": lambda fs, base: (
        fs.pipe_file(f"{base}/new.bz2", bz2.compress(b"1" * 99)),
        _open(fs, f"{base}/new.bz2", "rb", compression="infer"),
    )[1],
    "open: exclusive": lambda fs, base: _open(fs, f"{base}/a.txt", "xb", b"1"),
    "open: appended": lambda fs, base: _open(fs, f"{base}/a.txt", "ab", b"1"),
    "open: slash at the end": lambda fs, base: _open(fs, f"{base}/new/", "wb", b"1"),
    "open: new directory": lambda fs, base: _open(fs, f"{base}/n/m/o", "wb", b"1"),
    # writing
    "pipe": lambda fs, base: fs.pipe(f"{base}/new", b"1"),
    "pipe: several": lambda fs, base: fs.pipe({f"{base}/1": b"1", f"{base}/a.txt": b"2"}),
    "pipe_file": lambda fs, base: fs.pipe_file(f"{base}/new", b"1"),
    "pipe_file: create": lambda fs, base: fs.pipe_file(f"{base}/a.txt", b"1", mode="create"),
    "pipe_file: slash at the end": lambda fs, base: fs.pipe_file(f"{base}/new/", b"1"),
    "write_bytes": lambda fs, base: fs.write_bytes(f"{base}/new", b"1"),
    "write_text": lambda fs, base: fs.write_text(f"{base}/new", "é"),
    "touch": _with("touch", "new"),
    "touch: there": _with("touch", "a.txt"),
    "touch: kept": _with("touch", "a.txt", truncate=False),
    "touch: slash at the end": _with("touch", "new/"),
    "touch: new directory": _with("touch", "n/new"),
    "put": lambda fs, base: _local(fs, lambda of: fs.put(f"{of}/up/1.html", f"{base}/new.html")),
    "put: recursive": lambda fs, base: _local(fs, lambda of: fs.put(f"{of}/up", f"{base}/n", recursive=True)),
    "put: into a directory": lambda fs, base: _local(fs, lambda of: fs.put(f"{of}/up/1.html", f"{base}/d/")),
    "put: missing": lambda fs, base: _local(fs, lambda of: fs.put(f"{of}/no", f"{base}/d/")),
    "put_file": lambda fs, base: _local(fs, lambda of: fs.put_file(f"{of}/up/1.html", f"{base}/n.html")),
    "put_file: directory": lambda fs, base: _local(fs, lambda of: fs.put_file(f"{of}/up", f"{base}/n")),
    "put_file: create": lambda fs, base: _local(
        fs, lambda of: fs.put_file(f"{of}/up/1.html", f"{base}/a.txt", mode="create")
    ),
    "upload": lambda fs, base: _local(fs, lambda of: fs.upload(f"{of}/up/1.html", f"{base}/d/new.html")),
    # copying and moving
    "cp": _with("cp", "a.txt", "new"),
    "cp: missing": _with("cp", "no", "new"),
    "cp: directory": _with("cp", "d", "new"),
    "cp: recursive": _with("cp", "d", "new", recursive=True),
    "cp: recursive, into": _with("cp", "d", "other", recursive=True),
    "cp: recursive, slash": _with("cp", "d/", "other/", recursive=True),
    "cp: depth": _with("cp", "d", "new", recursive=True, maxdepth=1),
    "cp: pattern": _with("cp", "d/*", "new/"),
    "cp: lists": _in_lists("cp", ["a.txt", "d/b.csv"], ["1", "2"]),
    "cp: missing, ignore": _in_lists("cp", ["a.txt", "no"], ["1", "2"], on_error="ignore"),
    "copy": _with("copy", "a.txt", "other/"),
    "cp_file": _with("cp_file", "a.txt", "new"),
    "cp_file: directory": _with("cp_file", "d", "new"),
    "mv": _with("mv", "a.txt", "new"),
    "mv: missing": _with("mv", "no", "new"),
    "mv: over another": _with("mv", "a.txt", "other/a.txt"),
    "mv: into a directory": _with("mv", "a.txt", "d/"),
    "mv: directory": _with("mv", "d", "new"),
    "mv: recursive": _with("mv", "d", "new", recursive=True),
    "mv: recursive, into": _with("mv", "d", "other", recursive=True),
    "mv: itself": _with("mv", "a.txt", "a.txt"),
    "mv: pattern": _with("mv", "d/*", "new/"),
    "mv: lists": _in_lists("mv", ["a.txt"], ["1"]),
    "move": _with("move", "a.txt", "new"),
    "rename": _with("rename", "a.txt", "new"),
    "_mv_file": _coroutine("_mv_file", "a.txt", "new"),
    # directories
    "mkdir": _with("mkdir", "n/m"),
    "mkdir: there": _with("mkdir", "d"),
    "mkdir: alone": _with("mkdir", "n/m", create_parents=False),
    "mkdir: bucket": lambda fs, base: (fs.mkdir(f"{base}-bucket"), fs.isdir(f"{base}-bucket")),
    "makedir": _with("makedir", "n"),
    "makedirs": _with("makedirs", "n/m"),
    "makedirs: there": _with("makedirs", "d"),
    "makedirs: may be there": _with("makedirs", "d", exist_ok=True),
    "mkdirs": _with("mkdirs", "n/m", exist_ok=True),
    "rmdir": _with("rmdir", "d"),
    "rmdir: missing": _with("rmdir", "no"),
    "rmdir: recursive": _with("rmdir", "d", recursive=True),
    # removing
    "rm": _with("rm", "a.txt"),
    "rm: missing": _with("rm", "no"),
    "rm: directory": _with("rm", "d"),
    "rm: recursive": _with("rm", "d", recursive=True),
    "rm: depth": _with("rm", "d", recursive=True, maxdepth=1),
    "rm: pattern": _with("rm", "d/*.csv"),
    "rm: several": _in_lists("rm", ["a.txt", "d/b.csv"]),
    "rm_file": _with("rm_file", "a.txt"),
    "rm_file: missing": _with("rm_file", "no"),
    "delete": _with("delete", "d", recursive=True),
    # beyond fsspec
    "chmod": lambda fs, base: fs.chmod(f"{base}/no", 0o600),
    "setxattrs": lambda fs, base: fs.setxattrs(f"{base}/a.txt"),
    "get_mapper: written": lambda fs, base: fs.get_mapper(f"{base}/d").update({"k": b"1"}),
}

NO_CALL: dict[str, str] = {
    **dict.fromkeys(("clear_instance_cache", "current", "cachable"), "about instances"),
    **dict.fromkeys(("to_dict", "to_json", "from_dict", "from_json"), "of one class, without its secrets"),
    **dict.fromkeys(
        ("transaction", "transaction_type", "start_transaction", "end_transaction"), "transactions of magicfs"
    ),
    **dict.fromkeys(("async_impl", "mirror_sync_methods"), "magicfs has coroutines around every filesystem"),
    **dict.fromkeys(("protocol", "unstrip_protocol"), "URLs that lead to the wrapped filesystem alone"),
}
"""Names of fsspec's that are about no ordinary path, and what they are about."""

DIFFERENT: dict[tuple[str, str], str] = {
    ("local", "fsid"): "files below magic paths are not where the plain filesystem looks for them"
}
"""Calls that do something else through magicfs, by filesystem, and why."""


def test_every_public_name_of_fsspec_is_called_or_is_about_no_path() -> None:
    public = {name for name, _ in inspect.getmembers(AbstractFileSystem) if not name.startswith("_")}
    called = {name.partition(":")[0] for name in LOOKS | CHANGES}
    assert public - called == set(NO_CALL)


@pytest.mark.sample
@pytest.mark.parametrize("name", [*LOOKS, *CHANGES])
def test_a_call_is_the_wrapped_filesystems(place: Place, name: str) -> None:
    plain, magic = place.looks(LOOKS[name]) if name in LOOKS else place.changes(CHANGES[name])
    if (place.name, name) in DIFFERENT:
        assert magic != plain, "the difference is gone"
    else:
        assert magic == plain
