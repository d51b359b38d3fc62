"""Maintenance commands beside each other, beside jobs that join the chain, and beside themselves.

Every order of their requests is played: in every state between, readers see exactly what was published.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

import pytest

import magicfs
from magicfs.datasets import recover_jobs
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, MagicError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import COMPACT, READING
from magicfs.operate.adopt import adopt_files
from magicfs.operate.verify import verify_files
from magicfs.past.compact import compact_chain
from magicfs.protocol import paths
from magicfs.stores.conditions import Conditions
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.scenes.interleavings import NOW, Explored, Process, exact, explore
from proofs.scenes.mutants import patched

# In the gate tests/crash/test_sides.py and tests/crash/test_commands.py play some of it.
pytestmark = [pytest.mark.slow, pytest.mark.nightly]

DEST = "t"
PLACE = paths.parse_url(f"memory://{BUCKET}/{DEST}")
FULL = Conditions()


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [chain, *(sys.modules[f"magicfs.datasets.{name}"] for name in ("compact", "adopt"))]
    exact(monkeypatch, *modules)
    monkeypatch.setattr(chain, "_PAUSE_S", 0)


def manifest(job: str, **changes: Any) -> Manifest:
    files = (ManifestFile(key=f"{job}.bin", size=1, etag=f'"{job}"'),)
    values: dict[str, Any] = {"mode": "append", "committed_ms": 1, "files": files} | changes
    return Manifest(job_id=job, run_id=f"run {job}", bucket=BUCKET, destination=DEST, **values)


def dataset(*jobs: str) -> SnapshotWorld:
    """A destination to which some jobs have been published."""
    world = SnapshotWorld(lambda: NOW)
    store = MemoryStore(BUCKET, world)

    async def publish() -> None:
        for job in jobs:
            await store.put(f"{DEST}/{job}.bin", b"x")
            await chain.publish(store, FULL, DEST, manifest(job))

    asyncio.run(publish())
    return world


async def compacts(store: Store) -> Any:
    return await compact_chain(Engine(store, 1), PLACE)


async def adopts(store: Store) -> Any:
    return await adopt_files(Engine(store, 1), PLACE)


async def verifies(store: Store) -> Any:
    return await verify_files(Engine(store, 1), PLACE)


async def recovers(store: Store) -> Any:
    return await recover_jobs(Engine(store, 1), PLACE)


async def appends(store: Store) -> Any:
    return await chain.publish(store, FULL, DEST, manifest("new"))


async def replaces(store: Store) -> Any:
    seen = await chain.read_pointer(store, DEST, FULL)
    replaced = seen[0].job_id if seen else None
    return await chain.publish(store, FULL, DEST, manifest("new", hides="all", replaced=replaced))


async def appends_at_once(store: Store) -> Any:
    return await _at_once(store, appends)


async def replaces_at_once(store: Store) -> Any:
    return await _at_once(store, replaces)


async def _at_once(store: Store, deed: Process) -> Any:
    """A deed between two requests of the others."""
    await store.head(chain.pointer_key(DEST))
    assert isinstance(store, DelegatingStore)
    return await deed(store.inner)


DEEDS = (compacts, adopts, verifies, recovers)


async def files_of(store: Store) -> set[str]:
    found = await chain.view(store, DEST, READING)
    assert found is not None
    return set(found.files)


async def sums_left(store: Store) -> list[str]:
    """Sums that stand in no chain."""
    linked = {one.job_id async for one in chain.chain(store, DEST, READING)}
    there = [info.key async for info in store.list(f"{DEST}/_magicfs/{COMPACT}-")]
    names = [key.removeprefix(f"{DEST}/_magicfs/") for key in there]
    return [name for name in names if name.partition("/")[0].removesuffix(".json") not in linked]


def every_order(
    base: SnapshotWorld,
    *deeds: Process,
    always: set[str],
    allowed: set[str] = frozenset(),
    ends: Any = None,
    at_once_in_turn: bool = False,
) -> Explored:
    """Play some deeds in every order; readers see what always is there, and at most what is allowed."""

    async def look(store: Store) -> None:
        seen = await files_of(store)
        assert always <= seen <= always | allowed

    async def end(store: Store, results: dict[str, Any]) -> None:
        for name, result in results.items():
            assert not isinstance(result, MagicError) or isinstance(result, CommitDenied), (name, result)
        assert await sums_left(store) == []
        assert await files_of(store) == (always | allowed if ends is None else ends)
        # And all of it can be looked after.
        await compacts(store)
        assert await files_of(store) == (always | allowed if ends is None else ends)

    names = {f"{place} {deed.__name__}": deed for place, deed in enumerate(deeds)}  # type: ignore[attr-defined]
    return explore(base, names, look, end, at_once_in_turn=at_once_in_turn)


def test_two_compactions_beside_a_job_that_appends() -> None:
    every = {"a.bin", "b.bin"}
    found = every_order(
        dataset("a", "b"), compacts, compacts, appends_at_once, always=every, allowed={"new.bin"}
    )
    assert found.states > 300
    assert found.ends > 3


def test_two_compactions_beside_a_job_that_replaces() -> None:
    old = {"a.bin", "b.bin"}
    every_order(
        *(dataset("a", "b"), compacts, compacts, replaces_at_once),
        always=set(),
        allowed={*old, "new.bin"},
        ends={"new.bin"},
    )


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(DEEDS, 2)))
def test_two_maintenance_commands(first: Process, second: Process) -> None:
    base = dataset("a", "b")
    asyncio.run(MemoryStore(BUCKET, base).put(f"{DEST}/older.bin", b"x"))
    every = {"a.bin", "b.bin"}
    adopted = {"older.bin"} if adopts in (first, second) else set[str]()

    async def look(store: Store) -> None:
        assert every <= await files_of(store) <= every | adopted

    async def end(store: Store, results: dict[str, Any]) -> None:
        for result in results.values():
            assert not isinstance(result, MagicError) or isinstance(result, CommitDenied), result
        assert await sums_left(store) == []
        await adopts(store)
        await compacts(store)
        assert await files_of(store) == every | {"older.bin"}

    found = explore(base, {"1": first, "2": second}, look, end)
    assert found.ends


@pytest.mark.parametrize("deed", [verifies, appends, replaces])
def test_a_job_that_joins_beside_a_maintenance_command(deed: Process) -> None:
    ends = {"new.bin"} if deed is replaces else {"a.bin", "b.bin", "new.bin"}
    every = {"a.bin", "b.bin", "new.bin"}
    other = appends if deed is verifies else compacts
    every_order(dataset("a", "b"), deed, other, always=set(), allowed=every, ends=ends)


def completed() -> SnapshotWorld:
    """A dataset, and a job whose files are all visible, and whose driver died before it was published."""
    world = dataset("a", "b")
    filesystem = MemoryFileSystem(world=world)
    job = magicfs.Job(f"memory://{BUCKET}/{DEST}", mode="append", filesystem=filesystem, job_id="new")
    job.setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/new.bin", b"x")
    dies = Traffic([Fault(Kind.CRASH_BEFORE, operation="put", prefix=f"{DEST}/_magicfs/new")])
    store: Store = faulty(MemoryStore(BUCKET, world), dies, Actor("driver"))
    from magicfs.committers.magic import MagicCommitter

    committer = MagicCommitter(job.spec.context, Engine(store, 1))
    with pytest.raises(Crash):
        asyncio.run(committer.commit_job(job.commits, job.found.driver))
    return world


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("at_once_in_turn", [True, False])
def test_a_recovery_beside_a_compaction(at_once_in_turn: bool) -> None:
    every_order(
        *(completed(), recovers, compacts),
        always={"a.bin", "b.bin"},
        allowed={"new-000000-new.bin"},
        at_once_in_turn=at_once_in_turn,
    )


def test_reading_a_pointer_gives_body_and_etag_of_one_version() -> None:
    """A swap of what was read is refused only if the pointer has moved since all of it was read."""
    base = dataset("a", "b")

    async def reads(store: Store) -> Any:
        return await chain.read_pointer(store, DEST, FULL)

    async def look(_: Store) -> None:
        return

    async def end(store: Store, results: dict[str, Any]) -> None:
        pointer, entry = results["reads"]
        now = await store.head(entry.key)
        assert (pointer.job_id == "new") == (entry.etag == now.etag)

    assert explore(base, {"reads": reads, "appends": appends}, look, end).ends > 2


# -- wrong lines that only a second compaction notices ---------------------------------------------------

WRONG = {
    "two compactions make the same sum": (
        "magicfs.past.compact",
        'job_id=f"{_stem_of_sums(newest)}{uuid4().hex[:12]}",',
        'job_id=f"{_stem_of_sums(newest)}0",',
    ),
    "a sum that is not linked stays": ("magicfs.manifests.chain", "await own.remove(entry)", "pass"),
    "a linked sum is taken for a leftover": (
        "magicfs.past.compact",
        'if dash and keep.get(f"{stem}-", job) != job:',
        "if dash:",
    ),
    "the pointer is moved from whatever it is": (
        "magicfs.stores.register",
        "self.key, body, metadata=_digest(body), mode=mode",
        "self.key, body, metadata=_digest(body)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_line_is_noticed(name: str) -> None:
    with patched(*WRONG[name]), pytest.raises((AssertionError, MagicError)):
        test_two_compactions_beside_a_job_that_appends()


def test_reading_body_and_etag_of_two_versions_is_noticed() -> None:
    line = "return body if number or await self._is_of(first, body) else None"
    with patched("magicfs.stores.register", line, "return body"), pytest.raises(AssertionError):
        test_reading_a_pointer_gives_body_and_etag_of_one_version()
