"""The exam of renaming: files, directories, and what stands in the way."""

from __future__ import annotations

import asyncio

import pytest

from magicfs.errors import ObjectExists, ObjectNotFound, StoreError
from proofs.tree_exam.base import Examined

__all__ = ["RenameDirectoryExam", "RenameFileExam"]

_MORE_THAN_A_PAGE = 1003
_AT_ONCE = 16


class RenameFileExam(Examined):
    """``rename`` of a file."""

    async def test_renamed_file_is_what_it_was_at_another_path(self) -> None:
        body = bytes(range(256)) * 1000
        self.poke_all({"dir/a": body, "dir/ab": b"1", "other/c": b"2"})
        await self.tree.rename("dir/a", "other/b")
        assert await self.files() == {"dir/ab": b"1", "other/b": body, "other/c": b"2"}
        found = await self.tree.look("other/b")
        assert found is not None
        assert (found.path, found.kind, found.size) == ("other/b", "file", len(body))
        assert await self.there("dir/a") is None
        await self.tree.rename("other/b", "other/d")
        assert await self.files("other") == {"other/c": b"2", "other/d": body}

    async def test_renamed_file_replaces_a_file(self) -> None:
        self.poke_all({"new": b"new", "dir/old": b"old and longer"})
        await self.tree.rename("new", "dir/old")
        assert await self.files() == {"dir/old": b"new"}

    async def test_empty_file_is_renamed(self) -> None:
        self.poke("a", b"")
        await self.tree.rename("a", "b")
        assert await self.files() == {"b": b""}

    async def test_file_renamed_to_itself_stays(self) -> None:
        self.poke("dir/a", b"1")
        before = await self.tree.look("dir/a")
        await self.tree.rename("dir/a", "dir/a")
        assert await self.tree.look("dir/a") == before
        assert await self.files() == {"dir/a": b"1"}

    @pytest.mark.parametrize("source", ["no", "dir/no", "di", "dir/fil", "dir/file/below"])
    async def test_missing_source_is_object_not_found_and_changes_nothing(self, source: str) -> None:
        self.poke_all({"dir/file": b"1", "old": b"2"})
        for destination in ("old", "free", "dir/free", source):
            with pytest.raises(ObjectNotFound):
                await self.tree.rename(source, destination)
        assert await self.files() == {"dir/file": b"1", "old": b"2"}

    async def test_second_rename_is_object_not_found(self) -> None:
        self.poke("a", b"1")
        await self.tree.rename("a", "b")
        with pytest.raises(ObjectNotFound):
            await self.tree.rename("a", "b")
        assert await self.files() == {"b": b"1"}

    async def test_file_cannot_be_renamed_below_itself(self) -> None:
        self.poke("a", b"1")
        with pytest.raises(StoreError, match="below") as caught:
            await self.tree.rename("a", "a/b")
        assert not caught.value.retryable
        assert await self.files() == {"a": b"1"}

    async def test_bucket_itself_has_no_other_path(self) -> None:
        self.poke("a", b"1")
        await self.tree.make_directory("b")
        for source, destination in (("", "b"), ("", "c"), ("a", ""), ("b", ""), ("", "")):
            with pytest.raises(StoreError) as caught:
                await self.tree.rename(source, destination)
            assert not caught.value.retryable
        assert await self.everything() == {"a": b"1", "b/": None}

    async def test_many_files_renamed_at_once_all_arrive(self) -> None:
        self.poke_all({f"from/{number}": b"%d" % number for number in range(_AT_ONCE)})
        await self.tree.make_directory("to")
        trees = [self.make_tree() for _ in range(_AT_ONCE)]
        await asyncio.gather(*(tree.rename(f"from/{n}", f"to/{n}") for n, tree in enumerate(trees)))
        assert await self.files() == {f"to/{number}": b"%d" % number for number in range(_AT_ONCE)}

    async def test_rename_in_an_unknown_bucket_is_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await self.unknown().rename("a", "b")


_BELOW = {"a": b"1", "b/c": b"2", "b/d/e": b"3", "b/d/f g%": b"", "ä": b"5"}


class RenameDirectoryExam(Examined):
    """``rename`` of a directory."""

    def lay(self, directory: str) -> dict[str, bytes]:
        """Write files below a directory; returns them."""
        files = {f"{directory}/{name}": body for name, body in _BELOW.items()}
        self.poke_all(files)
        return files

    async def test_renamed_directory_is_there_with_everything_below_it(self) -> None:
        self.lay("from")
        await self.tree.make_directory("from/empty/empty")
        before = await self.everything("from")
        await self.tree.rename("from", "to")
        assert await self.there("from") is None
        expected = {path.replace("from/", "to/", 1): body for path, body in before.items()}
        assert await self.everything() == {"to/": None} | expected

    async def test_neighbours_of_a_renamed_directory_stay(self) -> None:
        self.lay("dataset1")
        self.poke_all({"dataset10/a": b"10", "dataset1.a": b"11", "dataset": b"12"})
        await self.tree.rename("dataset1", "dataset2")
        expected = {f"dataset2/{name}": body for name, body in _BELOW.items()}
        assert await self.files() == expected | {"dataset10/a": b"10", "dataset1.a": b"11", "dataset": b"12"}

    async def test_directory_is_renamed_into_another_and_back(self) -> None:
        files = self.lay("from")
        await self.tree.make_directory("other/dir")
        await self.tree.rename("from", "other/dir/name")
        assert await self.files("other/dir/name") == {
            f"other/dir/name/{name}": body for name, body in _BELOW.items()
        }
        await self.tree.rename("other/dir/name", "from")
        assert await self.files() == files

    async def test_empty_directory_is_renamed(self) -> None:
        await self.tree.make_directory("from")
        await self.tree.rename("from", "to")
        assert await self.everything() == {"to/": None}

    async def test_directory_takes_the_place_of_an_empty_one(self) -> None:
        self.lay("from")
        await self.tree.make_directory("to")
        await self.tree.rename("from", "to")
        assert await self.files() == {f"to/{name}": body for name, body in _BELOW.items()}

    @pytest.mark.parametrize("below", ["to/a", "to/other", "to/b/c/deep", "to/empty/"])
    async def test_directory_that_is_not_empty_is_object_exists_and_nothing_changes(self, below: str) -> None:
        self.lay("from")
        if below.endswith("/"):
            await self.tree.make_directory(below[:-1])
        else:
            self.poke(below, b"old")
        before = await self.everything()
        with pytest.raises(ObjectExists):
            await self.tree.rename("from", "to")
        assert await self.everything() == before

    async def test_file_at_the_destination_is_object_exists_and_nothing_changes(self) -> None:
        self.lay("from")
        self.poke("to", b"old")
        before = await self.everything()
        with pytest.raises(ObjectExists):
            await self.tree.rename("from", "to")
        assert await self.everything() == before

    @pytest.mark.parametrize("destination", ["from/b", "from/new", "from/b/new"])
    async def test_directory_cannot_be_renamed_below_itself(self, destination: str) -> None:
        self.lay("from")
        before = await self.everything()
        with pytest.raises(StoreError, match="below") as caught:
            await self.tree.rename("from", destination)
        assert not caught.value.retryable
        assert await self.everything() == before

    async def test_directory_renamed_to_itself_stays(self) -> None:
        files = self.lay("from")
        await self.tree.rename("from", "from")
        assert await self.files() == files

    async def test_second_rename_of_a_directory_is_object_not_found(self) -> None:
        self.lay("from")
        await self.tree.rename("from", "to")
        with pytest.raises(ObjectNotFound):
            await self.tree.rename("from", "to")
        with pytest.raises(ObjectNotFound):
            await self.tree.rename("from", "elsewhere")
        assert await self.files() == {f"to/{name}": body for name, body in _BELOW.items()}

    @pytest.mark.timeout(300)
    async def test_directory_larger_than_a_page_is_renamed_whole(self) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def write(number: int) -> None:
            async with gate:
                await self.tree.write(f"from/{number % 7}/{number:05d}", b"")

        await asyncio.gather(*map(write, range(_MORE_THAN_A_PAGE)))
        await self.tree.rename("from", "to")
        assert await self.there("from") is None
        found = [path for n in range(7) for path in await self.shown(f"to/{n}")]
        assert found == sorted(f"to/{n % 7}/{n:05d}" for n in range(_MORE_THAN_A_PAGE))
