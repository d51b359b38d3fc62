"""The stores of memory, which is the definition, and of local files under the store exam."""

from __future__ import annotations

import secrets
from collections.abc import Coroutine, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from magicfs.errors import ObjectNotFound
from magicfs.stores.local.held import UPLOADS
from magicfs.stores.local.listing import FEW
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Store
from magicfs.testing.store_exam import FileStoreExam, StoreExam
from proofs.doubles.deviations import OfTheTables

__all__ = ["BUCKET", "LocalFiles", "LocalStoreExam", "MemoryObjects", "MemoryStoreExam"]

_T = TypeVar("_T")

BUCKET = "bucket"
"""The bucket of every test."""


class MemoryObjects:
    """The ground of an exam: a world of its own for each test."""

    @cached_property
    def world(self) -> World:
        """The test's own buckets."""
        world = World()
        world.create_bucket(BUCKET)
        return world

    def peek(self, key: str) -> bytes | None:
        """What the plain memory store holds."""
        try:
            return _at_once(MemoryStore(BUCKET, self.world).get(key))
        except ObjectNotFound:
            return None

    def poke(self, key: str, body: bytes) -> None:
        """Write through the plain memory store."""
        _at_once(MemoryStore(BUCKET, self.world).put(key, body))


class MemoryStoreExam(OfTheTables, MemoryObjects, StoreExam):
    """The exam of the memory store.

    Attributes:
        kind: The class under exam; a subclass of the exam may override ``make_store`` instead, to put a store
            around this one.
    """

    kind: ClassVar[type[MemoryStore]] = MemoryStore

    def make_store(self, bucket: str | None = None) -> Store:
        """The store under exam."""
        return self.kind(bucket or BUCKET, self.world)


def _at_once(coroutine: Coroutine[Any, Any, _T]) -> _T:
    # The memory store never waits, so its coroutines end in one step, on the loop or off it.
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: _T = end.value
        return result
    raise AssertionError("the memory store waited")


class LocalFiles:
    """The ground of an exam: a directory of its own for each test."""

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> Iterator[None]:
        self.directory = tmp_path / "bucket"
        self.directory.mkdir()
        yield
        assert not {*tmp_path.rglob("*.tmp")} - {*self.left_behind}, "a temporary file was left"
        for uploads in tmp_path.rglob(UPLOADS):
            # Those that the test has left open are whole, and nothing else lies beside them.
            left = sorted(uploads.iterdir())
            assert left, "an empty directory of uploads was left"
            assert all((one / "upload.json").is_file() for one in left), "half an upload was left"

    @cached_property
    def left_behind(self) -> list[Path]:
        """Temporary files of writers that have died."""
        return []

    def leave_behind(self, directory: str) -> None:
        """Let more writers have died in a directory than names are looked at in a short listing."""
        (self.directory / directory).mkdir(parents=True, exist_ok=True)
        for _ in range(FEW + 1):
            path = self.directory / directory / f".magicfs-{secrets.token_hex(8)}.tmp"
            path.write_bytes(b"half a fi")
            self.left_behind.append(path)

    def local_store(self, bucket: str | None = None) -> LocalStore:
        """The store of the directory; another bucket is a directory beside."""
        return LocalStore(str(self.directory.parent / (bucket or self.directory.name)))

    def peek(self, key: str) -> bytes | None:
        """What is in the file."""
        try:
            return (self.directory / key).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def poke(self, key: str, body: bytes) -> None:
        """Write the file beside and put it in its place, as careful programs do."""
        path = self.directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.directory.parent / "poked"
        beside.write_bytes(body)
        beside.replace(path)


class LocalStoreExam(OfTheTables, LocalFiles, FileStoreExam):
    """The exam of the store of local files."""

    def make_store(self, bucket: str | None = None) -> Store:
        """The store under exam."""
        return self.local_store(bucket)
