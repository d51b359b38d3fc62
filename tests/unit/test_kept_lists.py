"""The lists of kept files: how many requests it takes one after the other to read them, and by whose word."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from magicfs.formats.deletions import OldObject
from magicfs.formats.pointer import Keeping, Pointer
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.manifests.kept import kept_by
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Actor, Traffic, faulty
from magicfs.testing.store_faults import Fault, Kind
from proofs.doubles import virtual_time
from proofs.scenes.job_scene import JobScene

DEST = "env=prod/día 50% + #1"
KEEPERS = 30


def scene_of(keepers: int) -> tuple[JobScene, tuple[Keeping, ...]]:
    """A dataset whose last jobs keep, and what the pointer has of them."""
    scene = JobScene(DEST)
    scene.published({"0.bin": b"0"})
    for number in range(keepers):
        scene.published({f"{number + 1}.bin": b"1"}, mode="overwrite", keep="7d")
    seen = scene.elsewhere(lambda engine: chain.read_pointer(engine.store, DEST, READING))
    assert seen is not None
    return scene, seen[0].keeping


def look(store: Store, keeping: Sequence[Keeping]) -> tuple[dict[str, list[OldObject]], float]:
    """What jobs keep, and for how long it takes to read that."""

    async def timed() -> tuple[dict[str, list[OldObject]], float]:
        began = asyncio.get_running_loop().time()
        found = await kept_by(store, DEST, READING, keeping)
        return found, asyncio.get_running_loop().time() - began

    return virtual_time.run(timed())


@pytest.fixture(scope="module")
def many() -> tuple[JobScene, tuple[Keeping, ...]]:
    return scene_of(KEEPERS)


@pytest.mark.slow
@pytest.mark.parametrize(("written", "requests"), [("now", 1), ("by an older magicfs", 2)])
def test_many_take_as_long_as_one(
    many: tuple[JobScene, tuple[Keeping, ...]], written: str, requests: int
) -> None:
    scene, keeping = many
    if written != "now":
        keeping = tuple(replace(one, lists=()) for one in keeping)
    store = faulty(scene.plain, Traffic([Fault(Kind.DELAY, times=None, seconds=1)]), Actor("reader"))
    _, of_one = look(store, keeping[:1])
    found, of_all = look(store, keeping)
    assert [len(objects) for objects in found.values()] == [1] * KEEPERS
    assert of_one == of_all == pytest.approx(requests, abs=0.1)


@pytest.mark.parametrize("lists", [(), ("0" * 64,), ("0" * 64, "f" * 64)])
def test_the_manifest_decides_where_the_pointer_names_no_list_or_another(
    many: tuple[JobScene, tuple[Keeping, ...]], lists: tuple[str, ...]
) -> None:
    scene, keeping = many
    expected, _ = look(scene.plain, keeping)
    assert look(scene.plain, [replace(one, lists=lists) for one in keeping])[0] == expected


def test_a_pointer_names_so_many_lists_as_it_has_room_for() -> None:
    pointer = Pointer(job_id="newest", nonce="1", changed_ms=1)
    for number in range(1300):
        pointer = pointer.keeping_also(f"job-{number}", 1, ["ab" * 32] * 16)
    pointer = pointer.keeping_also("of-many-files", 1, ["ab" * 32] * 17)
    raw = pointer.to_bytes()
    found = Pointer.from_bytes("p", raw).keeping
    assert [one.job_id for one in found] == [one.job_id for one in pointer.keeping]
    assert [len(one.lists) for one in found] == [16] * 1250 + [0] * 51
    assert len(raw) < 2 * 1024**2
