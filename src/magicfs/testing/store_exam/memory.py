"""The exam of the memory store, which is the definition, and of stores that are built around it."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from magicfs.errors import ObjectNotFound
from magicfs.stores.memory import MemoryStore, World
from magicfs.stores.port import Store
from magicfs.testing.store_exam.suite import StoreExam

__all__ = ["BUCKET", "MemoryObjects", "MemoryStoreExam"]

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


class MemoryStoreExam(MemoryObjects, StoreExam):
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
