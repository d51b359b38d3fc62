"""The exam of user metadata, and of stores that keep none."""

from __future__ import annotations

import gzip
import itertools

import pytest
from hypothesis import given

from magicfs.errors import UsageError
from magicfs.stores.port import PutMode
from magicfs.testing import strategies
from magicfs.testing.store_exam.base import Examined
from magicfs.testing.store_exam.hostile import examples

_KEY = "dataset1/_SUCCESS"
_COPY = "dataset1/copy of it"


class MetadataExam(Examined):
    """Metadata of ``put``, ``head`` and ``copy``."""

    async def test_put_replaces_the_object_and_its_metadata(self) -> None:
        await self.store.put(_KEY, b"old and longer", metadata={"old": "1", "both": "old"})
        await self.store.put(_KEY, b"new", metadata={"both": "new"})
        assert (self.peek(_KEY), await self._of(_KEY)) == (b"new", {"both": "new"})
        await self.store.put(_KEY, b"new")
        assert await self._of(_KEY) == {}

    async def test_put_if_absent_keeps_the_metadata(self) -> None:
        await self.store.put(_KEY, b"body", metadata={"a": "1"}, mode=PutMode.CREATE)
        assert (self.peek(_KEY), await self._of(_KEY)) == (b"body", {"a": "1"})

    async def test_head_shows_the_metadata(self) -> None:
        await self.store.put(_KEY, b"12345", metadata={"magicfs-write-id": "abc", "length": "5"})
        head = await self.store.head(_KEY)
        assert (head.key, head.size) == (_KEY, 5)
        assert dict(head.metadata) == {"magicfs-write-id": "abc", "length": "5"}

    async def test_metadata_names_come_back_in_lower_case(self) -> None:
        await self.store.put(_KEY, b"", metadata={"X-Hadoop-S3A-Magic-Data-Length": "5"})
        assert await self._of(_KEY) == {"x-hadoop-s3a-magic-data-length": "5"}

    async def test_copy_keeps_the_metadata_and_replaces_what_was_there(self) -> None:
        await self.store.put(_KEY, b"new", metadata={"both": "new", "new": "2"})
        await self.store.put(_COPY, b"old", metadata={"both": "old", "old": "1"})
        await self.store.copy(_KEY, _COPY)
        assert (await self._of(_COPY), await self._of(_KEY)) == ({"both": "new", "new": "2"},) * 2
        await self.store.put(_KEY, b"none")
        await self.store.copy(_KEY, _COPY)
        assert await self._of(_COPY) == {}

    async def test_upload_brings_metadata_and_what_describes_its_content(self) -> None:
        options = {
            "Metadata": {"A": "1", "X-Own": "theirs"},
            "ContentType": "text/csv",
            "CacheControl": "no-store",
        }
        upload = await self.store.create_upload(_KEY, metadata={"x-own": "ours"}, options=options)
        part = await self.store.put_part(_KEY, upload, 1, b"body")
        await self.store.complete_upload(_KEY, upload, [part])
        await self.store.copy(_KEY, _COPY)
        for key in (_KEY, _COPY):
            head = await self.store.head(key)
            assert dict(head.metadata) == {"a": "1", "x-own": "ours"}
            described = {name: head.description.get(name) for name in ("ContentType", "CacheControl")}
            assert described == {"ContentType": "text/csv", "CacheControl": "no-store"}

    async def test_put_makes_of_a_body_what_an_upload_makes_of_it(self) -> None:
        assert self.store.capabilities.puts_files
        metadata = {"magicfs-write-id": "abc"}
        await self.store.put(_KEY, b"body", metadata=metadata, mode=PutMode.CREATE)
        upload = await self.store.create_upload(_COPY, metadata=metadata)
        part = await self.store.put_part(_COPY, upload, 1, b"body")
        await self.store.complete_upload(_COPY, upload, [part])
        put, uploaded = await self.store.head(_KEY), await self.store.head(_COPY)
        assert (self.peek(_KEY), self.peek(_COPY)) == (b"body", b"body")
        assert (put.size, put.metadata) == (uploaded.size, uploaded.metadata)
        assert put.description == uploaded.description, (
            f"put as {put.description}, uploaded as {uploaded.description}"
        )

    async def test_object_that_says_it_is_compressed_comes_as_it_is(self) -> None:
        body = gzip.compress(b"row\n" * 1000)
        upload = await self.store.create_upload(_KEY, metadata={}, options={"ContentEncoding": "gzip"})
        part = await self.store.put_part(_KEY, upload, 1, body)
        await self.store.complete_upload(_KEY, upload, [part])
        etag = (await self.store.head(_KEY)).etag
        assert await self.store.get(_KEY) == body
        assert await self.store.get(_KEY, size_max=10) == body[:10]
        assert await self.store.get_range(_KEY, 3, 20, etag=etag) == body[3:23]
        assert self.peek(_KEY) == body

    async def test_upload_takes_no_option_of_another_name(self) -> None:
        with pytest.raises(UsageError, match=r"NoSuch cannot be given with one file .* nothing was written"):
            await self.store.create_upload(_KEY, metadata={}, options={"NoSuch": "1", "ContentType": "a/b"})
        assert await self.pending() == set()

    def test_random_metadata_comes_back_from_an_object_and_from_its_copy(self) -> None:
        numbers = itertools.count()

        @examples
        @given(metadata=strategies.metadata())
        def check(metadata: dict[str, str]) -> None:
            self.run(self._comes_back(f"{next(numbers)}", metadata))

        check()

    async def _comes_back(self, key: str, metadata: dict[str, str]) -> None:
        await self.store.put(key, b"", metadata=metadata)
        await self.store.copy(key, f"copy of {key}")
        assert (await self._of(key), await self._of(f"copy of {key}")) == (metadata, metadata)

    async def _of(self, key: str) -> dict[str, str]:
        return dict((await self.store.head(key)).metadata)


class NoMetadataExam(Examined):
    """Metadata is forgotten, and nothing else changes."""

    async def test_metadata_is_forgotten(self) -> None:
        await self.store.put(_KEY, b"body", metadata={"a": "1"})
        await self.store.put(_COPY, b"body", metadata={"a": "1"}, mode=PutMode.CREATE)
        for key in (_KEY, _COPY):
            assert (self.peek(key), dict((await self.store.head(key)).metadata)) == (b"body", {})
        assert await self.listed() == sorted([_KEY, _COPY])
