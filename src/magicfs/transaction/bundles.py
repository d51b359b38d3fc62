"""Bundles: objects in which tasks leave the bytes of small files, until their job puts these at their keys.

A body is put only under a job object that says so, and that is looked at again by who has stood still: a put
cannot be called back as an upload can be aborted. So the first one is the point from which the job only goes
forward.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import CommitFailed, FormatError, ObjectNotFound
from magicfs.formats.limits import BUNDLE_SIZE_LIMIT
from magicfs.protocol.steps import Put
from magicfs.runtime.parallel import drained
from magicfs.stores.port import Store
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

__all__ = ["Bundles", "refuse_if_gone"]

_HELD_MAX: Final = 4 * BUNDLE_SIZE_LIMIT
"""Bytes of the bundles that are held at once: files are put bundle by bundle."""
_NAMED: Final = 5


class Bundles:
    """Reads bodies out of bundles: each bundle once, if its files are asked for one after the other.

    ``check`` raises if the job is not the caller's to finish any more.
    """

    def __init__(self, store: Store, check: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._check = check
        self._checking = asyncio.Lock()
        self._reading: dict[str, asyncio.Lock] = {}
        self._held: OrderedDict[str, bytes] = OrderedDict()

    async def check(self) -> None:
        async with self._checking:  # the first that asks hears for all
            await self._check()

    async def body(self, step: Put) -> bytes:
        raw = await self._bundle(step.bundle)
        body = raw[step.offset : step.offset + step.length]
        if len(body) != step.length or hashlib.sha256(body).hexdigest() != step.sha256:
            raise FormatError(
                f"{self._store.bucket}/{step.bundle}",
                "",
                f"was altered since its task wrote it (the SHA-256 of {step.key} differs); that file was not "
                "put; find out who wrote the object, then restore it",
            )
        return body

    async def _bundle(self, key: str) -> bytes:
        async with self._reading.setdefault(key, asyncio.Lock()):
            raw = self._held.get(key)
            if raw is None:
                raw = await self._store.get(key, size_max=BUNDLE_SIZE_LIMIT + 1)
            self._held[key] = raw
            self._held.move_to_end(key)
        while sum(map(len, self._held.values())) > _HELD_MAX and len(self._held) > 1:
            gone, _ = self._held.popitem(last=False)
            self._reading.pop(gone, None)
        return raw


async def refuse_if_gone(engine: Engine, context: JobContext, output: JobOutput) -> None:
    """Raise CommitFailed if bundles of a job are gone, or too short; nothing was published. One HEAD each."""
    gone: list[str] = []

    async def look(bundle: tuple[str, int]) -> bool:
        key, size = bundle
        try:
            there = (await engine.store.head(key)).size >= size
        except ObjectNotFound:
            there = False
        if not there:
            gone.append(f"{engine.store.bucket}/{key}")
        return True

    await drained(output.bundles.items(), look, engine.concurrency)
    if gone:
        raise CommitFailed(
            f"{len(gone)} of {len(output.bundles)} bundles of small files of job {context.job} are gone or "
            f"cut short, such as {', '.join(sorted(gone)[:_NAMED])}: somebody removed or replaced them; "
            "nothing was published; abort the job and run it again"
        )
