"""The exam of stores that cannot do something: they say so, and do nothing instead."""

from __future__ import annotations

import re

import pytest

from magicfs.errors import ObjectNotFound, PreconditionFailed, Unsupported
from magicfs.stores.port import Part, Update
from magicfs.testing.store_exam.base import Examined, collected, outcomes

_KEY = "dataset1/part-0.parquet"


class NoConditionalCompletes(Examined):
    """An upload cannot be completed on a condition."""


class NoConditionalCompletesExam(NoConditionalCompletes):
    """That of a store that has uploads all the same."""

    async def test_complete_if_absent_is_unsupported_and_leaves_the_upload_pending(self) -> None:
        self.poke("taken", b"old")
        for key in (_KEY, "taken"):
            upload_id, parts = await self.upload(key, b"new")
            before = self.peek(key)
            with pytest.raises(Unsupported, match="complete_upload"):
                await self.store.complete_upload(key, upload_id, parts, if_absent=True)
            assert (self.peek(key), await self.pending(key)) == (before, {(key, upload_id)})
            await self.store.complete_upload(key, upload_id, parts)
            assert self.peek(key) == b"new"


class IgnoredConditionalCompletesExam(NoConditionalCompletes):
    """That of a service that takes the condition and does not look at it: ``stores.conditions`` finds out."""

    async def test_condition_of_a_complete_is_taken_and_ignored(self) -> None:
        self.poke("taken", b"old")
        for key in (_KEY, "taken"):
            upload_id, parts = await self.upload(key, b"new")
            await self.store.complete_upload(key, upload_id, parts, if_absent=True)
            assert (self.peek(key), await self.pending(key)) == (b"new", set())


class NoUploadsExam(NoConditionalCompletes):
    """Uploads cannot be delayed."""

    async def test_uploads_are_unsupported_and_the_error_names_committers_that_need_none(self) -> None:
        self.poke(_KEY, b"old")
        for error in await outcomes(
            self.store.create_upload(_KEY, metadata={}),
            self.store.put_part(_KEY, "upload", 1, b"new"),
            self.store.complete_upload(_KEY, "upload", [Part(1, '"etag"')]),
            self.store.complete_upload("free", "upload", [Part(1, '"etag"')], if_absent=True),
        ):
            assert isinstance(error, Unsupported)
            assert re.search("'file'.*'manifest'", str(error))
        assert (self.peek(_KEY), await self.listed()) == (b"old", [_KEY])

    async def test_no_upload_is_pending_and_every_one_counts_as_discarded(self) -> None:
        self.poke(_KEY, b"old")
        assert await self.pending() == await self.pending("dataset1/") == set()
        await self.store.abort_upload(_KEY, "upload")
        assert self.peek(_KEY) == b"old"

    async def test_uploads_of_an_unknown_bucket_are_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await collected(self.unknown().list_uploads(""))


class NoPutIfMatch(Examined):
    """``put`` cannot look at what it replaces."""


class RefusedPutIfMatchExam(NoPutIfMatch):
    """That of a service that refuses the condition whether it holds or not."""

    async def test_put_if_match_is_refused_and_writes_nothing(self) -> None:
        etag = (await self.store.put(_KEY, b"first")).etag
        for key, named in ((_KEY, etag), (_KEY, '"another"'), ("free", etag)):
            with pytest.raises(PreconditionFailed):
                await self.store.put(key, b"second", mode=Update(named))
        assert (self.peek(_KEY), await self.listed()) == (b"first", [_KEY])


class NoPutIfMatchExam(NoPutIfMatch):
    """That of a store that says so."""

    async def test_put_if_match_is_unsupported_and_writes_nothing(self) -> None:
        etag = (await self.store.put(_KEY, b"first")).etag
        for key, named in ((_KEY, etag), (_KEY, '"another"'), ("free", etag)):
            with pytest.raises(Unsupported, match="put of"):
                await self.store.put(key, b"second", mode=Update(named))
        assert (self.peek(_KEY), await self.listed()) == (b"first", [_KEY])
