"""A store that is given up when it does not answer: cleaning up must end, whatever the store does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from magicfs.errors import Unavailable
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Store

__all__ = ["STALL_TIMEOUT_S", "StallTimeoutStore"]

STALL_TIMEOUT_S = 60.0
"""Longer than a short failure of a store, shorter than what a person waits for a failed job."""

_T = TypeVar("_T")


class StallTimeoutStore(DelegatingStore):
    """Raises ``Unavailable`` once the store within has answered nothing for ``timeout_s`` seconds.

    The time counts from the last answer to any request, so work of any size goes on while answers come; while
    nothing is asked it does not count. A request that is given up is cancelled, and may take place all the
    same.
    """

    def __init__(self, inner: Store, timeout_s: float) -> None:
        super().__init__(inner)
        self._timeout_s = timeout_s
        self._silent_since: float | None = None
        self._in_flight = 0

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        if self._silent_since is None:
            self._silent_since = _now()
        self._in_flight += 1
        try:
            async with asyncio.timeout(max(self._silent_since + self._timeout_s - _now(), 0)):
                result = await request()
        except TimeoutError as error:
            raise Unavailable(
                operation,
                f"{self.bucket}/{key}",
                f"given up: the store has answered nothing for {self._timeout_s:g} s",
                hint="check that the endpoint is right and up, then abort again",
            ) from error
        except Unavailable:
            raise
        except Exception:
            self._answered()
            raise
        else:
            self._answered()
            return result
        finally:
            self._in_flight -= 1

    def _answered(self) -> None:
        others = self._in_flight - 1
        self._silent_since = _now() if others else None


def _now() -> float:
    return asyncio.get_running_loop().time()
