"""Local files that are written at their place while they are open."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magicfs
from magicfs.errors import StoreError, UploadNotFound, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.local import parts as local_parts
from magicfs.stores.local import parts as local_placed
from magicfs.stores.local import uploads as local_uploads
from magicfs.stores.local.held import UPLOADS
from magicfs.stores.local.store import LocalStore
from magicfs.stores.object_settings import can_place
from magicfs.stores.port import Part
from tests.sample import examples

MIB = 2**20


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"{tmp_path}/sales/__magic/job/t1/__base/day=1/part 0"


def opened(place: str) -> Any:
    return MagicFileSystem(target_protocol="file", tracking="memory").open(place, "wb")


def descriptors(directory: Path) -> int:
    """How many files below a directory this process has open; other tests' may be closed at any moment."""
    found = 0
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found += one.readlink().is_relative_to(directory)
    return found


def uploads(directory: Path) -> list[Path]:
    return [path for one in directory.rglob(UPLOADS) for path in one.iterdir()]


def data(directory: Path) -> bytes:
    [upload] = uploads(directory)
    return (upload / "data").read_bytes()


@settings(max_examples=examples(60), deadline=None)
@given(sizes=st.lists(st.sampled_from([0, 1, 100, 2**16 - 1, 2**16, 2**16 + 1, 200_000]), max_size=12))
def test_what_is_written_is_what_is_published(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    top = tmp_path_factory.mktemp("top")
    chunks = [bytes([65 + n]) * size for n, size in enumerate(sizes)]
    job = magicfs.Job(f"file://{top}/sales", mode="append", committer="magic")
    with job, job.task(0) as task, task.filesystem.open(f"{task.path}/day=1/part", "wb") as file:
        for chunk in chunks:
            assert file.write(chunk) == len(chunk)
        assert file.tell() == sum(sizes)
    [published] = (top / "sales").rglob("day=1/*")
    assert published.read_bytes() == b"".join(chunks)
    assert uploads(top) == []


def test_nothing_large_is_held_in_memory_and_the_file_is_one_part(tmp_path: Path, place: str) -> None:
    file = opened(place)
    for _ in range(20):
        file.write(b"x" * MIB)
    assert len(data(tmp_path)) == 20 * MIB
    file.close()
    [upload] = uploads(tmp_path)
    assert [one.name.split(".")[0] for one in upload.iterdir() if one.name.endswith(".in")] == ["00001"]


def test_numbers_wider_than_a_byte_are_counted_in_bytes(tmp_path: Path, place: str) -> None:
    with opened(place) as file:
        assert file.write(memoryview(b"12345678").cast("Q")) == 8
    assert data(tmp_path) == b"12345678"


def test_upload_that_was_aborted_meanwhile_is_said_when_the_file_is_closed(
    tmp_path: Path, place: str
) -> None:
    file = opened(place)
    file.write(b"x" * MIB)
    [upload] = uploads(tmp_path)
    asyncio.run(LocalStore().abort_upload(f"{tmp_path}/sales/day=1/part 0".lstrip("/"), upload.name))
    file.write(b"x" * MIB)
    with pytest.raises(UploadNotFound):
        file.close()
    assert uploads(tmp_path) == []


@pytest.mark.parametrize("when", ["writing", "closing"])
def test_full_disk_is_a_store_error_and_leaves_nothing(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = opened(place)
    file.write(b"x")
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreError, match="No space left"):
        if when == "writing":
            file.write(b"x" * MIB)
        file.close()
    monkeypatch.undo()
    assert uploads(tmp_path) == []


def test_disk_that_takes_a_little_at_a_time_gets_everything(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, body, at: whole(file, bytes(body)[:1000], at))
    with opened(place) as file:
        file.write(b"ab" * 100_000)
    assert data(tmp_path) == b"ab" * 100_000


@pytest.mark.process
def test_fork_writes_nothing_into_the_file_of_its_parent(tmp_path: Path, place: str) -> None:
    file = opened(place)
    file.write(b"held back")
    child = os.fork()
    if not child:
        try:
            file.write(b"the child's")
        except UsageError as error:
            os._exit(0 if "opened in another process" in str(error) else 2)
        finally:
            file._sink._buffer.take()  # as when the child ends: nothing is flushed
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    file.write(b" and written")
    file.close()
    assert data(tmp_path) == b"held back and written"


def test_descriptor_is_closed_with_the_file(tmp_path: Path, place: str) -> None:
    kept = []
    for _ in range(20):
        kept.append(opened(place))
        kept[-1].write(b"x" * MIB)
        assert descriptors(tmp_path) > 0
        kept[-1].close()
    for _ in range(20):
        file = opened(place)
        file.write(b"x" * MIB)
        file.abort()
        del file
    assert descriptors(tmp_path) == 0


def test_second_writer_of_an_upload_sends_parts(tmp_path: Path) -> None:
    async def play() -> bytes:
        store = LocalStore(str(tmp_path))
        assert can_place(store)
        upload_id = await store.create_upload("k", metadata={})
        first = store.place_part("k", upload_id)
        assert first is not None
        assert store.place_part("k", upload_id) is None
        first.write(memoryview(b"a" * MIB))
        late = await store.put_part("k", upload_id, 1, b"the other one's")
        mine = await store.put_placed_part("k", upload_id, first)
        assert late.etag != mine.etag
        await store.complete_upload("k", upload_id, [late])
        return (tmp_path / "k").read_bytes()

    assert asyncio.run(play()) == b"the other one's"


def test_what_stands_around_a_store_sees_a_part_being_put(tmp_path: Path) -> None:
    class Counting(DelegatingStore):
        async def _around(self, operation: str, key: str, request: Any) -> Any:
            seen.append(operation)
            return await super()._around(operation, key, request)

    async def play() -> None:
        store = Counting(LocalStore(str(tmp_path)))
        assert can_place(store)
        upload_id = await store.create_upload("k", metadata={})
        part = store.place_part("k", upload_id)
        assert part is not None
        part.write(memoryview(b"body"))
        await store.complete_upload("k", upload_id, [await store.put_placed_part("k", upload_id, part)])

    seen: list[str] = []
    asyncio.run(play())
    assert seen == ["create_upload", "put_part", "complete_upload"]
    assert (tmp_path / "k").read_bytes() == b"body"


def test_error_that_the_filesystem_tells_at_close_fails_the_file(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, close, copies = os.dup, os.close, set()

    def noted(descriptor: int) -> int:
        copies.add(copied := copy(descriptor))
        return copied

    def closed(descriptor: int) -> None:
        close(descriptor)
        if descriptor in copies:
            copies.discard(descriptor)
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    file = opened(place)
    file.write(b"x")
    monkeypatch.setattr(os, "dup", noted)
    monkeypatch.setattr(os, "close", closed)
    with pytest.raises(StoreError, match="quota"):
        file.close()
    monkeypatch.undo()
    assert uploads(tmp_path) == []


def test_more_files_than_descriptors_are_sent_in_parts(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()  # the files that earlier tests left open would be counted, and closed at any moment
    most = local_placed.PlacedFile.opened + 2
    monkeypatch.setattr(local_placed, "open_max", lambda: most)
    files = [opened(f"{place} {number}") for number in range(5)]
    for number, file in enumerate(files):
        file.write(b"%d" % number * MIB)
    assert [type(file._sink._buffer).__name__ for file in files] == ["PlacedBuffer"] * 2 + ["Buffer"] * 3
    for file in files:
        file.close()
    assert sorted((one / "data").stat().st_size for one in uploads(tmp_path)) == [MIB] * 5


def test_aborted_file_gives_its_place_on_the_disk_back(tmp_path: Path, place: str) -> None:
    file = opened(place)
    file.write(b"x" * MIB)
    before = descriptors(tmp_path)
    file.abort()
    assert descriptors(tmp_path) == before - 1
    assert uploads(tmp_path) == []


def test_store_around_that_only_hands_capabilities_on_gets_parts(tmp_path: Path) -> None:
    class Around:
        bucket = ""
        capabilities = LocalStore.capabilities

    assert not can_place(Around())  # type: ignore[arg-type]


# -- the machine stops ---------------------------------------------------------------------------------------


def test_size_that_never_got_to_the_disk_loses_the_upload(tmp_path: Path, place: str) -> None:
    opened(place).close()
    [upload] = uploads(tmp_path)
    (upload / "stride").write_bytes(b"")
    store, key = LocalStore(), f"{tmp_path}/sales/day=1/part 0".lstrip("/")
    [part] = [one.name for one in upload.iterdir() if one.name.endswith(".in")]
    _, size, token, _ = part.split(".")
    with pytest.raises(UploadNotFound):
        asyncio.run(store.complete_upload(key, upload.name, [Part(1, f'"{size}.{token}"')]))


@pytest.mark.parametrize(("days_before_the_start", "stays"), [(1, False), (-1, True)])
def test_upload_whose_record_never_got_to_the_disk_is_removed_with_the_next_one(
    tmp_path: Path, place: str, days_before_the_start: int, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(place).close()
    [upload] = uploads(tmp_path)
    (upload / "upload.json").write_bytes(b"")
    since = time.time() - (upload / "data").stat().st_mtime + 86_400 * -days_before_the_start
    monkeypatch.setattr(time, "clock_gettime", lambda _: since)
    assert local_uploads.pending(tmp_path, "") == []
    assert uploads(tmp_path) == [upload]
    local_uploads._tidied.clear()
    opened(f"{place} 2").close()
    assert (upload in uploads(tmp_path)) is stays


def test_what_may_not_be_removed_does_not_hinder_the_next_upload(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(place).close()
    opened(f"{place} 2").close()
    dead, _ = uploads(tmp_path)
    (dead / "upload.json").write_bytes(b"")
    monkeypatch.setattr(
        time, "clock_gettime", lambda _: time.time() - (dead / "data").stat().st_mtime - 86_400
    )

    def denied(_: local_parts.Held) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(local_parts.Held, "remove", denied)
    local_uploads._tidied.clear()
    opened(f"{place} 3").close()
    assert len(local_uploads.pending(tmp_path, "")) == 2
