"""What else may go on while simulated jobs run: maintenance, an interrupted driver, limits that are near.

Each is drawn from a source of its own, so that what else a seed draws stays as it was.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, TypeVar

from magicfs.datasets import recover_jobs
from magicfs.datasets.abort import abort_job
from magicfs.datasets.read import current_view
from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound
from magicfs.formats.manifest import Manifest
from magicfs.formats.pendingset import PendingSet
from magicfs.operate.verify import verify_files
from magicfs.past.compact import compact_chain
from magicfs.protocol.ids import JobId
from magicfs.protocol.paths import Location
from magicfs.runtime import interrupt
from magicfs.runtime.interrupt import Call
from proofs.doubles.virtual_time import replaced

__all__ = ["LIMITS", "MAINTENANCE", "Maintenance", "interrupted", "is_company", "near_limits"]

_T = TypeVar("_T")
_POLL_S: Final = 0.2

Maintenance = Callable[[Engine, Location, JobId], Awaitable[Any]]

MAINTENANCE: Final[Mapping[str, Maintenance]] = {
    "compact": lambda engine, place, _: compact_chain(engine, place),
    "verify": lambda engine, place, _: verify_files(engine, place),
    "read": lambda engine, place, _: _read(engine, place),
    "recover": lambda engine, place, _: recover_jobs(engine, place),
    "abort": lambda engine, place, job: abort_job(engine, place, job=job),
}
"""Commands of somebody who looks after the destination, with the job that they name if they name one."""

_ROOM: Final = 1_500
_OTHERS: Final = 500
"""Bytes that stand for ``magicfs.formats.limits.ROOM`` where everything is small; of manifests fewer."""
_OLD: Final = 900
"""Bytes: more than the manifest has that was there before."""

LIMITS: Final = {
    "MANIFEST_SIZE_LIMIT": (Manifest, _OLD, 1_000),
    "JOB_OBJECT_SIZE_LIMIT": (None, _ROOM, 8_000),
    "PENDINGSET_SIZE_LIMIT": (PendingSet, 0, 12_000),
}
"""What a job of few files comes near to: whose readers have the limit for a default, bytes that are kept
free, and bytes of which any number is drawn."""


def is_company(seed: str, company: str, wanted: str, share: float) -> random.Random | None:
    """A source of randomness if a seed has the company: by its name, or by chance where it names none."""
    source = random.Random(f"{wanted} {seed}")  # noqa: S311 - no secret
    return source if company == wanted or (not company and source.random() < share) else None


async def _read(engine: Engine, place: Location) -> None:
    try:
        await current_view(engine, place)
    except FormatError as error:
        # A job whose manifest is gone has been published over, or nobody can read on.
        raise AssertionError(f"the dataset cannot be read: {error}") from error
    except ObjectNotFound:
        return  # nothing is published


async def interrupted(work: Callable[[], Coroutine[Any, Any, _T]], after: float) -> Call[_T]:
    """Run a call as the thread of a user does who presses Ctrl-C after some seconds, on one loop."""
    loop = asyncio.get_running_loop()
    call = Call(loop, work)
    context = contextvars.copy_context()
    context.run(interrupt._CALL.set, call._stop)  # noqa: SLF001 - what _start does in the user's thread
    loop.call_soon(call._begin, context=context)  # noqa: SLF001
    stop = loop.call_later(after, call._stop.want)  # noqa: SLF001
    while not call.ended:  # noqa: ASYNC110 - its event is one of threads
        await asyncio.sleep(_POLL_S)
    stop.cancel()
    return call


@contextmanager
def near_limits(source: random.Random | None) -> Iterator[None]:
    """Within it files may be little larger than they are in the scenes, for writers and readers alike."""
    with ExitStack() as stack:
        if source is not None:
            values = {"ROOM": _ROOM, "_OTHERS": _OTHERS}
            for name, (reader, kept, room) in LIMITS.items():
                limit = values[name] = kept + source.randrange(room)
                if reader is not None:
                    function = reader.__dict__["from_bytes"].__func__
                    stack.enter_context(replaced(function, "__kwdefaults__", {"size_limit": limit}))
            for module in [one for key, one in sys.modules.items() if key.startswith("magicfs.")]:
                for name in values.keys() & vars(module).keys():
                    stack.enter_context(replaced(module, name, values[name]))
        yield
