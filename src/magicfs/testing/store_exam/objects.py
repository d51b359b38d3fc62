"""The exam of whole objects: put, get, head, delete."""

from __future__ import annotations

import asyncio
import time

import pytest

from magicfs.errors import ObjectExists, ObjectNotFound, PreconditionFailed, StoreError
from magicfs.stores import checksums
from magicfs.stores.port import PutMode
from magicfs.testing.store_exam.base import Examined

_KEY = "dataset1/_SUCCESS"
_CLOCKS_APART_S = 300.0
_RACERS = 8
# SeaweedFS takes 2.4 s for each.
_RACES = 4


class PutExam(Examined):
    """``put``."""

    async def test_put_object_holds_the_body(self) -> None:
        written = await self.store.put(_KEY, b"body")
        head = await self.store.head(_KEY)
        assert self.peek(_KEY) == b"body"
        assert (written.key, written.size) == (_KEY, 4)
        assert written.etag in {head.etag, ""}

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    async def test_put_takes_every_kind_of_body(self, kind: type) -> None:
        await self.store.put(_KEY, kind(b"body\x00\xff"))
        await self.store.put(f"{_KEY}.empty", kind(b""))
        assert (self.peek(_KEY), self.peek(f"{_KEY}.empty")) == (b"body\x00\xff", b"")

    async def test_put_replaces_the_object(self) -> None:
        self.poke(_KEY, b"old and longer")
        await self.store.put(_KEY, b"new")
        assert (self.peek(_KEY), await self.store.get(_KEY)) == (b"new", b"new")

    async def test_second_put_does_the_same_again(self) -> None:
        for _ in range(2):
            written = await self.store.put(_KEY, b"body", metadata={"a": "1"})
            assert written.etag in {(await self.store.head(_KEY)).etag, ""}
        assert (self.peek(_KEY), await self.listed()) == (b"body", [_KEY])

    async def test_put_if_absent_writes_where_nothing_is(self) -> None:
        written = await self.store.put(_KEY, b"body", mode=PutMode.CREATE)
        assert (self.peek(_KEY), written.size) == (b"body", 4)
        assert written.etag in {(await self.store.head(_KEY)).etag, ""}

    async def test_put_if_absent_onto_an_object_changes_nothing(self) -> None:
        self.poke(_KEY, b"old")
        with pytest.raises(ObjectExists):
            await self.store.put(_KEY, b"new", mode=PutMode.CREATE)
        assert self.peek(_KEY) == b"old"

    async def test_second_put_if_absent_meets_its_own_object(self) -> None:
        await self.store.put(_KEY, b"body", mode=PutMode.CREATE)
        with pytest.raises(ObjectExists):
            await self.store.put(_KEY, b"body", mode=PutMode.CREATE)

    async def test_put_if_absent_writes_where_an_object_was(self) -> None:
        self.poke(_KEY, b"old")
        await self.store.delete([_KEY])
        await self.store.put(_KEY, b"body", mode=PutMode.CREATE)
        assert self.peek(_KEY) == b"body"

    async def test_race_of_puts_if_absent_has_one_winner(self) -> None:
        stores = [self.make_store() for _ in range(_RACERS)]
        for race in range(_RACES):
            key = f"race/{race}"
            puts = (store.put(key, b"%d" % n, mode=PutMode.CREATE) for n, store in enumerate(stores))
            answers = await asyncio.gather(*puts, return_exceptions=True)
            winners = [n for n, answer in enumerate(answers) if not isinstance(answer, BaseException)]
            refused = [answer for answer in answers if isinstance(answer, ObjectExists)]
            assert (len(winners), len(refused)) == (1, _RACERS - 1), answers
            assert self.peek(key) == b"%d" % winners[0]

    async def test_put_into_an_unknown_bucket_is_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await self.unknown().put(_KEY, b"body")


class ReadExam(Examined):
    """``get`` and ``head``."""

    async def test_get_returns_what_another_client_wrote(self) -> None:
        body = bytes(range(256)) * 5000
        self.poke(_KEY, body)
        assert await self.store.get(_KEY) == body

    async def test_get_with_a_size_returns_at_most_so_many_first_bytes(self) -> None:
        self.poke(_KEY, b"0123456789")
        for size, expected in (
            (0, b""),
            (1, b"0"),
            (9, b"012345678"),
            (10, b"0123456789"),
            (11, b"0123456789"),
        ):
            assert await self.store.get(_KEY, size_max=size) == expected

    async def test_get_with_a_size_reads_little_of_a_large_object(self) -> None:
        self.poke(_KEY, b"x" * 2**20 + b"y" * 2**20)
        assert await self.store.get(_KEY, size_max=2**20 + 1) == b"x" * 2**20 + b"y"

    async def test_get_of_an_empty_object_is_empty(self) -> None:
        self.poke(_KEY, b"")
        assert await self.store.get(_KEY) == b""
        assert await self.store.get(_KEY, size_max=7) == b""

    async def test_range_of_the_object_of_that_etag_is_read(self) -> None:
        self.poke(_KEY, b"0123456789")
        etag = (await self.store.head(_KEY)).etag
        for start, size, expected in (
            (0, 1, b"0"),
            (3, 4, b"3456"),
            (9, 1, b"9"),
            (8, 9, b"89"),
            (0, 10, b"0123456789"),
        ):
            assert await self.store.get_range(_KEY, start, size, etag=etag) == expected

    async def test_range_of_another_object_is_not_read(self) -> None:
        self.poke(_KEY, b"0123456789")
        etag = (await self.store.head(_KEY)).etag
        self.poke(_KEY, b"abcdefghij")
        with pytest.raises(PreconditionFailed):
            await self.store.get_range(_KEY, 0, 10, etag=etag)
        await self.store.delete([_KEY])
        for key in (_KEY, "nothing"):
            with pytest.raises(ObjectNotFound):
                await self.store.get_range(key, 0, 10, etag=etag)
        with pytest.raises(ObjectNotFound):
            await self.unknown().get_range(_KEY, 0, 10, etag=etag)

    async def test_checksums_that_are_told_are_those_of_all_bytes(self) -> None:
        body = bytes(range(256)) * 50
        self.poke(_KEY, body)
        etag = (await self.store.head(_KEY)).etag
        for algorithm, reported in (await self.store.checksums(_KEY, etag=etag)).items():
            if checksums.can_make(algorithm):
                made = checksums.running(algorithm)
                made.update(memoryview(body))
                assert reported == made.value(), algorithm

    async def test_checksums_of_another_object_are_not_told(self) -> None:
        self.poke(_KEY, b"0123456789")
        etag = (await self.store.head(_KEY)).etag
        self.poke(_KEY, b"abcdefghij")
        with pytest.raises(PreconditionFailed):
            await self.store.checksums(_KEY, etag=etag)
        await self.store.delete([_KEY])
        with pytest.raises(ObjectNotFound):
            await self.store.checksums(_KEY, etag=etag)
        with pytest.raises(ObjectNotFound):
            await self.unknown().checksums(_KEY, etag=etag)

    async def test_head_describes_the_object(self) -> None:
        self.poke(_KEY, b"12345")
        head = await self.store.head(_KEY)
        assert (head.key, head.size, dict(head.metadata)) == (_KEY, 5, {})
        assert head.etag
        assert head.modified is not None
        assert abs(time.time() - head.modified) < _CLOCKS_APART_S

    async def test_etag_changes_with_the_body(self) -> None:
        self.poke(_KEY, b"one")
        first = await self.store.head(_KEY)
        self.poke(_KEY, b"two")
        assert (await self.store.head(_KEY)).etag != first.etag

    @pytest.mark.parametrize("key", ["nothing", "dir", "dir/key/below", "dir/ke"])
    async def test_reading_what_is_not_there_is_object_not_found(self, key: str) -> None:
        self.poke("dir/key", b"")
        with pytest.raises(ObjectNotFound):
            await self.store.get(key)
        with pytest.raises(ObjectNotFound):
            await self.store.head(key)

    async def test_reading_a_name_that_ends_with_a_slash_is_object_not_found(self) -> None:
        self.poke("dir/key", b"")
        with pytest.raises(ObjectNotFound):
            await self.store.get("dir/")
        with pytest.raises(ObjectNotFound):
            await self.store.head("dir/")

    async def test_reading_from_an_unknown_bucket_is_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await self.unknown().get(_KEY)
        with pytest.raises(ObjectNotFound):
            await self.unknown().head(_KEY)


class DeleteExam(Examined):
    """``delete``."""

    async def test_deleted_objects_are_gone_and_their_neighbours_are_not(self) -> None:
        keys = ["dataset1.b", "dataset1/a", "dataset1/b", "dataset1/b.c", "dataset1/b0", "dataset10/b"]
        for key in keys:
            self.poke(key, b"")
        await self.store.delete(["dataset1/b", "dataset1"])
        assert await self.listed() == sorted(set(keys) - {"dataset1/b"})

    async def test_missing_keys_count_as_deleted(self) -> None:
        self.poke("there", b"")
        await self.store.delete(["missing", "there", "missing/too", "missing"])
        assert self.peek("there") is None

    async def test_second_delete_does_nothing(self) -> None:
        self.poke(_KEY, b"")
        await self.store.delete([_KEY])
        await self.store.delete([_KEY])
        assert await self.listed() == []

    async def test_delete_of_no_keys_does_nothing(self) -> None:
        self.poke(_KEY, b"")
        await self.store.delete([])
        assert await self.listed() == [_KEY]

    async def test_as_many_keys_as_the_store_takes_are_deleted_in_one_call(self) -> None:
        most = self.store.capabilities.bulk_delete_max
        self.poke("many/0", b"")
        self.poke(f"many/{most - 1}", b"")
        self.poke(f"many/{most}", b"")
        await self.store.delete([f"many/{number}" for number in range(most)])
        assert await self.listed() == [f"many/{most}"]

    async def test_more_keys_than_the_store_takes_are_refused_and_stay(self) -> None:
        most = self.store.capabilities.bulk_delete_max
        self.poke("many/0", b"")
        with pytest.raises(StoreError, match="delete") as caught:
            await self.store.delete([f"many/{number}" for number in range(most + 1)])
        assert not caught.value.retryable
        assert self.peek("many/0") == b""
