"""The commands that look after a destination, as coroutines on a process's way to the bucket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from magicfs.datasets import recover_jobs
from magicfs.datasets.abort import abort_job
from magicfs.datasets.adopt import adopt_files
from magicfs.datasets.commit import commit_listed
from magicfs.datasets.compact import compact_chain
from magicfs.datasets.read import current_view
from magicfs.datasets.verify import verify_files
from magicfs.engine import Engine
from magicfs.errors import CommitDenied
from proofs.commands.places import Place

__all__ = ["COMMANDS", "Command"]

Command = Callable[[Engine, Place], Awaitable[Any]]


async def compact(engine: Engine, place: Place) -> None:
    await compact_chain(engine, place.location)


async def adopt(engine: Engine, place: Place) -> None:
    with suppress(CommitDenied):  # a job was published meanwhile
        await adopt_files(engine, place.location)


async def verify(engine: Engine, place: Place) -> None:
    await verify_files(engine, place.location)


async def read(engine: Engine, place: Place) -> None:
    place.check_view(await current_view(engine, place.location))


async def recover(engine: Engine, place: Place) -> None:
    await recover_jobs(engine, place.location)


async def rollback(engine: Engine, place: Place) -> None:
    with suppress(CommitDenied):  # past the point where that is possible
        await recover_jobs(engine, place.location, rollback=True)


async def commit(engine: Engine, place: Place) -> None:
    if place.job is not None:
        await commit_listed(engine, place.location, place.job.id)


async def abort(engine: Engine, place: Place) -> None:
    if place.job is not None:
        await abort_job(engine, place.location, job=place.job.id)


async def sweep(engine: Engine, place: Place) -> None:
    """``magicfs abort`` of a job that has ended, of which a task goes on."""
    await abort_job(engine, place.location, job=place.ended.id)


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {one.__name__: one for one in (compact, adopt, verify, read, recover, rollback, commit, abort, sweep)}
)
"""By their names."""
