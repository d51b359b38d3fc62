"""A bucket with several datasets in it, beside, below and above each other."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import magicfs
from magicfs.errors import MagicError, PermissionDenied
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol.paths import is_visible
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import ObjectInfo, Store
from proofs.scenes.arranged import arranged

__all__ = ["Lake"]

_T = TypeVar("_T")
_UNIQUE = re.compile(r"-[^/.]*")


class Lake:
    """One bucket in a world of its own.

    Attributes:
        denied: Prefixes whose directories may not be listed.
        completes: How many uploads may still be completed; None for any number.
        between_pages: A key, and what happens once, where a listing has come as far as that key.
    """

    def __init__(self) -> None:
        self.denied: tuple[str, ...] = ()
        self.completes: int | None = None
        self.between_pages: tuple[str, Callable[[], object]] | None = None
        self.filesystem = _LakeFileSystem(self)
        self.filesystem.world.create_bucket("bucket")
        self._plain = MemoryStore("bucket", self.filesystem.world)

    def url(self, directory: str) -> str:
        """The URL of a directory."""
        return f"memory://bucket/{directory}" if directory else "memory://bucket"

    def job(self, directory: str, mode: str, **options: Any) -> magicfs.Job:
        """A job, not set up yet."""
        how: dict[str, Any] = {"mode": mode, "filesystem": self.filesystem, "concurrency": 1}
        return magicfs.Job(self.url(directory), **arranged(**how | options))

    def write(self, job: magicfs.Job, *names: str, extra: str | None = None) -> TaskCommit:
        """A task that writes files, at the destination or at an extra one."""
        task = job.task(len(job.commits)).setup()
        path = task.path if extra is None else task.path_to(self.url(extra))
        task.filesystem.pipe({f"{path}/{name}": name.encode() for name in names})
        return task.commit()

    def finish(self, job: magicfs.Job, *names: str) -> None:
        """Write files, and commit them."""
        job.commit([self.write(job, *names)])

    def publish(self, directory: str, *names: str, mode: str = "append", **options: Any) -> magicfs.Job:
        """A whole job; a refusal leaves nothing of it."""
        with self.job(directory, mode, **options) as job:
            self.write(job, *names)
        return job

    def half_published(
        self,
        directory: str,
        mode: str,
        *names: str,
        extra: str | None = None,
        completes: int = 1,
    ) -> tuple[magicfs.Job, TaskCommit]:
        """A job whose driver has stopped after so many files; committing again goes on."""
        options: dict[str, Any] = {} if extra is None else {"extra_destinations": [self.url(extra)]}
        job = self.job(directory, mode, **options).setup()
        commit = self.write(job, *names, extra=extra)
        self.completes = completes
        try:
            job.commit([commit])
        except MagicError:
            pass
        else:
            raise AssertionError("the job was published")
        self.completes = None
        return job, commit

    def put(self, key: str, body: bytes = b"") -> None:
        """Write an object past every protocol."""
        _now(self._plain.put(key, body))

    def read(self, key: str) -> bytes:
        """The content of an object."""
        return _now(self._plain.get(key))

    def everything(self) -> list[str]:
        """Every key."""
        return _now(_collected(self._plain))

    def data(self) -> set[str]:
        """The keys of all data, without what makes them unique."""
        return {_UNIQUE.sub("", key) for key in self.everything() if is_visible(key, "")}

    def assert_tidy(self) -> None:
        """No job has left anything."""
        assert not [key for key in self.everything() if "__magic" in key]


async def _collected(store: Store) -> list[str]:
    return [info.key async for info in store.list("")]


def _now(coroutine: Coroutine[Any, Any, _T]) -> _T:
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    raise AssertionError("a store in memory waits for nothing")


class _LakeStore(DelegatingStore):
    def __init__(self, inner: Store, lake: Lake) -> None:
        super().__init__(inner)
        self._lake = lake

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        lake = self._lake
        if operation == "list_directories" and key in lake.denied:
            raise PermissionDenied(operation, f"bucket/{key}", "not allowed")
        if operation == "complete_upload" and lake.completes is not None:
            if not lake.completes:
                raise ConnectionError("the driver's machine is gone")
            lake.completes -= 1
        return await request()

    def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        if self._lake.between_pages is None or not self._lake.between_pages[0].startswith(prefix):
            return super().list(prefix, limit=limit)
        return self._in_two_pages(prefix, *self._lake.between_pages)

    async def _in_two_pages(
        self, prefix: str, place: str, happens: Callable[[], object]
    ) -> AsyncIterator[ObjectInfo]:
        async for info in super().list(prefix):
            if info.key < place:
                yield info
        self._lake.between_pages = None
        await asyncio.to_thread(happens)
        async for info in super().list(prefix):
            if info.key >= place:
                yield info


class _LakeFileSystem(MemoryFileSystem):
    def __init__(self, lake: Lake) -> None:
        super().__init__(world=World())
        self._lake = lake

    def store(self, bucket: str) -> Store:
        return _LakeStore(super().store(bucket), self._lake)
