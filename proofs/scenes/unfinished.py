"""Jobs that died in a chosen state: for tests of what comes after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from fsspec.asyn import sync

import magicfs
from magicfs.committers.magic import MagicCommitter
from magicfs.datasets import recover_jobs
from magicfs.engine import Engine
from magicfs.protocol.job_state import JobState
from magicfs.stores.memory.store import MemoryStore, default_world
from magicfs.stores.port import Part
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind
from proofs.scenes.arranged import arranged

__all__ = ["Bucket", "died_in", "written"]

_BEFORE = Kind.CRASH_BEFORE


class Bucket:
    """A bucket of this process's memory, seen past every filesystem.

    Args:
        name: The bucket, which is made.
    """

    def __init__(self, name: str) -> None:
        default_world().create_bucket(name)
        self.name = name
        self._store = MemoryStore(name, default_world())

    def url(self, key: str) -> str:
        """The URL of a key."""
        return f"memory://{self.name}/{key}"

    def put(self, key: str, body: bytes = b"") -> None:
        """Write an object."""
        asyncio.run(self._store.put(key, body))

    def delete(self, *keys: str) -> None:
        """Delete objects."""
        asyncio.run(self._store.delete(keys))

    def create_upload(self, key: str) -> str:
        """Begin an upload, as some other program may; returns its id."""
        return asyncio.run(self._store.create_upload(key, metadata={}))

    def upload(self, key: str, body: bytes) -> tuple[str, str]:
        """Begin an upload of one part; returns its id and the part's ETag."""
        upload_id = self.create_upload(key)
        return upload_id, asyncio.run(self._store.put_part(key, upload_id, 1, body)).etag

    def complete(self, key: str, upload_id: str, etag: str) -> None:
        """Complete it."""
        asyncio.run(self._store.complete_upload(key, upload_id, [Part(1, etag)]))

    def objects(self) -> dict[str, bytes]:
        """Every object by its key, work objects included."""
        return asyncio.run(self._objects())

    def uploads(self) -> list[str]:
        """The keys of all pending uploads, sorted."""
        return asyncio.run(self._uploads())

    def data(self, key: str) -> dict[str, bytes]:
        """What is visible below a directory: neither work nor manifests nor ``_SUCCESS``."""
        found = self.objects()
        return {
            one: found[one]
            for one in found
            if one.startswith(f"{key}/") and not any(part[:1] in "._" for part in one.split("/"))
        }

    async def _objects(self) -> dict[str, bytes]:
        keys = [info.key async for info in self._store.list("")]
        return {key: await self._store.get(key) for key in keys}

    async def _uploads(self) -> list[str]:
        return sorted([info.key async for info in self._store.list_uploads("")])


def written(url: str, *, tasks: int = 3, **options: Any) -> magicfs.Job:
    """A job whose tasks have each committed a file ``part.bin`` of their own number; it is open.

    With ``mode="overwrite_partitions"`` each lies in a partition of its own, ``day=<number>``.
    """
    job = magicfs.Job(url, **arranged(**{"mode": "append", **options})).setup()
    for number in range(tasks):
        with job.task(number) as task:
            place = f"day={number}/" if job.spec.options.mode == "overwrite_partitions" else ""
            task.filesystem.pipe_file(f"{task.path}/{place}part.bin", b"%d" % number)
    return job


def died_in(
    state: JobState, url: str, *, completed: int = 0, commits: Sequence[Any] | None = None, **options: Any
) -> magicfs.Job:
    """A job whose driver, or whose recovery, died in a state.

    Args:
        state: Which.
        url: Its destination.
        completed: How many of its files were visible by then; for ``committing`` and ``reverting``.
        commits: Those to publish; by default all that a listing shows.
        **options: Of ``written``.
    """
    if state is JobState.PREPARED:
        options = {"mode": "overwrite", **options}
    job = written(url, **options)
    if state is JobState.OPEN:
        return job
    if state is JobState.ABORTING:
        _recovery_that_dies(job, abort=True)
        return job
    key, destination = job.spec.work_layout.job_object_key, job.spec.location.key
    cut = Fault(_BEFORE, operation="complete_upload", prefix=destination)
    if completed:
        cut = replace(cut, kind=Kind.CRASH_AFTER, skip=completed - 1)
    faults = {
        JobState.PREPARED: Fault(_BEFORE, operation="put", prefix=key, skip=1),
        JobState.COMMITTING: cut,
        JobState.REVERTING: cut,
        JobState.COMPLETED: Fault(_BEFORE, operation="put", prefix=f"{destination}/_magicfs/"),
    }
    engine = _engine(job, faults[state])
    _die(job, MagicCommitter(job.spec.context, engine).commit_job, commits, job.found.driver)
    if state is JobState.REVERTING:
        _recovery_that_dies(job, rollback=True)
    return job


def _recovery_that_dies(job: magicfs.Job, **how: bool) -> None:
    engine = _engine(job, Fault(_BEFORE, operation="abort_upload", prefix=job.spec.location.key))
    _die(job, recover_jobs, engine, job.spec.location, **how)


def _engine(job: magicfs.Job, fault: Fault) -> Engine:
    return Engine(faulty(job.spec.store(), Traffic([fault]), Actor("driver")), 1)


def _die(job: magicfs.Job, work: Callable[..., Awaitable[Any]], *arguments: Any, **how: Any) -> None:
    async def dying() -> bool:
        try:
            await work(*arguments, **how)
        except Crash:
            return True
        return False

    if not sync(job.spec.loop, dying):
        raise AssertionError("the process lived to its end, and nothing is left to recover")
