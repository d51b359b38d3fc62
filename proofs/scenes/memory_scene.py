"""A bucket in memory with ``MagicFileSystem`` around it, every request counted: for tests of writers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from fsspec.asyn import sync

from magicfs.filesystem import MagicFileSystem
from magicfs.formats.pending import Pending
from magicfs.protocol.magic import PENDING
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Part, Store
from magicfs.testing.counting_store import CountingStore
from proofs.scenes.known import all_ended

__all__ = ["BUCKET", "CountingFileSystem", "MemoryScene"]

BUCKET = "bucket"
"""The bucket of every scene."""

_T = TypeVar("_T")


class CountingFileSystem(MemoryFileSystem):
    """Files in a world of their own; every request to it is counted by its name at the port.

    Args:
        wrap: Put around each store, within the counting one: to make requests fail.
    """

    def __init__(self, wrap: Callable[[Store], Store] = lambda store: store) -> None:
        super().__init__(world=World())
        self.counts: Counter[str] = Counter()
        self._wrap = wrap

    def store(self, bucket: str) -> Store:
        """The counting store of a bucket."""
        return CountingStore(self._wrap(super().store(bucket)), self.counts)


class MemoryScene:
    """One bucket, the filesystem that a test writes through, and what lies in the bucket.

    Args:
        wrap: As for ``CountingFileSystem``.
        **options: Of ``MagicFileSystem``.
    """

    def __init__(self, wrap: Callable[[Store], Store] = lambda store: store, **options: Any) -> None:
        self.wrapped = CountingFileSystem(wrap)
        self.wrapped.world.create_bucket(BUCKET)
        self.filesystem = MagicFileSystem(self.wrapped, **options)
        self._plain = MemoryStore(BUCKET, self.wrapped.world)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the filesystem's loop."""
        result: _T = sync(self.filesystem.loop, lambda: coroutine)
        return result

    def settle(self) -> None:
        """Wait for everything that runs on the loop, such as the abort of a file that was collected."""
        self.run(_others())

    def requests(self) -> dict[str, int]:
        """What was counted since the last call, by the port's names."""
        all_ended()
        counted = dict(self.wrapped.counts)
        self.wrapped.counts.clear()
        return counted

    def put(self, key: str, body: bytes = b"") -> None:
        """Write an object past every filesystem."""
        self.run(self._plain.put(key, body))

    def objects(self) -> dict[str, bytes]:
        """Every object of the bucket, work objects included, by key."""
        all_ended()
        return self.run(self._objects())

    def uploads(self) -> list[str]:
        """The final keys of all pending uploads, sorted."""
        all_ended()
        return self.run(self._uploads())

    def publish(self) -> dict[str, bytes]:
        """Complete what the ``.pending`` files describe, as a job commit would; what became visible."""
        all_ended()
        return self.run(self._publish())

    async def _objects(self) -> dict[str, bytes]:
        keys = [info.key async for info in self._plain.list("")]
        return {key: await self._plain.get(key) for key in keys}

    async def _uploads(self) -> list[str]:
        return [info.key async for info in self._plain.list_uploads("")]

    async def _publish(self) -> dict[str, bytes]:
        published = {}
        async for pending in self._pendings():
            parts = [Part(number, part.etag) for number, part in enumerate(pending.parts, start=1)]
            await self._plain.complete_upload(pending.destination_key, pending.upload_id, parts)
            published[pending.destination_key] = await self._plain.get(pending.destination_key)
        return published

    async def _pendings(self) -> AsyncIterator[Pending]:
        for key, body in (await self._objects()).items():
            if key.endswith(PENDING):
                yield Pending.from_bytes(f"{BUCKET}/{key}", body)


async def _others() -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
