"""Where forged records are laid: a bucket or a directory with a dataset, its neighbors, and jobs that died.

Everything outside of ``sales`` is a neighbor's: it holds a word that must never appear elsewhere.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

import magicfs
from magicfs.formats.registration import Registration
from magicfs.manifests import registrations
from magicfs.protocol.job_state import JobState
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.port import Store
from magicfs.transaction import prepare
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.doubles.servers import Ministack
from proofs.scenes.arranged import arranged
from proofs.scenes.unfinished import died_in

__all__ = ["CANARY", "SCENES", "Ground", "LocalGround", "MemoryGround", "S3Ground", "built", "impatient"]

CANARY: Final = b"a neighbor's own row"

Objects = dict[str, bytes]


class Ground(ABC):
    """A place that can be brought back to what it was.

    Attributes:
        filesystem: The filesystem that reaches it.
        root: The key of the directory in which the datasets lie; empty for a bucket.
    """

    filesystem: AbstractFileSystem
    root: str = ""
    bucket: str = BUCKET
    scheme: str

    def key(self, relative: str) -> str:
        """The key of a path relative to the root."""
        return f"{self.root}/{relative}" if self.root else relative

    def url(self, relative: str) -> str:
        """The URL of a path relative to the root."""
        return f"{self.scheme}://{self.bucket}/{self.key(relative)}"

    @property
    def store(self) -> Store:
        """The store under the filesystem."""
        return resolve.open_store(self.filesystem, self.bucket)

    def put(self, key: str, body: bytes) -> None:
        """Write an object, as somebody may who has no magicfs."""
        run_on(resolve.loop_of(self.filesystem), self.store.put, key, body)

    def objects(self) -> Objects:
        """Every object by its key."""
        return run_on(resolve.loop_of(self.filesystem), self._objects)

    async def _objects(self) -> Objects:
        store = self.store
        keys = [info.key async for info in store.list(f"{self.root}/" if self.root else "")]
        return {key: await store.get(key) for key in keys}

    def outside(self) -> Mapping[str, object]:
        """All that lies outside of ``sales``, with all that can be seen of it."""
        own = self.key("sales/")
        return {key: body for key, body in self.objects().items() if not key.startswith(own)}

    @abstractmethod
    def keep(self) -> Callable[[], None]:
        """Remember what is there; what is returned brings it back."""

    @abstractmethod
    def close(self) -> None:
        """Remove all of it."""


class MemoryGround(Ground):
    """A bucket of a world in memory. Uploads come back, too."""

    scheme = "memory"

    def __init__(self) -> None:
        self._enter(SnapshotWorld(time.time))

    def _enter(self, world: SnapshotWorld) -> None:
        self.world = world
        self.filesystem = MemoryFileSystem(world=world, skip_instance_cache=True)

    def objects(self) -> Objects:
        return {key: held.body for key, held in self.world.objects.items()}

    def outside(self) -> Mapping[str, object]:
        objects, uploads = self.world.objects.items(), self.world.uploads.items()
        found: dict[str, object] = {key: held for key, held in objects if not key.startswith("sales/")}
        return found | {one: upload.key for one, upload in uploads if not upload.key.startswith("sales/")}

    def keep(self) -> Callable[[], None]:
        kept = self.world.copy()
        return lambda: self._enter(kept.copy())

    def close(self) -> None:
        """A world goes with who holds it."""


class _ByDifference(Ground):
    def keep(self) -> Callable[[], None]:
        kept = self.objects()

        def restore() -> None:
            now = self.objects()
            if gone := [key for key in now if key not in kept]:
                for start in range(0, len(gone), 1000):
                    run_on(resolve.loop_of(self.filesystem), self.store.delete, gone[start : start + 1000])
            for key, body in kept.items():
                if now.get(key) != body:
                    self.put(key, body)

        return restore


class LocalGround(_ByDifference):
    """A directory of this machine, with another one beside it in which nothing may change."""

    scheme = "file"
    bucket = ""

    def __init__(self) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="hostile-"))
        self.filesystem = LocalFileSystem()
        self.root = str(self._place / "lake")[1:]
        (self._place / "lake").mkdir()
        (self._place / "home").mkdir()
        (self._place / "home" / "key").write_bytes(CANARY)

    def outside(self) -> Mapping[str, object]:
        own, found = self._place / "lake" / "sales", dict[str, object]()
        for one in sorted(self._place.rglob("*")):
            if own in one.parents or one == own or one.name.startswith(".magicfs-uploads"):
                continue
            stat = one.lstat()
            is_file = one.is_file() and not one.is_symlink()
            body = hashlib.sha256(one.read_bytes()).hexdigest() if is_file else ""
            found[str(one)] = (stat.st_mode, stat.st_mtime_ns if is_file else 0, body)
        return found

    def close(self) -> None:
        shutil.rmtree(self._place)


class S3Ground(_ByDifference):
    """A bucket on a server that speaks S3, started for it."""

    scheme = "s3"

    def __init__(self) -> None:
        import s3fs

        self._server = Ministack()
        self._server.__enter__()
        self._server.create_bucket(BUCKET)
        self.filesystem = s3fs.S3FileSystem(**self._server.storage_options(), use_listings_cache=False)

    def outside(self) -> Mapping[str, object]:
        found: dict[str, object] = dict(super().outside())
        uploads = self._server.uploads(BUCKET)
        return found | {one: key for key, one in uploads if not key.startswith("sales/")}

    def close(self) -> None:
        self._server.__exit__(None, None, None)


@contextmanager
def impatient() -> Iterator[None]:
    """Within it nothing is logged, and nobody waits for jobs that are dead."""
    logger = logging.getLogger("magicfs")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with patch.object(prepare, "_PAUSE_S", 0.001):
            yield
    finally:
        logger.setLevel(level)


# -- what lies there -----------------------------------------------------------------------------------------


def _publish(ground: Ground, dataset: str, body: bytes, **options: Any) -> str:
    job = magicfs.Job(ground.url(dataset), filesystem=ground.filesystem, **arranged(**options))
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/day=1/part.csv", body)
    return str(job.id)


def _neighbors(ground: Ground) -> None:
    for name in ("finance", "late"):
        _publish(ground, name, CANARY, mode="append")
    ground.put(ground.key("loose.csv"), CANARY)


def _published(ground: Ground) -> None:
    """A dataset with a past: kept files, a tag, a log, footers, a registration, and nothing unfinished."""
    about = {"filesystem": ground.filesystem}
    url = ground.url("sales")
    first = _publish(ground, "sales", b"a\n1\n", mode="append", run_id="monday", footers=True)
    _publish(ground, "sales", b"a\n2\n", mode="overwrite_partitions", keep="1s", run_id="tuesday")
    magicfs.Dataset(url, **about).tag("good")
    magicfs.Dataset(url, **about).compact()
    newest = _publish(ground, "sales", b"a\n3\n", mode="append", checksums=True, run_id="wednesday")
    one = Registration(job_id=newest, catalog="delta", options={}, line="magicfs maintain --register")
    run_on(resolve.loop_of(ground.filesystem), registrations.write, ground.store, ground.key("sales"), [one])
    magicfs.Dataset(url, **about).rollback(to=first, keep="7d")


def _open(ground: Ground, **options: Any) -> None:
    _publish(ground, "sales", b"a\n1\n", mode="append")
    job = died_in(JobState.OPEN, ground.url("sales"), filesystem=ground.filesystem, run_id="today", **options)
    task = job.task(7).setup()  # it is never committed: its records wait
    task.filesystem.pipe_file(f"{task.path}/late.csv", b"late")
    task.filesystem.info(f"{task.path}/late.csv")  # waits until it is recorded


def _died(state: JobState, **options: Any) -> Callable[[Ground], None]:
    def build(ground: Ground) -> None:
        _publish(ground, "sales", b"a\n1\n", mode="append")
        how = dict(options)
        if how.pop("extra", False):
            how["extra_destinations"] = [ground.url("late")]
        completed = 1 if state in {JobState.COMMITTING, JobState.REVERTING} else 0
        url = ground.url("sales")
        died_in(state, url, completed=completed, filesystem=ground.filesystem, run_id="today", **how)

    return build


def _own_path(ground: Ground) -> None:
    _publish(ground, "sales", b"a\n1\n", mode="append")
    path = ground.url("sales/__magic/mine/__base/day=2/own.csv")
    magicfs.MagicFileSystem(fs=ground.filesystem).pipe_file(path, b"a\n5\n")


SCENES: Final[Mapping[str, Callable[[Ground], None]]] = {
    "published": _published,
    "open": _open,
    "committing": _died(JobState.COMMITTING, mode="overwrite"),
    "elsewhere": _died(JobState.COMMITTING, extra=True),
    "reverting": _died(JobState.REVERTING),
    "completed": _died(JobState.COMPLETED, mode="overwrite_partitions", keep="7d"),
    "own path": _own_path,
}
"""What lies in ``sales``, by name."""


def built(ground: Ground, scene: str) -> None:
    """Lay a scene and its neighbors out on an empty ground."""
    _neighbors(ground)
    SCENES[scene](ground)
