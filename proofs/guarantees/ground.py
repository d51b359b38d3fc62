"""Where committers are tried: a bucket whose every request is numbered, and processes that die at one."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fsspec.asyn import get_loop, sync
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from magicfs.protocol import paths
from magicfs.stores.conditions import Conditions, assume
from magicfs.stores.local.held import UPLOADS
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Store
from magicfs.testing.counting_store import CountingStore
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault, Request
from proofs.crash.snapshots import SnapshotWorld
from proofs.crash.store_models import MODELS, plain_store

__all__ = [
    "DESTINATION",
    "Dead",
    "Ground",
    "LocalGround",
    "MemoryGround",
    "MortalTraffic",
    "traffic_of",
    "visible",
]

DESTINATION = "sales 1+#%/ü"
"""Below which all jobs publish, next to another dataset whose name begins alike."""

BUCKET = "bucket"
"""The bucket in memory."""

_T = TypeVar("_T")


class Dead(Exception):
    """The process has died. What it still tries does not reach the store, whatever handlers run."""


class MortalTraffic(Traffic):
    """The requests of one process, which dies where a fault says, or sleeps.

    Attributes:
        pause: Number of the request before which the process sleeps; 0 for none.
        asleep: Set when it does.
        awake: Set it to let the process go on.
    """

    pause = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.asleep, self.awake = threading.Event(), threading.Event()

    async def send(self, *args: Any, **options: Any) -> Any:
        if self.count + 1 == self.pause:
            self.asleep.set()
            # Other loops may be told to wake it, so there is nothing to await.
            while not self.awake.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        return await super().send(*args, **options)

    def _check(self, actor: Actor) -> None:
        if actor.dead:
            raise Dead(actor.name)


class Ground(Protocol):
    """One empty bucket.

    Attributes:
        name: What the table calls it.
        url: URL of the destination.
        directory: A directory of this machine, for whoever needs one.
    """

    name: str
    url: str
    directory: Path

    @property
    def copied(self) -> int:
        """Bytes that the store has copied."""

    def filesystem(self, traffic: Traffic, actor: Actor) -> AbstractFileSystem:
        """A process's way to the bucket."""

    def objects(self) -> dict[str, bytes]:
        """Every object by its key."""

    def uploads(self) -> list[tuple[str, str]]:
        """Key and id of every pending upload."""

    def write(self, key: str, body: bytes) -> None:
        """Write an object past every protocol."""

    def close(self) -> None:
        """Leave nothing behind."""


class _Files(MemoryFileSystem):
    """One process's files."""

    def __init__(self, plain: MemoryStore, traffic: Traffic, actor: Actor, copied: Counter[str]) -> None:
        super().__init__(world=plain.world)
        self._plain = plain
        self._copied = copied
        self._traffic = traffic
        self._actor = actor

    def store(self, bucket: str) -> Store:
        assert bucket == self._plain.bucket
        counting = CountingStore(self._plain, Counter(), self._copied)
        return faulty(counting, self._traffic, self._actor)


class MemoryGround:
    """A bucket in memory: an object store, which renames by copying; or a model of another store."""

    name = "memory"

    def __init__(self, model: str | None = None) -> None:
        self._store, honoured = _model(model) if model else (_memory(), Conditions())
        self.url = f"memory://{BUCKET}/{DESTINATION}"
        self.directory = Path(tempfile.mkdtemp(prefix="magicfs-guarantees-"))
        self._copied: Counter[str] = Counter()
        # What is tried here is the committer, not what the store honours.
        assume(self._store, honoured)

    def filesystem(self, traffic: Traffic, actor: Actor) -> AbstractFileSystem:
        return _Files(self._store, traffic, actor, self._copied)

    @property
    def copied(self) -> int:
        return self._copied.total()

    def objects(self) -> dict[str, bytes]:
        # Not through the store: whoever watches requests asks from within one.
        found = self._store.world.find(BUCKET)
        assert found is not None
        return {key: one.body for key, one in found.objects.items()}

    def uploads(self) -> list[tuple[str, str]]:
        found = self._store.world.find(BUCKET)
        assert found is not None
        return [(one.key, upload_id) for upload_id, one in found.uploads.items()]

    def write(self, key: str, body: bytes) -> None:
        _now(self._store.put(key, body))

    def close(self) -> None:
        assume(self._store, None)
        shutil.rmtree(self.directory, ignore_errors=True)


def _memory() -> MemoryStore:
    world = World()
    world.create_bucket(BUCKET)
    return MemoryStore(BUCKET, world)


def _model(name: str) -> tuple[MemoryStore, Conditions]:
    return plain_store(SnapshotWorld(time.time), name), MODELS[name].honoured


class _LocalFiles(LocalFileSystem):
    """One process's files on this machine; every file that is written is one request."""

    cachable = False

    def __init__(self, traffic: Traffic, actor: Actor) -> None:
        super().__init__(auto_mkdir=True)
        self._traffic = traffic
        self._actor = actor

    def store(self, bucket: str) -> Store:
        """The store behind the files."""
        return faulty(LocalStore(bucket), self._traffic, self._actor)

    def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        async def write() -> None:
            super(_LocalFiles, self).pipe_file(path, value, **kwargs)

        sync(get_loop(), self._traffic.send, self._actor, "put", path, write)


class LocalGround:
    """A directory of this machine, which renames in one step."""

    name = "local"

    def __init__(self) -> None:
        self._top = Path(tempfile.mkdtemp(prefix="magicfs-guarantees-"))
        self.directory = self._top / "work"
        self._bucket = self._top / "bucket"
        self._bucket.mkdir()
        self.url = f"file://{self._bucket}/{DESTINATION}"

    @property
    def copied(self) -> int:
        return 0

    def filesystem(self, traffic: Traffic, actor: Actor) -> AbstractFileSystem:
        return _LocalFiles(traffic, actor)

    def objects(self) -> dict[str, bytes]:
        found = {}
        # Other requests of the same job may be under way, and take files and directories of their own away.
        for directory, _, names in os.walk(self._bucket):
            for path in (Path(directory, name) for name in names if UPLOADS not in Path(directory).parts):
                with suppress(FileNotFoundError):
                    found[str(path.relative_to(self._bucket))] = path.read_bytes()
        return dict(sorted(found.items()))

    def uploads(self) -> list[tuple[str, str]]:
        return [
            (str(path.parent.parent.relative_to(self._bucket)), path.name)
            for path in sorted(self._bucket.rglob(f"{UPLOADS}/*"))
        ]

    def write(self, key: str, body: bytes) -> None:
        path = self._bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def close(self) -> None:
        shutil.rmtree(self._top, ignore_errors=True)


def visible(objects: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a reader who lists the destination takes for data, by its name below it."""
    prefix = paths.prefix_of(DESTINATION)
    return {
        key[len(prefix) :]: body
        for key, body in objects.items()
        if key.startswith(prefix) and paths.is_visible(key, DESTINATION)
    }


def _now(coroutine: Coroutine[Any, Any, _T]) -> _T:
    result: _T = sync(get_loop(), lambda: coroutine)
    return result


def traffic_of(faults: Sequence[Fault] = (), after: Callable[[Request], None] | None = None) -> MortalTraffic:
    """The requests of a process with faults, and somebody who is told of each that was done."""
    return MortalTraffic(faults, after=after)
