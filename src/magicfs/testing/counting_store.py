"""Stores around stores, which count and watch requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from magicfs.stores.delegating import DelegatingStore, Steps
from magicfs.stores.port import Store

_T = TypeVar("_T")


class CountingStore(DelegatingStore):
    """Counts the requests that reach the store within.

    Args:
        counts: Requests by the port's names; a listing counts one for every page of
            ``capabilities.list_page_max`` entries that it begins. Directories are listed by the same request
            as objects, so both count as ``list``.
        bytes_copied: Bytes that ``copy`` has copied, by source.
    """

    def __init__(self, inner: Store, counts: Counter[str], bytes_copied: Counter[str] | None = None) -> None:
        super().__init__(inner)
        self.counts = counts
        self.bytes_copied: Counter[str] = Counter() if bytes_copied is None else bytes_copied

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        await self._count(operation)
        result = await request()
        if operation == "copy" and isinstance(result, int):
            self.bytes_copied[key] += result
        return result

    def _steps(self, operation: str, prefix: str, items: AsyncIterator[_T]) -> AsyncIterator[_T]:  # noqa: ARG002
        seen = 0

        async def step(request: Callable[[], Awaitable[_T | None]]) -> _T | None:
            nonlocal seen
            if not seen:
                await self._count(operation)
            found = await request()
            if found is not None:
                if seen and seen % self.capabilities.list_page_max == 0:
                    await self._count(operation)
                seen += 1
            return found

        return Steps(items, step)

    async def _count(self, operation: str) -> None:
        self.counts["list" if operation == "list_directories" else operation] += 1
        await asyncio.sleep(0)  # a request gives other tasks their turn, in memory as on a wire
