"""The exam of listings: uploads and objects."""

from __future__ import annotations

import asyncio
import time

import pytest

from magicfs.errors import ObjectNotFound
from magicfs.testing.store_exam.base import Examined, collected
from magicfs.testing.strategies import HOSTILE_KEYS

_MORE_THAN_A_PAGE = 1003
_CLOCKS_APART_S = 300.0
_AT_ONCE = 16
_ODD = ("", " ", "+", "%2F", "%", "é", "日", "=&", "#?", "'", "~", ".x")


def _many() -> list[str]:
    """Hostile names of more than a page, in order."""
    return [f"{number:05d}{_ODD[number % len(_ODD)]}-" for number in range(_MORE_THAN_A_PAGE)]


class ListUploadsExam(Examined):
    """``list_uploads``."""

    async def test_uploads_of_an_empty_bucket_are_none(self) -> None:
        assert await self.pending() == set()

    async def test_uploads_are_found_by_any_beginning_of_their_keys(self) -> None:
        keys = ("dataset1/part", "dataset10/part", "dataset1", "other")
        ids = {key: await self.store.create_upload(key, metadata={}) for key in keys}
        for prefix in ("", "dataset1", "dataset1/", "dataset10/", "dataset1/part", "nothing"):
            expected = {(key, ids[key]) for key in keys if key.startswith(prefix)}
            assert await self.pending(prefix) == expected, prefix

    async def test_every_upload_of_one_key_is_listed(self) -> None:
        ids = {await self.store.create_upload("same key", metadata={}) for _ in range(3)}
        assert await self.pending("same key") == {("same key", upload_id) for upload_id in ids}

    async def test_uploads_of_hostile_keys_are_listed_as_they_were_named(self) -> None:
        ids = {(key, await self.store.create_upload(key, metadata={})) for key in HOSTILE_KEYS}
        assert await self.pending() == ids

    async def test_upload_is_dated_when_it_was_opened(self) -> None:
        await self.store.create_upload("key", metadata={})
        [found] = await collected(self.store.list_uploads(""))
        age = time.time() - found.initiated
        assert abs(age) < _CLOCKS_APART_S, f"the upload is said to be {age:.0f} s old"

    @pytest.mark.timeout(300)
    async def test_more_uploads_than_a_page_holds_are_all_listed(self) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def opened(number: int) -> tuple[str, str]:
            async with gate:
                key = f"many/{number % 300:05d}"
                return key, await self.store.create_upload(key, metadata={})

        async def aborted(key: str, upload_id: str) -> None:
            async with gate:
                await self.store.abort_upload(key, upload_id)

        expected = set(await asyncio.gather(*map(opened, range(_MORE_THAN_A_PAGE))))
        found = [(info.key, info.upload_id) for info in await collected(self.store.list_uploads("many/"))]
        await asyncio.gather(*(aborted(*one) for one in expected))
        assert len(found) == len(set(found)), "an upload was listed twice"
        assert set(found) == expected, f"{len(found)} of {len(expected)} uploads were listed"

    async def test_uploads_of_an_unknown_bucket_are_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await collected(self.unknown().list_uploads(""))


class ListExam(Examined):
    """``list``."""

    async def test_objects_of_an_empty_bucket_are_none(self) -> None:
        assert await self.listed() == []

    async def test_objects_are_found_by_any_beginning_of_their_keys(self) -> None:
        keys = ("dataset1/part", "dataset1/deep/er", "dataset10/part", "dataset1.txt", "dataset11", "other")
        for key in keys:
            self.poke(key, b"")
        for prefix in ("", "d", "dataset1", "dataset1/", "dataset1/d", "dataset10", "dataset1/part", "x"):
            assert await self.listed(prefix) == sorted(k for k in keys if k.startswith(prefix)), prefix

    async def test_listing_is_flat_and_has_no_directories(self) -> None:
        self.poke("a/b/c/d", b"")
        assert await self.listed() == ["a/b/c/d"]

    async def test_directory_is_gone_with_its_last_object(self) -> None:
        self.poke("a/b/c", b"")
        await self.store.delete(["a/b/c"])
        assert await self.listed() == []
        assert await self.listed("a/") == []

    async def test_entry_says_what_head_says(self) -> None:
        self.poke("dir/key", b"12345")
        head = await self.store.head("dir/key")
        [entry] = await collected(self.store.list("dir/"))
        assert (entry.key, entry.size, entry.etag) == (head.key, 5, head.etag)
        assert dict(entry.metadata) == {}
        assert entry.modified is not None
        assert abs(time.time() - entry.modified) < _CLOCKS_APART_S

    async def test_listing_shows_what_another_client_just_wrote(self) -> None:
        assert await self.listed("dir/") == []
        self.poke("dir/new", b"")
        assert await self.listed("dir/") == ["dir/new"]
        await self.make_store().delete(["dir/new"])
        assert await self.listed("dir/") == []

    async def test_limit_stops_after_so_many(self) -> None:
        for number in range(5):
            self.poke(f"dir/{number}", b"")
        everything = {f"dir/{number}" for number in range(5)}
        for limit in (1, 3, 5, 6, 5000):
            found = [info.key for info in await collected(self.store.list("dir/", limit=limit))]
            assert len(found) == len(set(found)) == min(limit, 5)
            assert set(found) <= everything

    @pytest.mark.timeout(300)
    async def test_more_objects_than_a_page_holds_are_all_listed(self) -> None:
        expected = [f"many/{name}" for name in _many()]
        gate = asyncio.Semaphore(_AT_ONCE)

        async def put(key: str) -> None:
            async with gate:
                await self.store.put(key, b"")

        self.leave_behind("many")
        await asyncio.gather(*map(put, [*expected, "many.", "many0"]))
        self.leave_behind("many")
        assert await self.listed("many/") == expected
        limited = [info.key async for info in self.store.list("many/", limit=_MORE_THAN_A_PAGE - 1)]
        assert len(set(limited)) == _MORE_THAN_A_PAGE - 1

    async def test_what_dead_writers_have_left_hides_no_object(self) -> None:
        for directory, count in (("one", 1), ("few", 7), ("more", 70)):
            self.leave_behind(directory)
            expected = [f"{directory}/{name}" for name in _many()[:count]]
            for key in expected:
                self.poke(key, b"")
            self.leave_behind(directory)
            assert await self.listed(f"{directory}/") == expected
            assert len(await collected(self.store.list(f"{directory}/", limit=1))) == 1

    async def test_objects_of_an_unknown_bucket_are_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await collected(self.unknown().list(""))


class ListDirectoriesExam(Examined):
    """``list_directories``."""

    async def test_directories_of_an_empty_bucket_are_none(self) -> None:
        assert await self.directories("") == []

    async def test_directories_are_found_by_any_beginning_and_are_no_deeper(self) -> None:
        for key in ("d/__a/x/y", "d/__a/z", "d/__b-1/x", "d/_c/1/2/3", "d/__file", "d/plain/x", "e/__a/x"):
            self.poke(key, b"")
        assert await self.directories("d/__") == ["d/__a/", "d/__b-1/"]
        assert await self.directories("d/_") == ["d/__a/", "d/__b-1/", "d/_c/"]
        assert await self.directories("d/") == ["d/__a/", "d/__b-1/", "d/_c/", "d/plain/"]
        assert await self.directories("d") == ["d/"]
        assert await self.directories("") == ["d/", "e/"]
        assert await self.directories("d/__a/") == ["d/__a/x/"]
        assert await self.directories("d/_c/1/2/") == []
        assert await self.directories("d/none") == await self.directories("none/") == []

    async def test_directories_of_other_letters_are_listed_as_they_were_named(self) -> None:
        names = ["a b", "a+b", "é", "a%2Fb", "a=b&c"]
        for name in names:
            self.poke(f"d/{name}/x", b"")
        assert await self.directories("d/") == sorted(f"d/{name}/" for name in names)

    async def test_directory_without_objects_is_not_entered_for_its_parent(self) -> None:
        self.poke("a/b/c", b"")
        await self.store.delete(["a/b/c"])
        assert [one async for one in self.store.list("a/")] == []
        self.poke("a/d/e", b"")
        assert "a/d/" in await self.directories("a/")

    @pytest.mark.timeout(300)
    async def test_more_directories_than_a_page_holds_are_all_listed(self) -> None:
        expected = [f"many/{name}/" for name in _many()]
        gate = asyncio.Semaphore(_AT_ONCE)

        async def put(directory: str) -> None:
            async with gate:
                await self.store.put(f"{directory}x", b"")

        self.leave_behind("many")
        await asyncio.gather(*map(put, expected))
        self.leave_behind("many")
        assert await self.directories("many/") == expected

    async def test_directories_of_an_unknown_bucket_are_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await collected(self.unknown().list_directories(""))

    async def directories(self, prefix: str) -> list[str]:
        return sorted([one async for one in self.store.list_directories(prefix)])
