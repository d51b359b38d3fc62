"""The exam of names and metadata that break clients and servers."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from magicfs.testing import strategies
from magicfs.testing.store_exam.base import Examined
from magicfs.testing.strategies import HOSTILE_KEYS

__all__ = ["HostileExam"]

# A server answers in milliseconds, or much later when the machine is busy.
_examples = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class HostileExam(Examined):
    """Raw keys come back as they went in, and no two of them are one object."""

    async def test_hostile_keys_live_side_by_side(self) -> None:
        for key in HOSTILE_KEYS:
            await self.store.put(key, key.encode())
        assert await self.listed() == sorted(HOSTILE_KEYS)
        for key in HOSTILE_KEYS:
            assert self.peek(key) == key.encode()
            assert await self.store.get(key) == key.encode()
            assert (await self.store.head(key)).key == key
        await self.store.delete(HOSTILE_KEYS[::2])
        assert await self.listed() == sorted(HOSTILE_KEYS[1::2])

    async def test_hostile_keys_are_completed_as_they_were_named(self) -> None:
        for key in HOSTILE_KEYS:
            upload_id, parts = await self.upload(key, key.encode())
            await self.store.complete_upload(key, upload_id, parts)
        assert await self.listed() == sorted(HOSTILE_KEYS)
        assert all(self.peek(key) == key.encode() for key in HOSTILE_KEYS)

    def test_random_key_is_written_listed_read_and_deleted_under_its_own_name(self) -> None:
        directories = map("{}/".format, itertools.count())

        @_examples
        @given(key=strategies.keys(), body=strategies.bodies(), metadata=strategies.metadata())
        def check(key: str, body: bytes, metadata: dict[str, str]) -> None:
            self.run(self._round_trip(next(directories), key, body, metadata))

        check()

    def test_random_siblings_are_told_apart_by_listings_and_deletes(self) -> None:
        directories = map("{}/".format, itertools.count())

        @_examples
        @given(keys=strategies.sibling_keys(), data=st.data())
        def check(keys: list[str], data: st.DataObject) -> None:
            chosen = data.draw(st.sampled_from(keys), label="key")
            prefix = chosen[: data.draw(st.integers(0, len(chosen)), label="characters of the prefix")]
            gone = data.draw(st.lists(st.sampled_from(keys), unique=True), label="deleted")
            self.run(self._siblings(next(directories), keys, prefix, gone))

        check()

    async def test_key_of_one_element_of_1000_bytes_is_kept(self) -> None:
        await self._kept("k" * strategies.KEY_BYTES_MAX)

    async def test_key_with_empty_elements_is_kept_apart(self) -> None:
        await self._kept("a//b", "a/b")

    async def test_key_with_a_backslash_is_kept_apart(self) -> None:
        await self._kept("a\\b", "a/b")

    async def test_key_that_ends_with_a_slash_is_kept_apart(self) -> None:
        await self._kept("a/", "a")

    async def _round_trip(self, directory: str, key: str, body: bytes, metadata: dict[str, str]) -> None:
        key = directory + key
        await self.store.put(key, body, metadata=metadata)
        head = await self.store.head(key)
        assert (head.key, head.size, dict(head.metadata)) == (key, len(body), metadata)
        assert await self.listed(key) == [key]
        assert (await self.store.get(key), self.peek(key)) == (body, body)
        upload_id = await self.store.create_upload(key, metadata=metadata)
        part = await self.store.put_part(key, upload_id, 1, body[::-1])
        assert await self.pending(key) == {(key, upload_id)}
        await self.store.complete_upload(key, upload_id, [part])
        assert dict((await self.store.head(key)).metadata) == metadata
        assert self.peek(key) == body[::-1]
        await self.store.delete([key])
        assert await self.listed(directory) == []

    async def _siblings(self, directory: str, keys: list[str], prefix: str, gone: list[str]) -> None:
        for key in keys:
            await self.store.put(directory + key, key.encode())
        await self._shows(directory, prefix, {key for key in keys if key.startswith(prefix)})
        await self.store.delete([directory + key for key in gone])
        await self._shows(directory, "", set(keys) - set(gone))

    async def _shows(self, directory: str, prefix: str, keys: set[str]) -> None:
        assert await self.listed(directory + prefix) == sorted(directory + key for key in keys)

    async def _kept(self, *keys: str) -> None:
        for key in keys:
            await self.store.put(key, key.encode())
        listed = await self.listed()
        assert listed == sorted(keys), f"listed as {listed}"
        assert [await self.store.get(key) for key in keys] == [key.encode() for key in keys]
