"""Machines whose clocks are hours apart: the clock of the store, which all share, decides what is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

import magicfs
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.stores.conditions import sweep_probes
from magicfs.stores.memory.store import World
from proofs.scenes.job_scene import JobScene

DEST = "env=prod/día 50% + #1"
HOUR_S = 3600.0
PROBE = "_magicfs/probe-0123456789abcdef"


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


@contextmanager
def clock_off_by(hours: float) -> Iterator[None]:
    """The machine's clock; the store's is right."""
    right = time.time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: right() + hours * HOUR_S)
        yield


def keep(scene: JobScene, period: str) -> magicfs.Job:
    scene.published({"a.bin": b"1"})
    return scene.published({"a.bin": b"2"}, mode="overwrite", keep=period)


@pytest.mark.parametrize(("driver", "machine"), [(-8, 0), (0, 8), (-8, 8), (0, 0)])
def test_no_file_goes_before_its_time(scene: JobScene, driver: float, machine: float) -> None:
    with clock_off_by(driver):
        keep(scene, "7h")
    with clock_off_by(machine):
        for dry_run in (True, False):
            if dry_run and machine:
                continue  # it writes nothing, so it does not learn the time of the store
            report = magicfs.Dataset(scene.url, filesystem=scene.filesystem).expire(dry_run=dry_run)
            assert (report.files, report.keeping) == (0, 1)
    assert (scene.aside(), scene.bodies()) == ([b"1"], [b"2"])
    seen = scene.elsewhere(lambda engine: chain.read_pointer(engine.store, DEST, READING))
    assert seen is not None
    assert not any(one.expires for one in seen[0].keeping)


@pytest.mark.parametrize(("driver", "machine"), [(-8, 0), (0, 8), (-8, 8), (0, 0)])
def test_files_go_once_it_is_over(scene: JobScene, driver: float, machine: float) -> None:
    with clock_off_by(driver):
        second = keep(scene, "1s")
    time.sleep(1.05)
    with clock_off_by(machine):
        report = magicfs.Dataset(scene.url, filesystem=scene.filesystem).expire()
    assert (report.jobs, report.files, report.keeping) == ((second.id,), 1, 0)
    assert (scene.aside(), scene.bodies()) == ([], [b"2"])
    scene.published({"a.bin": b"3"}, mode="overwrite")
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
    assert scene.work() == []


@pytest.mark.parametrize("hours", [0, 2, 24])
def test_a_trial_that_is_at_work_is_left_by_a_machine_that_is_ahead(scene: JobScene, hours: float) -> None:
    scene.put(PROBE)
    upload = scene.elsewhere(lambda engine: engine.store.create_upload(f"{DEST}/{PROBE}-upload", metadata={}))
    assert upload
    before = sorted(scene.below())
    with clock_off_by(hours):
        assert asyncio.run(sweep_probes(scene.plain, f"{DEST}/_magicfs")) == 0
    assert sorted(scene.below()) == before
    assert len(scene.uploads()) == 1


def test_a_store_that_names_whole_seconds_delays_nothing() -> None:
    scene = JobScene(DEST, world=World(clock=lambda: float(int(time.time()))))
    for _ in range(20):  # at different parts of a second
        scene.published({"b.bin": b"2"}, mode="overwrite", keep=timedelta(milliseconds=1))
        time.sleep(0.05)
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).expire().keeping == 0
        assert scene.bodies() == [b"2"]
