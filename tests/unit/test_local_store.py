"""What the exams cannot ask of local files: links, pipes, modes, dying writers, errors of the system."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    StoreError,
    Unavailable,
    Unsupported,
    UsageError,
)
from magicfs.protocol.paths import parse_url
from magicfs.stores import conditions
from magicfs.stores.local import errors as local_errors
from magicfs.stores.local import places as local_places
from magicfs.stores.local.store import LocalStore
from magicfs.stores.port import RIGHTS_OF, ObjectInfo, PutMode
from magicfs.stores.tree_port import Entry, Tree
from magicfs.stores.trees import tree_of

_T = TypeVar("_T")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


@pytest.fixture
def tree(store: LocalStore) -> Tree:
    return tree_of(store)


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run(coroutine)


def listed(store: LocalStore, prefix: str = "") -> dict[str, int]:
    async def found() -> dict[str, int]:
        return {info.key: info.size async for info in store.list(prefix)}

    return run(found())


def entries(tree: Tree, path: str = "") -> list[tuple[str, str]]:
    async def found() -> list[tuple[str, str]]:
        return [(entry.path, entry.kind) async for entry in tree.entries(path)]

    return run(found())


def process(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


# -- buckets and keys ------------------------------------------------------------------------------------


def test_whole_machine_is_a_bucket_without_a_name(tmp_path: Path) -> None:
    location = parse_url(f"file://{tmp_path}/a/b")
    store = LocalStore(location.bucket)
    run(store.put(location.key, b"body"))
    assert (tmp_path / "a" / "b").read_bytes() == b"body"
    assert f"{store.bucket}/{location.key}" == location.path == f"{tmp_path}/a/b"
    assert listed(store, parse_url(f"file://{tmp_path}").key + "/") == {location.key: 4}
    assert listed(LocalStore(str(tmp_path)), "a/") == {"a/b": 4}
    assert (store.identity, LocalStore(str(tmp_path)).identity) == ("file:/", f"file:{tmp_path}/")


@pytest.mark.parametrize("bucket", ["relative", "relative/dir", "/ends/", "/", "/a//b", "/a/../b", "//a"])
def test_bucket_that_is_no_absolute_path_is_refused(bucket: str) -> None:
    with pytest.raises(UsageError, match="absolute path"):
        LocalStore(bucket)


def test_name_that_is_no_utf_8_is_listed_read_renamed_and_deleted(
    tmp_path: Path, store: LocalStore, tree: Tree
) -> None:
    (tmp_path / os.fsdecode(b"latin \xe9")).write_bytes(b"body")
    [key] = listed(store)
    assert os.fsencode(key) == b"latin \xe9"
    assert run(store.get(key)) == b"body"
    run(tree.rename(key, "utf-8 é"))
    assert (listed(store), entries(tree)) == ({"utf-8 é": 4}, [("utf-8 é", "file")])


def test_deep_tree_is_listed_and_deleted(store: LocalStore, tree: Tree) -> None:
    deep = "/".join("d" * 500)  # as deep as a key of S3 can lead
    for key in (f"{deep}/file", f"{deep[:-2]}/other"):
        run(store.put(key, b""))
    assert list(listed(store)) == [f"{deep}/file", f"{deep[:-2]}/other"]
    assert run(tree.delete_tree("d")) is True
    assert listed(store) == {}


def test_directory_that_goes_away_while_it_is_listed_is_left_out(tmp_path: Path, store: LocalStore) -> None:
    for number in range(1500):
        (tmp_path / "many").mkdir(exist_ok=True)
        (tmp_path / "many" / f"{number:04d}").touch()
    (tmp_path / "z").touch()

    async def found() -> list[str]:
        seen = []
        async for info in store.list(""):
            seen.append(info.key)
            if len(seen) == 1:
                await store.delete([f"many/{number:04d}" for number in range(1200, 1500)])
        return seen

    keys = run(found())
    assert keys == [*(f"many/{number:04d}" for number in range(1200)), "z"]


# -- files that are being written ------------------------------------------------------------------------

_KILLED = """
import os, sys
from pathlib import Path
from magicfs.stores.local import files as local_files

def die(descriptor):
    os.write(descriptor, b"half")
    os.kill(os.getpid(), 9)

local_files.write(Path(sys.argv[2]), sys.argv[1], die)
"""


@pytest.mark.process
def test_writer_that_is_killed_leaves_the_old_file_and_nothing_that_is_seen(
    tmp_path: Path, store: LocalStore, tree: Tree
) -> None:
    run(store.put("dir/file", b"old"))
    assert process(_KILLED, "dir/file", str(tmp_path)).returncode == -signal.SIGKILL
    [left] = [path for path in (tmp_path / "dir").iterdir() if path.name != "file"]
    assert (left.name.startswith(".magicfs-"), left.read_bytes()) == (True, b"half")
    assert (listed(store), entries(tree, "dir")) == ({"dir/file": 3}, [("dir/file", "file")])
    assert run(store.get("dir/file")) == b"old"
    run(store.delete(["dir/file"]))
    with pytest.raises(StoreError, match="not empty"):
        run(tree.delete("dir"))
    assert run(tree.delete_tree("dir")) is True
    assert list(tmp_path.iterdir()) == []


def test_user_files_with_similar_names_are_shown(store: LocalStore) -> None:
    names = [".magicfs-.tmp", ".magicfs-0123456789abcdef.tmp.x", ".magicfs-0123456789ABCDEF.tmp", ".hidden"]
    for name in names:
        run(store.put(name, b""))
    assert sorted(listed(store)) == sorted(names)


def test_files_have_the_mode_that_the_process_gives_its_files(tmp_path: Path, store: LocalStore) -> None:
    mask = os.umask(0o027)
    try:
        run(store.put("dir/a", b""))
        run(store.put("dir/b", b"", mode=PutMode.CREATE))
        run(store.copy("dir/a", "dir/c"))
    finally:
        os.umask(mask)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "dir").iterdir()}
    assert (modes, (tmp_path / "dir").stat().st_mode & 0o777) == ({0o640}, 0o750)


_LIMITED = """
import asyncio, resource, sys
from magicfs.errors import StoreError
from magicfs.stores.local.store import LocalStore

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
store = LocalStore(sys.argv[1])

async def refused():
    for request in (store.put("file", b"x" * 2000), store.copy("large", "file")):
        try:
            await request
        except StoreError as error:
            assert not error.retryable
            print(type(error).__name__, error.problem)

asyncio.run(refused())
"""


@pytest.mark.process
def test_filesystem_that_takes_no_more_leaves_the_old_file(tmp_path: Path, store: LocalStore) -> None:
    run(store.put("file", b"old"))
    run(store.put("large", b"y" * 2000))
    shown = process(_LIMITED, str(tmp_path))
    assert shown.stderr == ""
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["StoreError", "StoreError"]
    assert "(EFBIG)" in shown.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "large"]
    assert run(store.get("file")) == b"old"


_RACE = """
import asyncio, sys
from magicfs.errors import ObjectExists
from magicfs.stores.local.store import LocalStore
from magicfs.stores.port import PutMode

async def race():
    store, won = LocalStore(sys.argv[1]), []
    for number in range(100):
        try:
            await store.put(f"race/{number}", sys.argv[2].encode(), mode=PutMode.CREATE)
        except ObjectExists:
            continue
        won.append(number)
    print(*won)

asyncio.run(race())
"""


@pytest.mark.process
def test_race_of_processes_for_names_has_one_winner_for_each(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RACE, str(tmp_path)]
    racers = [subprocess.Popen([*command, f"{n}"], stdout=subprocess.PIPE, text=True) for n in range(3)]
    won = {str(n): racer.communicate()[0].split() for n, racer in enumerate(racers)}
    assert sorted(int(number) for numbers in won.values() for number in numbers) == list(range(100))
    for racer, numbers in won.items():
        assert {(tmp_path / "race" / number).read_text() for number in numbers} <= {racer}


def test_filesystem_without_hard_links_cannot_write_only_if_absent(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str, target: str, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(target))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(Unsupported, match="hard links"):
        run(store.put("a", b"", mode=PutMode.CREATE))
    assert list(tmp_path.iterdir()) == []
    found = run(conditions.conditions_of(store, "job"))
    assert (found.put_if_absent, found.put_if_match, found.delete) == (False, False, True)
    conditions.assume(store, None)


def test_link_that_a_network_filesystem_repeated_has_succeeded(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.link

    def repeated(file: str, target: str, **how: Any) -> None:
        plain(file, target, **how)
        plain(file, target, **how)

    monkeypatch.setattr(os, "link", repeated)
    run(store.put("a", b"ours", mode=PutMode.CREATE))
    with pytest.raises(ObjectExists):
        run(store.put("a", b"ours", mode=PutMode.CREATE))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"ours")]


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ENOSYS, errno.EINVAL])
def test_copy_where_the_system_cannot_copy_by_itself(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    body = bytes(range(256)) * 10_000
    plain = os.copy_file_range

    def half(source: int, destination: int, *_: Any) -> int:
        if plain(source, destination, 1000, 0, 0):
            raise OSError(code, os.strerror(code))
        return 0

    run(store.put("a", body))
    monkeypatch.setattr(os, "copy_file_range", half)
    assert run(store.copy("a", "b")) == len(body)
    assert run(store.get("b")) == body


# -- ETags -----------------------------------------------------------------------------------------------


def test_every_write_has_an_etag_of_its_own_and_a_rename_keeps_it(store: LocalStore, tree: Tree) -> None:
    async def written() -> list[str]:
        etags = []
        for number in range(200):
            told = await store.put("file", b"%03d" % number)
            assert told == await store.head("file")
            etags.append(told.etag)
        return etags

    etags = run(written())
    assert len(set(etags)) == len(etags)
    run(tree.rename("file", "other"))
    assert run(store.head("other")).etag == etags[-1]
    assert run(tree.look("other")) == Entry("other", "file", 3, etags[-1])
    run(store.copy("other", "file"))
    assert run(store.head("file")).etag != etags[-1]


# -- links, pipes, and what only the machine has ---------------------------------------------------------


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """Beside the bucket a file and a directory, and in it links to both and to nothing."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(b"outside")
    bucket = tmp_path / "bucket"
    (bucket / "dir").mkdir(parents=True)
    (bucket / "dir/to file").symlink_to(tmp_path / "outside/file")
    (bucket / "dir/to directory").symlink_to(tmp_path / "outside")
    (bucket / "dir/to nothing").symlink_to(tmp_path / "nothing")
    return bucket


LINKS = ["dir/to directory", "dir/to file", "dir/to nothing"]


def test_links_are_shown_as_files_and_never_entered(linked: Path, tmp_path: Path) -> None:
    store = LocalStore(str(linked))
    sizes = listed(store)
    assert (list(sizes), sizes["dir/to file"]) == (LINKS, len(b"outside"))
    assert entries(store.tree(), "dir") == [(path, "file") for path in LINKS]
    for key in LINKS:
        assert run(store.head(key)).size == sizes[key]
    assert run(store.get("dir/to file")) == b"outside"
    for key in ("dir/to directory", "dir/to nothing"):
        with pytest.raises(ObjectNotFound):
            run(store.get(key))
        with pytest.raises(ObjectExists):
            run(store.put(key, b"", mode=PutMode.CREATE))
    assert entries(store.tree(), "dir/to directory") == [("dir/to directory/file", "file")]
    assert run(store.get("dir/to directory/file")) == b"outside"
    assert run(store.tree().look("dir/to directory")) == Entry("dir/to directory", "directory")
    assert (tmp_path / "outside/file").read_bytes() == b"outside"


@pytest.mark.parametrize("how", ["delete", "delete_matching", "tree", "each of the tree", "put", "copy"])
def test_links_are_deleted_and_replaced_and_what_they_lead_to_stays(
    linked: Path, tmp_path: Path, how: str
) -> None:
    store = LocalStore(str(linked))
    if how == "delete":
        run(store.delete(LINKS))
    elif how == "delete_matching":
        assert run(store.delete_all_matching([(key, run(store.head(key)).etag) for key in LINKS])) == []
    elif how == "tree":
        assert run(store.tree().delete_tree("dir")) is True
    elif how == "each of the tree":
        assert [run(store.tree().delete_tree(key)) for key in LINKS[:2]] == [True, True]
        assert run(store.tree().delete(LINKS[2])) is True
    else:
        run(store.put("source", b"new"))
        for key in LINKS:
            run(store.put(key, b"new") if how == "put" else store.copy("source", key))
        assert {(linked / key).is_symlink() for key in LINKS} == {False}
        run(store.delete(["source", *LINKS]))
    assert listed(store) == {}
    assert [path.read_bytes() for path in (tmp_path / "outside").iterdir()] == [b"outside"]


def test_links_are_renamed_as_links(linked: Path, tmp_path: Path) -> None:
    tree = LocalStore(str(linked)).tree()
    run(tree.rename("dir", "renamed"))
    run(tree.rename("renamed/to directory", "link"))
    assert (linked / "link").readlink() == tmp_path / "outside"
    assert entries(tree) == [("link", "file"), ("renamed", "directory")]


def test_link_in_the_place_of_a_directory(linked: Path) -> None:
    tree = LocalStore(str(linked)).tree()
    run(tree.make_directory("dir/to directory"))
    run(tree.write("dir/to directory/new", b""))
    for path in ("dir/to file", "dir/to nothing"):
        for request in (tree.make_directory(f"{path}/below"), tree.write(f"{path}/below", b"")):
            with pytest.raises(ObjectExists):
                run(request)


def test_named_pipe_is_deleted_and_never_waited_for(tmp_path: Path, store: LocalStore) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert listed(store) == {"pipe": 0}
    for request in (store.get("pipe"), store.copy("pipe", "b"), store.tree().read("pipe")):
        with pytest.raises(ObjectNotFound):
            run(request)
    run(store.delete(["pipe"]))
    assert listed(store) == {}


# -- errors of the system --------------------------------------------------------------------------------


def test_directory_where_nobody_may_write_is_permission_denied() -> None:
    # Not even the administrator may make files there.
    store = LocalStore("/sys")
    for request in (store.put("file", b""), store.tree().write("dir/file", b"", if_absent=True)):
        with pytest.raises(PermissionDenied, match="/sys/"):
            run(request)


def test_rename_to_another_filesystem_copies_a_file_and_refuses_a_directory(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "file").write_bytes(b"body")
    tree = LocalStore("").tree()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:  # a filesystem of its own, on any Linux
        with pytest.raises(Unsupported, match="one filesystem"):
            run(tree.rename(f"{tmp_path}/directory"[1:], f"{other}/directory"[1:]))
        assert (tmp_path / "directory" / "file").read_bytes() == b"body"
        for there in ("taken", "nowhere/file"):
            Path(other, "taken").mkdir(exist_ok=True)
            Path(other, "taken", "old").write_bytes(b"old")
            with pytest.raises((ObjectExists, ObjectNotFound)):
                run(tree.rename(f"{tmp_path}/directory/file"[1:], f"{other}/{there}"[1:]))
            assert (tmp_path / "directory" / "file").read_bytes() == b"body"
        run(tree.rename(f"{tmp_path}/directory/file"[1:], f"{other}/file"[1:]))
        assert Path(other, "file").read_bytes() == b"body"
        assert sorted(one.name for one in Path(other).iterdir()) == ["file", "taken"]
    assert list((tmp_path / "directory").iterdir()) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOENT, ObjectNotFound),
        (errno.EEXIST, ObjectExists),
        (errno.EACCES, PermissionDenied),
        (errno.EPERM, PermissionDenied),
        (errno.EROFS, PermissionDenied),
        (errno.ENOSPC, StoreError),
        (errno.EDQUOT, StoreError),
        (errno.ENAMETOOLONG, StoreError),
        (errno.EINVAL, StoreError),
        (errno.ELOOP, StoreError),
        (errno.EISDIR, StoreError),
        (errno.EXDEV, Unsupported),
        (errno.EOPNOTSUPP, Unsupported),
        (errno.EIO, Unavailable),
        (errno.ESTALE, Unavailable),
        (errno.EINTR, Unavailable),
        (errno.ETIMEDOUT, Unavailable),
        (errno.EMFILE, Unavailable),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else value.__name__,
)
def test_errors_of_the_system_have_their_meaning(code: int, kind: type[StoreError]) -> None:
    cause = OSError(code, os.strerror(code), "/name")
    with pytest.raises(StoreError) as caught, local_errors.translated("put", "/dir/name"):
        raise cause
    error = caught.value
    assert (type(error), error.retryable, error.__cause__) == (kind, kind is Unavailable, cause)
    assert str(error).startswith(f"put of /dir/name: {os.strerror(code)} ({errno.errorcode[code]}); ")


def test_error_without_a_number_and_errors_of_the_port_keep_their_words() -> None:
    with pytest.raises(StoreError, match="odd"), local_errors.translated("put", "/dir/name"):
        raise OSError("odd")
    own = PermissionDenied("put", "/dir/name", "no")
    with pytest.raises(PermissionDenied) as caught, local_errors.translated("get", "/elsewhere"):
        raise own
    assert caught.value is own


def test_limit_of_a_read_takes_no_memory(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "small").write_bytes(b"content")
    key = "small"
    tracemalloc.start()
    try:
        assert run(store.get(key, size_max=1 << 28)) == b"content"
        assert run(store.tree().read(key, size_max=1 << 28)) == b"content"
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()
    assert run(store.get(key, size_max=3)) == b"con"


# -- names of ours -------------------------------------------------------------------------------------------

_OURS = [
    "d/__magic_job-1/job-1/job.json",
    "d/_magicfs/current.json",
    "d/_temporary/1/00/manifests/a.json",
    "_magicfs/.tags/gold.json",
]


def lay(path: Path, kind: str, victim: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


@pytest.mark.parametrize("key", _OURS)
@pytest.mark.parametrize("kind", ["link", "loop", "pipe", "directory"])
def test_record_that_is_no_file_is_refused_at_once(
    store: LocalStore, tmp_path: Path, key: str, kind: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"secret")
    lay(tmp_path / key, kind, victim)
    for request in (store.get(key), store.head(key), store.copy(key, "copy")):
        with pytest.raises(StoreError, match=r"magicfs did not create.* find out which program") as caught:
            run(request)
        assert not isinstance(caught.value, FileNotFoundError)
    run(store.delete([key]))
    assert victim.read_bytes() == b"secret"


@pytest.mark.parametrize("key", _OURS)
@pytest.mark.parametrize("at_once", [True, False])
def test_link_in_the_place_of_a_directory_of_ours_leads_nowhere(
    store: LocalStore, tree: Tree, tmp_path: Path, key: str, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not at_once:
        monkeypatch.setattr(local_places, "_openat2", lambda: None)
    run(store.put(key, b"ours"))
    first = tmp_path / key.split("/_", maxsplit=1)[0] if key.startswith("d/") else tmp_path
    top = next(one for one in first.iterdir() if one.name.startswith("_"))
    top.rename(tmp_path / "elsewhere")
    top.symlink_to(tmp_path / "elsewhere")
    before = bodies(tmp_path / "elsewhere")

    async def listed() -> list[ObjectInfo]:
        return [one async for one in store.list(f"{key.rpartition('/')[0]}/")]

    requests = [
        *(store.get(key), store.head(key), store.put(key, b"new"), store.delete([key]), listed()),
        *(store.create_upload(f"{key}.up", metadata={}), store.copy(key, "copy")),
        *(tree.look(key), tree.rename(key, f"{key}.moved"), tree.delete_tree(key)),
        *(tree.make_directory(f"{key}.d"), tree.write(key, b"new"), tree.read(key)),
    ]
    for request in requests:
        with pytest.raises(StoreError, match="there is a symbolic link"):
            run(request)
    [(_, met)] = run(tree.rename_all([(key, "d/taken")], 1)).items()
    assert isinstance(met, StoreError)
    assert {
        path: path.read_bytes() for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()
    } == before
    assert [info.key for info in run(objects(store, "")) if info.key.startswith("elsewhere")]


def bodies(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def objects(store: LocalStore, prefix: str) -> list[ObjectInfo]:
    return [one async for one in store.list(prefix)]


@pytest.mark.parametrize("kind", ["link", "loop", "pipe"])
def test_success_that_is_no_file_counts_as_none_and_is_replaced(
    store: LocalStore, tmp_path: Path, kind: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"secret")
    lay(tmp_path / "d" / "_SUCCESS", kind, victim)
    for request in (store.get("d/_SUCCESS"), store.head("d/_SUCCESS")):
        with pytest.raises(ObjectNotFound):
            run(request)
    run(store.put("d/_SUCCESS", b"{}", mode=PutMode.CREATE))
    assert run(store.get("d/_SUCCESS")) == b"{}"
    assert victim.read_bytes() == b"secret"
    with pytest.raises(ObjectExists):
        run(store.put("d/_SUCCESS", b"", mode=PutMode.CREATE))


def test_data_behind_links_is_read_and_written(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "file").write_bytes(b"data")
    (tmp_path / "real" / "alias").symlink_to(tmp_path / "real" / "file")
    assert run(store.get("link/file")) == run(store.get("link/alias")) == b"data"
    run(store.put("link/_magicfs/current.json", b"{}"))
    assert (tmp_path / "real" / "_magicfs" / "current.json").read_bytes() == b"{}"
    assert run(store.get("link/_magicfs/current.json")) == b"{}"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_put_may_keep_the_rights_of_another_object(store: LocalStore, tmp_path: Path, mode: int) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(mode)
    run(store.put("b", b"new", metadata={RIGHTS_OF: "a"}))
    run(store.copy("a", "c"))
    for name in ("b", "c"):
        assert (tmp_path / name).stat().st_mode & 0o777 == mode
