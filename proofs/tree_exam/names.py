"""The exam of paths: hostile names, and what is no path at all."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given

from magicfs.errors import StoreError
from magicfs.testing import strategies
from magicfs.testing.store_exam.hostile import examples
from magicfs.testing.strategies import HOSTILE_KEYS, leaves
from proofs.tree_exam.base import Examined, collected, outcomes

__all__ = ["NamesExam"]

_SHORT = [key for key in leaves(HOSTILE_KEYS) if len(key) < 50]


class NamesExam(Examined):
    """Raw names come back as they went in, and no two of them are one path."""

    async def test_hostile_names_live_side_by_side(self) -> None:
        for name in _SHORT:
            await self.tree.write(f"dir/{name}", name.encode())
        assert await self.files() == {f"dir/{name}": name.encode() for name in _SHORT}
        for name in _SHORT:
            assert await self.tree.read(f"dir/{name}") == name.encode()
        for name in _SHORT[::2]:
            assert await self.tree.delete(f"dir/{name}") is True
        assert await self.files() == {f"dir/{name}": name.encode() for name in _SHORT[1::2]}

    async def test_files_of_hostile_names_are_renamed(self) -> None:
        names = [name for name in _SHORT if "/" not in name]
        await self.tree.make_directory("to")
        for name in names:
            self.poke(f"from/{name}", name.encode())
            await self.tree.rename(f"from/{name}", f"to/{name}")
        assert await self.files() == {f"to/{name}": name.encode() for name in names}

    async def test_directories_of_hostile_names_are_made_renamed_and_deleted(self) -> None:
        names = [name for name in _SHORT if "/" not in name]
        for name in names:
            self.poke(f"from/{name}/file", name.encode())
            await self.tree.make_directory(f"to/{name}")
            await self.tree.rename(f"from/{name}", f"to/{name}")
        assert await self.files() == {f"to/{name}/file": name.encode() for name in names}
        assert {entry.path for entry in await collected(self.tree.entries("to"))} == {
            f"to/{name}" for name in names
        }
        for name in names[::2]:
            assert await self.tree.delete_tree(f"to/{name}") is True
        assert await self.files() == {f"to/{name}/file": name.encode() for name in names[1::2]}

    async def test_long_paths_are_kept(self) -> None:
        paths = [key for key in HOSTILE_KEYS if len(key) >= 100]
        for path in paths:
            await self.tree.write(path, path.encode())
        assert await self.files() == {path: path.encode() for path in paths}

    def test_random_path_is_written_found_renamed_and_deleted_under_its_own_name(self) -> None:
        numbers = itertools.count()

        @examples
        @given(path=strategies.keys(), body=strategies.bodies())
        def check(path: str, body: bytes) -> None:
            self.run(self._round_trip(f"{next(numbers)}", path, body))

        check()

    async def _round_trip(self, directory: str, path: str, body: bytes) -> None:
        before, after = f"{directory}/{path}", f"{directory}.to/{path}"
        await self.tree.write(before, body)
        assert await self.files(directory) == {before: body}
        await self.tree.rename(directory, f"{directory}.to")
        assert await self.files(f"{directory}.to") == {after: body}
        found = await self.tree.look(after)
        assert found is not None
        assert (found.path, found.size, await self.tree.read(after)) == (after, len(body), body)
        assert await self.tree.delete_tree(f"{directory}.to") is True
        assert (await self.there(directory), await self.there(f"{directory}.to")) == (None, None)

    @pytest.mark.parametrize("path", ["/", "/a", "a/", "a//b", "a/b/", "//"])
    async def test_what_is_no_path_is_refused_by_every_call_and_changes_nothing(self, path: str) -> None:
        self.poke_all({"a/b/c": b"1", "d": b"2"})
        for error in await outcomes(
            self.tree.make_directory(path),
            self.tree.look(path),
            collected(self.tree.entries(path)),
            self.tree.rename(path, "e"),
            self.tree.rename("d", path),
            self.tree.rename(path, path),
            self.tree.delete(path),
            self.tree.delete_tree(path),
            self.tree.write(path, b"3"),
            self.tree.write(path, b"3", if_absent=True),
            self.tree.read(path),
        ):
            assert isinstance(error, StoreError)
            assert re.search("element|slash", str(error))
            assert not isinstance(error, FileNotFoundError | FileExistsError)
            assert not error.retryable
        assert await self.files() == {"a/b/c": b"1", "d": b"2"}

    async def test_errors_name_the_path_and_are_no_reason_to_try_again(self) -> None:
        self.poke_all({"dir/a": b"", "file": b""})
        errors = await outcomes(
            self.tree.make_directory("file"),
            collected(self.tree.entries("no")),
            self.tree.rename("no", "to"),
            self.tree.delete("dir"),
            self.tree.delete_tree(""),
            self.tree.write("file", b"", if_absent=True),
            self.tree.read("no"),
        )
        named = ["file", "no", "no", "dir", "", "file", "no"]
        assert [error.key for error in errors] == [f"{self.tree.bucket}/{path}" for path in named]
        assert not any(error.retryable for error in errors)
