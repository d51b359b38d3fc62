"""Where a store of local files calls the system: on the loop itself, or in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import ParamSpec, TypeVar

__all__ = ["QUICK_S", "Calls", "calls_below"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

QUICK_S = 0.002
"""What a loop may stand still for a call."""


class Calls:
    """The calls to one filesystem. A thread costs more than most of them take.

    A brief one is made on the loop itself as long as the one before it was quick. The first of all, and those
    after a slow one, as on a filesystem of a network, are made in threads until one is quick again.
    """

    def __init__(self) -> None:
        self._is_quick = False

    async def brief(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call what moves few bytes, and waits for no disk to be written."""
        if self._is_quick:
            return self._timed(work, *args, **kwargs)
        return await asyncio.to_thread(lambda: self._timed(work, *args, **kwargs))

    async def long(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call whatever may take its time."""
        return await asyncio.to_thread(work, *args, **kwargs)

    def _timed(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        started = time.perf_counter()
        try:
            return work(*args, **kwargs)
        finally:
            self._is_quick = time.perf_counter() - started < QUICK_S


@lru_cache(maxsize=256)
def calls_below(root: Path) -> Calls:  # noqa: ARG001 - what they are known by
    """The calls of all stores below a root: each file that is written asks for a store of its own."""
    return Calls()
