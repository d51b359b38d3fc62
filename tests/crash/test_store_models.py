"""Models of other stores: their rules, and that jobs, cuts and simulations hold on each."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from magicfs.errors import PreconditionFailed, Unsupported, UploadNotFound
from magicfs.protocol.readback import etag_of_upload
from magicfs.stores.azure.store import AzureStore
from magicfs.stores.conditions import is_probe
from magicfs.stores.gcs.store import GcsStore
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import Capabilities, PutMode, Update
from proofs.crash import elsewhere, grid
from proofs.crash.main import main
from proofs.crash.other_stores import QUICK, WHOLE, mutants_on, units_on
from proofs.crash.settings import Setting, all_settings
from proofs.crash.simulation import Result, Simulation, simulate
from proofs.crash.snapshots import SnapshotWorld
from proofs.crash.store_models import KINDS, MODELS, plain_store
from proofs.crash.writing import START, Clock
from proofs.crash.wrong_stores import STORE_MUTANTS
from proofs.sides.checks import CHECKS
from proofs.sides.wrong_sides import SIDE_MUTANTS

OTHERS = [kind for kind in KINDS if kind != "s3"]
DAY_S = 86_400
COMPANIES = ("", "directory.", "partitioned.")
COMPANIES += ("names-", "maintenance-", "interrupts-", "limits-", "drivers-", "days-")


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


@pytest.mark.parametrize("kind", [kind for kind in OTHERS if kind != "wire"])  # which is S3
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


def test_on_azure_an_upload_is_gone_seven_days_after_the_last_block_of_its_name() -> None:
    world, store = world_and_store("azure")
    old, part = upload(store, "a")
    kept, _ = upload(store, "b")
    world.clock.now += 6.9 * DAY_S  # type: ignore[attr-defined]
    renewed, again = upload(store, "c")
    now(store.put_part("b", "an upload that is gone", 1, b"late"))
    assert {one.upload_id for one in listed(store)} == {old, kept, renewed}
    earlier = world.copy()
    world.clock.now += 0.2 * DAY_S  # type: ignore[attr-defined]
    with pytest.raises(UploadNotFound):
        now(store.complete_upload("a", old, [part]))
    assert [one.upload_id for one in listed(store)] == [kept, renewed]
    assert world.expired == {old}
    assert now(store.complete_upload("c", renewed, [again])).size == 1
    assert now(plain_store(earlier, "azure").put("d", b"")).size == 0
    assert (earlier.expired, {*earlier.uploads}) == ({old}, {kept, renewed})


@pytest.mark.parametrize("kind", ["s3", "gcs", "local"])
def test_elsewhere_an_upload_stays_as_long_as_nobody_aborts_it(kind: str) -> None:
    world, store = world_and_store(kind)
    upload_id, _ = upload(store, "a")
    world.clock.now += 400 * DAY_S  # type: ignore[attr-defined]
    assert [one.upload_id for one in listed(store)] == [upload_id]


def test_models_keep_uploads_as_long_as_their_stores() -> None:
    stores = {"gcs": GcsStore, "azure": AzureStore, "local": LocalStore}
    for kind, store in stores.items():
        real = vars(store)["capabilities"]
        assert isinstance(real, Capabilities)
        _, model = world_and_store(kind)
        ours, theirs = model.capabilities, real.uploads
        assert ours.metadata == real.metadata
        assert (ours.uploads.days, ours.uploads.apart) == (theirs.days, theirs.apart), kind
        assert MODELS[KINDS[kind][0]].upload_days == theirs.days


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


def test_on_azure_a_driver_that_dies_while_it_tries_conditions_leaves_no_upload() -> None:
    setting = Setting(shape="one", store="azure")
    requests = grid.recorded_job(setting).scene.traffic.log
    number = next(one.number for one in requests if one.operation == "create_upload" and is_probe(one.key))
    for wish in grid.wishes_of(setting):
        assert grid.single(setting, number, "after", wish) == []


@pytest.mark.parametrize("kind", OTHERS)
def test_a_seed_is_drawn_for_its_store_alone(kind: str) -> None:
    assert {job.setting.store for job in Simulation.of(f"{kind}@directory.names-3").jobs} == {kind}
    assert {job.setting.store for job in Simulation.of("names-3").jobs} <= set(KINDS["s3"])
    with pytest.raises(ValueError, match="not one of s3, gcs, azure, local"):
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


@pytest.mark.parametrize("kind", OTHERS)
def test_every_side_and_each_of_its_mutants_is_asked_for_on_the_store(kind: str) -> None:
    whole = units_on(kind, ["magic"], quick=False, targets=WHOLE, first=0)
    assert {what for work, what in whole if work == "side"} == {(name, kind) for name in CHECKS}
    hunted = [what for work, what in whole if work == "side mutant"]
    assert hunted == [(mutant, kind) for mutant in SIDE_MUTANTS]
    quick = units_on(kind, ["magic"], quick=True, targets=QUICK, first=0)
    assert {work for work, _ in quick} == {work for work, _ in whole}
    assert not [
        work
        for work, _ in units_on(kind, ["directory"], quick=True, targets=QUICK, first=0)
        if "side" in work
    ]


def test_an_unknown_store_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--store", "tape"])
    assert "invalid choice: 'tape'" in capsys.readouterr().err
