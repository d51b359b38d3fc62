"""Ctrl-C at every request of a job: all or nothing is published, and the job says which."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import magicfs
from magicfs.errors import ProtocolViolation
from magicfs.job.job import Job
from magicfs.protocol import paths
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Store
from proofs.crash.store_models import world_of
from proofs.scenes.arranged import arranged
from proofs.scenes.instead import instead
from proofs.scenes.trouble import require

__all__ = [
    "KINDS",
    "NEW",
    "OLD",
    "URL",
    "CtrlC",
    "Files",
    "everywhere",
    "left",
    "play",
    "visible",
    "with_old",
    "write",
]

URL: Final = "memory://bucket/sales"
OLD: Final = {"sales/old.bin": b"old"}
NEW: Final = [b"new 0", b"new 1"]


class CtrlC:
    """Interrupts the thread that waits, at one request: before the store does it, or after."""

    def __init__(self, number: int = 0, *, after: bool = False, times: int = 1) -> None:
        self.number, self.after, self.times = number, after, times
        self.seen = self.raised = 0
        self.where = ""
        self.reached, self.told = threading.Event(), threading.Event()

    async def around(self, operation: str, key: str, request: Callable[[], Any]) -> Any:
        self.seen += 1
        mine = self.seen == self.number
        if mine:
            self.where = f"{operation} {key}"
        if mine and not self.after:
            await self._stand()
        try:
            return await request()
        finally:
            if mine and self.after:
                await self._stand()

    async def _stand(self) -> None:
        self.reached.set()
        await asyncio.to_thread(self.told.wait, 30)

    def wait(self, running: threading.Lock) -> None:
        """In place of the thread's own waiting."""
        if self.raised >= self.times:
            self.told.set()
        while not running.acquire(timeout=0.0005):
            if self.reached.is_set() and self.raised < self.times:
                self.raised += 1
                raise KeyboardInterrupt


class _Watched(DelegatingStore):
    def __init__(self, inner: Store, hook: CtrlC) -> None:
        super().__init__(inner)
        self._hook = hook

    async def _around(self, operation: str, key: str, request: Callable[[], Any]) -> Any:
        return await self._hook.around(operation, key, request)


class Files(MemoryFileSystem):
    """A bucket of its own, whose requests a ``CtrlC`` sees."""

    def __init__(self, world: World, hook: CtrlC) -> None:
        super().__init__(world=world)
        self.hook = hook

    def store(self, bucket: str) -> Store:
        return _Watched(super().store(bucket), self.hook)


def with_old(store: str = "s3") -> World:
    """A bucket with a file that was there before, on a kind of store."""
    world = world_of(store)
    world.create_bucket("bucket")
    for key, body in OLD.items():
        asyncio.run(world.store("bucket").put(key, body))
    return world


def _content(world: World) -> dict[str, bytes]:
    store = world.store("bucket")

    async def read() -> dict[str, bytes]:
        return {info.key: await store.get(info.key) async for info in store.list("")}

    return asyncio.run(read())


def visible(world: World) -> list[bytes]:
    """The contents of all data."""
    return sorted(body for key, body in _content(world).items() if paths.is_visible(key, "sales"))


def left(world: World) -> list[str]:
    """Work objects and uploads."""

    async def uploads() -> list[str]:
        return [one.key async for one in world.store("bucket").list_uploads("")]

    return [key for key in _content(world) if "__magic" in key] + asyncio.run(uploads())


def write(job: Job, number: int, body: bytes) -> None:
    """Run one task."""
    with job.task(number) as task:
        if task.url().startswith("/"):
            Path(task.path, f"a{number}.bin").write_bytes(body)
        else:
            task.filesystem.pipe_file(f"{task.path}/a{number}.bin", body)


def play(job: Job) -> BaseException | None:
    """Run the whole job in a ``with`` block; returns the interruption that came out of it."""
    try:
        with job:
            for number, body in enumerate(NEW):
                write(job, number, body)
    except KeyboardInterrupt as error:
        return error
    return None


KINDS: Final[dict[str, dict[str, Any]]] = {
    "magic": {},
    "magic in memory": {"tracking": "memory"},
    "magic, names of its own": {"unique_names": False},
    "directory": {"committer": "directory"},
}


def everywhere(kind: str, mode: str, directory: Path, *, every: int = 1, store: str = "s3") -> Iterator[str]:
    """What has become of a job that is interrupted at each of its requests in turn, or at each of so many.

    Raises Trouble if part of it is published, if anything is left, or if the job says what is not true.
    """
    options: dict[str, Any] = {"mode": mode, **KINDS[kind]}
    if kind == "directory":
        options["committer_options"] = {"work_directory": str(directory)}
    counted = CtrlC()
    require(
        play(magicfs.Job(URL, filesystem=Files(with_old(store), counted), **arranged(**options))) is None,
        "nobody did",
    )
    places = [(number, after) for number in range(1, counted.seen + 1) for after in (False, True)]
    for number, after in places[::every]:
        world, hook = with_old(store), CtrlC(number, after=after)
        job = magicfs.Job(URL, filesystem=Files(world, hook), **arranged(**options))
        with instead("magicfs.runtime.interrupt._wait", hook.wait):
            error = play(job)
        at = f"{number} of {counted.seen}, {'after' if after else 'before'} {hook.where}"
        require(isinstance(error, KeyboardInterrupt), at)
        word = _told(world, job, mode, at)
        notes = getattr(error, "__notes__", [])
        require(any(_WORDS[word] in note and job.id in note for note in notes), (at, word, notes))
        yield word


_WORDS: Final = {
    "committed": "is published anyway",
    "aborted": "is aborted; none of its files is published",
    "new": "is not set up; nothing was changed",
}


def _told(world: World, job: Job, mode: str, at: str) -> str:
    require(not left(world), (at, left(world)))
    published = sorted([*NEW, *([] if mode == "overwrite" else OLD.values())])
    state = repr(job).rpartition(" ")[2].rstrip(">")
    if visible(world) == published:
        require(state == "committed" and job.report.files == len(NEW), (at, state))
        return state
    require(visible(world) == list(OLD.values()) and state in {"aborted", "new"}, (at, state, visible(world)))
    with suppress(ProtocolViolation):
        require(False, (at, job.report))
    return state
