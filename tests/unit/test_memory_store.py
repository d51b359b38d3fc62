"""The memory store's listings, which look only at what they show."""

from __future__ import annotations

import asyncio
import time

from hypothesis import given
from hypothesis import strategies as st

from magicfs.stores.memory.store import World

KEYS = st.text("ab/\u00e9\U0001f600", min_size=1, max_size=4)
CHANGES = st.lists(st.tuples(st.booleans(), KEYS), max_size=40)


async def _keys(world: World, prefix: str, limit: int | None = None) -> list[str]:
    return [info.key async for info in world.store("bucket").list(prefix, limit=limit)]


@given(CHANGES, st.text("ab/", max_size=2))
def test_a_listing_shows_what_is_there_in_the_order_of_its_bytes(
    changes: list[tuple[bool, str]], prefix: str
) -> None:
    async def check() -> None:
        world, expected = World(create_buckets=True), set[str]()
        store = world.store("bucket")
        for is_put, key in changes:
            if is_put:
                await store.put(key, b"")
                expected.add(key)
            else:
                await store.delete([key])
                expected.discard(key)
            shown = sorted((one for one in expected if one.startswith(prefix)), key=str.encode)
            assert await _keys(world, prefix) == shown
            assert await _keys(world, prefix, 2) == shown[:2]
            ends = {key[: key.find("/", len(prefix)) + 1] for key in shown if "/" in key[len(prefix) :]}
            directories = [one async for one in store.list_directories(prefix)]
            assert directories == sorted(ends, key=str.encode)

    asyncio.run(check())


def test_keys_that_went_and_came_are_shown_once_however_many_they_are() -> None:
    async def check() -> None:
        world = World(create_buckets=True)
        store = world.store("bucket")
        keys = [f"d/{number:05d}" for number in range(3000)]
        for _ in range(3):
            for key in keys:
                await store.put(key, b"")
            assert await _keys(world, "d/") == keys
            await store.delete(keys[:1000])
            await store.delete(keys[1000:2000])
            assert await _keys(world, "d/") == keys[2000:]

    asyncio.run(check())


def test_listing_each_of_many_directories_takes_no_longer_than_their_content() -> None:
    async def check() -> None:
        world = World(create_buckets=True)
        store = world.store("bucket")
        for number in range(20_000):
            await store.put(f"d/{number:05d}/x", b"")
        started = time.process_time()
        for number in range(20_000):
            assert len(await _keys(world, f"d/{number:05d}/")) == 1
        assert time.process_time() - started < 20  # 20,000 looks at 20,000 keys take minutes

    asyncio.run(check())
