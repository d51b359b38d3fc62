"""The exam of names that break clients and servers."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from magicfs.testing import strategies
from magicfs.testing.store_exam.base import Examined
from magicfs.testing.strategies import HOSTILE_KEYS, leaves

# A server answers in milliseconds, or much later when the machine is busy.
examples: settings = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class HostileExam(Examined):
    """Raw keys come back as they went in, and no two of them are one object."""

    async def test_hostile_keys_live_side_by_side(self) -> None:
        keys = leaves(HOSTILE_KEYS)
        for key in keys:
            await self.store.put(key, key.encode())
        assert await self.listed() == sorted(keys)
        for key in keys:
            assert self.peek(key) == key.encode()
            assert await self.store.get(key) == key.encode()
            assert (await self.store.head(key)).key == key
        await self.store.delete(keys[::2])
        assert await self.listed() == sorted(keys[1::2])

    async def test_hostile_keys_are_copied_from_and_to(self) -> None:
        keys = leaves(HOSTILE_KEYS)
        for key in keys:
            self.poke(key, key.encode())
            assert await self.store.copy(key, _shorter(f"copies/{key}")) == len(key.encode())
        copies = await self.listed("copies/")
        assert copies == sorted(_shorter(f"copies/{key}") for key in keys)
        assert all(self.peek(_shorter(f"copies/{key}")) == key.encode() for key in keys)

    def test_random_key_is_written_listed_read_copied_and_deleted_under_its_own_name(self) -> None:
        directories = map("{}/".format, itertools.count())

        @examples
        @given(key=strategies.keys(), body=strategies.bodies())
        def check(key: str, body: bytes) -> None:
            self.run(self._round_trip(next(directories), key, body))

        check()

    async def test_key_with_a_backslash_is_kept_apart(self) -> None:
        await self.kept("a\\b", "a/b")

    async def kept(self, *keys: str) -> None:
        """Objects of all of these keys can be there at once."""
        for key in keys:
            await self.store.put(key, key.encode())
        listed = await self.listed()
        assert listed == sorted(keys), f"listed as {listed}"
        assert [await self.store.get(key) for key in keys] == [key.encode() for key in keys]

    async def _round_trip(self, directory: str, key: str, body: bytes) -> None:
        key, copy = f"{directory}{key}", f"{directory}copy/{key}"
        await self.store.put(key, body)
        head = await self.store.head(key)
        assert (head.key, head.size) == (key, len(body))
        assert await self.listed(key) == [key]
        assert (await self.store.get(key), self.peek(key)) == (body, body)
        await self.store.copy(key, copy)
        assert (await self.listed(copy), self.peek(copy)) == ([copy], body)
        await self.store.delete([key, copy])
        assert await self.listed(directory) == []


class HostileUploadsExam(Examined):
    """Raw keys and metadata of uploads."""

    async def test_hostile_keys_are_completed_as_they_were_named(self) -> None:
        keys = leaves(HOSTILE_KEYS)
        for key in keys:
            upload_id, parts = await self.upload(key, key.encode())
            await self.store.complete_upload(key, upload_id, parts)
        assert await self.listed() == sorted(keys)
        assert all(self.peek(key) == key.encode() for key in keys)

    def test_random_key_is_uploaded_under_its_own_name_with_its_metadata(self) -> None:
        directories = map("{}/".format, itertools.count())

        @examples
        @given(key=strategies.keys(), body=strategies.bodies(), metadata=strategies.metadata())
        def check(key: str, body: bytes, metadata: dict[str, str]) -> None:
            self.run(self._uploaded(next(directories) + key, body, metadata))

        check()

    async def _uploaded(self, key: str, body: bytes, metadata: dict[str, str]) -> None:
        upload_id = await self.store.create_upload(key, metadata=metadata)
        part = await self.store.put_part(key, upload_id, 1, body)
        assert await self.pending(key) == {(key, upload_id)}
        await self.store.complete_upload(key, upload_id, [part])
        assert dict((await self.store.head(key)).metadata) == self.remembered(**metadata)
        assert (await self.listed(key), self.peek(key)) == ([key], body)


class SiblingsExam(Examined):
    """Keys with a common beginning."""

    def siblings(self) -> st.SearchStrategy[list[str]]:
        """Keys that can be there at once."""
        return strategies.sibling_keys()

    def test_random_siblings_are_told_apart_by_listings_and_deletes(self) -> None:
        directories = map("{}/".format, itertools.count())

        @examples
        @given(keys=self.siblings(), data=st.data())
        def check(keys: list[str], data: st.DataObject) -> None:
            chosen = data.draw(st.sampled_from(keys), label="key")
            prefix = chosen[: data.draw(st.integers(0, len(chosen)), label="characters of the prefix")]
            gone = data.draw(st.lists(st.sampled_from(keys), unique=True), label="deleted")
            self.run(self._siblings(next(directories), keys, prefix, gone))

        check()

    async def _siblings(self, directory: str, keys: list[str], prefix: str, gone: list[str]) -> None:
        for key in keys:
            await self.store.put(directory + key, key.encode())
        await self._shows(directory, prefix, {key for key in keys if key.startswith(prefix)})
        await self.store.delete([directory + key for key in gone])
        await self._shows(directory, "", set(keys) - set(gone))

    async def _shows(self, directory: str, prefix: str, keys: set[str]) -> None:
        assert await self.listed(directory + prefix) == sorted(directory + key for key in keys)


def _shorter(key: str) -> str:
    """The same key without its end, where it is too long for a key."""
    return key.encode()[: strategies.KEY_BYTES_MAX].decode(errors="ignore")
