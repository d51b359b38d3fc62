"""Jobs that wait for days, and files that somebody writes amid a commit: wrong code shows."""

from __future__ import annotations

import shlex

import pytest

from proofs.crash import days, dropped
from proofs.crash.days import HOURS, complaint, is_going
from proofs.crash.mutants import hunt_crash, reproduced
from proofs.crash.past import before_of
from proofs.crash.settings import Setting, all_settings
from proofs.crash.simulation import Simulation
from proofs.crash.store_models import KINDS
from proofs.crash.wrong_lines import CrashMutant
from proofs.crash.wrong_stores import STORE_MUTANTS

EQUAL = Setting(mode="overwrite", names="equal", store="azure")
UNIQUE = Setting(shape="three", store="azure")
EVERY = [(kind, mutant) for kind, mutants in STORE_MUTANTS.items() for mutant in mutants]


def mutant_named(name: str) -> CrashMutant:
    [found] = (one for _, one in EVERY if one.name == name)
    return found


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("kind", KINDS)
def test_jobs_that_wait_hold(kind: str) -> None:
    settings = list(all_settings(kind=kind))[::31]
    staged = list(all_settings("directory", kind))[::101]
    for setting in (*settings, *staged):
        grid = dropped.waited_of(setting)
        assert [str(one) for one in grid.findings] == []
        if setting.tracking != "small":  # what has no upload may wait
            assert (grid.cuts > len(HOURS)) == (kind == "azure"), setting


@pytest.mark.parametrize("setting", [EQUAL, UNIQUE], ids=["equal names", "unique names"])
def test_a_job_that_is_cut_after_days_has_no_uploads_left_or_all_of_them(setting: Setting) -> None:
    driver = dropped.grid.recorded_job(setting, days.CUT_H[0])
    moments = list(dropped._moments(driver))
    assert moments
    expired, states = set(), set()
    for moment, _ in moments:
        scene = dropped._later(driver.scene, moment)
        expired.add(bool(scene.world.expired - driver.scene.world.expired))
        states.add(scene.history.states[-1])
    assert expired == {setting == UNIQUE}
    assert states == {"reverting" if setting == UNIQUE else "completed"}
    assert list(dropped._moments(dropped.grid.recorded_job(setting, days.CUT_H[1]))) == []


def test_files_that_somebody_writes_amid_a_commit_stay() -> None:
    with_uploads = [one for one in all_settings(kind="azure") if one.tracking != "small"]
    for setting in [one for one in with_uploads if one.names == "unique"][::31]:
        grid = dropped.overwritten_of(setting)
        assert grid.cuts
        assert [str(one) for one in grid.findings] == []
    for kind in ("gcs", "azure", "local"):
        grid = dropped.rewritten_of(Setting(mode="overwrite", store=KINDS[kind][0]))
        assert grid.cuts
        assert [str(one) for one in grid.findings] == []


def test_on_s3_equal_bytes_are_one_object() -> None:
    """Why that is tried on other stores alone."""
    assert dropped.rewritten_of(Setting(mode="overwrite")).findings


@pytest.mark.sample(most=4)
@pytest.mark.parametrize(("kind", "mutant"), EVERY, ids=lambda one: getattr(one, "name", one))
def test_a_mutant_of_a_store_is_caught_there_and_reproduced(kind: str, mutant: CrashMutant) -> None:
    assert {job.store for job in mutant.jobs} == {kind}
    hunted = hunt_crash(mutant)
    assert hunted.caught, str(hunted)
    letters = {one.letter for one in reproduced(shlex.split(hunted.seen)[-1]).violations}
    assert mutant.letter in letters


def test_without_half_a_day_to_spare_a_commit_loses_its_uploads() -> None:
    mutant = mutant_named("a job is taken until its uploads go")
    before_of(EQUAL)
    with mutant.wrong():
        findings = dropped.waited_of(EQUAL).findings
    lost = [one for one in findings if one.reproduction.startswith("later:")]
    assert any("neither old nor new" in one.violation.text for one in lost)


def test_simulated_jobs_that_wait_notice_it() -> None:
    mutant = mutant_named("a job is taken until its uploads go")
    seeds = [f"azure@days-{number}" for number in range(40)]

    def noticed() -> list[str]:
        simulations = [Simulation.of(seed) for seed in seeds]
        for simulation in simulations:
            simulation.run()
        return [one.text for simulation in simulations for one in simulation.violations]

    assert noticed() == []
    with mutant.wrong():
        assert any("hours after its tasks" in text for text in noticed())


def test_simulated_jobs_wait_on_every_store() -> None:
    for kind in KINDS:
        before = "" if kind == "s3" else f"{kind}@"
        assert any(_has_waited(f"{before}days-{number}") for number in range(1, 5)), kind


def _has_waited(seed: str) -> bool:
    simulation = Simulation.of(seed)
    began = simulation.clock.now
    simulation.run()
    return simulation.clock.now - began > min(HOURS) * 3600


@pytest.mark.parametrize(
    ("hours", "upload_days", "committing", "warnings", "is_wrong"),
    [
        (30, 7, True, (), False),
        (30, 7, True, ("the store keeps uploads for 7 days",), True),
        (121, 7, True, ("the store keeps uploads for 7 days",), False),
        (121, 7, True, (), True),
        (121, 7, True, None, False),
        (157, 7, False, None, False),
        (157, 7, True, None, True),
        (200, None, True, (), False),
        (200, None, True, ("the store keeps uploads for 7 days",), True),
    ],
)
def test_what_must_become_of_a_job_that_waits(
    hours: int, upload_days: int | None, committing: bool, warnings: tuple[str, ...] | None, is_wrong: bool
) -> None:
    assert bool(complaint(hours, upload_days, committing=committing, warnings=warnings)) == is_wrong
    assert is_going(hours, upload_days) == (upload_days == 7 and hours > 156)


def test_what_reproduces_nothing_is_refused() -> None:
    for text in (f"waited:{EQUAL.text}", f"later:{EQUAL.text}:155:1", f"rewritten:{EQUAL.text}:1:never"):
        with pytest.raises(ValueError, match="reproduces nothing"):
            reproduced(text)
    for text in (f"overwritten:{UNIQUE.text}:1:before", f"rewritten:{UNIQUE.text}:1:before"):
        with pytest.raises(ValueError, match="at this moment"):
            reproduced(text)
