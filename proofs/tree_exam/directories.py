"""The exam of directories: making them, looking, and their entries."""

from __future__ import annotations

import asyncio

import pytest

from magicfs.errors import ObjectExists, ObjectNotFound
from magicfs.stores.tree_port import Entry
from proofs.tree_exam.base import Examined, collected

__all__ = ["EntriesExam", "LookExam", "MakeDirectoryExam"]

_MORE_THAN_A_PAGE = 1003
_AT_ONCE = 16


class MakeDirectoryExam(Examined):
    """``make_directory``."""

    async def test_made_directory_is_there_and_empty_and_so_are_its_parents(self) -> None:
        await self.tree.make_directory("a/b/c")
        assert [await self.there(path) for path in ("a", "a/b", "a/b/c")] == ["directory"] * 3
        assert (await self.shown("a"), await self.shown("a/b/c")) == (["a/b/"], [])

    async def test_second_make_directory_does_nothing(self) -> None:
        for _ in range(2):
            await self.tree.make_directory("a/b")
        assert await self.everything() == {"a/": None, "a/b/": None}

    async def test_directory_that_is_there_keeps_what_lies_in_it(self) -> None:
        self.poke_all({"a/b/file": b"1", "a/file": b"2"})
        before = await collected(self.tree.entries("a"))
        for path in ("a", "a/b"):
            await self.tree.make_directory(path)
        assert await collected(self.tree.entries("a")) == before
        assert await self.everything("a") == {"a/b/": None, "a/b/file": b"1", "a/file": b"2"}

    async def test_made_directory_stays_when_what_was_written_there_is_deleted(self) -> None:
        await self.tree.make_directory("a/b")
        await self.tree.write("a/b/file", b"")
        await self.tree.delete("a/b/file")
        assert (await self.there("a/b"), await self.shown("a/b")) == ("directory", [])

    @pytest.mark.parametrize("path", ["a", "a/b", "a/b/c"])
    async def test_file_in_the_way_is_object_exists_and_stays(self, path: str) -> None:
        self.poke("a", b"file")
        with pytest.raises(ObjectExists):
            await self.tree.make_directory(path)
        assert await self.everything() == {"a": b"file"}

    async def test_made_directory_is_not_its_neighbour(self) -> None:
        await self.tree.make_directory("dataset10")
        assert (await self.there("dataset1"), await self.there("dataset")) == (None, None)
        await self.tree.make_directory("dataset1")
        assert await self.shown() == ["dataset1/", "dataset10/"]

    async def test_bucket_is_a_directory_from_the_start(self) -> None:
        await self.tree.make_directory("")
        assert (await self.tree.look(""), await self.shown("")) == (Entry("", "directory"), [])

    async def test_deep_directory_is_made_and_found(self) -> None:
        deep = "/".join(f"level {number}" for number in range(40))
        await self.tree.make_directory(deep)
        assert await self.there(deep) == "directory"
        assert await self.shown(deep.rpartition("/")[0]) == [f"{deep}/"]

    async def test_directories_made_by_many_at_once_are_all_there(self) -> None:
        trees = [self.make_tree() for _ in range(_AT_ONCE)]
        await asyncio.gather(*(tree.make_directory(f"a/b/{n % 4}/c") for n, tree in enumerate(trees)))
        assert await self.shown("a/b") == [f"a/b/{number}/" for number in range(4)]
        assert await self.shown("a/b/3") == ["a/b/3/c/"]

    async def test_directory_in_an_unknown_bucket_is_object_not_found(self) -> None:
        for path in ("", "a", "a/b"):
            with pytest.raises(ObjectNotFound):
                await self.unknown().make_directory(path)


class LookExam(Examined):
    """``look``."""

    async def test_look_describes_a_file(self) -> None:
        self.poke("dir/file", b"12345")
        found = await self.tree.look("dir/file")
        assert found is not None
        assert (found.path, found.kind, found.size) == ("dir/file", "file", 5)
        assert found.etag

    async def test_look_describes_a_directory(self) -> None:
        self.poke("dir/below/file", b"12345")
        await self.tree.make_directory("empty")
        for path in ("dir", "dir/below", "empty"):
            assert await self.tree.look(path) == Entry(path, "directory")

    @pytest.mark.parametrize("path", ["no", "dir/no", "di", "dir/fil", "dir0", "dir/file/below", "no/no"])
    async def test_look_at_nothing_is_none(self, path: str) -> None:
        self.poke("dir/file", b"")
        assert await self.tree.look(path) is None

    async def test_look_shows_what_another_client_just_did(self) -> None:
        assert await self.there("dir/file") is None
        self.poke("dir/file", b"1")
        assert (await self.there("dir/file"), await self.there("dir")) == ("file", "directory")
        await self.make_tree().delete_tree("dir")
        assert (await self.there("dir/file"), await self.there("dir")) == (None, None)

    async def test_etag_is_that_of_the_content(self) -> None:
        self.poke("file", b"one")
        first = await self.tree.look("file")
        assert await self.tree.look("file") == first
        self.poke("file", b"two")
        second = await self.tree.look("file")
        assert first is not None
        assert second is not None
        assert first.etag != second.etag

    async def test_look_into_an_unknown_bucket_is_object_not_found(self) -> None:
        for path in ("", "file"):
            with pytest.raises(ObjectNotFound):
                await self.unknown().look(path)


class EntriesExam(Examined):
    """``entries``."""

    async def test_entries_are_the_direct_children_in_order_of_name(self) -> None:
        files = ["a!", "a-b/c", "a.txt", "a0", "b/c/d/e", "b/c/f", "b/x", "é", "日本", "😀", "Z", "_a", "~"]
        self.poke_all({f"dir/{name}": b"" for name in [*files[::-1], "a/deep"]})
        names = ["Z", "_a", "a/", "a!", "a-b/", "a.txt", "a0", "b/", "~", "é", "日本", "😀"]
        assert await self.shown("dir") == [f"dir/{name}" for name in names]
        assert await self.shown("dir/b") == ["dir/b/c/", "dir/b/x"]

    async def test_entries_say_what_look_says(self) -> None:
        self.poke_all({"dir/a": b"", "dir/b": b"12345", "dir/c/d": b"12"})
        await self.tree.make_directory("dir/empty")
        entries = await collected(self.tree.entries("dir"))
        assert [entry.path for entry in entries] == ["dir/a", "dir/b", "dir/c", "dir/empty"]
        assert entries == [await self.tree.look(entry.path) for entry in entries]

    async def test_directory_shows_its_own_entries_and_not_its_neighbours(self) -> None:
        self.poke_all({"dataset1/a": b"", "dataset10/b": b"", "dataset1.c": b"", "dataset1 /d": b""})
        assert await self.shown("dataset1") == ["dataset1/a"]
        assert await self.shown() == ["dataset1/", "dataset1 /", "dataset1.c", "dataset10/"]

    async def test_entries_of_an_empty_directory_are_none(self) -> None:
        await self.tree.make_directory("dir")
        assert await self.shown("dir") == []

    @pytest.mark.parametrize("path", ["no", "dir/no", "di", "dir/file", "dir/file/below"])
    async def test_entries_of_what_is_no_directory_are_object_not_found(self, path: str) -> None:
        self.poke("dir/file", b"")
        with pytest.raises(ObjectNotFound):
            await self.shown(path)

    @pytest.mark.timeout(300)
    async def test_more_entries_than_a_page_holds_are_all_shown_once(self) -> None:
        names = [f"many/{number:05d}" for number in range(_MORE_THAN_A_PAGE)]
        gate = asyncio.Semaphore(_AT_ONCE)

        async def write(path: str) -> None:
            async with gate:
                await self.tree.write(path, b"")

        await asyncio.gather(*(write(f"{name}/0" if name[-1] == "7" else name) for name in names))
        await asyncio.gather(*(write(f"many/deep/{number:05d}") for number in range(_MORE_THAN_A_PAGE)))
        expected = [f"{name}/" if name[-1] == "7" else name for name in names]
        assert await self.shown("many") == [*expected, "many/deep/"]

    async def test_entries_of_an_unknown_bucket_are_object_not_found(self) -> None:
        for path in ("", "dir"):
            with pytest.raises(ObjectNotFound):
                await collected(self.unknown().entries(path))
