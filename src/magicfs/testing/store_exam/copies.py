"""The exam of copies."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from magicfs.errors import ObjectExists, ObjectNotFound, PreconditionFailed
from magicfs.stores.port import PutMode, Update
from magicfs.testing.store_exam.base import Examined

_KEY = "dataset1/_temporary/0/task 0/part-0.parquet"
_COPY = "dataset1/day=2026-01-01/part-0.parquet"
_AT_ONCE = 16


class CopyExam(Examined):
    """``copy``."""

    async def test_copy_holds_the_content_and_the_source_stays(self) -> None:
        body = bytes(range(256)) * 5000
        self.poke(_KEY, body)
        before = await self.store.head(_KEY)
        assert await self.store.copy(_KEY, _COPY) == len(body)
        assert (self.peek(_COPY), self.peek(_KEY)) == (body, body)
        assert (await self.store.head(_KEY)).etag == before.etag
        head = await self.store.head(_COPY)
        assert (head.key, head.size) == (_COPY, len(body))
        assert await self.listed() == sorted([_KEY, _COPY])

    async def test_copy_of_an_empty_object_is_empty(self) -> None:
        self.poke(_KEY, b"")
        assert await self.store.copy(_KEY, _COPY) == 0
        assert self.peek(_COPY) == b""

    @pytest.mark.parametrize("old", [b"old", b"old and longer than the new"])
    async def test_copy_replaces_what_was_there(self, old: bytes) -> None:
        self.poke(_COPY, old)
        self.poke(_KEY, b"new content")
        await self.store.copy(_KEY, _COPY)
        assert (self.peek(_COPY), await self.store.get(_COPY)) == (b"new content", b"new content")

    async def test_second_copy_does_the_same_again(self) -> None:
        self.poke(_KEY, b"body")
        assert [await self.store.copy(_KEY, _COPY) for _ in range(2)] == [4, 4]
        assert (self.peek(_COPY), await self.listed()) == (b"body", sorted([_KEY, _COPY]))
        self.poke(_KEY, b"other")
        await self.store.copy(_KEY, _COPY)
        assert self.peek(_COPY) == b"other"

    async def test_copy_is_an_object_of_its_own(self) -> None:
        self.poke(_KEY, b"body")
        await self.store.copy(_KEY, _COPY)
        await self.store.put(_KEY, b"changed")
        assert self.peek(_COPY) == b"body"
        await self.store.delete([_KEY])
        assert self.peek(_COPY) == b"body"

    async def test_copy_of_a_copy_holds_the_same(self) -> None:
        self.poke(_KEY, b"body")
        await self.store.copy(_KEY, _COPY)
        await self.store.copy(_COPY, "third")
        assert self.peek("third") == b"body"

    async def test_copy_onto_itself_changes_nothing(self) -> None:
        await self.store.put(_KEY, b"body", metadata={"a": "1"})
        before = await self.store.head(_KEY)
        assert await self.store.copy(_KEY, _KEY) == 4
        after = await self.store.head(_KEY)
        assert (self.peek(_KEY), after.etag, after.metadata) == (b"body", before.etag, before.metadata)

    async def test_copy_shows_what_another_client_just_wrote(self) -> None:
        self.poke(_KEY, b"one")
        await self.store.copy(_KEY, _COPY)
        self.poke(_KEY, b"two")
        await self.make_store().copy(_KEY, _COPY)
        assert await self.store.get(_COPY) == b"two"

    @pytest.mark.parametrize("source", ["missing", "dir", "dir/ke", "dir/key/below"])
    async def test_copy_of_what_is_not_there_is_object_not_found_and_changes_nothing(
        self, source: str
    ) -> None:
        self.poke("dir/key", b"source")
        self.poke(_COPY, b"old")
        for destination in (_COPY, "free", source):
            with pytest.raises(ObjectNotFound):
                await self.store.copy(source, destination)
        assert await self.listed() == sorted(["dir/key", _COPY])
        assert (self.peek("dir/key"), self.peek(_COPY)) == (b"source", b"old")

    async def test_copy_of_an_etag_is_of_that_object_or_changes_nothing(self) -> None:
        self.poke(_KEY, b"first")
        first = (await self.store.head(_KEY)).etag
        assert await self.store.copy(_KEY, _COPY, etag=first) == 5
        assert await self.store.copy(_KEY, _COPY, etag=first) == 5
        await self.store.put(_KEY, b"second one")
        with pytest.raises(PreconditionFailed):
            await self.store.copy(_KEY, _COPY, etag=first)
        with pytest.raises(PreconditionFailed):
            await self.store.copy(_KEY, "free", etag=first)
        assert (self.peek(_COPY), self.peek("free"), self.peek(_KEY)) == (b"first", None, b"second one")
        await self.store.delete([_KEY])
        with pytest.raises(ObjectNotFound):
            await self.store.copy(_KEY, _COPY, etag=first)
        assert self.peek(_COPY) == b"first"

    async def test_copy_of_a_mode_replaces_only_what_that_allows(self) -> None:
        """A server that ignores it copies; whatever it refuses stays as it was."""
        self.poke(_KEY, b"first")
        assert await self.store.copy(_KEY, _COPY, mode=PutMode.CREATE) == 5
        first = (await self.store.head(_COPY)).etag
        self.poke(_KEY, b"second one")
        for mode in (PutMode.CREATE, Update('"another"')):
            with contextlib.suppress(ObjectExists, PreconditionFailed):
                await self.store.copy(_KEY, _COPY, mode=mode)
                return  # it ignores modes
            assert self.peek(_COPY) == b"first"
        await self.store.copy(_KEY, _COPY, mode=Update(first))
        assert self.peek(_COPY) == b"second one"

    async def test_copy_in_an_unknown_bucket_is_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await self.unknown().copy(_KEY, _COPY)

    async def test_many_copies_at_once_are_all_whole(self) -> None:
        body = b"0123456789abcdef" * 2**14
        self.poke(_KEY, body)
        keys = [f"dataset1/day={number}/part-0.parquet" for number in range(_AT_ONCE)]
        copied = await asyncio.gather(*(self.store.copy(_KEY, key) for key in keys))
        assert set(copied) == {len(body)}
        assert all(self.peek(key) == body for key in keys)

    async def test_copy_is_never_seen_in_part(self) -> None:
        bodies = [bytes([65 + number]) * 2**19 for number in range(2)]
        for number, body in enumerate(bodies):
            self.poke(f"source{number}", body)
        self.poke(_COPY, bodies[0])
        copying = asyncio.ensure_future(self._copy_in_turn(6))
        while not copying.done():
            assert await self.store.get(_COPY) in bodies
            await asyncio.sleep(0)
        await copying

    async def _copy_in_turn(self, times: int) -> None:
        for turn in range(times):
            await self.store.copy(f"source{turn % 2}", _COPY)
