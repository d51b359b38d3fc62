"""A listing that comes in pages."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["Pages", "Position"]

_T = TypeVar("_T")
Position = dict[str, str]
"""Arguments by which a store is asked for a page."""


class Pages(AsyncIterator[_T], Generic[_T]):
    """The entries of all pages, one after the other.

    ``fetch`` is given where a page begins (empty for the first), and returns its entries and where the next
    one begins, None after the last. Unlike a generator the listing is still there after a page could not be
    fetched: asked again, it fetches that page again, and no entry is lost or repeated.
    """

    def __init__(
        self,
        fetch: Callable[[Position], Awaitable[tuple[Iterable[_T], Position | None]]],
        limit: int | None = None,
    ) -> None:
        self._fetch = fetch
        self._left = limit
        self._next: Position | None = {}
        self._entries: deque[_T] = deque()

    async def __anext__(self) -> _T:
        if self._left is not None and self._left <= 0:
            raise StopAsyncIteration
        while not self._entries:
            if self._next is None:
                raise StopAsyncIteration
            entries, self._next = await self._fetch(self._next)
            self._entries.extend(entries)
        if self._left is not None:
            self._left -= 1
        return self._entries.popleft()
