"""The exam of conditions: requests that take place only if the right object, or none, is there."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from magicfs.errors import ObjectExists, ObjectNotFound, PreconditionFailed, StoreError, UploadNotFound
from magicfs.stores import conditions
from magicfs.stores.port import Update
from magicfs.testing.store_exam.base import Examined

_KEY = "dataset1/_magicfs/current.json"
_ANOTHER = '"0123456789abcdef0123456789abcdef"'
_RACERS = 8


class PutIfMatchExam(Examined):
    """``put`` with ``Update``."""

    async def test_put_if_match_replaces_the_object_of_that_etag(self) -> None:
        first = await self.store.put(_KEY, b"first", metadata={"a": "1"})
        second = await self.store.put(_KEY, b"second", metadata={"a": "2"}, mode=Update(first.etag))
        assert (self.peek(_KEY), dict((await self.store.head(_KEY)).metadata)) == (b"second", {"a": "2"})
        await self.store.put(_KEY, b"third", mode=Update(second.etag))
        assert self.peek(_KEY) == b"third"

    async def test_put_if_match_takes_the_etags_of_head_list_and_complete(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"uploaded")
        await self.store.complete_upload(_KEY, upload_id, parts)
        await self.store.put(_KEY, b"first", mode=Update((await self.store.head(_KEY)).etag))
        [entry] = [info async for info in self.store.list(_KEY)]
        await self.store.put(_KEY, b"second", mode=Update(entry.etag))
        assert self.peek(_KEY) == b"second"

    async def test_put_if_match_onto_another_object_changes_nothing(self) -> None:
        first = await self.store.put(_KEY, b"first")
        self.poke(_KEY, b"another")
        with pytest.raises(PreconditionFailed):
            await self.store.put(_KEY, b"second", mode=Update(first.etag))
        assert self.peek(_KEY) == b"another"

    async def test_put_if_match_where_nothing_is_writes_nothing(self) -> None:
        first = await self.store.put(_KEY, b"first")
        await self.store.delete([_KEY])
        with pytest.raises(PreconditionFailed):
            await self.store.put(_KEY, b"second", mode=Update(first.etag))
        assert self.peek(_KEY) is None

    async def test_second_put_if_match_meets_its_own_object(self) -> None:
        first = await self.store.put(_KEY, b"first")
        await self.store.put(_KEY, b"second", mode=Update(first.etag))
        with pytest.raises(PreconditionFailed):
            await self.store.put(_KEY, b"second", mode=Update(first.etag))

    async def test_race_of_puts_if_match_has_one_winner(self) -> None:
        stores = [self.make_store() for _ in range(_RACERS)]
        etag = (await self.store.put(_KEY, b"first")).etag
        puts = (store.put(_KEY, b"%d" % n, mode=Update(etag)) for n, store in enumerate(stores))
        answers = await asyncio.gather(*puts, return_exceptions=True)
        winners = [n for n, answer in enumerate(answers) if not isinstance(answer, BaseException)]
        refused = [answer for answer in answers if isinstance(answer, PreconditionFailed)]
        assert (len(winners), len(refused)) == (1, _RACERS - 1), answers
        assert self.peek(_KEY) == b"%d" % winners[0]

    async def test_put_if_match_into_an_unknown_bucket_is_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await self.unknown().put(_KEY, b"body", mode=Update(_ANOTHER))


class DeleteMatchingExam(Examined):
    """``delete_matching`` and ``delete_all_matching``."""

    async def test_delete_matching_removes_the_object_of_that_etag_alone(self) -> None:
        etag = (await self.store.put(_KEY, b"same")).etag
        self.poke(f"{_KEY}.0", b"same")
        self.poke(f"{_KEY}0", b"same")
        await self.store.delete_matching(_KEY, etag)
        assert await self.listed() == [f"{_KEY}.0", f"{_KEY}0"]

    async def test_delete_matching_leaves_another_object(self) -> None:
        etag = (await self.store.put(_KEY, b"first")).etag
        self.poke(_KEY, b"another")
        with pytest.raises(PreconditionFailed):
            await self.store.delete_matching(_KEY, etag)
        assert self.peek(_KEY) == b"another"

    async def test_second_delete_matching_does_nothing(self) -> None:
        etag = (await self.store.put(_KEY, b"body")).etag
        await self.store.delete_matching(_KEY, etag)
        await self.store.delete_matching(_KEY, etag)
        assert await self.listed() == []

    async def test_delete_all_matching_leaves_other_objects_and_names_them(self) -> None:
        etags = {key: (await self.store.put(key, key.encode())).etag for key in ("a", "b", "c", "d")}
        self.poke("b", b"another")
        self.poke("d", b"another")
        left = await self.store.delete_all_matching([*etags.items(), ("missing", etags["a"])])
        assert sorted(left) == ["b", "d"], f"left {left}"
        assert await self.listed() == ["b", "d"]
        assert (self.peek("b"), self.peek("d")) == (b"another", b"another")

    async def test_delete_all_matching_removes_the_objects_of_those_etags_alone(self) -> None:
        etags = {key: (await self.store.put(key, b"same")).etag for key in ("a", "a.b", "a0")}
        assert await self.store.delete_all_matching([("a", etags["a"]), ("a0", etags["a0"])]) == []
        assert await self.listed() == ["a.b"]

    async def test_second_delete_all_matching_does_nothing(self) -> None:
        objects = [(key, (await self.store.put(key, b"same")).etag) for key in ("a", "b")]
        assert await self.store.delete_all_matching(objects) == []
        assert await self.store.delete_all_matching(objects) == []
        assert await self.listed() == []

    async def test_missing_object_with_objects_below_its_key_counts_as_deleted(self) -> None:
        etag = (await self.store.put("a/b", b"body")).etag
        await self.store.delete_matching("a", etag)
        left = await self.store.delete_all_matching([("a", etag)])
        assert left == [], f"left {left}"
        assert await self.listed() == ["a/b"]

    async def test_delete_all_matching_of_no_objects_does_nothing(self) -> None:
        self.poke(_KEY, b"")
        assert await self.store.delete_all_matching([]) == []
        assert await self.listed() == [_KEY]

    async def test_more_objects_than_the_store_takes_are_refused_and_stay(self) -> None:
        most = self.store.capabilities.bulk_delete_max
        etag = (await self.store.put("many/0", b"")).etag
        with pytest.raises(StoreError, match="delete_all_matching") as caught:
            await self.store.delete_all_matching([(f"many/{number}", etag) for number in range(most + 1)])
        assert not caught.value.retryable
        assert self.peek("many/0") == b""


class CompleteIfAbsentExam(Examined):
    """``complete_upload`` with ``if_absent``. That exactly one of several wins is promised by no store."""

    async def test_complete_if_absent_writes_where_nothing_is(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"body", a="1")
        await self.store.complete_upload(_KEY, upload_id, parts, if_absent=True)
        assert (self.peek(_KEY), dict((await self.store.head(_KEY)).metadata)) == (
            b"body",
            self.remembered(a="1"),
        )
        assert await self.pending() == set()

    async def test_second_complete_if_absent_changes_nothing(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"body")
        await self.store.complete_upload(_KEY, upload_id, parts, if_absent=True)
        with contextlib.suppress(ObjectExists, UploadNotFound):  # either answer is allowed
            await self.store.complete_upload(_KEY, upload_id, parts, if_absent=True)
        assert self.peek(_KEY) == b"body"

    async def test_completes_if_absent_one_after_the_other_have_one_winner(self) -> None:
        uploads = [await self.upload(_KEY, b"%d" % number) for number in range(3)]
        await self.store.complete_upload(_KEY, *uploads[1], if_absent=True)
        for number in (0, 2):
            with pytest.raises(ObjectExists):
                await self.store.complete_upload(_KEY, *uploads[number], if_absent=True)
        assert self.peek(_KEY) == b"1"


class ConditionsExam(DeleteMatchingExam):
    """What ``stores.conditions`` makes of the store."""

    async def test_conditions_are_found_out_and_nothing_is_left(self) -> None:
        conditions.assume(self.store, None)
        assert await conditions.conditions_of(self.store, "dataset1/job") == self.honoured
        assert (await self.listed(), await self.pending()) == ([], set())

    async def test_objects_are_removed_by_etag_with_what_the_store_honours(self) -> None:
        objects = [(key, (await self.store.put(key, key.encode())).etag) for key in ("a", "b/a", "c", "d")]
        self.poke("b/a", b"another")
        left = await conditions.remove_matching(self.store, self.honoured, [*objects, ("e", _ANOTHER)], 2)
        assert (left, await self.listed(), self.peek("b/a")) == (["b/a"], ["b/a"], b"another")
