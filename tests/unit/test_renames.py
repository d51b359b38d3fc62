"""Renames: very many at once, told by their ETags where an answer does not tell."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from magicfs.engine import BatchResult, Engine, Event
from magicfs.errors import ObjectExists, ObjectNotFound, PermissionDenied
from magicfs.protocol.readback import Outcome, is_renamed
from magicfs.protocol.steps import Rename
from magicfs.stores.local.store import LocalStore
from magicfs.stores.local.tree import LocalTree
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault, Kind
from magicfs.transaction.visible import Pace, rename_files


class Scene:
    """Files below ``work`` of a directory, to be renamed to what lies beside it."""

    def __init__(self, directory: Path, *faults: Fault) -> None:
        self.directory = directory
        self.store = LocalStore()
        self.traffic = Traffic(faults)
        self.told: list[Event] = []
        self.engine = Engine(faulty(self.store, self.traffic, Actor("driver")), 4, self.told.append)
        self.etags: dict[int, str] = {}

    def step(self, name: str, body: bytes = b"x", **more: Any) -> Rename:
        path = self.directory / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        root = str(self.directory)[1:]
        etag = asyncio.run(self.store.head(f"{root}/work/{name}")).etag
        return Rename(f"{root}/work/{name}", f"{root}/{name}", len(body), etag, **more)

    def run(self, steps: list[Rename], **more: Any) -> BatchResult:
        def completed(number: int, etag: str) -> None:
            assert number not in self.etags
            self.etags[number] = etag

        return asyncio.run(rename_files(self.engine, steps, completed, **more))

    def visible(self) -> set[str]:
        files = {path for path in self.directory.rglob("*") if path.is_file()}
        names = {path.relative_to(self.directory).as_posix() for path in files}
        return {name for name in names if not name.startswith("work/")}


NAMES = [f"d={number % 7}/{number} 50% +#é" for number in range(100)]


def test_files_are_renamed_into_directories_that_are_made(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    steps = [scene.step(name) for name in NAMES]
    result = scene.run(steps)
    assert (result.ok, result.done, scene.visible()) == (True, 100, set(NAMES))
    assert scene.etags == {number: step.etag for number, step in enumerate(steps)}
    assert {(event.batch, event.outcome) for event in scene.told} == {("rename", Outcome.DONE)}
    operations = [request.operation for request in scene.traffic.log]
    assert sorted(set(operations)) == ["make_directory", "rename"], "no file is looked at"
    assert (operations.count("make_directory"), operations.count("rename")) == (7, 100)


def test_files_that_may_replace_nothing_are_looked_for_only_in_directories_that_are_there(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    steps = [scene.step(name, if_absent=True) for name in [*NAMES, "alone/a"]]
    (tmp_path / "d=3").mkdir()
    (tmp_path / NAMES[3]).write_bytes(b"somebody else's")
    result = scene.run(steps)
    assert [failure.outcome for failure in result.failures] == [Outcome.CONFLICT]
    assert (tmp_path / NAMES[3]).read_bytes() == b"somebody else's"
    in_third = sum(name.startswith("d=3/") for name in NAMES)
    looks = [one.key for one in scene.traffic.log if one.operation == "look"]
    assert len(looks) == 7 + in_third + 1, "of six directories none is there, and one has one file to come"


def test_a_tree_of_this_machine_renames_all_in_one_call(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    steps = [scene.step(name) for name in NAMES]
    found = asyncio.run(LocalTree().rename_all([(one.source, one.key) for one in steps], 4))
    assert found == dict.fromkeys(range(100))
    assert scene.visible() == set(NAMES)
    again = asyncio.run(LocalTree().rename_all([(one.source, one.key) for one in steps], 4))
    assert {type(one) for one in again.values()} == {ObjectNotFound}
    assert len(again) == 100


def test_a_second_time_everything_is_found_done(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    steps = [scene.step(name) for name in NAMES]
    scene.run(steps[:60])
    scene.etags = {}
    result = scene.run(steps)
    assert (result.ok, result.done, scene.visible()) == (True, 100, set(NAMES))
    assert len(scene.etags) == 100


def test_145_one_failure_of_a_hundred_stops_and_is_told(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    steps = [scene.step(name) for name in NAMES]
    (tmp_path / NAMES[50] / "in the way").mkdir(parents=True)
    result = scene.run(steps)
    (failure,) = result.failures
    assert (failure.step, failure.outcome) == (steps[50], Outcome.FAILED)
    assert isinstance(failure.error, ObjectExists)
    assert result.done + len(result.not_started) == 99
    assert len(scene.visible()) == result.done
    assert [event.outcome for event in scene.told].count(Outcome.FAILED) == 1


def test_146_a_refused_rename_says_which(tmp_path: Path) -> None:
    class Denied(LocalTree):
        async def rename_all(self, files: Any, concurrency: int) -> Any:
            return {0: PermissionDenied("rename", files[0][0], "the test wants it")}

    scene = Scene(tmp_path)
    step = scene.step("a")
    scene.engine.store.tree = Denied  # type: ignore[attr-defined]
    (failure,) = scene.run([step]).failures
    assert (failure.outcome, type(failure.error)) == (Outcome.FAILED, PermissionDenied)
    assert step.source in str(failure.error)


def test_147_a_missing_source_is_never_found(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    step = scene.step("a")
    (tmp_path / "work" / "a").unlink()
    (tmp_path / "a").write_bytes(b"x")  # of the same size, and somebody else's
    (failure,) = scene.run([step]).failures
    assert (failure.outcome, type(failure.error)) == (Outcome.FAILED, ObjectNotFound)
    assert not scene.etags


def test_148_an_existing_target_is_replaced_unless_that_is_forbidden(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (tmp_path / "a").write_bytes(b"old")
    step = scene.step("a", b"new")
    (failure,) = scene.run([step._replace(if_absent=True)]).failures
    assert (failure.outcome, (tmp_path / "a").read_bytes()) == (Outcome.CONFLICT, b"old")
    assert scene.run([step]).ok
    assert (tmp_path / "a").read_bytes() == b"new"
    scene.etags = {}
    assert scene.run([step._replace(if_absent=True)]).ok, "it is the file itself that is there"


@pytest.mark.parametrize("kind", [Kind.REPLY_LOST, Kind.REFUSED])
def test_148_a_lost_reply_is_recovered_by_the_etag(tmp_path: Path, kind: Kind) -> None:
    scene = Scene(tmp_path, Fault(kind, operation="rename", times=None))
    assert scene.run([scene.step(name) for name in NAMES]).ok
    assert scene.visible() == set(NAMES)


def test_a_rename_that_was_not_answered_and_did_not_happen_is_unknown(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Fault(Kind.ERROR_BEFORE, operation="rename"))
    (failure,) = scene.run([scene.step("a")]).failures
    assert failure.outcome is Outcome.UNKNOWN


def test_a_directory_that_somebody_removes_in_between_is_made_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Fault(Kind.REFUSED, operation="make_directory", times=1))
    step = scene.step("d/a")

    class Gone(LocalTree):
        async def rename_all(self, files: Any, concurrency: int) -> Any:
            return {0: ObjectNotFound("rename", "d", "no directory 'd'")}

    scene.engine.store.tree = Gone  # type: ignore[attr-defined]
    assert scene.run([step]).ok
    assert scene.visible() == {"d/a"}


@pytest.mark.parametrize("altered", [b"longer than before", b"y"])
def test_verifying_finds_a_file_that_was_altered(tmp_path: Path, altered: bytes) -> None:
    scene = Scene(tmp_path)
    steps = [scene.step("a"), scene.step("b")]
    (tmp_path / "work" / "a").write_bytes(altered)
    (failure,) = scene.run(steps, verify=True).failures
    assert (failure.step.key, failure.outcome) == (steps[0].key, Outcome.FAILED)
    assert "is not the file that its task committed" in str(failure.error)


def test_a_pace_spreads_renames_over_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    steps = [scene.step(f"{number}") for number in range(12)]

    async def timed() -> float:
        began = asyncio.get_running_loop().time()
        await rename_files(scene.engine, steps, lambda *_: None, pace=Pace(40))
        return asyncio.get_running_loop().time() - began

    assert Pace(40).group == 4
    assert asyncio.run(timed()) >= 0.2
    assert len(scene.visible()) == 12


@pytest.mark.parametrize(
    ("found", "etag", "same"),
    [
        ('"1-2-3"', '"1-2-3"', True),
        ('"9-2-3"', '"1-2-3"', True),  # copied to another device
        ('"1-2-4"', '"1-2-3"', False),
        ('"1-4-3"', '"1-2-3"', False),
        ("0x8D1", "0x8D1", True),
        ("0x8D1", "0x8D2", False),
        ("", "", False),
        ('"0123456789abcdef0123456789abcdef"', '"1123456789abcdef0123456789abcdef"', False),
    ],
)
def test_a_file_is_told_by_its_etag(found: str, etag: str, same: bool) -> None:
    assert is_renamed(found, etag) is same
