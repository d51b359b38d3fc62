"""One directory takes the place of another by two renames, where no store exchanges them in one step.

``one`` is set aside, under the path of ``other`` with ``~old`` at its end; then ``other`` takes its place. A
file that lies in ``one`` at first, and one that lies in ``other``, tell how far the last call came. Calls at
once, and calls that died, do no harm: a rename finds its source gone, or its destination taken. The one that
could is the first, made by a call that stood still until all was over and what was set aside had been
removed: it finds neither file where it should be, and puts back what it took.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from magicfs.errors import ObjectExists, ObjectNotFound, StoreError
from magicfs.protocol.flip import ASIDE
from magicfs.stores.tree_port import Tree

__all__ = ["aside_of", "exchange", "forbid"]

_TRIES: Final = 20


def aside_of(other: str) -> str:
    """Where the first of two directories lies afterwards."""
    return f"{other}{ASIDE}"


async def exchange(tree: Tree, one: str, other: str, leaving: str, bringing: str) -> bool:
    """See ``Tree.exchange``."""
    aside = aside_of(other)
    for _ in range(_TRIES):
        if await tree.look(f"{one}/{leaving}") is not None:
            if await tree.look(other) is None:
                raise ObjectNotFound("exchange", f"{tree.bucket}/{other}", "no such directory")
            with suppress(ObjectNotFound, ObjectExists):
                await tree.rename(one, aside)
        elif await tree.look(f"{aside}/{leaving}") is not None:
            if await tree.look(f"{one}/{bringing}") is not None:
                return False
            try:
                await tree.rename(other, one)
            except ObjectNotFound:
                return False
            return True
        else:
            await _put_back(tree, one, aside)
            return False
    raise StoreError(
        "exchange",
        f"{tree.bucket}/{one}",
        f"others renamed it each of {_TRIES} times",
        hint="stop them, then try again",
    )


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
