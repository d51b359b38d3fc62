"""One caller at a time on a user's own magic path.

Each call that changes a path sets a job up that names it, and looks only then: for others, and for what is
recorded. Of two at once at least one sees the other. A call that publishes ends one that has not reached its
commit point, whose next step then fails, and gives way to one that discards. A call that discards ends all
that have not reached their commit point, and gives way to one that has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from magicfs.datasets.path_records import is_of
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, MagicError
from magicfs.formats.job_object import JobObject
from magicfs.formats.job_options import JobOptions, Places
from magicfs.protocol import ids, paths
from magicfs.protocol.job_state import BEFORE_COMMIT, Wish
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import MagicPath
from magicfs.protocol.modes import Mode
from magicfs.protocol.paths import Location
from magicfs.transaction import setup
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.transaction.record import JobMoved, JobRecord

__all__ = ["Turn", "context_of", "destination_of", "discarding", "end_others", "finish_published", "jobs_of"]

_DISCARDS: Final = "drop"
"""The mode of a job that discards a path: it publishes nothing."""


def destination_of(location: Location, magic: MagicPath) -> Location:
    """The directory above a path's magic element."""
    return Location(location.scheme, location.bucket, magic.destination)


def context_of(location: Location, magic: MagicPath, mode: Mode) -> JobContext:
    """A new job of a path."""
    return JobContext(
        url=destination_of(location, magic).url,
        layout=WorkLayout(magic.destination, ids.job_id(uuid4())),
        options=JobOptions(
            committer="magic", mode=mode, unique_names=False, places=Places(own_path=magic.key)
        ),
    )


async def jobs_of(engine: Engine, magic: MagicPath) -> list[JobObject]:
    """The jobs that have not ended of a path, of one above it, and of those below."""
    found = [one.job for one in await find_unfinished_jobs(engine, magic.destination)]
    return [
        job
        for job in found
        if job is not None
        and job.options.places.own_path is not None
        and (
            is_of(f"{magic.bucket}/{job.options.places.own_path}", magic)
            or paths.is_under(magic.key, job.options.places.own_path)
        )
    ]


async def finish_published(engine: Engine, location: Location, magic: MagicPath) -> None:
    """Finish what earlier calls have begun to publish."""
    for job in await jobs_of(engine, magic):
        if job.state not in BEFORE_COMMIT:
            await _end(engine, location, magic, job, Wish.FINISH)


async def end_others(engine: Engine, location: Location, magic: MagicPath, own: JobContext) -> None:
    """End every other job of a path whose own job is set up. Raises CommitDenied if that gives way to one."""
    for job in await jobs_of(engine, magic):
        if job.job_id == own.job:
            continue
        is_open = job.state in BEFORE_COMMIT
        if own.options.mode == _DISCARDS:
            if job.options.mode == _DISCARDS:
                continue  # once what it was about to discard is discarded
            if not is_open:
                raise CommitDenied(
                    f"{magic.path} is being published by job {job.job_id} on {job.host}; nothing was "
                    f"changed; run magicfs recover {destination_of(location, magic).url}"
                )
        elif is_open and job.options.mode == _DISCARDS:
            url = Location(location.scheme, location.bucket, job.options.places.own_path or "").url
            raise CommitDenied(
                f"{magic.path} is being discarded by job {job.job_id} on {job.host}; nothing was published; "
                f"wait for it, or if its process is dead, run magicfs job discard {url}"
            )
        await _end(engine, location, magic, job, Wish.ABORT if is_open else Wish.FINISH)


async def _end(engine: Engine, location: Location, magic: MagicPath, job: JobObject, wish: Wish) -> None:
    context = context_of(location, magic, "append").of(job)
    reason = "another call is publishing or discarding the same path"
    await JobTransaction(engine, context).finish(wish, reason=reason)


@dataclass(frozen=True, slots=True)
class Turn:
    """Of a call that discards."""

    record: JobRecord
    magic: MagicPath

    async def confirm(self) -> None:
        """Raise CommitDenied if another process has ended the call's job. What was found before may be
        discarded now: who publishes later sees the job, or finds that again.
        """
        version = await self.record.read()
        if version is None or version.job.state not in BEFORE_COMMIT:
            raise CommitDenied(
                f"another process has discarded {self.magic.path}, or ended the job of this call; nothing "
                "was changed here; call again"
            )


@asynccontextmanager
async def discarding(engine: Engine, location: Location, magic: MagicPath) -> AsyncIterator[Turn]:
    """Hold a path while it is discarded: nobody publishes it meanwhile.

    Raises CommitDenied if it is being published, beyond the commit point; then nothing was changed.
    """
    context = context_of(location, magic, _DISCARDS)
    record, _, _ = await setup.claim(engine, context)
    own = JobTransaction(engine, context)
    try:
        await end_others(engine, location, magic, context)
        yield Turn(record, magic)
        for job in await jobs_of(engine, magic):
            if job.options.mode == _DISCARDS and job.job_id != context.job:
                await _end(engine, location, magic, job, Wish.ABORT)
    except (MagicError, asyncio.CancelledError):
        with suppress(MagicError):
            await own.finish(Wish.ABORT)
        raise
    with suppress(JobMoved):  # all is discarded, and another process has ended the job
        await own.finish(Wish.ABORT, reason="discarded")
