"""The exam of multipart uploads: create, part, complete, abort."""

from __future__ import annotations

import asyncio

import pytest

from magicfs.errors import ObjectNotFound, StoreError, UploadNotFound
from magicfs.stores.port import Part, PutMode
from magicfs.testing.store_exam.base import Examined

_KEY = "dataset1/day=2026-01-01/part 0.parquet"
_NEVER_OPENED = "0123456789abcdef0123456789abcdef"


class _Refusals(Examined):
    async def refused_then_completed(self, upload_id: str, wrong: list[Part], right: list[Part]) -> None:
        """A completion is refused for good and changes nothing, and the right one succeeds."""
        with pytest.raises(StoreError, match="complete_upload") as caught:
            await self.store.complete_upload(_KEY, upload_id, wrong)
        assert not isinstance(caught.value, UploadNotFound), f"refused as {caught.value!r}"
        assert not caught.value.retryable, f"refused as {caught.value!r}"
        assert await self.pending() == {(_KEY, upload_id)}
        assert self.peek(_KEY) is None
        await self.store.complete_upload(_KEY, upload_id, right)
        assert self.peek(_KEY) is not None


class CreateExam(Examined):
    """``create_upload``."""

    async def test_created_upload_is_listed(self) -> None:
        upload_id = await self.store.create_upload(_KEY, metadata={})
        assert await self.pending() == {(_KEY, upload_id)}

    async def test_created_upload_with_parts_is_not_visible(self) -> None:
        await self.upload(_KEY, b"one part")
        with pytest.raises(ObjectNotFound):
            await self.store.head(_KEY)
        assert await self.listed() == []
        assert self.peek(_KEY) is None

    async def test_created_upload_leaves_the_object_that_is_there(self) -> None:
        self.poke(_KEY, b"old")
        await self.upload(_KEY, b"new")
        assert self.peek(_KEY) == b"old"

    async def test_second_create_opens_an_independent_upload(self) -> None:
        first, parts = await self.upload(_KEY, b"first")
        second, _ = await self.upload(_KEY, b"second")
        assert first != second
        assert await self.pending() == {(_KEY, first), (_KEY, second)}
        await self.store.abort_upload(_KEY, second)
        await self.store.complete_upload(_KEY, first, parts)
        assert self.peek(_KEY) == b"first"

    async def test_create_in_an_unknown_bucket_is_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await self.unknown().create_upload(_KEY, metadata={})


class PartExam(Examined):
    """``put_part``."""

    async def test_parts_sent_out_of_order_stand_in_the_order_of_their_numbers(self) -> None:
        upload_id = await self.store.create_upload(_KEY, metadata={})
        last = await self.store.put_part(_KEY, upload_id, 3, b"c")
        first = await self.store.put_part(_KEY, upload_id, 1, self.full_part(b"a"))
        middle = await self.store.put_part(_KEY, upload_id, 2, self.full_part(b"b"))
        assert [part.number for part in (first, middle, last)] == [1, 2, 3]
        await self.store.complete_upload(_KEY, upload_id, [first, middle, last])
        assert self.peek(_KEY) == self.full_part(b"a") + self.full_part(b"b") + b"c"

    async def test_parts_sent_at_once_are_all_there(self) -> None:
        upload_id = await self.store.create_upload(_KEY, metadata={})
        bodies = [self.full_part(b"%d" % number) for number in range(4)]
        sent = (self.store.put_part(_KEY, upload_id, n, body) for n, body in enumerate(bodies, start=1))
        await self.store.complete_upload(_KEY, upload_id, await asyncio.gather(*sent))
        assert self.peek(_KEY) == b"".join(bodies)

    async def test_two_parts_above_five_mebibytes_make_one_object(self) -> None:
        bodies = (b"\x00\xff" * (3 * 2**20), b"\r\n" * (3 * 2**20))
        upload_id, parts = await self.upload(_KEY, *bodies)
        await self.store.complete_upload(_KEY, upload_id, parts)
        assert (await self.store.head(_KEY)).size == 12 * 2**20
        assert self.peek(_KEY) == b"".join(bodies)

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    async def test_part_takes_every_kind_of_body(self, kind: type) -> None:
        upload_id, parts = await self.upload(_KEY, kind(b"body\x00"))
        await self.store.complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) == b"body\x00"

    async def test_one_empty_part_makes_an_empty_object(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"")
        await self.store.complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) == b""
        assert (await self.store.head(_KEY)).size == 0

    async def test_part_sent_again_replaces_the_first(self) -> None:
        upload_id, _ = await self.upload(_KEY, b"first, and longer")
        again = await self.store.put_part(_KEY, upload_id, 1, b"second")
        await self.store.complete_upload(_KEY, upload_id, [again])
        assert self.peek(_KEY) == b"second"

    async def test_same_part_sent_again_counts_once(self) -> None:
        upload_id, _ = await self.upload(_KEY, b"same")
        again = await self.store.put_part(_KEY, upload_id, 1, b"same")
        await self.store.complete_upload(_KEY, upload_id, [again])
        assert self.peek(_KEY) == b"same"


class CompleteExam(_Refusals):
    """``complete_upload``."""

    async def test_completed_upload_is_visible_and_no_longer_listed(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"body")
        await self.store.complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) == b"body"
        assert await self.listed() == [_KEY]
        assert await self.pending() == set()

    async def test_completed_upload_is_described(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"body")
        done = await self.store.complete_upload(_KEY, upload_id, parts)
        head = await self.store.head(_KEY)
        assert done.key == _KEY
        assert done.etag in {head.etag, ""}
        assert done.size in {4, -1}

    async def test_another_connection_completes_from_ids_alone(self) -> None:
        upload_id, [part] = await self.upload(_KEY, b"handed over")
        await self.make_store().complete_upload(_KEY, upload_id, [Part(1, str(part.etag))])
        assert self.peek(_KEY) == b"handed over"

    async def test_complete_takes_exactly_the_parts_that_it_names(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"x", self.full_part(b"y"), b"x", b"z")
        await self.store.complete_upload(_KEY, upload_id, [parts[1], parts[3]])
        assert self.peek(_KEY) == self.full_part(b"y") + b"z"

    async def test_complete_replaces_the_object_and_its_metadata(self) -> None:
        await self.store.put(_KEY, b"old", metadata={"old": "1", "both": "old"})
        upload_id, parts = await self.upload(_KEY, b"new", both="new", new="2")
        await self.store.complete_upload(_KEY, upload_id, parts)
        head = await self.store.head(_KEY)
        assert (self.peek(_KEY), dict(head.metadata)) == (b"new", self.remembered(both="new", new="2"))

    async def test_second_complete_changes_nothing(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"body")
        await self.store.complete_upload(_KEY, upload_id, parts)
        await self._complete_again(upload_id, parts)
        assert self.peek(_KEY) == b"body"

    async def test_second_complete_does_not_undo_a_later_write(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"body")
        await self.store.complete_upload(_KEY, upload_id, parts)
        self.poke(_KEY, b"written later")
        await self._complete_again(upload_id, parts)
        assert self.peek(_KEY) == b"written later"

    async def test_second_complete_does_not_undo_a_later_delete(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"body")
        await self.store.complete_upload(_KEY, upload_id, parts)
        await self.store.delete([_KEY])
        await self._complete_again(upload_id, parts)
        assert self.peek(_KEY) is None

    async def test_complete_after_abort_is_upload_not_found(self) -> None:
        self.poke(_KEY, b"old")
        upload_id, parts = await self.upload(_KEY, b"new")
        await self.store.abort_upload(_KEY, upload_id)
        with pytest.raises(UploadNotFound):
            await self.store.complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) == b"old"

    async def test_complete_of_an_upload_that_was_never_opened_is_upload_not_found(self) -> None:
        _, parts = await self.upload(_KEY, b"new")
        with pytest.raises(UploadNotFound):
            await self.store.complete_upload(_KEY, _NEVER_OPENED, parts)
        assert self.peek(_KEY) is None

    async def test_complete_under_another_key_is_upload_not_found(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"new")
        with pytest.raises(UploadNotFound):
            await self.store.complete_upload(f"{_KEY}0", upload_id, parts)
        assert (self.peek(f"{_KEY}0"), await self.pending()) == (None, {(_KEY, upload_id)})

    async def test_complete_with_an_unknown_part_leaves_the_upload_pending(self) -> None:
        upload_id, [part] = await self.upload(_KEY, b"body")
        await self.refused_then_completed(upload_id, [part, Part(2, part.etag)], [part])

    async def test_complete_with_a_wrong_etag_leaves_the_upload_pending(self) -> None:
        upload_id, [part] = await self.upload(_KEY, b"body")
        await self.refused_then_completed(upload_id, [Part(1, f'"{_NEVER_OPENED}"')], [part])

    async def test_complete_with_descending_parts_leaves_the_upload_pending(self) -> None:
        upload_id, parts = await self.upload(_KEY, self.full_part(b"a"), self.full_part(b"b"))
        await self.refused_then_completed(upload_id, parts[::-1], parts)

    async def test_complete_with_a_part_named_twice_leaves_the_upload_pending(self) -> None:
        upload_id, [part] = await self.upload(_KEY, self.full_part(b"a"))
        await self.refused_then_completed(upload_id, [part, part], [part])

    async def test_complete_without_parts_leaves_the_upload_pending(self) -> None:
        upload_id, [part] = await self.upload(_KEY, b"body")
        await self.refused_then_completed(upload_id, [], [part])

    async def test_complete_with_a_small_part_before_the_last_leaves_the_upload_pending(self) -> None:
        small = self.full_part(b"a")[:-1]
        upload_id, parts = await self.upload(_KEY, small, b"b")
        await self.refused_then_completed(upload_id, parts, parts[1:])

    async def _complete_again(self, upload_id: str, parts: list[Part]) -> None:
        # Either answer is allowed; what matters is what the key holds afterwards.
        try:
            await self.store.complete_upload(_KEY, upload_id, parts)
        except UploadNotFound:
            return


class AbortExam(Examined):
    """``abort_upload``."""

    async def test_aborted_upload_is_not_listed_and_makes_nothing_visible(self) -> None:
        upload_id, _ = await self.upload(_KEY, b"body")
        await self.store.abort_upload(_KEY, upload_id)
        assert await self.pending() == set()
        assert self.peek(_KEY) is None

    async def test_second_abort_does_nothing(self) -> None:
        upload_id, _ = await self.upload(_KEY, b"body")
        other, _ = await self.upload(_KEY, b"other")
        await self.store.abort_upload(_KEY, upload_id)
        await self.store.abort_upload(_KEY, upload_id)
        assert await self.pending() == {(_KEY, other)}

    async def test_abort_of_an_upload_that_was_never_opened_does_nothing(self) -> None:
        other, _ = await self.upload(_KEY, b"other")
        await self.store.abort_upload(_KEY, _NEVER_OPENED)
        assert await self.pending() == {(_KEY, other)}

    async def test_abort_after_complete_leaves_the_object(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"body")
        await self.store.complete_upload(_KEY, upload_id, parts)
        await self.store.abort_upload(_KEY, upload_id)
        assert self.peek(_KEY) == b"body"

    async def test_abort_leaves_the_object_that_was_there(self) -> None:
        self.poke(_KEY, b"old")
        upload_id, _ = await self.upload(_KEY, b"new")
        await self.store.abort_upload(_KEY, upload_id)
        assert self.peek(_KEY) == b"old"

    async def test_abort_under_another_key_leaves_the_upload_pending(self) -> None:
        upload_id, _ = await self.upload(_KEY, b"body")
        await self.store.abort_upload(f"{_KEY}0", upload_id)
        assert await self.pending() == {(_KEY, upload_id)}, "the upload is gone"


class BesideUploadsExam(Examined):
    """What pending uploads, and objects that were uploaded, are to the other operations."""

    async def test_put_if_absent_writes_where_an_upload_is_pending(self) -> None:
        await self.upload(_KEY, b"pending")
        await self.store.put(_KEY, b"body", mode=PutMode.CREATE)
        assert self.peek(_KEY) == b"body"

    async def test_object_of_several_parts_is_copied_with_the_metadata_of_its_upload(self) -> None:
        upload_id, parts = await self.upload(_KEY, self.full_part(b"a"), b"b", **{"magicfs-write-id": "1"})
        await self.store.complete_upload(_KEY, upload_id, parts)
        copied = await self.store.copy(_KEY, "elsewhere/copy")
        head = await self.store.head("elsewhere/copy")
        assert copied == head.size == self.store.capabilities.parts.size_min + 1
        assert dict(head.metadata) == self.remembered(**{"magicfs-write-id": "1"})
        assert self.peek("elsewhere/copy") == self.full_part(b"a") + b"b"
