"""Every way to write under a magic path becomes a delayed upload; everywhere else nothing changes."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import sync

from magicfs.errors import Unavailable, UsageError
from magicfs.filesystem import MagicFileSystem, connection
from magicfs.formats.pending import Pending
from magicfs.job.job import Job
from magicfs.protocol.magic import Dialect, MagicPath, locate
from magicfs.stores.port import Body, ObjectInfo, Part, PartBody, Store
from magicfs.testing.counting_store import CountingStore
from proofs.scenes.memory_scene import MemoryScene

JOB = "0b0b0b0b-0000-4000-8000-000000000001"
BASE = "bucket/dataset1/__magic/job 1/task%2F1/__base"
NAMES = [
    "part-0.parquet",
    "day=2026-01-01/part 0.csv",
    "a/b/c",
    "50%+#?&=.bin",
    "zażółć 日本.txt",
    'it\'s "quoted"',
    "e\u0301",
]
BODY = b"one\ntwo\n"
Way = Callable[[MagicFileSystem, str, Path], None]


def written_by_open(fs: MagicFileSystem, path: str, _local: Path) -> None:
    with fs.open(path, "wb") as file:
        assert file.write(BODY) == len(BODY)


def written_by_open_x(fs: MagicFileSystem, path: str, _local: Path) -> None:
    with fs.open(path, "xb") as file:
        file.write(BODY)


def written_by_open_text(fs: MagicFileSystem, path: str, _local: Path) -> None:
    with fs.open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(BODY.decode())


def written_by_buffered_writer(fs: MagicFileSystem, path: str, _local: Path) -> None:
    with io.BufferedWriter(fs.open(path, "wb"), 3) as file:
        file.write(BODY)


def written_by_pipe_file(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.pipe_file(path, BODY)


def written_by_pipe(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.pipe({path: BODY})


def written_by_write_bytes(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.write_bytes(path, BODY)


def written_by_write_text(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.write_text(path, BODY.decode())


def written_by_put_file(fs: MagicFileSystem, path: str, local: Path) -> None:
    fs.put_file(str(local), path)


def written_by_put(fs: MagicFileSystem, path: str, local: Path) -> None:
    fs.put([str(local)], [path])


def written_by_upload(fs: MagicFileSystem, path: str, local: Path) -> None:
    fs.upload([str(local)], [path])


def written_by_cp_file(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.cp_file("bucket/old/source %", path)


def written_by_copy(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.copy(["bucket/old/source %"], [path])


def written_by_mv(fs: MagicFileSystem, path: str, _local: Path) -> None:
    fs.mv("bucket/old/source %", path)
    assert not fs.exists("bucket/old/source %")


def written_by_open_async(fs: MagicFileSystem, path: str, _local: Path) -> None:
    async def write() -> None:
        async with await fs.open_async(path, "wb") as file:
            await file.write(BODY)

    sync(fs.loop, write)


WAYS_EVERYWHERE: list[Way] = [
    *(written_by_open, written_by_open_x, written_by_open_text, written_by_buffered_writer),
    *(written_by_pipe_file, written_by_pipe, written_by_write_bytes, written_by_write_text),
    *(written_by_put_file, written_by_put, written_by_upload),
    *(written_by_cp_file, written_by_copy),
]
# The memory filesystem that passes through has no files for coroutines.
WAYS: list[Way] = [*WAYS_EVERYWHERE, written_by_open_async]
# What is moved below a magic path would be lost if its job aborted.
WAYS_ELSEWHERE: list[Way] = [*WAYS_EVERYWHERE, written_by_mv]


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local file"
    path.write_bytes(BODY)
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("write", WAYS)
def test_every_way_to_write_is_delayed(scene: MemoryScene, local: Path, write: Way, name: str) -> None:
    scene.put("old/source %", BODY)
    final, opened = f"dataset1/{name}", f"{BASE}/{name}".removeprefix("bucket/")
    write(scene.filesystem, f"{BASE}/{name}", local)
    left = scene.objects()
    assert final not in left
    assert left.pop(opened) == b""
    assert Pending.from_bytes("pending", left.pop(f"{opened}.pending")).destination_key == final
    assert set(left) <= {"old/source %"}
    assert scene.uploads() == [final]
    assert scene.publish() == {final: BODY}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("write", WAYS_ELSEWHERE)
def test_every_way_to_write_elsewhere_is_untouched(
    scene: MemoryScene, local: Path, write: Way, name: str
) -> None:
    scene.put("old/source %", BODY)
    write(scene.filesystem, f"bucket/dataset1/{name}", local)
    assert scene.objects()[f"dataset1/{name}"] == BODY
    assert scene.uploads() == []


def test_touch_delays_an_empty_file(scene: MemoryScene) -> None:
    scene.filesystem.touch(f"{BASE}/empty")
    assert scene.publish() == {"dataset1/empty": b""}


def test_touch_that_shall_keep_what_is_there_is_refused(scene: MemoryScene) -> None:
    with pytest.raises(UsageError, match="truncate=False"):
        scene.filesystem.touch(f"{BASE}/empty", truncate=False)
    assert scene.requests() == {}


def test_directory_is_put_file_by_file(scene: MemoryScene, tmp_path: Path) -> None:
    (tmp_path / "in" / "day=1").mkdir(parents=True)
    (tmp_path / "in" / "day=1" / "a b").write_bytes(b"1")
    (tmp_path / "in" / "c").write_bytes(b"2")
    scene.filesystem.put(f"{tmp_path}/in/", f"{BASE}/", recursive=True)
    assert scene.publish() == {"dataset1/day=1/a b": b"1", "dataset1/c": b"2"}


def test_directory_is_copied_file_by_file(scene: MemoryScene) -> None:
    scene.put("old/day=1/a b", b"1")
    scene.put("old/c", b"2")
    scene.filesystem.copy("bucket/old/", f"{BASE}/", recursive=True)
    assert scene.publish() == {"dataset1/day=1/a b": b"1", "dataset1/c": b"2"}


def test_large_file_is_copied_by_ranges() -> None:
    scene = MemoryScene(part_size=3)
    scene.put("old", b"0123456789")
    scene.filesystem.cp_file("bucket/old", f"{BASE}/new")
    assert scene.publish() == {"dataset1/new": b"0123456789"}


def test_upload_is_pending_from_the_moment_the_file_is_opened(scene: MemoryScene) -> None:
    with scene.filesystem.open(f"{BASE}/a", "wb"):
        assert scene.uploads() == ["dataset1/a"]
        assert scene.objects() == {}


@pytest.mark.parametrize(
    "write", [written_by_open, written_by_open_text, written_by_pipe_file, written_by_put]
)
@pytest.mark.parametrize(("part_size", "parts"), [(len(BODY), 1), (3, 3)])
@pytest.mark.parametrize(("tracking", "records"), [("store", {"put": 2}), ("memory", {})])
def test_file_costs_one_create_its_parts_and_two_puts_or_none(
    local: Path, write: Way, part_size: int, parts: int, tracking: Any, records: dict[str, int]
) -> None:
    scene = MemoryScene(tracking=tracking, part_size=part_size)
    write(scene.filesystem, f"{BASE}/a", local)
    assert scene.requests() == {"create_upload": 1, "put_part": parts, **records}


def test_parts_travel_while_the_file_is_written(scene: MemoryScene) -> None:
    fs = MagicFileSystem(scene.wrapped, part_size=4)
    with fs.open(f"{BASE}/a", "wb") as file:
        file.write(b"0123456789")
        scene.settle()
        assert scene.requests() == {"create_upload": 1, "put_part": 2}
    assert scene.publish() == {"dataset1/a": b"0123456789"}


def test_same_path_written_twice_leaves_the_last(scene: MemoryScene) -> None:
    scene.filesystem.pipe_file(f"{BASE}/a", b"first, and longer")
    scene.filesystem.pipe_file(f"{BASE}/a", b"last")
    assert scene.filesystem.size(f"{BASE}/a") == 4
    assert scene.publish() == {"dataset1/a": b"last"}


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_first_write_of_a_path_is_aborted_when_its_task_commits(scene: MemoryScene, tracking: Any) -> None:
    job = Job(
        "memory://bucket/dataset1", mode="append", filesystem=scene.wrapped, options={"tracking": tracking}
    )
    with job, job.task(0) as task:
        for body in (b"first", b"second", b"last"):
            task.filesystem.pipe_file(f"{task.path}/day=1/a.csv", body)
        assert len(scene.uploads()) == 3
    [(key, body)] = [(key, body) for key, body in scene.objects().items() if key.endswith(".csv")]
    assert (key, body) == (f"dataset1/day=1/a-000000-{job.id}.csv", b"last")
    assert scene.uploads() == []


def test_unique_names_are_those_of_the_task_and_the_job() -> None:
    scene = MemoryScene()
    Job("memory://bucket/dataset1", mode="append", filesystem=scene.wrapped, job_id=JOB).setup()
    work = f"bucket/dataset1/__magic_job-{JOB}/job-{JOB}/00/tasks/attempt-7-abc/__base"
    for name, final in {
        "part-0.parquet": f"part-0-7-{JOB}.parquet",
        "day=1/a b.csv.gz": f"day=1/a b-7-{JOB}.csv.gz",
        "no ending": f"no ending-7-{JOB}",
        ".hidden": f".hidden-7-{JOB}",
        f"has {JOB}.csv": f"has {JOB}-7-{JOB}.csv",
    }.items():
        scene.filesystem.pipe_file(f"{work}/{name}", b"1")
        assert scene.filesystem.exists(f"{work}/{name}")
        assert scene.uploads() == [f"dataset1/{final}"]
        scene.filesystem.rm(f"{work}/{name}")


def test_unique_names_outside_of_a_task_are_refused_before_anything_is_sent() -> None:
    scene = MemoryScene(unique_names=True)
    with pytest.raises(UsageError, match=r"write below Task\.path"):
        scene.filesystem.pipe_file(f"{BASE}/a", b"1")
    assert scene.requests() == {}


class Failing(CountingStore):
    """Fails every request whose name and key contain a text."""

    def __init__(self, inner: Store, text: str, seen: list[str]) -> None:
        super().__init__(inner, Counter())
        self.text = text
        self.seen = seen

    async def create_upload(self, key: str, *, metadata: Mapping[str, str], **options: Any) -> str:
        self._arrive(f"create_upload {key}")
        return await super().create_upload(key, metadata=metadata, **options)

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        self._arrive(f"put_part {number}")
        return await super().put_part(key, upload_id, number, body)

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        self._arrive(f"put {key}")
        return await super().put(key, body, **options)

    def _arrive(self, request: str) -> None:
        self.seen.append(request)
        if self.text in request:
            raise Unavailable(request, "key", "made to fail")


def failing(text: str, **options: Any) -> tuple[MemoryScene, list[str]]:
    seen: list[str] = []
    return MemoryScene(lambda store: Failing(store, text, seen), **options), seen


def test_marker_is_written_before_the_pending_file() -> None:
    scene, seen = failing("nothing")
    scene.filesystem.pipe_file(f"{BASE}/a", b"")
    key = f"{BASE}/a".removeprefix("bucket/")
    assert seen[-2:] == [f"put {key}", f"put {key}.pending"]


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize(
    "request_that_fails", ["create_upload", "put_part 1", "put_part 2", "put ", ".pending"]
)
def test_any_error_aborts_the_upload_and_leaves_nothing(
    local: Path, write: Way, request_that_fails: str
) -> None:
    scene, _ = failing(request_that_fails, part_size=5)
    scene.put("old/source %", BODY)
    with pytest.raises(Unavailable, match="made to fail"):
        write(scene.filesystem, f"{BASE}/a", local)
    assert scene.uploads() == []
    assert scene.objects() == {"old/source %": BODY}


def test_file_that_failed_takes_no_more_data_and_closes_in_silence() -> None:
    scene, _ = failing("put_part", part_size=2)
    file = scene.filesystem.open(f"{BASE}/a", "wb")
    with pytest.raises(Unavailable):
        for _ in range(100):
            file.write(b"1234")
    with pytest.raises(ValueError, match="open it again"):
        file.write(b"1234")
    file.close()
    assert (scene.objects(), scene.uploads()) == ({}, [])


def test_open_takes_its_path_apart_once(scene: MemoryScene, monkeypatch: pytest.MonkeyPatch) -> None:
    taken_apart: list[str] = []

    def counted(path: str, dialect: Dialect) -> MagicPath | None:
        taken_apart.append(path)
        return locate(path, dialect)

    monkeypatch.setattr(connection, "locate", counted)
    path = f"{BASE}/part-0.csv"
    with scene.filesystem.open(path, "wb") as file:
        file.write(BODY)
    assert taken_apart == [path]
