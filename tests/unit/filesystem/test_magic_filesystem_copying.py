"""A copy to below a magic path is the copy of one object, or fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from magicfs.errors import ObjectNotFound, PreconditionFailed
from magicfs.filesystem import MagicFileSystem
from magicfs.job.job import Job
from magicfs.stores.memory.store import MemoryStore
from magicfs.testing.counting_store import CountingStore
from proofs.scenes.memory_scene import MemoryScene

BASE = "bucket/dataset1/__magic/mine/__base"
SOURCE = "old/a b%+#é"
Change = Callable[[MemoryStore], Any]
CHANGES: dict[str, Change] = {
    "replaced": lambda store: store.put(SOURCE, b"abcdefghij"),
    "longer": lambda store: store.put(SOURCE, b"abcdefghijklm"),
    "shorter": lambda store: store.put(SOURCE, b"a"),
    "deleted": lambda store: store.delete([SOURCE]),
}

WAYS: dict[str, Callable[[MagicFileSystem], Any]] = {
    "cp_file": lambda fs: fs.cp_file(f"bucket/{SOURCE}", f"{BASE}/a"),
    "copy": lambda fs: fs.copy(f"bucket/{SOURCE}", f"{BASE}/a"),
    "copy of a directory": lambda fs: fs.copy("bucket/old/", f"{BASE}/", recursive=True),
}


class Restless(CountingStore):
    """Lets the source change once some of its ranges were read."""

    def __init__(self, inner: MemoryStore, after: list[int], change: Change) -> None:
        super().__init__(inner, Counter())
        self._after = after
        self._change = change
        self._plain = inner

    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        if self._after[0] == 0:
            await self._change(self._plain)
        self._after[0] -= 1
        return await super().get_range(key, start, size, etag=etag)


@pytest.fixture
def scene() -> MemoryScene:
    """Ranges are as large as the parts of the copy."""
    return MemoryScene(part_size=3)


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_source_that_changes_fails_the_copy_and_nothing_is_recorded(
    after: int, change: str, way: str, tracking: Any
) -> None:
    left = [after]
    scene = MemoryScene(
        lambda store: Restless(store, left, CHANGES[change]),  # type: ignore[arg-type]
        tracking=tracking,
        part_size=3,
    )
    scene.put(SOURCE, b"0123456789")
    with pytest.raises(
        PreconditionFailed,
        match=r"replaced or deleted during the copy, and nothing was recorded; copy it",
    ):
        WAYS[way](scene.filesystem)
    assert (set(scene.objects()), scene.uploads()) == ({SOURCE} if change != "deleted" else set(), [])
    assert not scene.filesystem.exists(f"{BASE}/a")
    scene.put(SOURCE, b"0123456789")
    WAYS[way](scene.filesystem)
    assert len(scene.uploads()) == 1


def test_task_whose_copy_failed_commits_without_it(scene: MemoryScene) -> None:
    restless = MemoryScene(lambda store: Restless(store, [1], CHANGES["replaced"]))  # type: ignore[arg-type]
    restless.put(SOURCE, b"0123456789")
    job = Job(
        "memory://bucket/dataset1", mode="append", filesystem=restless.wrapped, options={"part_size": 3}
    )
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/b.csv", b"1")
        with pytest.raises(PreconditionFailed):
            task.filesystem.cp_file(f"bucket/{SOURCE}", f"{task.path}/a.csv")
    assert job.report.files == 1
    assert restless.uploads() == []


def test_source_that_stays_is_copied_range_by_range(scene: MemoryScene) -> None:
    scene.put(SOURCE, b"0123456789")
    scene.filesystem.cp_file(f"bucket/{SOURCE}", f"{BASE}/a")
    assert scene.requests()["get_range"] == 4
    assert scene.publish() == {"dataset1/a": b"0123456789"}


def test_empty_source_is_copied_without_reading_it(scene: MemoryScene) -> None:
    scene.put(SOURCE, b"")
    scene.filesystem.cp_file(f"bucket/{SOURCE}", f"{BASE}/a")
    assert "get_range" not in scene.requests()
    assert scene.publish() == {"dataset1/a": b""}


def test_source_that_is_not_there_is_told(scene: MemoryScene) -> None:
    with pytest.raises(ObjectNotFound):
        scene.filesystem.cp_file("bucket/old/nothing", f"{BASE}/a")
    for directory in ("bucket/old", "bucket"):
        scene.put(SOURCE, b"1")
        scene.filesystem.cp_file(directory, f"{BASE}/a")
    assert scene.uploads() == []
