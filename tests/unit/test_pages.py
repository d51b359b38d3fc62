"""Listings of endpoints that may send anything: they move on, and stay where they were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

from magicfs.errors import Unavailable
from magicfs.stores import pages
from magicfs.stores.pages import Listing, Page, Pages
from magicfs.stores.port import ObjectInfo

WHAT = Listing("list", "bucket", "sales/")


def listing(answer: Callable[[str], Page[Any]]) -> Pages[Any]:
    async def fetch(position: dict[str, str]) -> Page[Any]:
        return answer(position.get("token", ""))

    return Pages(WHAT, fetch, attrgetter("key"))


def page(*keys: str, following: str = "", is_empty: bool | None = None) -> Page[ObjectInfo]:
    entries = [ObjectInfo(key, 1, "e") for key in keys]
    position = {"token": following} if following else None
    return Page(entries, position, not keys if is_empty is None else is_empty)


async def keys(items: Pages[Any]) -> list[str]:
    return [info.key async for info in items]


def test_listing_goes_through_all_pages() -> None:
    answers = {"": page("sales/a", following="1"), "1": page(following="2"), "2": page("sales/b")}
    assert asyncio.run(keys(listing(answers.__getitem__))) == ["sales/a", "sales/b"]


@pytest.mark.parametrize("way", [{"": "1", "1": "1"}, {"": "1", "1": "2", "2": "3", "3": "1"}], ids=str)
def test_page_that_goes_on_where_the_listing_has_been_is_unavailable(way: dict[str, str]) -> None:
    asked = []

    def answer(token: str) -> Page[ObjectInfo]:
        asked.append(token)
        return page(f"sales/{token}", following=way[token])

    items = listing(answer)
    with pytest.raises(
        Unavailable, match=r"list of bucket/sales/: .* repeats an earlier one.*endpoint is right"
    ):
        asyncio.run(keys(items))
    assert asked == list(way)
    # It is the last page that is asked for again.
    with pytest.raises(Unavailable, match="repeats an earlier one"):
        asyncio.run(keys(items))
    assert asked[-1] == list(way)[-1]


def test_a_thousand_empty_pages_in_a_row_are_the_end() -> None:
    numbers = iter(range(1, 10_000))
    with pytest.raises(Unavailable, match="1,000 pages in a row were empty"):
        asyncio.run(keys(listing(lambda _: page(following=str(next(numbers))))))
    assert next(numbers) == pages._EMPTY_MAX + 2


def test_pages_of_what_is_left_out_may_be_any_number() -> None:
    numbers = iter(range(1, 1500))

    def answer(_: str) -> Page[ObjectInfo]:
        number = next(numbers, 0)
        return page(following=str(number), is_empty=False) if number else page("sales/end")

    assert asyncio.run(keys(listing(answer))) == ["sales/end"]


@pytest.mark.parametrize("key", ["other/secret", "sale", "", "sales", "SALES/a"])
def test_key_outside_of_the_prefix_is_unavailable_and_none_of_its_page_is_returned(key: str) -> None:
    items = listing(lambda _: page("sales/a", key))

    async def first() -> Any:
        return await anext(items)

    with pytest.raises(Unavailable, match="lies elsewhere"):
        asyncio.run(first())


@pytest.mark.parametrize("error", [KeyError("name"), TypeError(), OverflowError("big"), RecursionError()])
def test_what_cannot_be_read_is_unavailable(error: Exception) -> None:
    def answer(_: str) -> Page[Any]:
        raise error

    with pytest.raises(Unavailable, match=f"no sensible answer: {type(error).__name__}"):
        asyncio.run(keys(listing(answer)))


def test_entry_without_a_name_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="AttributeError"):
        asyncio.run(keys(listing(lambda _: Page([5], None, False))))
