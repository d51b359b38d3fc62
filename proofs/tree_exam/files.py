"""The exam of files: writing, reading and deleting them, and directories with all that they hold."""

from __future__ import annotations

import asyncio

import pytest

from magicfs.errors import ObjectExists, ObjectNotFound, StoreError
from proofs.tree_exam.base import Examined

__all__ = ["DeleteExam", "DeleteTreeExam", "ReadExam", "WriteExam"]

_MORE_THAN_A_PAGE = 1003
_AT_ONCE = 8
_LARGE = 2**19


class WriteExam(Examined):
    """``write``."""

    async def test_written_file_holds_the_body_and_its_directories_are_there(self) -> None:
        await self.tree.write("a/b/file", b"body")
        await self.tree.write("empty", b"")
        assert await self.everything() == {"a/": None, "a/b/": None, "a/b/file": b"body", "empty": b""}

    async def test_write_replaces_the_file(self) -> None:
        self.poke("file", b"old and longer")
        for _ in range(2):
            await self.tree.write("file", b"new")
        assert await self.everything() == {"file": b"new"}

    async def test_write_if_absent_writes_where_nothing_is(self) -> None:
        self.poke("a/file", b"old")
        await self.tree.delete("a/file")
        await self.tree.write("a/file", b"body", if_absent=True)
        await self.tree.write("b/c/file", b"body", if_absent=True)
        assert await self.files() == {"a/file": b"body", "b/c/file": b"body"}

    async def test_write_if_absent_onto_a_file_is_object_exists_and_changes_nothing(self) -> None:
        await self.tree.write("file", b"old", if_absent=True)
        for body in (b"new", b"old"):
            with pytest.raises(ObjectExists):
                await self.tree.write("file", body, if_absent=True)
        assert await self.everything() == {"file": b"old"}

    async def test_race_of_writes_if_absent_has_one_winner(self) -> None:
        trees = [self.make_tree() for _ in range(_AT_ONCE)]
        for race in range(4):
            path = f"race/{race}"
            writes = (tree.write(path, b"%d" % n, if_absent=True) for n, tree in enumerate(trees))
            answers = await asyncio.gather(*writes, return_exceptions=True)
            winners = [n for n, answer in enumerate(answers) if answer is None]
            refused = [answer for answer in answers if isinstance(answer, ObjectExists)]
            assert (len(winners), len(refused)) == (1, _AT_ONCE - 1), answers
            assert self.peek(path) == b"%d" % winners[0]

    async def test_file_is_never_seen_in_part(self) -> None:
        bodies = [bytes([65 + number]) * _LARGE for number in range(3)]
        self.poke("file", bodies[0])
        writing = asyncio.gather(*(self.make_tree().write("file", body) for body in bodies * 3))
        while not writing.done():
            assert await self.tree.read("file") in bodies
            await asyncio.sleep(0)
        await writing
        assert self.peek("file") in bodies
        assert await self.shown() == ["file"]

    async def test_write_into_an_unknown_bucket_is_object_not_found(self) -> None:
        for options in ({}, {"if_absent": True}):
            with pytest.raises(ObjectNotFound):
                await self.unknown().write("file", b"", **options)


class ReadExam(Examined):
    """``read``."""

    async def test_read_returns_the_file_or_its_beginning(self) -> None:
        self.poke_all({"dir/file": b"0123456789", "empty": b""})
        assert await self.tree.read("dir/file") == b"0123456789"
        for size in (0, 1, 9, 10, 11):
            assert await self.tree.read("dir/file", size_max=size) == b"0123456789"[:size]
        assert await self.tree.read("empty") == await self.tree.read("empty", size_max=5) == b""

    @pytest.mark.parametrize("path", ["no", "dir", "dir/fil", "dir/file/below", "empty"])
    async def test_read_of_what_is_no_file_is_object_not_found(self, path: str) -> None:
        self.poke("dir/file", b"")
        await self.tree.make_directory("empty")
        with pytest.raises(ObjectNotFound):
            await self.tree.read(path)

    async def test_read_from_an_unknown_bucket_is_object_not_found(self) -> None:
        with pytest.raises(ObjectNotFound):
            await self.unknown().read("file")


class DeleteExam(Examined):
    """``delete``."""

    async def test_deleted_file_is_gone_and_its_neighbours_are_not(self) -> None:
        self.poke_all({"dir/a": b"", "dir/ab": b"", "dir/a.b": b"", "dir/b": b""})
        assert await self.tree.delete("dir/a") is True
        assert await self.files() == {"dir/ab": b"", "dir/a.b": b"", "dir/b": b""}

    async def test_deleted_empty_directory_is_gone(self) -> None:
        await self.tree.make_directory("a/b")
        await self.tree.make_directory("a/c")
        assert await self.tree.delete("a/b") is True
        assert await self.everything() == {"a/": None, "a/c/": None}

    @pytest.mark.parametrize("path", ["no", "dir/no", "di", "dir/file/below", "empty/no"])
    async def test_delete_of_nothing_is_false(self, path: str) -> None:
        self.poke("dir/file", b"")
        await self.tree.make_directory("empty")
        assert await self.tree.delete(path) is False
        assert await self.everything() == {"dir/": None, "dir/file": b"", "empty/": None}

    async def test_second_delete_does_nothing(self) -> None:
        self.poke_all({"dir/file": b"", "dir/other": b""})
        assert [await self.tree.delete("dir/file") for _ in range(3)] == [True, False, False]
        await self.tree.make_directory("empty")
        assert [await self.tree.delete("empty") for _ in range(3)] == [True, False, False]

    @pytest.mark.parametrize("below", ["dir/file", "dir/below/file", "dir/empty/"])
    async def test_directory_that_is_not_empty_is_refused_and_stays(self, below: str) -> None:
        if below.endswith("/"):
            await self.tree.make_directory(below[:-1])
        else:
            self.poke(below, b"1")
        before = await self.everything()
        with pytest.raises(StoreError, match="not empty") as caught:
            await self.tree.delete("dir")
        assert not caught.value.retryable
        assert await self.everything() == before

    async def test_bucket_itself_is_never_deleted(self) -> None:
        for delete in (self.tree.delete, self.tree.delete_tree):
            with pytest.raises(StoreError, match="bucket itself"):
                await delete("")
        self.poke("file", b"1")
        for delete in (self.tree.delete, self.tree.delete_tree):
            with pytest.raises(StoreError, match="bucket itself"):
                await delete("")
        assert await self.everything() == {"file": b"1"}

    async def test_delete_in_an_unknown_bucket_is_object_not_found(self) -> None:
        for delete in (self.unknown().delete, self.unknown().delete_tree):
            with pytest.raises(ObjectNotFound):
                await delete("file")


class DeleteTreeExam(Examined):
    """``delete_tree``."""

    async def test_deleted_tree_is_gone_and_its_neighbours_are_not(self) -> None:
        self.poke_all({f"dataset1/{name}": b"" for name in ("a", "b/c", "b/d/e", "b/d/f")})
        await self.tree.make_directory("dataset1/empty/empty")
        self.poke_all({"dataset10/a": b"1", "dataset1.a": b"2", "dataset": b"3"})
        assert await self.tree.delete_tree("dataset1") is True
        assert await self.there("dataset1") is None
        assert await self.files() == {"dataset10/a": b"1", "dataset1.a": b"2", "dataset": b"3"}

    async def test_tree_of_a_file_is_the_file(self) -> None:
        self.poke_all({"dir/a": b"", "dir/ab": b"1"})
        assert await self.tree.delete_tree("dir/a") is True
        assert await self.files() == {"dir/ab": b"1"}

    @pytest.mark.parametrize("path", ["no", "dir/no", "di", "dir/file/below"])
    async def test_delete_tree_of_nothing_is_false(self, path: str) -> None:
        self.poke("dir/file", b"1")
        assert await self.tree.delete_tree(path) is False
        assert await self.files() == {"dir/file": b"1"}

    async def test_second_delete_tree_does_nothing(self) -> None:
        self.poke("dir/below/file", b"")
        assert [await self.tree.delete_tree("dir") for _ in range(3)] == [True, False, False]

    async def test_directory_can_be_made_again(self) -> None:
        self.poke("dir/file", b"old")
        await self.tree.delete_tree("dir")
        await self.tree.make_directory("dir")
        assert await self.shown("dir") == []

    @pytest.mark.timeout(300)
    async def test_tree_larger_than_a_page_is_deleted_whole(self) -> None:
        gate = asyncio.Semaphore(16)

        async def write(number: int) -> None:
            async with gate:
                await self.tree.write(f"many/{number % 7}/{number:05d}", b"")

        await asyncio.gather(*map(write, range(_MORE_THAN_A_PAGE)))
        self.poke("many0", b"1")
        assert await self.tree.delete_tree("many") is True
        assert await self.everything() == {"many0": b"1"}

    async def test_many_who_delete_one_tree_all_succeed(self) -> None:
        self.poke_all({f"dir/{number % 5}/{number}": b"" for number in range(60)})
        trees = [self.make_tree() for _ in range(_AT_ONCE)]
        answers = await asyncio.gather(*(tree.delete_tree("dir") for tree in trees))
        assert any(answers)
        assert await self.there("dir") is None
