"""A listing that is fetched page by page."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["Pages"]

_T = TypeVar("_T")
_Position = dict[str, str]


class Pages(AsyncIterator[_T], Generic[_T]):
    """The entries of all pages, one after the other.

    Unlike a generator it is still there after a page could not be fetched: asked again, it fetches that page
    again, and no entry is lost or repeated.

    Args:
        fetch: Given where a page begins (empty for the first), returns its entries and where the next one
            begins; None after the last.
        limit: Stop after so many entries, without asking for more.
    """

    def __init__(
        self,
        fetch: Callable[[_Position], Awaitable[tuple[Iterable[_T], _Position | None]]],
        limit: int | None = None,
    ) -> None:
        self._fetch = fetch
        self._left = limit
        self._next: _Position | None = {}
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
