"""One directory takes the place of another by two renames, where no store exchanges them in one step.

``one`` is set aside, under the path of ``other`` with ``~old`` at its end; then ``other`` takes its place. A
file that lies in ``one`` at first, and one that lies in ``other``, tell how far the last call came. Calls at
once, and calls that died, do no harm: a rename finds its source gone, or its destination taken. The one that
could is the first, made by a call that stood still until all was over and what was set aside had been
removed: it finds neither file where it should be, and puts back what it took. A rename that fails, or whose
answer is lost, may have taken place: who looks again goes on from there.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from magicfs.errors import ObjectExists, ObjectNotFound, PermissionDenied, StoreError, Unsupported
from magicfs.protocol.flip import ASIDE
from magicfs.stores.tree_port import Tree

__all__ = ["aside_of", "exchange", "forbid"]

_TRIES: Final = 20
_FIRST_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 2.0


def aside_of(other: str) -> str:
    """Where the first of two directories lies afterwards."""
    return f"{other}{ASIDE}"


async def exchange(tree: Tree, one: str, other: str, leaving: str, bringing: str) -> bool:
    """See ``Tree.exchange``."""
    aside, failed = aside_of(other), None
    for attempt in range(_TRIES):
        try:
            done = await _go_on(tree, one, other, aside, leaving, bringing)
        except (ObjectExists, ObjectNotFound, PermissionDenied, Unsupported):
            raise
        except StoreError as error:
            failed = error
            await asyncio.sleep(min(_FIRST_PAUSE_S * 2**attempt, _LAST_PAUSE_S))
        else:
            if done is not None:
                return done
    raise failed or StoreError(
        "exchange",
        f"{tree.bucket}/{one}",
        f"others renamed it each of {_TRIES} times",
        hint="stop them, then try again",
    )


async def _go_on(tree: Tree, one: str, other: str, aside: str, leaving: str, bringing: str) -> bool | None:
    """Do the next step; None if there is another one to do."""
    if await tree.look(f"{one}/{leaving}") is not None:
        if await tree.look(other) is None:
            raise ObjectNotFound("exchange", f"{tree.bucket}/{other}", "no such directory")
        with suppress(ObjectNotFound, ObjectExists):
            await tree.rename(one, aside)
        return None
    if await tree.look(f"{aside}/{leaving}") is None:
        await _put_back(tree, one, aside)
        return False
    if await tree.look(f"{one}/{bringing}") is not None:
        return False
    try:
        await tree.rename(other, one)
    except ObjectNotFound:
        return False
    return True


async def forbid(tree: Tree, one: str, other: str, leaving: str) -> bool:
    """See ``Tree.forbid_exchange``."""
    await tree.delete(f"{one}/{leaving}")
    aside = aside_of(other)
    if await tree.look(f"{aside}/{leaving}") is not None:
        return False
    await _put_back(tree, one, aside)
    return True


async def _put_back(tree: Tree, one: str, aside: str) -> None:
    if await tree.look(one) is None and await tree.look(aside) is not None:
        with suppress(ObjectNotFound, ObjectExists):
            await tree.rename(aside, one)
