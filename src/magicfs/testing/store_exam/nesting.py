"""The exam of names below names, and of stores whose keys are paths of files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from magicfs.errors import ObjectExists, ObjectNotFound, StoreError
from magicfs.stores.port import PutMode
from magicfs.testing import strategies
from magicfs.testing.store_exam.base import Examined, outcomes
from magicfs.testing.store_exam.hostile import HostileExam, SiblingsExam
from magicfs.testing.strategies import HOSTILE_KEYS


class NestedNamesExam(SiblingsExam, HostileExam):
    """Any text is a key, and objects lie below objects."""

    async def test_object_and_objects_below_its_name_live_side_by_side(self) -> None:
        for key in ("a/__magic", "a/__magic/b", "a/__magic/b/c"):
            await self.store.put(key, key.encode())
        await self.store.delete(["a/__magic/b"])
        assert await self.listed() == ["a/__magic", "a/__magic/b/c"]
        assert self.peek("a/__magic/b/c") == b"a/__magic/b/c"

    async def test_hostile_keys_with_objects_below_them_live_side_by_side(self) -> None:
        for key in HOSTILE_KEYS:
            self.poke(key, key.encode())
        assert await self.listed() == sorted(HOSTILE_KEYS)
        await self.store.delete(HOSTILE_KEYS[::2])
        assert await self.listed() == sorted(HOSTILE_KEYS[1::2])

    async def test_object_is_listed_beside_objects_below_its_name(self) -> None:
        keys = ["dataset1", "dataset1/part", "dataset1/part/0", "dataset10"]
        for key in keys:
            self.poke(key, b"")
        for prefix in ("", "dataset1", "dataset1/", "dataset1/part", "dataset1/part/"):
            assert await self.listed(prefix) == [key for key in keys if key.startswith(prefix)], prefix

    async def test_deletes_leave_objects_below_a_name(self) -> None:
        etag = (await self.store.put("a", b"same")).etag
        for key in ("a/b", "a/b/c", "d/e"):
            self.poke(key, b"same")
        await self.store.delete_matching("a", etag)
        below = (await self.store.head("a/b")).etag
        assert await self.store.delete_all_matching([("a/b", below)]) == []
        await self.store.delete(["d"])
        assert await self.listed() == ["a/b/c", "d/e"]

    async def test_copies_go_below_an_object_and_onto_a_name_with_objects_below(self) -> None:
        self.poke("a", b"source")
        self.poke("b/c", b"below")
        await self.store.copy("a", "a/b")
        await self.store.copy("a", "b")
        assert await self.listed() == ["a", "a/b", "b", "b/c"]
        assert (self.peek("a/b"), self.peek("b"), self.peek("b/c")) == (b"source", b"source", b"below")

    async def test_complete_where_objects_lie_below_the_key(self) -> None:
        key = "dataset1/part 0.parquet"
        self.poke(f"{key}/below", b"below")
        upload_id, parts = await self.upload(key, b"body")
        await self.store.complete_upload(key, upload_id, parts)
        assert (self.peek(key), self.peek(f"{key}/below")) == (b"body", b"below")

    async def test_key_of_one_element_of_1000_bytes_is_kept(self) -> None:
        await self.kept("k" * strategies.KEY_BYTES_MAX)

    async def test_key_with_empty_elements_is_kept_apart(self) -> None:
        await self.kept("a//b", "a/b")

    async def test_key_that_ends_with_a_slash_is_kept_apart(self) -> None:
        await self.kept("a/", "a")


class FileNamesExam(SiblingsExam, HostileExam):
    """Keys are paths of files: what cannot be one is refused, and nothing else changes."""

    def siblings(self) -> st.SearchStrategy[list[str]]:
        return super().siblings().map(strategies.leaves)

    async def test_object_where_others_lie_below_is_refused(self) -> None:
        self.poke("a/b", b"below")
        self.poke("source", b"source")
        for error in await outcomes(self.store.put("a", b"new"), self.store.copy("source", "a")):
            _refused(error, "directory")
        with pytest.raises(ObjectExists):
            await self.store.put("a", b"new", mode=PutMode.CREATE)
        assert (await self.listed(), self.peek("a/b")) == (["a/b", "source"], b"below")

    async def test_object_below_an_object_is_refused(self) -> None:
        self.poke("a", b"above")
        for key in ("a/b", "a/b/c"):
            for error in await outcomes(
                self.store.put(key, b"new"),
                self.store.put(key, b"new", mode=PutMode.CREATE),
                self.store.copy("a", key),
            ):
                _refused(error, "directory")
        assert (await self.listed(), self.peek("a")) == (["a"], b"above")

    @pytest.mark.parametrize(
        "key", ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "../a", "a/.", "a\0b", "\ud800"]
    )
    async def test_name_that_no_file_can_have_is_refused_and_nothing_is_there(self, key: str) -> None:
        self.poke("a/b", b"below")
        self.poke("b", b"beside")
        for error in await outcomes(self.store.put(key, b"new"), self.store.copy("b", key)):
            _refused(error, "name")
        for error in await outcomes(self.store.get(key), self.store.head(key), self.store.copy(key, "c")):
            assert isinstance(error, ObjectNotFound)
        await self.store.delete([key])
        await self.store.delete_matching(key, '"etag"')
        assert await self.listed() == ["a/b", "b"]

    @pytest.mark.parametrize("prefix", ["/", "a/../", "../", "./", "a//", "/a", "a/./b", "\ud800/", "b/x"])
    async def test_prefix_that_no_name_begins_with_lists_nothing(self, prefix: str) -> None:
        self.poke("a/b", b"below")
        self.poke("b", b"beside")
        assert await self.listed(prefix) == []

    async def test_too_long_name_is_refused_and_a_long_path_is_not(self) -> None:
        with pytest.raises(StoreError, match="shorter") as caught:
            await self.store.put("k" * 256, b"new")
        assert not caught.value.retryable
        longest = "/".join(["k" * 255] * 3)
        await self.kept("k" * 255, "ä" * 127, f"dir/{longest}")

    async def test_listing_goes_by_the_bytes_of_whole_keys(self) -> None:
        keys = ["a!", "a-b/c", "a.txt", "a/b", "a/b.c/d", "a/b0", "a0", "é", "日", "😀"]
        for key in keys[::-1]:
            self.poke(key, b"")
        assert [info.key async for info in self.store.list("")] == keys
        assert [info.key async for info in self.store.list("", limit=4)] == keys[:4]


class FileUploadsExam(Examined):
    """Uploads whose keys are paths of files."""

    async def test_upload_is_not_completed_where_objects_lie_below_or_above_and_stays_pending(self) -> None:
        opened = [(key, *(await self.upload(key, b"new"))) for key in ("a", "b/c", "b/c/d")]
        self.poke("a/b", b"below")
        self.poke("b", b"above")
        for error in await outcomes(*(self.store.complete_upload(*one) for one in opened)):
            _refused(error, "directory")
        assert await self.pending() == {(key, upload_id) for key, upload_id, _ in opened}
        for error in await outcomes(self.store.create_upload("b/e", metadata={})):
            _refused(error, "directory")
        assert (self.peek("a/b"), self.peek("b"), await self.listed()) == (b"below", b"above", ["a/b", "b"])

    @pytest.mark.parametrize("key", ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a\0b", "\ud800"])
    async def test_upload_of_a_name_that_no_file_can_have_is_refused(self, key: str) -> None:
        for error in await outcomes(self.store.create_upload(key, metadata={})):
            _refused(error, "name")
        assert await self.pending() == set()

    async def test_upload_of_a_name_that_is_too_long_is_refused_when_it_is_opened(self) -> None:
        for error in await outcomes(
            *(self.store.create_upload(key, metadata={}) for key in ("k" * 256, f"dir/{'k' * 256}/file"))
        ):
            _refused(error, "shorter")
        upload_id, parts = await self.upload(f"dir/{'k' * 255}/{'ä' * 127}", b"body")
        await self.store.complete_upload(f"dir/{'k' * 255}/{'ä' * 127}", upload_id, parts)


def _refused(error: Any, why: str) -> None:
    """For good, and for another reason than that something is there, or nothing."""
    assert isinstance(error, StoreError)
    assert not isinstance(error, FileExistsError | FileNotFoundError)
    assert not error.retryable
    assert why in str(error)
