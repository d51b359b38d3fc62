"""Many requests at once, drained and never cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

__all__ = ["drained"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


async def drained(
    work: Callable[[_Item], Awaitable[_Result]], items: Sequence[_Item], concurrency: int
) -> list[_Result]:
    """Do the work for every item, at most so many at once.

    After a failure no further work is begun; what is under way ends first, then the first error is raised.

    Returns:
        The results, in the order of their ends.
    """
    waiting = iter(items)
    results: list[_Result] = []
    errors: list[Exception] = []

    async def worker() -> None:
        for item in waiting:
            if errors:
                return
            try:
                results.append(await work(item))
            except Exception as error:  # noqa: BLE001 - raised below, when the others have ended
                errors.append(error)

    await asyncio.gather(*(worker() for _ in range(min(concurrency, len(items)))))
    if errors:
        raise errors[0]
    return results
