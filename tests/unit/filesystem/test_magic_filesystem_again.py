"""A path that is written again: refused where it shall be new; else nothing of the first write is left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import sync

from magicfs.datasets.own_paths import discard, publish
from magicfs.errors import ObjectExists, PermissionDenied, Unavailable, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.filesystem.tracking import name_in, tracker
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol.magic import PENDING
from magicfs.stores.port import Store
from magicfs.testing.counting_store import CountingStore
from proofs.scenes.memory_scene import MemoryScene

OWN = "bucket/dataset1/__magic/mine/__base"
NAMES = ["a.csv", "day=1/a b%+#é.csv", "dataset10/x"]
Exclusive = Callable[[MagicFileSystem, str, Path], Any]


def by_open_async(fs: MagicFileSystem, path: str, _local: Path) -> None:
    async def write() -> None:
        async with await fs.open_async(path, "xb") as file:
            await file.write(b"2")

    sync(fs.loop, write)


def by_open(fs: MagicFileSystem, path: str, _local: Path, mode: str = "xb") -> None:
    with fs.open(path, mode) as file:
        file.write(b"2" if "b" in mode else "2")


EXCLUSIVE: dict[str, Exclusive] = {
    "open": by_open,
    "open text": lambda fs, path, local: by_open(fs, path, local, "x"),
    "open_async": by_open_async,
    "pipe_file": lambda fs, path, local: fs.pipe_file(path, b"2", mode="create"),
    "pipe_file by position": lambda fs, path, local: fs.pipe_file(path, b"2", "create"),
    "put_file": lambda fs, path, local: fs.put_file(str(local), path, mode="create"),
}


@pytest.fixture
def local(tmp_path: Path) -> Path:
    (tmp_path / "2").write_bytes(b"2")
    return tmp_path / "2"


@pytest.fixture(params=["task, store", "task, memory", "own, store", "own, memory"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[MemoryScene, MagicFileSystem, str]]:
    kind, _, tracking = request.param.partition(", ")
    if kind == "own":
        scene = MemoryScene(tracking=tracking)
        yield scene, scene.filesystem, OWN
        return
    scene = MemoryScene()
    job = Job(
        "memory://bucket/dataset1", mode="append", filesystem=scene.wrapped, options={"tracking": tracking}
    )
    job.setup()
    task: Task = job.task(0)
    task.setup()
    yield scene, task.filesystem, task.path
    task.abort()
    job.abort()
    assert scene.uploads() == []


Place = tuple[MemoryScene, MagicFileSystem, str]


class TestExclusive:
    @pytest.mark.parametrize("way", EXCLUSIVE)
    @pytest.mark.parametrize("name", NAMES)
    def test_path_that_is_pending_is_refused(self, place: Place, local: Path, name: str, way: str) -> None:
        scene, fs, base = place
        EXCLUSIVE[way](fs, f"{base}/{name}", local)
        before = (scene.objects(), scene.uploads())
        with pytest.raises(
            ObjectExists, match=r"written and is pending; choose another name, or open it with"
        ):
            EXCLUSIVE[way](fs, f"{base}/{name}", local)
        assert (scene.objects(), scene.uploads()) == before
        EXCLUSIVE[way](fs, f"{base}/{name}0", local)

    @pytest.mark.parametrize("way", EXCLUSIVE)
    def test_path_that_is_being_written_is_refused(self, place: Place, local: Path, way: str) -> None:
        scene, fs, base = place
        with fs.open(f"{base}/a", "wb") as file:
            with pytest.raises(FileExistsError, match="is being written"):
                EXCLUSIVE[way](fs, f"{base}/a", local)
            file.write(b"1")
        assert len(scene.uploads()) == 1

    def test_path_is_new_again_when_its_file_is_gone(self, place: Place, local: Path) -> None:
        scene, fs, base = place
        fs.open(f"{base}/a", "xb").abort()
        for way in EXCLUSIVE.values():
            way(fs, f"{base}/a", local)
            fs.rm(f"{base}/a")
        assert scene.uploads() == []

    def test_path_that_is_not_exclusive_can_be_written_again(self, place: Place, local: Path) -> None:
        _, fs, base = place
        fs.open(f"{base}/a", "xb").close()
        fs.pipe_file(f"{base}/a", b"2", mode="overwrite")
        assert fs.size(f"{base}/a") == 1

    def test_files_that_are_refused_count_for_nothing(self, place: Place, local: Path) -> None:
        _, fs, base = place
        magic = fs.locate(f"{base}/a")
        assert magic is not None
        file = fs.open(f"{base}/a", "wb")
        for way in EXCLUSIVE.values():
            with pytest.raises(FileExistsError):
                way(fs, f"{base}/a", local)
        name = name_in(fs.store(magic.bucket), magic.scope)
        assert tracker().snapshot(name).open == {magic.path: 1}
        file.abort()

    def test_mode_that_nobody_knows_is_refused(self, place: Place) -> None:
        scene, fs, base = place
        with pytest.raises(UsageError, match="mode='append' is unknown; choose one of overwrite, create"):
            fs.pipe_file(f"{base}/a", b"1", mode="append")
        assert scene.uploads() == []


def test_file_of_another_process_is_seen_where_tracking_is_in_the_store(scene: MemoryScene) -> None:
    scene.put(f"{OWN}/a".removeprefix("bucket/"))  # its marker
    with pytest.raises(FileExistsError):
        scene.filesystem.open(f"{OWN}/a", "xb")
    assert scene.requests() == {"head": 1}


@pytest.mark.parametrize("tracking", ["store", "memory"])
class TestOwnPath:
    def test_later_write_takes_the_place_of_the_earlier(self, tracking: Any) -> None:
        scene = MemoryScene(tracking=tracking)
        for name in NAMES:
            for body in (b"first, and longer", b"second", b""):
                scene.filesystem.pipe_file(f"{OWN}/{name}", body)
                assert scene.filesystem.size(f"{OWN}/{name}") == len(body)
        assert scene.uploads() == sorted(f"dataset1/{name}" for name in NAMES)

    def test_last_write_is_published_and_nothing_else_is_left(self, tracking: Any) -> None:
        scene = MemoryScene(tracking=tracking)
        for body in (b"first", b"last"):
            scene.filesystem.pipe_file(f"{OWN}/a b%+#é", body)
        publish(f"memory://{OWN}", filesystem=scene.wrapped)
        assert scene.objects()["dataset1/a b%+#é"] == b"last"
        assert scene.uploads() == []
        scene.filesystem.pipe_file(f"{OWN}/a b%+#é", b"again")
        assert len(scene.uploads()) == 1
        discard(f"memory://{OWN}", filesystem=scene.wrapped)
        assert scene.uploads() == []

    def test_first_write_asks_nothing_and_a_later_one_only_for_the_earlier(self, tracking: Any) -> None:
        scene = MemoryScene(tracking=tracking)
        file = {"create_upload": 1, "put_part": 1}
        scene.filesystem.pipe_file(f"{OWN}/a", b"1")
        assert scene.requests() == ({**file, "put": 2} if tracking == "store" else file)
        scene.filesystem.pipe_file(f"{OWN}/a", b"2")
        again = {**file, "put": 3, "get": 1} if tracking == "store" else file
        assert scene.requests() == {**again, "list": 1, "abort_upload": 1}


@pytest.mark.parametrize("tracking", ["store", "memory"])
@pytest.mark.parametrize("published", [f"{OWN}/day=1", f"{OWN}/day=10", ""])
def test_what_is_being_published_is_left_to_that(tracking: Any, published: str) -> None:
    scene = MemoryScene(tracking=tracking)
    scene.filesystem.pipe_file(f"{OWN}/day=1/a", b"1")
    job = Job("memory://bucket/dataset1", mode="append", filesystem=scene.wrapped).setup()
    key = f"dataset1/__magic_job-{job.id}/job-{job.id}/job.json"
    document = json.loads(scene.objects()[key])
    if published:
        document["options"]["places"] = {"ownPath": published.removeprefix("bucket/")}
    scene.put(key, json.dumps(document).encode())
    scene.put("dataset1/__magic_job-nothing/x")
    scene.filesystem.pipe_file(f"{OWN}/day=1/a", b"2")
    assert len(scene.uploads()) == (2 if published == f"{OWN}/day=1" else 1)


class Refusing(CountingStore):
    """Fails what aborts an upload."""

    def __init__(self, inner: Store, fails: list[bool]) -> None:
        super().__init__(inner, Counter())
        self._fails = fails

    async def abort_upload(self, key: str, upload_id: str) -> None:
        if self._fails and self._fails.pop():
            raise Unavailable("abort_upload", key, "made to fail")
        await super().abort_upload(key, upload_id)


def test_record_that_nobody_can_read_is_replaced(scene: MemoryScene) -> None:
    scene.put(f"{OWN}/a".removeprefix("bucket/"))
    for garbage in (b"", b"{}", b"\xff"):
        scene.put(f"{OWN}/a{PENDING}".removeprefix("bucket/"), garbage)
        scene.filesystem.pipe_file(f"{OWN}/a", b"1")
    assert set(scene.publish()) == {"dataset1/a"}


def test_upload_that_a_record_names_of_another_file_is_left(scene: MemoryScene) -> None:
    scene.filesystem.pipe_file(f"{OWN}/theirs", b"1")
    record = scene.objects()[f"{OWN}/theirs{PENDING}".removeprefix("bucket/")]
    scene.put(f"{OWN}/mine".removeprefix("bucket/"))
    scene.put(f"{OWN}/mine{PENDING}".removeprefix("bucket/"), record)
    scene.filesystem.pipe_file(f"{OWN}/mine", b"2")
    assert scene.uploads() == ["dataset1/mine", "dataset1/theirs"]


def test_write_whose_earlier_upload_cannot_be_aborted_fails_and_leaves_no_record() -> None:
    fails: list[bool] = []
    scene = MemoryScene(lambda store: Refusing(store, fails))
    scene.filesystem.pipe_file(f"{OWN}/a", b"1")
    fails.append(True)
    with pytest.raises(Unavailable, match="made to fail"):
        scene.filesystem.pipe_file(f"{OWN}/a", b"2")
    assert scene.objects() == {}


class WriteOnly(CountingStore):
    """Lets nobody read or list."""

    async def _around(self, operation: str, key: str, request: Callable[[], Any]) -> Any:
        if operation in {"get", "head", "list_directories"}:
            raise PermissionDenied(operation, key, "made to be refused")
        return await super()._around(operation, key, request)

    def _steps(self, operation: str, prefix: str, items: Any) -> Any:
        if operation == "list_directories":
            raise PermissionDenied(operation, prefix, "made to be refused")
        return super()._steps(operation, prefix, items)


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_who_may_only_write_can_write_again(tracking: Any) -> None:
    scene = MemoryScene(lambda store: WriteOnly(store, Counter()), tracking=tracking)
    for body in (b"1", b"2"):
        scene.filesystem.pipe_file(f"{OWN}/a", body)
    assert scene.uploads() == ["dataset1/a", "dataset1/a"]
