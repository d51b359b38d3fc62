"""The log of publications: all jobs that a chain of manifests knows, without walking it.

A sum of older manifests is made with a log of their jobs, which the pointer names. So the newest jobs are
read from one file, all of them from some files of a hundred, the newest of a moment by way of the least
moment of each part, and a job or a run by its hash. What was published since is read from the manifests.

A log that another one has superseded is deleted some time later. Who still reads it asks the pointer again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from magicfs.errors import FormatError
from magicfs.formats.log import Log, LoggedJob, LogPart
from magicfs.formats.manifest import Manifest
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain, log_files
from magicfs.manifests.chain import COMPACT
from magicfs.manifests.log_files import AT_ONCE, At, named_twice, read_log, read_part, whose
from magicfs.runtime.parallel import in_order
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Past:
    """A pointer, and the log that it names; None if it names none."""

    pointer: Pointer
    log: Log | None

    def tells_of(self, job: str) -> bool:
        """Whether the log tells of all from a job, or a sum, on down."""
        return self.log is not None and job in {self.log.job_id, self.log.newest}


async def read_past(store: Store, destination: str, conditions: Conditions) -> Past | None:
    """The pointer with its log; None if there is no pointer.

    Raises FormatError if one of them is malformed, or the log is gone.
    """
    seen = await chain.read_pointer(store, destination, conditions)
    return None if seen is None else await past_of(store, destination, conditions, seen[0])


async def past_of(store: Store, destination: str, conditions: Conditions, pointer: Pointer) -> Past:
    """A pointer with its log, or a newer one if that log was superseded."""
    while pointer.log is not None:
        try:
            return Past(pointer, await read_log(store, destination, pointer.log))
        except FormatError:
            again = await chain.read_pointer(store, destination, conditions)
            if again is None or again[0].log == pointer.log:
                raise
            pointer = again[0]
    return Past(pointer, None)


async def _steadily(
    store: Store, destination: str, conditions: Conditions, past: Past, look: Callable[[Log], Awaitable[_T]]
) -> _T | None:
    """Look into the log, or into a newer one if it was superseded; None without any."""
    while past.log is not None:
        try:
            return await look(past.log)
        except FormatError:
            again = await read_past(store, destination, conditions)
            if again is None or again.pointer.log == past.pointer.log:
                raise
            past = again
    return None


def logged(manifest: Manifest) -> LoggedJob:
    """What a log remembers of a manifest."""
    return LoggedJob(
        job_id=manifest.job_id,
        run_id=manifest.run_id,
        mode=manifest.mode,
        committed_ms=manifest.committed_ms,
        files=manifest.count,
        size=manifest.size,
        restores=manifest.restores,
        kept_until_ms=None if manifest.kept is None else manifest.kept.until_ms,
    )


async def above(
    store: Store,
    destination: str,
    conditions: Conditions,
    past: Past,
    known: Mapping[str, Manifest] | None = None,
) -> AsyncGenerator[Manifest]:
    """The manifests that the log does not tell of, sums among them, the newest first, as far as they can be
    read: what a full replace has hidden may be lost.

    ``known``: as for ``chain.chain``.

    Raises FormatError if the chain is broken.
    """
    if past.tells_of(past.pointer.job_id):
        return
    start = past.pointer.job_id
    below = chain.chain(
        store, destination, conditions, start=start, known=known, hidden="readable", files=False
    )
    async with aclosing(below) as manifests:
        async for one in manifests:
            yield one
            if one.previous is not None and past.tells_of(one.previous):
                return


async def publications(
    store: Store, destination: str, conditions: Conditions, *, few: bool = False
) -> AsyncGenerator[LoggedJob]:
    """All jobs, the newest first; nothing if there is no pointer. ``few``: only some of them are wanted.

    Raises FormatError if the chain, as far as the log does not tell of it, or the log is broken.
    """
    past = await read_past(store, destination, conditions)
    if past is None:
        return
    async with aclosing(above(store, destination, conditions, past)) as manifests:
        async for manifest in manifests:
            if manifest.mode != COMPACT:
                yield logged(manifest)
    if past.log is not None:
        async with aclosing(newest_first(store, destination, past.log, few=few)) as jobs:
            async for one in jobs:
                yield one


async def newest_first(
    store: Store, destination: str, log: Log, *, few: bool = False
) -> AsyncGenerator[LoggedJob]:
    """The jobs of a log. Raises FormatError if a part of it is gone, malformed or altered."""
    for one in reversed(log.last):
        yield one
    parts = _of_parts(store, destination, log.parts, 1 if few else AT_ONCE, set())
    async with aclosing(parts) as jobs:
        async for one in jobs:
            yield one


async def _of_parts(
    store: Store, destination: str, parts: Sequence[LogPart], ahead: int, seen: set[At]
) -> AsyncGenerator[LoggedJob]:
    """The jobs of parts. Each part is read once: ``seen`` are those that were."""

    async def read(part: LogPart) -> tuple[Sequence[LoggedJob], Sequence[LogPart]]:
        if whose(part) in seen:
            raise named_twice(store, destination, part)
        seen.add(whose(part))
        found = await read_part(store, destination, part)
        return found.jobs, found.parts

    async with aclosing(in_order(reversed(parts), read, ahead)) as contents:
        async for jobs, below in contents:
            async with aclosing(_of_parts(store, destination, below, ahead, seen)) as older:
                async for one in older:
                    yield one
            for one in reversed(jobs):
                yield one


async def is_published(
    store: Store, destination: str, conditions: Conditions, job: str, past: Past | None = None
) -> bool:
    """Whether a job is in the chain. ``past``: what was read of it just now.

    Raises FormatError if the chain, as far as the log does not tell of it, or the log is broken.
    """
    past = past or await read_past(store, destination, conditions)
    if past is None:
        return False
    if await _steadily(
        store, destination, conditions, past, lambda log: log_files.is_job(store, destination, log, job)
    ):
        return True
    async with aclosing(above(store, destination, conditions, past)) as manifests:
        async for manifest in manifests:
            if manifest.job_id == job and manifest.mode != COMPACT:
                return True
    return False


async def job_at(
    store: Store, destination: str, conditions: Conditions, moment_ms: int
) -> tuple[str | None, int | None]:
    """The newest job of which its manifest says that it was published by a moment; without one, when the
    first was published, None without any.

    Raises FormatError if the chain, as far as the log does not tell of it, or the log is broken.
    """
    past = await read_past(store, destination, conditions)
    if past is None:
        return None, None
    oldest_ms: int | None = None
    async with aclosing(above(store, destination, conditions, past)) as manifests:
        async for manifest in manifests:
            if manifest.mode != COMPACT:
                if manifest.committed_ms <= moment_ms:
                    return manifest.job_id, None
                oldest_ms = manifest.committed_ms
    if past.log is None:
        return None, oldest_ms
    jobs, parts = past.log.last, past.log.parts
    moments = [*(one.oldest_ms for one in parts), *(one.committed_ms for one in jobs)]
    while True:
        for one in reversed(jobs):
            if one.committed_ms <= moment_ms:
                return one.job_id, None
        part = next((one for one in reversed(parts) if one.oldest_ms <= moment_ms), None)
        if part is None:
            return None, min(moments, default=oldest_ms)
        found = await read_part(store, destination, part)
        jobs, parts = found.jobs, found.parts


async def job_of_run(store: Store, destination: str, conditions: Conditions, run_id: str) -> str | None:
    """The job that published a run; None if none has.

    Raises FormatError if the chain, as far as it is read, or the log is broken.
    """
    seen = await chain.read_pointer(store, destination, conditions)
    return None if seen is None else await job_of_run_by(store, destination, conditions, seen[0], run_id)


async def job_of_run_by(
    store: Store, destination: str, conditions: Conditions, pointer: Pointer, run_id: str
) -> str | None:
    """The same, by a pointer that was just read.

    It names the last runs. Of those before the last sum the log tells. Only if it may have forgotten one
    since, the manifests down to that sum are read.
    """
    job = pointer.job_of_run(run_id)
    forgotten = pointer.may_have_forgotten(run_id)
    if job is not None or not (forgotten or pointer.log):
        return job
    past = await past_of(store, destination, conditions, pointer)
    if forgotten:
        async with aclosing(above(store, destination, conditions, past)) as manifests:
            async for manifest in manifests:
                if manifest.run_id == run_id:
                    return manifest.job_id
    return await _steadily(
        store,
        destination,
        conditions,
        past,
        lambda log: log_files.job_of_run(store, destination, log, run_id),
    )
