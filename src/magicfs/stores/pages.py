"""A listing that comes in pages."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from magicfs.errors import MagicError, Unavailable
from magicfs.stores.answer_rules import NOT_READ, REACH, Malformed, words

_T = TypeVar("_T")
Position = dict[str, str]
"""Arguments by which a store is asked for a page."""

_EMPTY_MAX: Final = 1000


def itself(name: str) -> str:
    """The name of an entry that is one."""
    return name


class Listing(NamedTuple):
    """What is listed.

    Attributes:
        operation: The port's name of it.
        bucket: Where.
        prefix: What all names begin with.
    """

    operation: str
    bucket: str
    prefix: str


class Page(NamedTuple, Generic[_T]):
    """A page as the store answered it.

    Attributes:
        entries: What is returned of it.
        following: Where the next one begins, None after the last.
        is_empty: Whether the store listed nothing at all, not even what is left out of the entries.
    """

    entries: Sequence[_T]
    following: Position | None
    is_empty: bool


class Pages(AsyncIterator[_T], Generic[_T]):
    """The entries of all pages, one after the other.

    ``fetch`` is given where a page begins, empty for the first. Unlike a generator the listing is still there
    after a page could not be fetched: asked again, it fetches that page again, and no entry is lost or
    repeated.

    A page is ``Unavailable`` if a name in it lies elsewhere, as ``name_of`` has it, if it goes on where the
    listing has been, and after 1,000 empty ones: there is no end of what an endpoint may send.
    """

    def __init__(
        self,
        what: Listing,
        fetch: Callable[[Position], Awaitable[Page[_T]]],
        name_of: Callable[[_T], str],
        limit: int | None = None,
    ) -> None:
        self._what = what
        self._fetch = fetch
        self._name_of = name_of
        self._left = limit
        self._next: Position | None = {}
        self._seen = {hash(())}
        self._empty = 0
        self._entries: deque[_T] = deque()

    async def __anext__(self) -> _T:
        if self._left is not None and self._left <= 0:
            raise StopAsyncIteration
        while not self._entries:
            if self._next is None:
                raise StopAsyncIteration
            await self._turn(self._next)
        if self._left is not None:
            self._left -= 1
        return self._entries.popleft()

    async def _turn(self, position: Position) -> None:
        """Fetch a page; one that is refused leaves everything as it was."""
        try:
            page = await self._fetch(position)
            self._check(page.entries)
            place = None if page.following is None else hash(tuple(page.following.items()))
            if place in self._seen:
                raise Malformed("a page of the listing repeats an earlier one")
            if page.is_empty and self._empty >= _EMPTY_MAX:
                raise Malformed(f"{_EMPTY_MAX:,} pages in a row were empty")
        except MagicError:
            raise
        except (Malformed, *NOT_READ) as error:
            operation, bucket, prefix = self._what
            problem = f"no sensible answer: {type(error).__name__}: {words(error)}"
            raise Unavailable(operation, f"{bucket}/{prefix}", problem, hint=REACH) from error
        if place is not None:
            self._seen.add(place)
        self._empty = self._empty + 1 if page.is_empty else 0
        self._next = page.following
        self._entries.extend(page.entries)

    def _check(self, entries: Iterable[_T]) -> None:
        prefix, name_of = self._what.prefix, self._name_of
        for entry in entries:
            if not name_of(entry).startswith(prefix):
                raise Malformed(f"the listing names {words(name_of(entry))!r}, which lies elsewhere")
