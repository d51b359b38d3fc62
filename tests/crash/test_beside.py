"""What scenes keep beside the store: a disk, and a cluster's filesystem whose calls can be cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pytest

from magicfs.protocol.ids import JobId
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind
from proofs.crash import beside
from proofs.crash.cluster_files import CLUSTER_URL, CURRENT, SceneTraffic
from proofs.crash.disk import Disk
from proofs.crash.snapshots import SnapshotWorld


@dataclass
class Scene:
    world: SnapshotWorld
    traffic: Traffic
    actor: Actor


@contextmanager
def running(*faults: Fault, world: SnapshotWorld | None = None) -> Iterator[Scene]:
    scene = Scene(world or SnapshotWorld(lambda: 0.0), SceneTraffic(faults), Actor("worker"))
    token = CURRENT.set(scene)
    try:
        yield scene
    finally:
        CURRENT.reset(token)


def test_disk_is_laid_as_it_was_taken(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk")
    disk.lay({"a": None, "a/b": b"b", "c": b""})
    kept = disk.take()
    (tmp_path / "disk" / "a" / "b").write_bytes(b"other")
    (tmp_path / "disk" / "d").mkdir()
    disk.lay(kept)
    assert disk.take() == kept == {"a": None, "a/b": b"b", "c": b""}


def test_cluster_files_are_files() -> None:
    fs, directory = fsspec.core.url_to_fs(CLUSTER_URL)
    with running() as scene:
        with pytest.raises(FileNotFoundError):
            fs.pipe_file(f"{directory}/a/one", b"1")
        fs.makedirs(f"{directory}/a/b", exist_ok=True)
        fs.pipe_file(f"{directory}/a/one", b"123")
        fs.pipe_file(f"{directory}/a/two", b"2")
        fs.mv(f"{directory}/a/one", f"{directory}/a/two")
        assert fs.cat_file(f"{directory}/a/two", start=0, end=2) == b"12"
        assert fs.ls(f"{directory}/a", detail=False) == [f"{directory}/a/b", f"{directory}/a/two"]
        assert fs.info(f"{directory}/a/b")["type"] == "directory"
        kept = scene.world.copy()
        fs.rm(f"{directory}/a", recursive=True)
        assert scene.world.cluster == {directory: None}
        assert not scene.world.same(kept)
        assert [one.operation for one in scene.traffic.log][-3:] == ["delete"] * 3
        with pytest.raises(FileNotFoundError):
            fs.info(f"{directory}/a")


@pytest.mark.parametrize("kind", Kind)
def test_every_fault_of_a_store_befalls_the_cluster(kind: Kind) -> None:
    fs, directory = fsspec.core.url_to_fs(CLUSTER_URL)
    with running(Fault(kind, operation="write")) as scene:
        fs.makedirs(directory)
        failed: type[BaseException] | None = None
        try:
            fs.pipe_file(f"{directory}/one", b"1")
        except (OSError, Crash) as error:
            failed = type(error)
        crashes = kind in {Kind.CRASH_BEFORE, Kind.CRASH_AFTER}
        quiet = kind in {Kind.DELAY, Kind.REFUSED}
        assert failed is (Crash if crashes else None if quiet else OSError)
        before = {Kind.CRASH_BEFORE, Kind.ERROR_BEFORE, Kind.THROTTLE, Kind.CONFLICT}
        assert (f"{directory}/one" in scene.world.cluster) == (kind not in before)
        assert scene.actor.dead == crashes
        if crashes:
            with pytest.raises(Crash):
                fs.info(directory)


def test_what_is_left_and_what_is_disturbed() -> None:
    before = SnapshotWorld(lambda: 0.0)
    beside.lay_neighbour(before, JobId("theirs"))
    now = before.copy()
    now.local = before.local | {"ours-attempt-000000-1": None, "ours-attempt-000000-1.lock": b"{}"}
    now.cluster["cluster/user/ours"] = None
    assert len(list(beside.left(now, "ours"))) == 3
    assert list(beside.disturbed(before, now, ["ours"])) == []
    del now.cluster["cluster/user/theirs/set"]
    now.local = {name: body for name, body in now.local.items() if name.endswith(".lock")}
    assert len(list(beside.disturbed(before, now, ["ours"]))) == 3
    assert len(list(beside.disturbed(before, now, []))) == 5
