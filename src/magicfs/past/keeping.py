"""Changing what a dataset's pointer says of the files that are kept."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final
from uuid import uuid4

from magicfs.errors import ObjectExists, PreconditionFailed, Unavailable
from magicfs.formats.pointer import Keeping, Pointer
from magicfs.manifests import chain
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store
from magicfs.stores.register import Register

TRIES: Final = 100
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0


async def change_keeping(
    store: Store,
    destination: str,
    conditions: Conditions,
    change: Callable[[tuple[Keeping, ...]], Awaitable[Sequence[Keeping]]],
) -> Pointer | None:
    """Change what the pointer says of the jobs that keep files. ``change`` is called again if others were
    faster.

    Returns the pointer as it stands then; None if there is none. Nothing is written if nothing changes.

    Raises Unavailable if the store did not answer, or others moved the pointer all the time: call again.
    """
    head = Register(store, chain.pointer_key(destination), conditions, lasting=True)
    for attempt in range(TRIES):
        seen = await chain.read_pointer(store, destination, conditions)
        if seen is None:
            return None
        pointer, entry = seen
        changed = tuple(await change(pointer.keeping))
        if changed == pointer.keeping:
            return pointer
        news = replace(pointer, keeping=changed, nonce=uuid4().hex)
        try:
            await head.swap(entry, news.to_bytes())
        except (ObjectExists, PreconditionFailed):
            await pause(attempt)
        else:
            return news
    raise Unavailable("keep", f"{store.bucket}/{head.key}", f"others changed it {TRIES} times in a row")


async def pause(attempt: int) -> None:
    """Let others move the pointer first."""
    await asyncio.sleep(random.uniform(0, min(_PAUSE_S * 2**attempt, _PAUSE_MAX_S)))  # noqa: S311
