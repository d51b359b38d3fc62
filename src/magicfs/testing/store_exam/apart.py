"""The exam of uploads that are nothing to each other, and of those that share the blocks of one key."""

from __future__ import annotations

import contextlib

import pytest

from magicfs.errors import ObjectExists, StoreError, UploadNotFound
from magicfs.stores.port import Part
from magicfs.testing.store_exam.base import Examined
from magicfs.testing.store_exam.conditional import CompleteIfAbsentExam

_KEY = "dataset1/day=2026-01-01/part 0.parquet"


class UploadsApartExam(Examined):
    """An upload lives until it is completed or aborted, whatever becomes of its key."""

    async def test_part_that_was_replaced_cannot_be_completed(self) -> None:
        upload_id, [replaced] = await self.upload(_KEY, b"first")
        await self.store.put_part(_KEY, upload_id, 1, b"second")
        with pytest.raises(StoreError, match="complete_upload"):
            await self.store.complete_upload(_KEY, upload_id, [replaced])

    async def test_part_of_an_aborted_upload_is_upload_not_found(self) -> None:
        upload_id = await self.store.create_upload(_KEY, metadata={})
        await self.store.abort_upload(_KEY, upload_id)
        with pytest.raises(UploadNotFound):
            await self.store.put_part(_KEY, upload_id, 1, b"late")

    async def test_part_of_a_completed_upload_is_upload_not_found(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"whole")
        await self.store.complete_upload(_KEY, upload_id, parts)
        with pytest.raises(UploadNotFound):
            await self.store.put_part(_KEY, upload_id, 2, b"late")
        assert self.peek(_KEY) == b"whole"

    async def test_completing_one_of_two_uploads_leaves_the_other_pending(self) -> None:
        first, _ = await self.upload(_KEY, b"first")
        second, parts = await self.upload(_KEY, b"second")
        await self.store.complete_upload(_KEY, second, parts)
        assert await self.pending() == {(_KEY, first)}

    async def test_delete_leaves_pending_uploads_of_the_key(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"new")
        self.poke(_KEY, b"old")
        await self.store.delete([_KEY])
        await self.store.complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) == b"new"

    async def test_copy_leaves_pending_uploads_and_opens_none(self) -> None:
        self.poke(_KEY, b"body")
        source, _ = await self.upload(_KEY, b"new")
        destination, parts = await self.upload("copy", b"later")
        await self.store.copy(_KEY, "copy")
        assert await self.pending() == {(_KEY, source), ("copy", destination)}
        await self.store.complete_upload("copy", destination, parts)
        assert self.peek("copy") == b"later"


class CompleteIfAbsentApartExam(CompleteIfAbsentExam):
    """The same of a store that completes uploads on a condition."""

    async def test_complete_if_absent_onto_an_object_leaves_it_and_the_upload(self) -> None:
        self.poke(_KEY, b"old")
        upload_id, parts = await self.upload(_KEY, b"new")
        with pytest.raises(ObjectExists):
            await self.store.complete_upload(_KEY, upload_id, parts, if_absent=True)
        assert (self.peek(_KEY), await self.pending()) == (b"old", {(_KEY, upload_id)})
        await self.store.complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) == b"new"


class UploadsTogetherExam(Examined):
    """Writing to a key drops its uploads, and a request for one of them is refused."""

    async def test_part_sent_twice_completes_as_the_one_that_is_named(self) -> None:
        upload_id, [first] = await self.upload(_KEY, b"first")
        second = await self.store.put_part(_KEY, upload_id, 1, b"second")
        assert first.etag != second.etag
        await self.store.complete_upload(_KEY, upload_id, [first])
        assert self.peek(_KEY) == b"first"

    async def test_part_of_an_aborted_upload_does_not_bring_it_back(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"early")
        await self.store.abort_upload(_KEY, upload_id)
        with contextlib.suppress(UploadNotFound):  # either answer is allowed
            parts.append(await self.store.put_part(_KEY, upload_id, 2, b"late"))
        assert await self.pending() == set()
        with pytest.raises(UploadNotFound):
            await self.make_store().complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) is None

    async def test_part_of_a_completed_upload_changes_nothing(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"whole")
        await self.store.complete_upload(_KEY, upload_id, parts)
        with contextlib.suppress(UploadNotFound):  # either answer is allowed
            parts.append(await self.store.put_part(_KEY, upload_id, 2, b"late"))
        with pytest.raises(UploadNotFound):
            await self.store.complete_upload(_KEY, upload_id, parts)
        assert (self.peek(_KEY), await self.pending()) == (b"whole", set())

    async def test_completing_one_of_two_uploads_drops_the_other(self) -> None:
        first, lost = await self.upload(_KEY, b"first")
        second, parts = await self.upload(_KEY, b"second")
        await self.store.complete_upload(_KEY, second, parts)
        assert await self.pending() == set()
        with pytest.raises(UploadNotFound):
            await self.store.complete_upload(_KEY, first, lost)
        with pytest.raises(ObjectExists):
            await self.store.complete_upload(_KEY, first, lost, if_absent=True)
        assert self.peek(_KEY) == b"second"

    async def test_put_drops_the_uploads_of_its_key(self) -> None:
        upload_id, parts = await self.upload(_KEY, b"new")
        await self.store.put(_KEY, b"put")
        with pytest.raises(UploadNotFound):
            await self.store.complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) == b"put"

    async def test_upload_over_an_object_survives_its_delete_or_is_not_found(self) -> None:
        self.poke(_KEY, b"old")
        upload_id, parts = await self.upload(_KEY, b"new")
        await self.store.delete([_KEY])
        await self._completed_or_not_found(upload_id, parts, b"new")

    async def test_copy_drops_the_uploads_of_its_destination_or_leaves_them(self) -> None:
        self.poke("source", b"body")
        upload_id, parts = await self.upload(_KEY, b"later")
        await self.store.copy("source", _KEY)
        assert self.peek(_KEY) == b"body"
        await self._completed_or_not_found(upload_id, parts, b"later")

    async def test_copy_leaves_the_uploads_of_its_source(self) -> None:
        self.poke(_KEY, b"body")
        upload_id, parts = await self.upload(_KEY, b"new")
        await self.store.copy(_KEY, "copy")
        assert await self.pending("copy") == set()
        await self.store.complete_upload(_KEY, upload_id, parts)
        assert (self.peek(_KEY), self.peek("copy")) == (b"new", b"body")

    async def test_upload_over_an_object_is_not_listed_and_can_be_completed(self) -> None:
        self.poke(_KEY, b"old")
        upload_id, parts = await self.upload(_KEY, b"new")
        assert await self.pending() == set()
        with pytest.raises(ObjectExists):
            await self.store.complete_upload(_KEY, upload_id, parts, if_absent=True)
        assert self.peek(_KEY) == b"old"
        await self.store.complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) == b"new"

    async def test_upload_over_an_object_that_was_aborted_cannot_be_completed(self) -> None:
        self.poke(_KEY, b"old")
        upload_id, parts = await self.upload(_KEY, b"new")
        await self.store.abort_upload(_KEY, upload_id)
        with pytest.raises(UploadNotFound):
            await self.make_store().complete_upload(_KEY, upload_id, parts)
        assert self.peek(_KEY) == b"old"

    async def _completed_or_not_found(self, upload_id: str, parts: list[Part], body: bytes) -> None:
        held = self.peek(_KEY)
        try:
            await self.store.complete_upload(_KEY, upload_id, parts)
        except UploadNotFound:
            assert self.peek(_KEY) == held
        else:
            assert self.peek(_KEY) == body
