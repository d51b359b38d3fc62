"""Models of other stores: their rules, and that jobs, cuts and simulations hold on each."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from magicfs.errors import PreconditionFailed, Unsupported, UploadNotFound
from magicfs.protocol.readback import etag_of_upload
from magicfs.stores.memory import MemoryStore
from magicfs.stores.port import PutMode, Update
from proofs.crash import elsewhere, grid
from proofs.crash.main import main
from proofs.crash.other_stores import mutants_on
from proofs.crash.settings import all_settings
from proofs.crash.simulation import Result, Simulation, simulate
from proofs.crash.snapshots import SnapshotWorld
from proofs.crash.store_models import KINDS, plain_store
from proofs.crash.writing import START, Clock
from proofs.crash.wrong_stores import STORE_MUTANTS

OTHERS = [kind for kind in KINDS if kind != "s3"]
COMPANIES = ("", "directory.", "partitioned.", "names-", "maintenance-", "interrupts-", "limits-", "drivers-")


def now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    return stopped.value.value


def world_and_store(kind: str) -> tuple[SnapshotWorld, MemoryStore]:
    world = SnapshotWorld(Clock(START))
    return world, plain_store(world, KINDS[kind][0])


def upload(store: MemoryStore, key: str, body: bytes = b"x") -> tuple[str, Any]:
    upload_id = now(store.create_upload(key, metadata={"magicfs-write-id": "w"}))
    return upload_id, now(store.put_part(key, upload_id, 1, body))


@pytest.mark.parametrize("kind", OTHERS)
def test_equal_bytes_have_another_etag_each_time(kind: str) -> None:
    _, store = world_and_store(kind)
    first = now(store.put("a", b"same"))
    assert now(store.put("a", b"same")).etag != first.etag
    with pytest.raises(PreconditionFailed):
        now(store.delete_matching("a", first.etag))


def test_on_azure_a_write_drops_the_uploads_of_its_name() -> None:
    world, store = world_and_store("azure")
    ours, part = upload(store, "a")
    other, _ = upload(store, "b")
    now(store.put("a", b"somebody's"))
    assert list(world.uploads) == [other]
    with pytest.raises(UploadNotFound):
        now(store.complete_upload("a", ours, [part]))
    late = now(store.put_part("a", ours, 2, b"late"))
    assert late.number == 2
    hidden, part = upload(store, "a")
    assert [one.key for one in listed(store)] == ["b"]
    assert now(store.complete_upload("a", hidden, [part])).size == 1
    assert list(world.uploads) == [other]


def test_on_local_files_the_id_of_an_upload_tells_the_etag_and_metadata_is_forgotten() -> None:
    _, store = world_and_store("local")
    upload_id, part = upload(store, "a", b"four")
    info = now(store.complete_upload("a", upload_id, [part]))
    assert info.etag.strip('"') == etag_of_upload(upload_id, 4)
    assert now(store.head("a")) == info
    assert info.metadata == {}
    with pytest.raises(Unsupported):
        now(store.put("a", b"", mode=Update(info.etag)))
    assert now(store.put("b", b"", mode=PutMode.CREATE)).etag != info.etag


def listed(store: MemoryStore) -> list[Any]:
    found = []

    async def collect() -> None:
        found.extend([one async for one in store.list_uploads("")])

    now(collect())
    return found


@pytest.mark.parametrize("kind", OTHERS)
def test_simulated_jobs_hold(kind: str) -> None:
    result = Result()
    for company in COMPANIES:
        simulate(f"{kind}@{company}1", result)
    elsewhere.play(f"{kind}@1", result)
    assert result.findings == []
    assert result.jobs > len(COMPANIES)


@pytest.mark.parametrize("kind", OTHERS)
def test_single_cuts_hold(kind: str) -> None:
    for committer in ("magic", "partitioned"):
        for setting in list(all_settings(committer, kind))[::61]:
            assert setting.store == kind
            assert [str(one) for one in grid.singles_of(setting, 31).findings] == []


@pytest.mark.parametrize("kind", OTHERS)
def test_a_seed_is_drawn_for_its_store_alone(kind: str) -> None:
    assert {job.setting.store for job in Simulation.of(f"{kind}@directory.names-3").jobs} == {kind}
    assert {job.setting.store for job in Simulation.of("names-3").jobs} <= set(KINDS["s3"])
    with pytest.raises(ValueError, match="none of s3, gcs, azure, local"):
        Simulation.of("nowhere@3")


@pytest.mark.parametrize("kind", OTHERS)
def test_mutants_are_moved_to_the_store(kind: str) -> None:
    mutants = mutants_on(kind, ["magic", "directory", "partitioned"])
    assert {job.store for one in mutants for job in one.jobs} == {kind}
    assert {one.way for one in mutants} >= {
        "singles",
        "elsewhere",
        "names",
        "maintenance",
        "interrupts",
        "limits",
    }
    assert set(STORE_MUTANTS.get(kind, ())) <= set(mutants)


def test_an_unknown_store_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--store", "tape"])
    assert "invalid choice: 'tape'" in capsys.readouterr().err
