"""All verbs, as coroutines on a process's way to the bucket: those that look after a destination are here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from magicfs.catalogs.register import show
from magicfs.catalogs.symlinks import SymlinkManifest
from magicfs.datasets import recover_jobs
from magicfs.datasets.abort import abort_job
from magicfs.datasets.commit import commit_listed
from magicfs.datasets.connection import Destination
from magicfs.datasets.read import current_view
from magicfs.engine import Engine
from magicfs.errors import CommitDenied
from magicfs.job import late_tasks
from magicfs.operate import checkup as checkups
from magicfs.operate.adopt import adopt_files
from magicfs.operate.verify import verify_files
from magicfs.past import tags
from magicfs.past.as_of import view_at
from magicfs.past.compact import compact_chain
from magicfs.past.expire import expire_kept
from magicfs.past.history import history_of
from magicfs.protocol.paths import Location
from proofs.commands.places import Place
from proofs.commands.publishing import PUBLISHING

__all__ = ["COMMANDS", "Command"]

Command = Callable[[Engine, Place], Coroutine[Any, Any, Any]]

_FAR_FUTURE_MS: Final = 4_000_000_000_000


async def compact(engine: Engine, place: Place) -> None:
    await compact_chain(engine, place.location)


async def adopt(engine: Engine, place: Place) -> None:
    await adopt_files(engine, place.location)


async def verify(engine: Engine, place: Place) -> None:
    await verify_files(engine, place.location)


async def read(engine: Engine, place: Place) -> None:
    place.saw(await current_view(engine, place.location))


async def history(engine: Engine, place: Place) -> None:
    """``log``, and a look at what an earlier publication showed."""
    await history_of(engine, place.location, None)
    await view_at(engine, place.location, place.target)


async def tag(engine: Engine, place: Place) -> None:
    await tags.set_tag(engine, place.location, name="good", as_of=None, move=True)


async def untag(engine: Engine, place: Place) -> None:
    await tags._remove(engine, place.location, name="good")  # noqa: SLF001 - the coroutine of ``untag``


async def checkup(engine: Engine, place: Place) -> None:
    """``doctor``."""
    await checkups._look(engine, place.location, findings=[], read_only=False)  # noqa: SLF001 - its coroutine


async def expire(engine: Engine, place: Place) -> None:
    """``expire``, when the time of all kept files is over."""
    await expire_kept(engine, place.location, now_ms=_FAR_FUTURE_MS)


async def register(engine: Engine, place: Place) -> None:
    """A table of Hive's, which needs nothing but the store."""
    here = cast("Destination", _Here(engine, place.location, asyncio.get_running_loop()))
    await asyncio.to_thread(show, here, SymlinkManifest())


@dataclass(frozen=True, slots=True)
class _Here:
    """A destination whose work is done on the loop of a process, for a caller in a thread."""

    engine: Engine
    location: Location
    loop: asyncio.AbstractEventLoop

    def run(self, work: Callable[..., Any], *args: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work(self.engine, self.location, *args), self.loop).result()


async def late_task(engine: Engine, place: Place) -> None:
    """What an engine's driver does whose job has failed, of which tasks go on: Dask's, Ray's and Daft's."""
    await late_tasks._swept(engine, place.ended.spec.context)  # noqa: SLF001 - its coroutine


async def recover(engine: Engine, place: Place) -> None:
    await recover_jobs(engine, place.location)


async def rollback(engine: Engine, place: Place) -> None:
    """``recover --rollback``."""
    with suppress(CommitDenied):  # past the point where that is possible
        await recover_jobs(engine, place.location, rollback=True)


async def commit(engine: Engine, place: Place) -> None:
    if place.job is not None:
        await commit_listed(engine, place.location, place.job.id)


async def abort(engine: Engine, place: Place) -> None:
    if place.job is not None:
        await abort_job(engine, place.location, job=place.job.id)


async def sweep(engine: Engine, place: Place) -> None:
    """``magicfs recover --abort`` of a job that has ended, of which a task goes on."""
    await abort_job(engine, place.location, job=place.ended.id)


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        one.__name__: one
        for one in (
            *(compact, adopt, verify, read, history, tag, untag, checkup, expire, register),
            *(recover, rollback, commit, abort, sweep, late_task),
            *PUBLISHING,
        )
    }
)
"""By their names."""
