"""Uploads of local files: where they lie, what a completion costs, and what a death leaves."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magicfs.errors import ObjectExists, PermissionDenied, StoreError, Unsupported, UploadNotFound
from magicfs.protocol.readback import etag_of_upload, write_id_shown
from magicfs.stores.local import parts as local_parts
from magicfs.stores.local import places as local_places
from magicfs.stores.local import uploads as local_uploads
from magicfs.stores.local.held import UPLOADS
from magicfs.stores.local.store import LocalStore
from magicfs.stores.port import Part
from tests.sample import examples

KEY = "sales/day=1/part 0.parquet"
_OPERATIONS = ("open", "mkdir", "link", "replace", "rename", "unlink", "rmdir", "utime", "fsync", "ftruncate")


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    (tmp_path / "bucket").mkdir()
    return LocalStore(str(tmp_path / "bucket"))


def root(store: LocalStore) -> Path:
    return Path(store.bucket)


async def upload(store: LocalStore, key: str, *bodies: bytes) -> tuple[str, list[Part]]:
    upload_id = await store.create_upload(key, metadata={})
    return upload_id, [
        await store.put_part(key, upload_id, n, body) for n, body in enumerate(bodies, start=1)
    ]


async def pending(store: LocalStore, prefix: str = "") -> list[tuple[str, str]]:
    return [(info.key, info.upload_id) async for info in store.list_uploads(prefix)]


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def hidden(store: LocalStore, *others: Path) -> list[Path]:
    return [path for one in (root(store), *others) for path in one.rglob(".magicfs-*")]


@on_loop
async def test_nothing_that_readers_see_is_made_before_the_file_appears(store: LocalStore) -> None:
    (root(store) / "sales").mkdir()
    upload_id, parts = await upload(store, KEY, b"body")
    assert names(root(store) / "sales") == [UPLOADS]
    assert not list(root(store).rglob("*.parquet"))
    assert [one async for one in store.list("")] == []
    assert [one async for one in store.list_directories("sales/")] == []
    assert [one.path async for one in store.tree().entries("sales")] == []
    await store.complete_upload(KEY, upload_id, parts)
    assert names(root(store) / "sales") == ["day=1"]
    assert hidden(store) == []


@on_loop
async def test_file_has_the_etag_that_the_id_of_its_upload_told(store: LocalStore) -> None:
    for bodies in ((b"",), (b"one",), (b"12345", b"12345", b"6"), (b"1", b"three", b"2")):
        upload_id, parts = await upload(store, KEY, *bodies)
        length = sum(map(len, bodies))
        told = await store.complete_upload(KEY, upload_id, parts)
        head = await store.head(KEY)
        assert told == head
        assert head.etag == f'"{etag_of_upload(upload_id, length)}"'
        known: dict[str, Any] = {"own": "mine", "upload_id": upload_id}
        assert write_id_shown({}, head.etag, length=length, **known) == "mine"
        assert write_id_shown({}, head.etag, length=length + 1, **known) is None
        other, _ = await upload(store, KEY, *bodies)
        assert write_id_shown({}, head.etag, own="mine", upload_id=other, length=length) is None
        await store.abort_upload(KEY, other)


def sent(store: LocalStore, order: Sequence[int], bodies: Sequence[bytes]) -> tuple[str, list[Part]]:
    async def send() -> tuple[str, list[Part]]:
        upload_id = await store.create_upload(KEY, metadata={})
        parts = [await store.put_part(KEY, upload_id, n, bodies[n - 1]) for n in order]
        return upload_id, sorted(parts, key=lambda part: part.number)

    return asyncio.run(send())


def test_parts_of_one_size_are_in_their_places_and_nothing_is_copied(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("bytes were copied")

    monkeypatch.setattr(local_parts.OpenUpload, "_assemble", refuse)
    upload_id, parts = sent(store, [1, 4, 2, 3], [b"a" * 9, b"b" * 9, b"c" * 9, b"d"])
    asyncio.run(store.complete_upload(KEY, upload_id, parts))
    assert (root(store) / KEY).read_bytes() == b"a" * 9 + b"b" * 9 + b"c" * 9 + b"d"


def test_only_parts_that_came_before_the_first_are_copied(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, copy = list[str](), local_parts._copy_at

    def watched(directory: int, name: str, descriptor: int, start: int) -> None:
        copied.append(name.partition(".")[0])
        copy(directory, name, descriptor, start)

    monkeypatch.setattr(local_parts, "_copy_at", watched)
    upload_id, parts = sent(store, [3, 2, 1, 5, 4], [b"a" * 9, b"b" * 9, b"c" * 9, b"d" * 9, b"e"])
    asyncio.run(store.complete_upload(KEY, upload_id, parts))
    assert (root(store) / KEY).read_bytes() == b"".join(c * 9 for c in (b"a", b"b", b"c", b"d")) + b"e"
    assert copied == ["00002", "00003"]


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_parts_of_any_size_and_order_become_exactly_what_is_named(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = LocalStore(str(tmp_path_factory.mktemp("bucket")))
    sizes = data.draw(st.lists(st.sampled_from([1, 7, 7, 7, 8, 30]), min_size=1, max_size=6))
    bodies = [bytes([65 + n]) * size for n, size in enumerate(sizes)]
    again = data.draw(st.lists(st.integers(1, len(bodies)), max_size=3))
    order = data.draw(st.permutations([*range(1, len(bodies) + 1), *again]))
    named = data.draw(st.sets(st.integers(1, len(bodies)), min_size=1))

    async def play() -> None:
        upload_id = await store.create_upload(KEY, metadata={})
        parts = {n: await store.put_part(KEY, upload_id, n, bodies[n - 1]) for n in order}
        await store.complete_upload(KEY, upload_id, [parts[n] for n in sorted(named)])

    asyncio.run(play())
    assert (root(store) / KEY).read_bytes() == b"".join(bodies[n - 1] for n in sorted(named))
    assert hidden(store) == []


def test_system_that_reads_a_little_at_a_time_loses_nothing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: read(file, min(size, 1000), at))
    bodies = [b"a" * 5000, b"b" * 5000, b"c" * 5000]
    upload_id, parts = sent(store, [1, 2, 3], bodies)
    asyncio.run(store.complete_upload(KEY, upload_id, [parts[0], parts[2]]))
    assert (root(store) / KEY).read_bytes() == bodies[0] + bodies[2]


# -- links, mounts and names ---------------------------------------------------------------------------------


@pytest.fixture
def linked(store: LocalStore, tmp_path: Path) -> Iterator[Path]:
    """``bucket/sales/day=1`` is a link to another directory, on another device if there is one."""
    elsewhere = Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path
    target = elsewhere / f"magicfs-{os.getpid()}-{tmp_path.name}"
    target.mkdir()
    (root(store) / "sales").mkdir()
    (root(store) / "sales" / "day=1").symlink_to(target)
    yield target
    shutil.rmtree(target)


@pytest.mark.parametrize("below", ["", "hour=2/"])
@on_loop
async def test_upload_behind_a_link_lies_there_and_is_listed_from_everywhere(
    store: LocalStore, linked: Path, below: str
) -> None:
    key = f"sales/day=1/{below}part-0"
    upload_id, parts = await upload(store, key, b"body")
    assert (linked / UPLOADS / upload_id / "data").exists()
    for prefix in ("", "s", "sales", "sales/", "sales/d", "sales/day=1", "sales/day=1/", key):
        assert await pending(store, prefix) == [(key, upload_id)], prefix
    assert await pending(store, "sales/day=10") == []
    await store.complete_upload(key, upload_id, parts)
    assert (linked / below / "part-0").read_bytes() == b"body"
    assert hidden(store, linked) == []
    other, _ = await upload(store, key, b"body")
    await store.abort_upload(key, other)
    assert (await pending(store), hidden(store, linked)) == ([], [])


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second filesystem")
@on_loop
async def test_directory_that_became_a_link_to_another_device_is_refused(
    store: LocalStore, tmp_path: Path, linked: Path
) -> None:
    (root(store) / "sales" / "day=1").unlink()
    upload_id, parts = await upload(store, KEY, b"body")
    (root(store) / "sales" / "day=1").symlink_to(linked)
    with pytest.raises(Unsupported, match="one filesystem"):
        await store.complete_upload(KEY, upload_id, parts)
    assert await pending(store) == [(KEY, upload_id)]
    (root(store) / "sales" / "day=1").unlink()
    await store.complete_upload(KEY, upload_id, parts)
    assert (root(store) / KEY).read_bytes() == b"body"


@pytest.mark.parametrize(
    "upload_id", ["../../x", "1.1.0-0.0", "", "1.1.1-1.0123456789abcdef/..", "9.9.1-1." + "0" * 16]
)
@on_loop
async def test_id_that_is_none_is_of_no_upload(store: LocalStore, upload_id: str) -> None:
    with pytest.raises(UploadNotFound):
        await store.put_part(KEY, upload_id, 1, b"")
    with pytest.raises(UploadNotFound):
        await store.complete_upload(KEY, upload_id, [Part(1, '"0.0"')])
    await store.abort_upload(KEY, upload_id)
    assert hidden(store) == []


@on_loop
async def test_directory_moves_with_its_uploads(store: LocalStore) -> None:
    (root(store) / "sales").mkdir()
    upload_id, parts = await upload(store, KEY, b"body")
    (root(store) / "sales").rename(root(store) / "moved")
    key = KEY.replace("sales", "moved")
    assert await pending(store) == [(key, upload_id)]
    with pytest.raises(UploadNotFound):
        await store.complete_upload(KEY, upload_id, parts)
    await store.complete_upload(key, upload_id, parts)
    assert (root(store) / key).read_bytes() == b"body"


@on_loop
async def test_what_is_no_upload_is_not_listed_and_not_touched(store: LocalStore) -> None:
    place = root(store) / UPLOADS
    for name in ("1.1.a-b." + "0" * 16, "readme", "0" * 16 + ".new"):
        (place / name).mkdir(parents=True)
        (place / name / "upload.json").write_bytes(b'{"key": "../x"}' if name[0] == "1" else b"\xff")
    upload_id, parts = await upload(store, "file", b"body")
    assert await pending(store) == [("file", upload_id)]
    await store.complete_upload("file", upload_id, parts)
    assert len(names(place)) == 3


@on_loop
async def test_uploads_that_others_hide_above_are_passed_over(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await upload(store, "other/dataset/part-0", b"theirs")
    (root(store) / "sales" / "day=1").mkdir(parents=True)
    upload_id, _ = await upload(store, KEY, b"ours")
    opened = os.open

    def hide(path: Any, *args: Any, **kwargs: Any) -> int:
        if path == str(root(store) / UPLOADS):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", hide)
    assert await pending(store, "sales/") == [(KEY, upload_id)]
    with pytest.raises(PermissionDenied):
        await pending(store)


# -- what others have made -----------------------------------------------------------------------------------

FORGED = "1.1.aa-bb.0123456789abcdef"


def victims(directory: Path) -> Path:
    directory.mkdir()
    for name in ("data", "upload.json", "thesis.tex"):
        (directory / name).write_text("precious")
    return directory


@pytest.mark.parametrize("where", ["", "sales", "entry"])
@on_loop
async def test_link_in_the_place_of_uploads_is_neither_followed_nor_used(
    store: LocalStore, tmp_path: Path, where: str
) -> None:
    (root(store) / "sales").mkdir()
    victim = victims(tmp_path / "victim")
    if where == "entry":
        (root(store) / "sales" / UPLOADS).mkdir()
        (root(store) / "sales" / UPLOADS / FORGED).symlink_to(victim)
    else:
        victims(victim / FORGED)
        (root(store) / where / UPLOADS).symlink_to(victim)
    local_uploads._tidied.clear()
    before = sorted(map(str, victim.rglob("*")))
    assert await pending(store, "sales/") == []
    await store.abort_upload("sales/day", FORGED)
    with pytest.raises(UploadNotFound):
        await store.complete_upload("sales/day", FORGED, [Part(1, '"0.0"')])
    if where == "sales":
        with pytest.raises(
            StoreError, match=r"sales/.magicfs-uploads.* there is a symbolic link .*remove it"
        ):
            await store.create_upload(KEY, metadata={})
    else:
        upload_id, parts = await upload(store, KEY, b"body")
        await store.complete_upload(KEY, upload_id, parts)
    assert sorted(map(str, victim.rglob("*"))) == before
    assert (victim / "data").read_text() == "precious"


@pytest.mark.parametrize("name", ["upload.json", "data", "stride", "lock"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
@on_loop
async def test_link_or_pipe_in_an_upload_is_neither_followed_nor_waited_for(
    store: LocalStore, tmp_path: Path, name: str, kind: str
) -> None:
    victim = victims(tmp_path / "victim")
    upload_id = await store.create_upload(KEY, metadata={})
    parts = [await store.put_part(KEY, upload_id, n, body) for n, body in ((2, b"bb"), (1, b"a"))]
    path = root(store) / UPLOADS / upload_id / name
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(victim / "thesis.tex")
    else:
        os.mkfifo(path)
    with pytest.raises(StoreError):
        await store.complete_upload(KEY, upload_id, parts[::-1])
    with contextlib.suppress(StoreError):
        await store.put_part(KEY, upload_id, 1, b"other")
    await pending(store)
    await store.abort_upload(KEY, upload_id)
    assert {path.read_text() for path in victim.iterdir()} == {"precious"}
    assert len(list(victim.iterdir())) == 3


@on_loop
async def test_only_names_that_uploads_make_are_removed(store: LocalStore) -> None:
    upload_id, _ = await upload(store, KEY, b"body")
    place = root(store) / UPLOADS / upload_id
    (place / "thesis.tex").write_text("precious")
    await store.abort_upload(KEY, upload_id)
    assert await pending(store) == []
    assert names(place) == ["thesis.tex"]


@pytest.mark.parametrize(
    ("owner", "mode", "ours"),
    [
        ("me", 0o1777, True),
        ("owner", 0o1777, True),
        ("root", 0o1777, True),
        ("stranger", 0o1777, False),
        ("stranger", 0o755, False),
        ("stranger", 0o775, True),
    ],
)
def test_whose_directories_count(owner: str, mode: int, ours: bool, tmp_path: Path) -> None:
    me = os.geteuid()
    uids = {"me": me, "root": 0, "owner": me + 1, "stranger": me + 2}

    def stat_of(uid: int, mode: int) -> os.stat_result:
        return os.stat_result((mode, 0, 0, 2, uid, 0, 0, 0, 0, 0))

    assert local_places.is_trusted(stat_of(uids[owner], 0o40755), stat_of(me + 1, 0o40000 | mode)) is ours


@pytest.mark.parametrize("above", ["owner", "stranger"])
@on_loop
async def test_nobody_looks_above_the_first_directory_of_another_user(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, above: str
) -> None:
    high, _ = await upload(store, "team/sales/high", b"body")
    (root(store) / "team").mkdir()
    middle, _ = await upload(store, "team/sales/middle", b"body")
    (root(store) / "team" / "sales").mkdir()
    low, _ = await upload(store, "team/sales/low", b"body")
    plain = os.stat

    def other(path: Any, *args: Any, **how: Any) -> os.stat_result:
        found = plain(path, *args, **how)
        if path == str(root(store) / "team") and above == "stranger":
            return os.stat_result([*found[:4], found.st_uid + 1, *found[5:]])
        return found

    monkeypatch.setattr(os, "stat", other)
    found = [upload_id for _, upload_id in await pending(store, "team/sales/")]
    assert found == ([low, middle] if above == "stranger" else [high, low, middle])


# -- deaths --------------------------------------------------------------------------------------------------


class DeadError(BaseException):
    """The process has died: nothing is done any more, not even tidying up."""


class Death:
    """Dies before or after one numbered operation of the system, and stays dead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, after: bool) -> None:
        self.count, self.is_dead, self._at, self._after = 0, False, at, after
        for name in _OPERATIONS:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if self.is_dead:
                raise DeadError
            self.count += 1
            if self.count == self._at:
                self.is_dead = True
                if self._after:
                    operation(*args, **kwargs)
                raise DeadError
            return operation(*args, **kwargs)

        return run


def cuts(work: Callable[[Path], object], tmp_path: Path) -> Iterator[tuple[Path, int, bool]]:
    """The directories in which some work was cut, before and after each of its operations."""
    numbers = map("{}".format, itertools.count())
    for at in itertools.count(1):
        for after in (False, True):
            directory = tmp_path / next(numbers)
            directory.mkdir()
            with pytest.MonkeyPatch.context() as patch:
                death = Death(patch, at, after)
                with contextlib.suppress(DeadError):
                    work(directory)
            if not death.is_dead:
                return
            yield directory, at, after


def one_upload(directory: Path, key: str = KEY) -> tuple[str, list[Part]]:
    upload_id = local_uploads.open_upload(directory, key, {})
    found, _ = local_uploads.find(directory, key, upload_id)
    assert found is not None
    return upload_id, [found.put_part(n, body) for n, body in ((2, b"bbb"), (1, b"aaa"), (3, b"c"))]


@pytest.mark.slow
@pytest.mark.parametrize("if_absent", [False, True])
@pytest.mark.parametrize("wish", ["complete", "abort"])
def test_half_a_completion_is_finished_or_undone(tmp_path: Path, if_absent: bool, wish: str) -> None:
    told: dict[Path, tuple[str, list[Part]]] = {}

    def work(directory: Path) -> None:
        found, _ = local_uploads.find(directory, KEY, told[directory][0])
        assert found is not None
        found.complete(told[directory][1], 1, if_absent=if_absent)

    def prepared(directory: Path) -> None:
        with pytest.MonkeyPatch.context() as alive:
            for name in _OPERATIONS:
                alive.setattr(os, name, _PLAIN[name])
            upload_id, parts = one_upload(directory)
            told[directory] = upload_id, sorted(parts, key=lambda part: part.number)
        work(directory)

    number, visible = 0, 0
    for directory, at, after in cuts(prepared, tmp_path):
        number += 1
        store, (upload_id, parts) = LocalStore(str(directory)), told[directory]
        was_there = (directory / KEY).exists()
        visible += was_there
        if was_there:
            assert (directory / KEY).read_bytes() == b"aaabbbc", (at, after)
        if wish == "abort":
            asyncio.run(store.abort_upload(KEY, upload_id))
            assert (directory / KEY).exists() == was_there, (at, after)
        else:
            try:
                asyncio.run(store.complete_upload(KEY, upload_id, parts, if_absent=if_absent))
            except UploadNotFound:
                assert was_there, (at, after)
            head = asyncio.run(store.head(KEY))
            assert head.etag == f'"{etag_of_upload(upload_id, 7)}"', (at, after)
            assert (directory / KEY).read_bytes() == b"aaabbbc", (at, after)
        assert asyncio.run(pending(store)) == [], (at, after)
        with pytest.raises(UploadNotFound):
            asyncio.run(store.complete_upload(KEY, upload_id, parts))
        assert not [one for one in hidden(store) if not one.name.endswith(".tmp")], (at, after)
    assert number > 20
    assert 0 < visible < number


_PLAIN = {name: getattr(os, name) for name in _OPERATIONS}


def open_and_abort(store: LocalStore) -> None:
    """Open an upload, which removes now what dead processes have left next to it."""
    local_uploads._tidied.clear()

    async def run() -> None:
        await store.abort_upload("other", await store.create_upload("other", metadata={}))

    asyncio.run(run())


def test_what_half_an_opening_has_left_goes_once_nobody_can_be_at_work(tmp_path: Path) -> None:
    new = tmp_path / UPLOADS / "0123456789abcdef.new"
    new.mkdir(parents=True)
    (new / "data").touch()
    store = LocalStore(str(tmp_path))
    open_and_abort(store)
    assert (new / "data").exists(), "it may be opened at this moment"
    hours_ago = time.time() - 7200
    os.utime(new, (hours_ago, hours_ago))
    assert asyncio.run(pending(store)) == []
    assert (new / "data").exists(), "a listing deletes nothing"
    open_and_abort(store)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ["abort", "complete"])
def test_what_half_an_end_has_left_goes_with_the_next_upload(tmp_path: Path, end: str) -> None:
    def work(directory: Path) -> None:
        with pytest.MonkeyPatch.context() as alive:
            for name in _OPERATIONS:
                alive.setattr(os, name, _PLAIN[name])
            upload_id, parts = one_upload(directory)
        found, _ = local_uploads.find(directory, KEY, upload_id)
        assert found is not None
        if end == "abort":
            found.remove()
        else:
            found.complete(sorted(parts, key=lambda one: one.number), 1, if_absent=False)

    number, open_ones = 0, 0
    for directory, at, after in cuts(work, tmp_path):
        number += 1
        store = LocalStore(str(directory))
        found = asyncio.run(pending(store))
        open_ones += bool(found)
        open_and_abort(store)
        assert asyncio.run(pending(store)) == found
        left = [one for one in directory.rglob("*") if one.is_file() and UPLOADS in one.parts]
        assert bool(found) == bool(left), (at, after)
    assert number > 10
    assert 0 < open_ones < number


def test_what_half_an_opening_or_end_has_left_goes_with_the_object_of_its_job(tmp_path: Path) -> None:
    """What a store honours is tried on an upload of the job, and who tries it may be killed."""
    job = "sales/__magic_job-a/job-a"
    probe = f"{job}/probe-0123456789abcdef-upload"

    def work(directory: Path) -> None:
        (directory / job).mkdir(parents=True)
        (directory / job / "job.json").write_bytes(b"{}")
        upload_id, _ = one_upload(directory, probe)
        found, _ = local_uploads.find(directory, probe, upload_id)
        assert found is not None
        found.remove()

    number = 0
    for directory, at, after in cuts(work, tmp_path):
        number += 1
        store = LocalStore(str(directory))
        for key, upload_id in asyncio.run(pending(store)):
            asyncio.run(store.abort_upload(key, upload_id))
        asyncio.run(store.delete([f"{job}/job.json"]))
        assert not [*directory.rglob("*job-a*/*")], (at, after)
    assert number > 40


def test_half_an_opening_or_part_leaves_what_can_be_aborted_or_is_not_there(tmp_path: Path) -> None:
    for directory, at, after in cuts(one_upload, tmp_path):
        store = LocalStore(str(directory))
        for key, upload_id in asyncio.run(pending(store)):
            assert key == KEY
            asyncio.run(store.abort_upload(key, upload_id))
        assert asyncio.run(pending(store)) == [], (at, after)
        assert asyncio.run(listed(store)) == [], (at, after)
        # What nobody can name any more is as small as a name; data belongs to a listed upload.
        left = [path for path in directory.rglob("*") if path.is_file() and path.stat().st_size > 128]
        assert left == [], (at, after)


async def listed(store: LocalStore) -> list[str]:
    return [info.key async for info in store.list("")]


_RACE = """
import asyncio, sys
from magicfs.errors import MagicError
from magicfs.stores.local.store import LocalStore
from magicfs.stores.port import Part

async def race():
    store, won = LocalStore(sys.argv[1]), []
    for line in sys.stdin:
        key, upload_id, if_absent, *etags = line.rstrip("\\n").split("\\t")
        parts = [Part(n, etag) for n, etag in enumerate(etags, start=1)]
        try:
            await store.complete_upload(key, upload_id, parts, if_absent=if_absent == "1")
            won.append(upload_id)
        except MagicError as error:
            print(type(error).__name__, file=sys.stderr)
    print(*won)

asyncio.run(race())
"""


def race(store: LocalStore, given: Sequence[str]) -> list[list[str]]:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _RACE, store.bucket],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in given
    ]
    return [one.communicate(lines)[0].split() for one, lines in zip(running, given, strict=True)]


@pytest.mark.process
def test_processes_that_complete_the_same_uploads_at_once(store: LocalStore) -> None:
    lines = []
    for number in range(40):
        key = f"day=1/{number}"

        async def opened(key: str = key) -> tuple[str, list[Part]]:
            upload_id = await store.create_upload(key, metadata={})
            return upload_id, [await store.put_part(key, upload_id, n, b"%d" % n * 99) for n in (2, 1, 3)]

        upload_id, [second, first, third] = asyncio.run(opened())
        lines.append("\t".join((key, upload_id, str(number % 2), first.etag, second.etag, third.etag)))
    won = race(store, ["\n".join(lines) + "\n"] * 3)
    assert all(
        (root(store) / f"day=1/{n}").read_bytes() == b"1" * 99 + b"2" * 99 + b"3" * 99 for n in range(40)
    )
    assert {line.split("\t")[1] for line in lines} == {one for each in won for one in each}
    for line in lines:
        key, upload_id = line.split("\t")[:2]
        assert asyncio.run(store.head(key)).etag == f'"{etag_of_upload(upload_id, 297)}"'
    assert hidden(store) == []


@pytest.mark.process
def test_race_of_completes_if_absent_has_one_winner_for_each_name(store: LocalStore) -> None:
    given: list[str] = []
    for contender in range(3):
        lines = []
        for number in range(40):
            upload_id, (part,) = asyncio.run(upload(store, f"day=1/{number}", b"%d" % contender))
            lines.append("\t".join((f"day=1/{number}", upload_id, "1", part.etag)))
        given.append("\n".join(lines) + "\n")
    won = race(store, given)
    assert sum(map(len, won)) == 40
    for contender, ids in enumerate(won):
        names = [line.split("\t")[0] for line in given[contender].splitlines() if line.split("\t")[1] in ids]
        assert all((root(store) / name).read_bytes() == b"%d" % contender for name in names)
    assert len(asyncio.run(pending(store))) == 80


# -- what the system refuses ---------------------------------------------------------------------------------


@on_loop
async def test_part_that_was_not_kept_whole_is_not_acknowledged(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id, parts = await upload(store, KEY, b"12345")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _raise_no_space)
        with pytest.raises(StoreError, match="free space"):
            await store.put_part(KEY, upload_id, 2, b"67890")
    with pytest.raises(StoreError, match="unknown"):
        await store.complete_upload(KEY, upload_id, [*parts, Part(2, parts[0].etag)])
    again = await store.put_part(KEY, upload_id, 2, b"abcde")
    await store.complete_upload(KEY, upload_id, [*parts, again])
    assert (root(store) / KEY).read_bytes() == b"12345abcde"


@on_loop
async def test_file_that_could_not_be_synchronised_never_appears(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id, parts = await upload(store, KEY, b"12345", b"67890")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _raise_no_space)
        with pytest.raises(StoreError, match="free space"):
            await store.complete_upload(KEY, upload_id, parts)
    with pytest.raises(UploadNotFound):  # the system says it once, and takes the data for written then
        await store.complete_upload(KEY, upload_id, parts)
    assert not (root(store) / KEY).exists()
    assert hidden(store) == []


@pytest.mark.parametrize("lost", ["a hole", "the end"])
@on_loop
async def test_upload_that_a_stop_of_the_machine_left_with_holes_is_lost(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    bodies = [b"a" * 2**20, b"b" * 2**20]
    for started_anew in (False, True):
        upload_id, parts = await upload(store, KEY, *bodies)
        [data] = root(store).rglob("data")
        os.truncate(data, 2**20)  # as the disk has it after a power failure: the second part never got there
        if lost == "a hole":
            os.truncate(data, 2**21)
        with monkeypatch.context() as patch:
            if started_anew:
                patch.setattr(local_parts, "boot_id", lambda: "another start")
            if lost == "a hole" and not started_anew:
                await store.complete_upload(KEY, upload_id, parts)  # the hole is what was written
                continue
            with pytest.raises(UploadNotFound):
                await store.complete_upload(KEY, upload_id, parts)
        await store.abort_upload(KEY, upload_id)
        assert await pending(store) == []


@on_loop
async def test_upload_of_before_a_start_of_the_machine_is_completed_if_all_of_it_is_there(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id, parts = await upload(store, KEY, b"a" * 2**20, bytes(2**20))
    monkeypatch.setattr(local_parts, "boot_id", lambda: "another start")
    await store.complete_upload(KEY, upload_id, parts)
    assert (root(store) / KEY).stat().st_size == 2**21


def _raise_no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


@on_loop
async def test_filesystem_without_hard_links_cannot_complete_only_if_absent(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    upload_id, parts = await upload(store, KEY, b"body")
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        with pytest.raises(Unsupported, match="no hard links"):
            await store.complete_upload(KEY, upload_id, parts, if_absent=True)
    assert await pending(store) == [(KEY, upload_id)]
    await store.complete_upload(KEY, upload_id, parts, if_absent=True)
    other, parts = await upload(store, KEY, b"other")
    with pytest.raises(ObjectExists):
        await store.complete_upload(KEY, other, parts, if_absent=True)
    assert (root(store) / KEY).read_bytes() == b"body"
