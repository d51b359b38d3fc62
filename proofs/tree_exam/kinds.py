"""The exam of the two kinds of trees: those in which a rename is one step, and those that copy and delete."""

from __future__ import annotations

import asyncio

import pytest

from magicfs.errors import ObjectExists, ObjectNotFound, StoreError
from magicfs.stores.tree_port import Entry
from proofs.tree_exam.base import Examined, collected, outcomes

__all__ = ["AtomicExam", "CopyingExam"]

_RACERS = 8
_FILES = 30


class AtomicExam(Examined):
    """A rename is one step, and directories are real."""

    async def test_rename_is_one_step(self) -> None:
        assert await self.tree.is_atomic()

    async def test_rename_into_a_directory_that_is_not_there_is_object_not_found(self) -> None:
        self.poke_all({"file": b"1", "dir/a": b"2"})
        for source in ("file", "dir"):
            for destination in ("no/b", "dir2/no/b", "file/b" if source == "dir" else "dir/a/b"):
                with pytest.raises(ObjectNotFound):
                    await self.tree.rename(source, destination)
        assert await self.everything() == {"dir/": None, "dir/a": b"2", "file": b"1"}

    async def test_file_onto_a_directory_is_object_exists_and_nothing_changes(self) -> None:
        self.poke_all({"file": b"1", "dir/a": b"2"})
        await self.tree.make_directory("empty")
        before = await self.everything()
        for path in ("dir", "empty"):
            for error in await outcomes(
                self.tree.rename("file", path),
                self.tree.write(path, b"3"),
                self.tree.write(path, b"3", if_absent=True),
            ):
                assert isinstance(error, ObjectExists)
        assert await self.everything() == before

    async def test_file_in_the_place_of_a_parent_is_object_exists_for_a_write(self) -> None:
        self.poke("file", b"1")
        for path in ("file/a", "file/a/b"):
            for options in ({}, {"if_absent": True}):
                with pytest.raises(ObjectExists):
                    await self.tree.write(path, b"2", **options)
        assert await self.everything() == {"file": b"1"}

    @pytest.mark.parametrize("path", [".", "..", "a/..", "../a", "a/./b", "a\0b"])
    async def test_path_that_leads_elsewhere_is_refused(self, path: str) -> None:
        self.poke_all({"a/b": b"1", "c": b"2"})
        for error in await outcomes(
            self.tree.make_directory(path),
            self.tree.look(path),
            collected(self.tree.entries(path)),
            self.tree.rename(path, "d"),
            self.tree.rename("c", path),
            self.tree.delete(path),
            self.tree.delete_tree(path),
            self.tree.write(path, b"3"),
            self.tree.read(path),
        ):
            assert isinstance(error, StoreError)
            assert "element" in str(error)
        assert await self.files() == {"a/b": b"1", "c": b"2"}

    async def test_etag_is_the_same_after_a_rename(self) -> None:
        self.poke_all({"from/a": b"1", "from/b/c": b"2"})
        before = [await self.tree.look(path) for path in ("from/a", "from/b/c")]
        await self.tree.rename("from", "to")
        await self.tree.rename("to/a", "to/z")
        after = [await self.tree.look(path) for path in ("to/z", "to/b/c")]
        assert [one and one.etag for one in before] == [one and one.etag for one in after]

    async def test_directory_stays_when_its_last_file_is_gone(self) -> None:
        self.poke_all({"a/file": b"1", "b/file": b"2"})
        await self.tree.rename("a/file", "moved")
        await self.tree.delete("b/file")
        assert await self.shown() == ["a/", "b/", "moved"]

    @pytest.mark.parametrize("kind", ["file", "directory"])
    async def test_one_source_that_many_rename_goes_to_one_of_them(self, kind: str) -> None:
        for race in range(5):
            source = f"{race}/source"
            self.poke(source if kind == "file" else f"{source}/below", b"%d" % race)
            trees = [self.make_tree() for _ in range(_RACERS)]
            answers = await asyncio.gather(
                *(tree.rename(source, f"{race}/to{n}") for n, tree in enumerate(trees)),
                return_exceptions=True,
            )
            winners = [n for n, answer in enumerate(answers) if answer is None]
            lost = [answer for answer in answers if isinstance(answer, ObjectNotFound)]
            assert (len(winners), len(lost)) == (1, _RACERS - 1), answers
            there = f"{race}/to{winners[0]}"
            expected = there if kind == "file" else f"{there}/below"
            assert await self.files(f"{race}") == {expected: b"%d" % race}

    async def test_of_many_directories_renamed_to_one_path_one_wins_and_the_others_stay(self) -> None:
        for race in range(5):
            self.poke_all({f"{race}/from{n}/{n}": b"%d" % n for n in range(_RACERS)})
            trees = [self.make_tree() for _ in range(_RACERS)]
            answers = await asyncio.gather(
                *(tree.rename(f"{race}/from{n}", f"{race}/to") for n, tree in enumerate(trees)),
                return_exceptions=True,
            )
            winners = [n for n, answer in enumerate(answers) if answer is None]
            lost = [answer for answer in answers if isinstance(answer, ObjectExists)]
            assert (len(winners), len(lost)) == (1, _RACERS - 1), answers
            assert await self.files(f"{race}/to") == {f"{race}/to/{winners[0]}": b"%d" % winners[0]}
            assert len(await self.files(f"{race}")) == _RACERS

    async def test_renamed_directory_is_seen_whole_or_not_at_all(self) -> None:
        self.poke_all({f"from/{number:03d}": b"" for number in range(_FILES)})

        async def there_and_back() -> None:
            for _ in range(50):
                await self.tree.rename("from", "to")
                await self.tree.rename("to", "from")

        moving = asyncio.ensure_future(there_and_back())
        seen = []
        while not moving.done():
            for directory in ("from", "to"):
                try:
                    seen.append(len(await collected(self.make_tree().entries(directory))))
                except ObjectNotFound:
                    seen.append(0)
        await moving
        assert len(await self.files("from")) == _FILES
        assert set(seen) <= {0, _FILES}
        assert _FILES in seen

    async def test_writers_make_directories_while_others_delete_them(self) -> None:
        async def write(number: int) -> None:
            for turn in range(10):
                await self.make_tree().write(f"dir/{turn % 2}/{number}", b"%d" % number)

        async def delete() -> None:
            for _ in range(20):
                await self.make_tree().delete_tree("dir")

        await asyncio.gather(*map(write, range(4)), delete(), delete())
        for turn in range(2):
            await write(turn)
        assert {f"dir/{turn}/{n}" for turn in range(2) for n in range(2)} <= set(await self.files())


class CopyingExam(Examined):
    """A rename is many steps, and directories are what keys have in common."""

    async def test_rename_is_many_steps(self) -> None:
        assert not await self.tree.is_atomic()

    async def test_parents_need_not_be_there(self) -> None:
        self.poke_all({"file": b"1", "dir/a": b"2"})
        await self.tree.rename("file", "no/such/file")
        await self.tree.rename("dir", "no/dir")
        assert await self.files() == {"no/such/file": b"1", "no/dir/a": b"2"}

    async def test_directory_is_gone_with_its_last_file_unless_it_was_made(self) -> None:
        await self.tree.make_directory("made")
        for directory in ("made", "grown"):
            await self.tree.write(f"{directory}/file", b"")
            await self.tree.delete(f"{directory}/file")
        assert await self.everything() == {"made/": None}

    async def test_made_directory_leaves_a_marker_only_where_nothing_lies(self) -> None:
        self.poke("full/below/file", b"1")
        for path in ("full", "full/below", "empty/below"):
            await self.tree.make_directory(path)
        markers = [path for path in ("full/", "full/below/", "empty/", "empty/below/") if self._marked(path)]
        assert markers == ["empty/below/"]

    async def test_file_and_directory_of_one_name_are_told_apart(self) -> None:
        self.poke_all({"a": b"file", "a/b": b"below", "a.c": b"beside"})
        look = await self.tree.look("a")
        assert look is not None
        assert await collected(self.tree.entries("")) == [
            look,
            Entry("a", "directory"),
            await self.tree.look("a.c"),
        ]
        assert (look.kind, look.size) == ("file", 4)
        assert await self.shown("a") == ["a/b"]
        await self.tree.rename("a", "z")
        assert await self.files() == {"a/b": b"below", "a.c": b"beside", "z": b"file"}

    async def test_delete_takes_the_file_and_delete_tree_takes_both(self) -> None:
        self.poke_all({"a": b"file", "a/b": b"below", "c": b"file", "c/d": b"below"})
        assert await self.tree.delete("a") is True
        assert await self.tree.delete_tree("c") is True
        assert await self.files() == {"a/b": b"below"}

    async def test_key_with_an_empty_element_is_named_and_never_left_behind(self) -> None:
        self.poke_all({"dir/a": b"1", "dir//b": b"2"})
        with pytest.raises(StoreError, match="'dir//b'"):
            await self.shown("dir")
        await self.tree.rename("dir", "to")
        assert (self.peek("to/a"), self.peek("to//b")) == (b"1", b"2")
        assert await self.tree.delete_tree("to") is True
        assert await self.everything() == {}

    async def test_two_who_rename_one_directory_lose_no_file(self) -> None:
        files = {f"{number:03d}": b"%d" % number for number in range(_FILES)}
        self.poke_all({f"from/{name}": body for name, body in files.items()})
        trees = [self.make_tree() for _ in range(2)]
        answers = await asyncio.gather(
            *(tree.rename("from", f"to{n}") for n, tree in enumerate(trees)), return_exceptions=True
        )
        found = await self.files()
        for name, body in files.items():
            assert body in {found.get(f"{directory}/{name}") for directory in ("from", "to0", "to1")}
        for n, answer in enumerate(answers):
            assert answer is None or isinstance(answer, StoreError), answer
            if answer is None:
                whole = {f"to{n}/{name}": body for name, body in files.items()}
                assert {path: body for path, body in found.items() if path.startswith(f"to{n}/")} == whole

    def _marked(self, path: str) -> bool:
        return self.peek(path) == b""
