"""The tree exam finds broken trees."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest

from magicfs.errors import MagicError, ObjectNotFound, StoreError
from magicfs.protocol import paths
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.tree_port import Entry
from magicfs.stores.trees import ObjectTree, tree_of
from proofs.tree_exam import MemoryTreeExam


class Broken(ObjectTree):
    """With the store at hand."""

    @property
    def store(self) -> MemoryStore:
        store: Any = self._store
        assert isinstance(store, MemoryStore)
        return store


class RenamesByBeginning(Broken):
    async def rename(self, source: str, destination: str) -> None:
        keys = [info.key async for info in self.store.list(source)]
        if not keys:
            raise ObjectNotFound("rename", f"{self.bucket}/{source}", "nothing")
        for key in keys:
            await self.store.copy(key, destination + key[len(source) :])
            await self.store.delete([key])


class RenamesOntoEverything(Broken):
    async def _refuse_what_is_there(self, destination: str) -> None:
        return


class KeepsTheSource(Broken):
    async def _delete_all(self, keys: Any) -> None:
        return


class DeletesFirst(Broken):
    async def rename(self, source: str, destination: str) -> None:
        if source == destination or await self.look(source) is None:
            raise ObjectNotFound("rename", f"{self.bucket}/{source}", "nothing")
        await self.delete_tree(destination)
        await super().rename(source, destination)


class RenamesTheFirstPage(Broken):
    async def _rename_directory(self, source: str, destination: str) -> None:
        keys = [info.key async for info in self.store.list(paths.prefix_of(source), limit=1000)]
        if not keys:
            raise ObjectNotFound("rename", f"{self.bucket}/{source}", "nothing")
        for key in keys:
            await self.store.copy(key, destination + key[len(source) :])
        await self.store.delete(keys)


class ForgetsEmptyDirectories(Broken):
    async def make_directory(self, path: str) -> None:
        self._check("make_directory", path)


class MakesOverFiles(Broken):
    async def make_directory(self, path: str) -> None:
        await self.store.put(f"{path}/", b"")


class EntersFromTheBeginning(Broken):
    async def entries(self, path: str) -> AsyncIterator[Entry]:
        async for entry in super().entries(path):
            yield entry
        async for info in self.store.list(path):
            if info.key.startswith(f"{path}0/"):
                yield Entry(info.key, "file", info.size, info.etag)


class ListsByKey(Broken):
    async def entries(self, path: str) -> AsyncIterator[Entry]:
        found = [entry async for entry in super().entries(path)]
        for entry in sorted(found, key=lambda e: f"{e.path}/" if e.kind == "directory" else e.path):
            yield entry


class ShowsMarkers(Broken):
    async def entries(self, path: str) -> AsyncIterator[Entry]:
        async for entry in super().entries(path):
            yield entry
        if await self._file(paths.prefix_of(path) or "/"):
            yield Entry(paths.prefix_of(path), "file")


class ShowsNothingForNoDirectory(Broken):
    async def entries(self, path: str) -> AsyncIterator[Entry]:
        try:
            async for entry in super().entries(path):
                yield entry
        except ObjectNotFound:
            return


class ForgetsEtags(Broken):
    async def entries(self, path: str) -> AsyncIterator[Entry]:
        async for entry in super().entries(path):
            yield dataclasses.replace(entry, etag="")


class DeletesFullDirectories(Broken):
    async def delete(self, path: str) -> bool:
        return await self.delete_tree(path)


class DeletesByBeginning(Broken):
    async def delete_tree(self, path: str) -> bool:
        keys = [info.key async for info in self.store.list(path)]
        await self._delete_all(keys)
        return bool(keys)


class SaysThatItDeleted(Broken):
    async def delete(self, path: str) -> bool:
        await super().delete(path)
        return True


class WritesOver(Broken):
    async def write(self, path: str, body: bytes, *, if_absent: bool = False) -> None:
        await super().write(path, body)


class TakesAnyPath(Broken):
    def _check(self, operation: str, path: str, *, whole_bucket: bool = True) -> None:
        if not path and not whole_bucket:
            raise StoreError(operation, f"{self.bucket}/", "this is the bucket itself")


class HidesEmptyElements(Broken):
    async def entries(self, path: str) -> AsyncIterator[Entry]:
        try:
            async for entry in super().entries(path):
                yield entry
        except ObjectNotFound:
            raise
        except StoreError:
            return


class SaysThatItIsAtomic(Broken):
    async def is_atomic(self) -> bool:
        return True


def exam_of(examined: type[ObjectTree]) -> MemoryTreeExam:
    class Exam(MemoryTreeExam):
        subject = "tried"
        kind = examined

    return Exam()


@pytest.mark.parametrize(
    ("kind", "tests"),
    [
        (RenamesByBeginning, ["neighbours_of_a_renamed_directory_stay"]),
        (
            RenamesOntoEverything,
            [
                "directory_that_is_not_empty_is_object_exists_and_nothing_changes:to/other",
                "file_at_the_destination_is_object_exists_and_nothing_changes",
            ],
        ),
        (KeepsTheSource, ["renamed_directory_is_there_with_everything_below_it"]),
        (
            DeletesFirst,
            [
                "directory_that_is_not_empty_is_object_exists_and_nothing_changes:to/a",
                "directory_renamed_to_itself_stays",
            ],
        ),
        (RenamesTheFirstPage, ["directory_larger_than_a_page_is_renamed_whole"]),
        (
            ForgetsEmptyDirectories,
            [
                "made_directory_is_there_and_empty_and_so_are_its_parents",
                "made_directory_stays_when_what_was_written_there_is_deleted",
                "empty_directory_is_renamed",
            ],
        ),
        (MakesOverFiles, ["file_in_the_way_is_object_exists_and_stays:a/b"]),
        (EntersFromTheBeginning, ["directory_shows_its_own_entries_and_not_its_neighbours"]),
        (ListsByKey, ["entries_are_the_direct_children_in_order_of_name"]),
        (ShowsMarkers, ["entries_of_an_empty_directory_are_none"]),
        (ShowsNothingForNoDirectory, ["entries_of_what_is_no_directory_are_object_not_found:dir/file"]),
        (ForgetsEtags, ["entries_say_what_look_says"]),
        (DeletesFullDirectories, ["directory_that_is_not_empty_is_refused_and_stays:dir/empty/"]),
        (
            DeletesByBeginning,
            ["deleted_tree_is_gone_and_its_neighbours_are_not", "bucket_itself_is_never_deleted"],
        ),
        (SaysThatItDeleted, ["delete_of_nothing_is_false:di", "second_delete_does_nothing"]),
        (
            WritesOver,
            [
                "write_if_absent_onto_a_file_is_object_exists_and_changes_nothing",
                "race_of_writes_if_absent_has_one_winner",
            ],
        ),
        (TakesAnyPath, ["what_is_no_path_is_refused_by_every_call_and_changes_nothing:a/"]),
        (HidesEmptyElements, ["key_with_an_empty_element_is_named_and_never_left_behind"]),
        (SaysThatItIsAtomic, ["rename_is_many_steps"]),
    ],
)
def test_tree_that_breaks_the_contract_fails_the_exam(kind: type[ObjectTree], tests: list[str]) -> None:
    for one in tests:
        name, _, argument = one.partition(":")
        arguments = [argument] if argument else []
        getattr(exam_of(ObjectTree), f"test_{name}")(*arguments)
        with pytest.raises((AssertionError, MagicError, pytest.fail.Exception)):
            getattr(exam_of(kind), f"test_{name}")(*arguments)


def test_summary_says_that_a_rename_is_many_steps() -> None:
    assert MemoryTreeExam.without == ("rename in one step",)


def test_store_that_claims_a_rename_in_one_step_gives_the_tree_for_it() -> None:
    class Claims(MemoryStore):
        def tree(self) -> SaysThatItIsAtomic:
            return SaysThatItIsAtomic(self)

    world = World()
    assert type(tree_of(Claims("b", world))) is ObjectTree
    world.capabilities = dataclasses.replace(world.capabilities, rename="atomic")
    assert asyncio.run(tree_of(Claims("b", world)).is_atomic())
