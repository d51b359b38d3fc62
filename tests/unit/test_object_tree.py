"""A tree over objects: what its calls cost, and what a rename leaves when it is cut or fails anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from magicfs.errors import MagicError, ObjectExists, PermissionDenied, StoreError, Unavailable
from magicfs.protocol.parts import PartLimits
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Capabilities
from magicfs.stores.trees import ObjectTree, tree_of
from magicfs.testing.counting_store import CountingStore
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind
from proofs.doubles import virtual_time

FILES = {f"{name}": name.encode() for name in ("a", "b/c", "b/d", "e", "f")}


class Scene:
    """A bucket with the files below ``from``, and a tree whose requests fail as told."""

    def __init__(self, *faults: Fault, **options: Any) -> None:
        world = World(capabilities=Capabilities(bulk_delete_max=2, parts=PartLimits(size_min=1)))
        world.create_bucket("b")
        self.plain = MemoryStore("b", world)
        self.traffic = Traffic(faults, **options)
        self.tree = ObjectTree(faulty(self.plain, self.traffic, Actor("one")), concurrency=2)
        for name, body in FILES.items():
            self.run(self.plain.put(f"from/{name}", body))

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return virtual_time.run(coroutine)

    def below(self, directory: str) -> dict[str, bytes]:
        async def found() -> dict[str, bytes]:
            prefix = f"{directory}/"
            keys = [info.key async for info in self.plain.list(prefix)]
            return {key[len(prefix) :]: await self.plain.get(key) for key in keys}

        files: dict[str, bytes] = self.run(found())
        return files


def requests(source: str) -> int:
    scene = Scene()
    scene.run(scene.tree.rename(source, "to"))
    return scene.traffic.count


@pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
@pytest.mark.parametrize("source", ["from", "from/a"])
def test_rename_that_is_cut_anywhere_leaves_the_source_or_the_destination_whole(
    source: str, kind: Kind
) -> None:
    assert requests(source) >= 2
    for number in range(1, requests(source) + 1):
        scene = Scene(Fault(kind, number=number))
        with pytest.raises(Crash):
            scene.run(scene.tree.rename(source, "to"))
        if source == "from":
            assert FILES in (scene.below("from"), scene.below("to")), number
        else:
            there = scene.run(listed(scene.plain))
            assert {"from/a", "to"} & there, number


async def listed(store: MemoryStore) -> set[str]:
    return {info.key async for info in store.list("")}


@pytest.mark.parametrize("kind", [Kind.ERROR_BEFORE, Kind.REPLY_LOST])
def test_rename_that_fails_anywhere_says_what_to_do_and_doing_it_ends_it(kind: Kind) -> None:
    said = Counter[str]()
    for number in range(1, requests("from") + 1):
        scene = Scene(Fault(kind, number=number))
        with pytest.raises(StoreError) as caught:
            scene.run(scene.tree.rename("from", "to"))
        error = caught.value
        plain = tree_of(scene.plain)
        if "source is complete" in error.hint:
            assert scene.below("from") == FILES
            assert not error.retryable
            if scene.below("to"):
                with pytest.raises(ObjectExists):
                    scene.run(plain.rename("from", "to"))
            scene.run(plain.delete_tree("to"))
            scene.run(plain.rename("from", "to"))
        elif "destination is complete" in error.hint:
            assert scene.below("to") == FILES
            assert not error.retryable
            scene.run(plain.delete_tree("from"))
        else:
            assert isinstance(error, Unavailable)  # of looking, before anything was done
            assert (scene.below("from"), scene.below("to")) == (FILES, {})
            scene.run(plain.rename("from", "to"))
        said[error.hint.split(";")[0]] += 1
        assert (scene.below("from"), scene.below("to")) == ({}, FILES)
    assert said["the source is complete"] == len(FILES)
    assert said["the destination is complete"] == 3


def test_rename_that_fails_starts_no_more_copies() -> None:
    scene = Scene(Fault(Kind.THROTTLE, operation="copy", skip=2, times=None))
    with pytest.raises(StoreError, match=r"stopped when 1 of 5 objects had been copied.*SlowDown"):
        scene.run(scene.tree.rename("from", "to"))
    assert sum(request.operation == "copy" for request in scene.traffic.log) <= 4
    assert not any(request.operation == "delete" for request in scene.traffic.log)


def test_denied_copy_stays_a_denial() -> None:
    class Denying(MemoryStore):
        async def copy(self, source: str, destination: str) -> int:
            if source == "from":
                return await super().copy(source, destination)
            raise PermissionDenied("copy", f"b/{destination}", "no")

    scene = Scene()
    with pytest.raises(PermissionDenied, match="source is complete"):
        scene.run(ObjectTree(Denying("b", scene.plain.world)).rename("from", "to"))


def test_file_that_is_deleted_while_its_directory_is_renamed_fails_the_rename() -> None:
    scene = Scene()
    done = False

    def delete(request: Any) -> None:
        nonlocal done
        if request.operation == "copy" and request.key == "from/b/c" and not done:
            done = True
            found = scene.plain.world.find("b")
            assert found is not None
            del found.objects["from/b/c"]

    rival = ObjectTree(faulty(scene.plain, Traffic(before=delete), Actor("two")))
    with pytest.raises(StoreError, match="no such object") as caught:
        scene.run(rival.rename("from", "to"))
    assert not isinstance(caught.value, FileNotFoundError)
    assert scene.below("from") == {name: body for name, body in FILES.items() if name != "b/c"}


def test_what_is_written_below_the_source_meanwhile_stays_there() -> None:
    scene = Scene()

    async def whole() -> None:
        await scene.plain.put("from/new", b"new")

    def write(request: Any) -> None:
        if request.operation == "copy" and request.key == "from/f":
            at_once(whole())

    rival = ObjectTree(faulty(scene.plain, Traffic(before=write), Actor("two")))
    scene.run(rival.rename("from", "to"))
    assert (scene.below("from"), scene.below("to")) == ({"new": b"new"}, FILES)


def at_once(coroutine: Coroutine[Any, Any, None]) -> None:
    with pytest.raises(StopIteration):
        coroutine.send(None)


@pytest.mark.parametrize("page", [1, 2, 3])
def test_pages_of_any_size_show_the_same(page: int) -> None:
    scene = Scene(page=page)

    async def whole() -> None:
        assert [entry.path async for entry in scene.tree.entries("from")] == [
            *("from/a", "from/b", "from/e", "from/f")
        ]
        await scene.tree.rename("from", "to")
        assert await scene.tree.delete_tree("to") is True
        assert await scene.tree.look("to") is None

    scene.run(whole())


# What each call costs, in requests of the port. Over S3 a copy is two: HEAD and CopyObject.
COSTS: dict[str, tuple[Any, dict[str, int]]] = {
    "look at a file": (lambda tree: tree.look("from/a"), {"head": 1}),
    "look at a directory": (lambda tree: tree.look("from"), {"head": 1, "list": 1}),
    "rename a file": (lambda tree: tree.rename("from/a", "to/a"), {"copy": 1, "delete": 1}),
    "rename a directory": (
        lambda tree: tree.rename("from", "to"),
        {"copy": 6, "list": 2, "head": 1, "delete": 1},
    ),
    "make a directory": (lambda tree: tree.make_directory("x/y"), {"head": 2, "list": 1, "put": 1}),
    "make one that is there": (lambda tree: tree.make_directory("from/b"), {"head": 2, "list": 1}),
    "write": (lambda tree: tree.write("x/y", b""), {"put": 1}),
    "read": (lambda tree: tree.read("from/a"), {"get": 1}),
    "delete": (lambda tree: tree.delete("from/a"), {"head": 1, "delete": 1}),
    "delete a tree": (lambda tree: tree.delete_tree("from"), {"head": 1, "list": 1, "delete": 1}),
}


@pytest.mark.parametrize("call", COSTS)
def test_calls_cost_what_they_must(call: str) -> None:
    world = World()
    world.create_bucket("b")
    counts = Counter[str]()
    work, expected = COSTS[call]

    async def whole() -> None:
        for name, body in FILES.items():
            await MemoryStore("b", world).put(f"from/{name}", body)
        await work(tree_of(CountingStore(MemoryStore("b", world), counts)))

    virtual_time.run(whole())
    assert counts == expected


def test_errors_are_of_the_one_tree() -> None:
    scene = Scene()
    with pytest.raises(MagicError):
        scene.run(scene.tree.rename("", "x"))
