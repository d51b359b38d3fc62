"""Merging directories, by Hadoop's rules, on files and on objects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from magicfs.committers.file.algorithm1 import standing
from magicfs.committers.file.merge import Merge
from magicfs.engine import Engine, Event
from magicfs.errors import CommitFailed, Unavailable
from magicfs.protocol.conflict import is_reserved
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Rename
from magicfs.stores.local import LocalStore
from magicfs.stores.memory import MemoryStore, World
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault, Kind, Request
from proofs.committer_exam.names import hostile


class Place:
    """A source and a destination in one store."""

    def __init__(self, store: Store, root: str) -> None:
        self.store = store
        self.source = f"{root}/work"
        self.destination = f"{root}/data"

    async def lay(self, work: dict[str, bytes], data: dict[str, bytes] | None = None) -> None:
        for relative, body in work.items():
            await self.store.put(f"{self.source}/{relative}", body)
        for relative, body in (data or {}).items():
            await self.store.put(f"{self.destination}/{relative}", body)

    async def found(self, directory: str | None = None) -> dict[str, bytes]:
        prefix = f"{directory or self.destination}/"
        keys = [info.key async for info in self.store.list(prefix)]
        return {key[len(prefix) :]: await self.store.get(key) for key in keys}

    def merge(self, store: Store | None = None, **how: Any) -> Merge:
        options: dict[str, Any] = {"overwrite": "always", **how}
        return Merge(Engine(store or self.store, 4), self.destination, **options)


@pytest.fixture(params=["files", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "files":
        return Place(LocalStore(), str(tmp_path).strip("/"))
    world = World()
    world.create_bucket("bucket")
    return Place(MemoryStore("bucket", world), "root")


def on_files(place: Place) -> bool:
    return isinstance(place.store, LocalStore)


@pytest.mark.parametrize("renamed", [False, True], ids=["same-names", "other-names"])
class TestRules:
    """Each rule, with directories moved whole and with every file under a name of its own."""

    def merged(self, place: Place, renamed: bool, work: Any, data: Any = None) -> dict[str, bytes]:
        async def go() -> dict[str, bytes]:
            await place.lay(work, {"kept/old": b"old", **(data or {})})
            final = (lambda relative: f"{place.destination}/{relative}") if renamed else None
            count = await place.merge().merge(place.source, final)
            found = await place.found()
            assert found.pop("kept/old") == b"old"
            assert count == len([name for name in work if not is_reserved(name) and name != "_SUCCESS"])
            return found

        return asyncio.run(go())

    def test_file_replaces_a_file(self, place: Place, renamed: bool) -> None:
        found = self.merged(place, renamed, {"a": b"new", "d/b": b"new"}, {"a": b"old", "d/b": b"old"})
        assert found == {"a": b"new", "d/b": b"new"}

    def test_file_replaces_a_directory_with_all_that_is_in_it(self, place: Place, renamed: bool) -> None:
        found = self.merged(place, renamed, {"a": b"new"}, {"a/b/c": b"old", "a/d": b"old", "ab": b"stays"})
        assert found == {"a": b"new", "ab": b"stays"}

    def test_directory_replaces_a_file_at_any_depth(self, place: Place, renamed: bool) -> None:
        found = self.merged(place, renamed, {"a/b/c/d": b"new", "e/f": b"new"}, {"a/b": b"old", "e": b"old"})
        assert found == {"a/b/c/d": b"new", "e/f": b"new"}

    def test_directory_that_meets_nothing_arrives_whole(self, place: Place, renamed: bool) -> None:
        work = {f"day={n}/{m}": b"%d" % m for n in range(3) for m in range(3)}
        assert self.merged(place, renamed, work) == work

    def test_directory_is_merged_into_a_directory(self, place: Place, renamed: bool) -> None:
        found = self.merged(
            place,
            renamed,
            {"d/e/a": b"new", "d/b": b"new"},
            {"d/e/old": b"old", "d/b": b"old", "d/c": b"old"},
        )
        assert found == {"d/e/a": b"new", "d/b": b"new", "d/e/old": b"old", "d/c": b"old"}

    def test_hidden_files_are_moved_and_the_names_of_committers_are_not(
        self, place: Place, renamed: bool
    ) -> None:
        kept = {"_metadata": b"m", ".crc": b"c", "d/_hidden": b"h", "d/_SUCCESS": b"deep"}
        own = {"_SUCCESS": b"s", "_temporary/x": b"t", "__magic_job-1/x": b"m", "_magicfs/x": b"f"}
        assert self.merged(place, renamed, kept | own) == kept

    def test_file_of_any_name(self, place: Place, renamed: bool) -> None:
        work = {name: name.encode() for name in hostile(7) if not is_reserved(name)}
        assert self.merged(place, renamed, work) == work

    def test_nothing_is_moved_from_nowhere(self, place: Place, renamed: bool) -> None:
        assert self.merged(place, renamed, {}) == {}


def test_directory_is_renamed_in_one_step_where_there_is_one(place: Place) -> None:
    async def go() -> Merge:
        await place.lay({f"day=1/{n}": b"x" for n in range(5)}, {"old": b"old"})
        merge = place.merge()
        assert await merge.merge(place.source) == 5
        return merge

    merge = asyncio.run(go())
    assert merge.renames == (1 if on_files(place) else 5)
    assert merge.copied == (0 if on_files(place) else 5)
    assert merge.statistics.counters == {"op_rename": merge.renames, "files_copied_bytes": merge.copied}


def test_every_file_is_told_of_with_its_final_key_and_size(place: Place) -> None:
    told: list[tuple[str, int]] = []
    events: list[Event] = []

    async def go() -> None:
        await place.lay({"d/a": b"12", "b": b"1"})
        merge = Merge(Engine(place.store, 2, events.append), place.destination, overwrite="always")
        merge.moved = lambda key, size: told.append((key.removeprefix(place.destination), size))
        await merge.merge(place.source)

    asyncio.run(go())
    assert sorted(told) == [("/b", 1), ("/d/a", 2)]
    steps = [event.step for event in events if event.outcome is Outcome.DONE]
    assert {step.key for step in steps if isinstance(step, Rename)} == {
        f"{place.destination}/b",
        f"{place.destination}/d/a",
    }


def test_directory_with_the_work_of_a_job_is_not_deleted_for_a_file(place: Place) -> None:
    data = {"a/_temporary/other/00/tasks/1/f": b"another job's", "a/old": b"old"}

    async def go() -> dict[str, bytes]:
        await place.lay({"a": b"new"}, data)
        merge = place.merge()
        with pytest.raises(CommitFailed, match="holds the work of a job"):
            await merge.merge(place.source)
        assert merge.failed == [f"{place.destination}/a"]
        assert await place.found(place.source) == {"a": b"new"}
        return await place.found()

    assert asyncio.run(go()) == data


def test_markers_of_directories_are_no_files() -> None:
    async def go() -> dict[str, bytes]:
        world = World()
        world.create_bucket("bucket")
        place = Place(MemoryStore("bucket", world), "root")
        await place.lay({"d/": b"", "d/a": b"new"})
        assert await place.merge().merge(place.source) == 1
        return await place.found()

    assert asyncio.run(go()) == {"d/a": b"new"}


def test_second_call_moves_what_the_first_one_left(place: Place) -> None:
    work = {f"d/{n}": b"%d" % n for n in range(6)}

    async def go() -> dict[str, bytes]:
        await place.lay(work, {"d/old": b"old"})
        failing = faulty(
            place.store, Traffic([Fault(Kind.ERROR_BEFORE, operation=step, skip=2)]), Actor("process")
        )
        merge = place.merge(failing)
        with pytest.raises(Unavailable):
            await merge.merge(place.source)
        assert len(merge.failed) == 1
        moved = await place.merge().merge(place.source)
        assert 1 <= moved < len(work)
        return await place.found()

    step = "rename" if on_files(place) else "copy"
    assert asyncio.run(go()) == {**work, "d/old": b"old"}


def test_source_that_vanishes_is_not_counted(place: Place) -> None:
    def before(request: Request) -> None:
        if request.operation == step and request.key.endswith("/a"):
            if isinstance(place.store, MemoryStore):
                contents = place.store.world.find(place.store.bucket)
                assert contents is not None
                del contents.objects[request.key]
            else:
                Path(f"/{request.key}").unlink()

    async def go() -> tuple[int, dict[str, bytes]]:
        await place.lay({"a": b"1", "b": b"2"}, {"old": b"old"})
        merge = place.merge(faulty(place.store, Traffic(before=before), Actor("process")))
        return await merge.merge(place.source), await place.found()

    step = "rename" if on_files(place) else "copy"
    assert asyncio.run(go()) == (1, {"b": b"2", "old": b"old"})


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a"], ["a"]),
        (["a", "a/b"], ["a/b"]),
        (["a/b", "a/c/d", "ab", "a"], ["a", "ab"]),
        (["a/b", "a", "a/c"], ["a/c"]),
    ],
)
def test_what_is_left_of_files_written_one_after_the_other(written: list[str], left: list[str]) -> None:
    found = standing((key, number) for number, key in enumerate(written))
    assert sorted(found) == left
    assert found[written[-1]] == len(written) - 1
