"""The quick version of the crash environment, and that what it prints can be believed."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from proofs.crash import grid
from proofs.crash import main as crash
from proofs.crash.classic import CLASSIC, played, promises_of
from proofs.crash.drawing import DRIVEN
from proofs.crash.figures import Targets
from proofs.crash.grid import PLANS
from proofs.crash.main import COMMITTERS, main, mutants_of, units
from proofs.crash.mutants import ALL_MUTANTS
from proofs.crash.settings import BY_TASKS, Setting, all_settings
from proofs.crash.simulation import Simulation
from proofs.crash.wrong_bundles import BUNDLE_MUTANTS
from proofs.crash.wrong_company import COMPANY_MUTANTS
from proofs.crash.wrong_lines import MUTANTS, CrashMutant
from proofs.crash.wrong_places import FAR_MUTANTS
from proofs.crash.wrong_renames import RENAME_MUTANTS
from proofs.guarantees.main import declared
from proofs.scenes.mutants import changed_functions, patched
from proofs.sides.table import SIDES
from proofs.sides.wrong_sides import SIDE_MUTANTS
from tests.sample import Some

STEP = 7
COUNTS = {"mutant": 4, "singles": 3, "pairs": 3}


def thinned(*arguments: Any, **options: Any) -> list[tuple[str, Any]]:
    """The quick version with every setting and mutant, and every seventh cut where it makes all of them."""
    whole = {"singles": 1, "pairs": 2}
    return [
        (kind, (*what, STEP) if kind in whole and len(what) == whole[kind] else what)
        for kind, what in units(*arguments, **options)
    ]


def test_some_of_everything_quickly(some: Some, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each kind of work a few units; those of the sides and of the past are in the tests beside this."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    targets = Targets(100, 1_000, simulated_jobs=100, staged_jobs=40, elsewhere=50)
    kinds: dict[str, list[Any]] = {}
    for unit in thinned(COMMITTERS, quick=True, targets=targets, first=0):
        kinds.setdefault(unit[0], []).append(unit)
    assert kinds.keys() > {"singles", "pairs", "mutant", "side", "side mutant", "past", "audits", "classic"}
    taken = [unit for kind, of in kinds.items() for unit in some(of, COUNTS.get(kind, 2))]
    figures = crash.run(taken, "s3")
    assert figures.violations == 0, [str(one) for one in figures.findings]
    assert [one for one in figures.hunted if not one.caught] == []
    assert len(figures.hunted) >= 4
    assert figures.driven
    assert figures.driven.keys() <= set(COMMITTERS)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_everything_quickly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr(crash, "units", thinned)
    monkeypatch.setattr(
        crash, "_QUICK", Targets(100, 1_000, simulated_jobs=100, staged_jobs=40, elsewhere=50)
    )
    status = main(["--quick"])
    printed = capsys.readouterr()
    figures = json.loads(printed.out.splitlines()[-1])
    told = printed.err[-6000:]
    assert figures["violations"] == 0, told
    assert figures["mutants_caught"] == figures["mutants"] == len(ALL_MUTANTS) >= 15 + 2, told
    assert figures["without_swap_violations"] > 0
    assert figures["sides"].keys() == set(SIDES)
    for side, of in figures["sides"].items():
        assert all(of.values()), (side, told)
        assert of["mutants"] == of["caught"], (side, told)
    assert sum(of["mutants"] for of in figures["sides"].values()) == len(SIDE_MUTANTS) + len(FAR_MUTANTS)
    assert figures["committers"].keys() == set(COMMITTERS)
    for committer in DRIVEN:
        driven = figures["committers"][committer]
        assert driven.pop("violations") == 0, told
        assert all(driven[name] > 0 for name in ("single_cuts", "pairs", "simulated_jobs")), driven
    for name, subject in CLASSIC.items():
        of, promises = figures["committers"][name], declared(subject)
        weak = any(not promises[promise] for promise in promises_of())
        assert of["declared"] is True, told
        assert bool(of["violations"]) == weak, told
        assert of["single_cuts"] > len(list(promises_of()))
    assert figures["ok"] is True
    assert status == 0


def test_some_committers_are_asked_for() -> None:
    assert mutants_of(["magic"]) == [*MUTANTS, *FAR_MUTANTS, *COMPANY_MUTANTS, *BUNDLE_MUTANTS]
    assert all(one in RENAME_MUTANTS for one in mutants_of(["file-v2"]))
    assert len(mutants_of(["file-v2"])) == 2
    some = units(["direct"], quick=True, targets=Targets(0, 0, 0, 0), first=0)
    assert {(kind, what[0]) for kind, what in some} == {("classic", "direct")}
    with pytest.raises(SystemExit):
        main(["--committer", "nobody"])


def test_every_value_of_every_dimension_is_cut_quickly() -> None:
    every = list(all_settings())
    assert len(every) == len({one.text for one in every}) > 200
    for step in (19, 23):
        chosen = every[::step]
        for name in ("layout", "tracking", "winners", "mode", "shape", "store"):
            assert {getattr(one, name) for one in chosen} == {getattr(one, name) for one in every}, (
                step,
                name,
            )
    assert {one.mode for one in all_settings(BY_TASKS)} == {"error", "append"}
    for committer in ("directory", "partitioned"):
        every = list(all_settings(committer))
        for name in ("layout", "tracking", "winners", "mode", "shape", "store", "names"):
            assert {getattr(one, name) for one in every[::17]} == {getattr(one, name) for one in every}, name


def test_settings_are_read_back() -> None:
    for setting in (one for committer in (*DRIVEN, BY_TASKS) for one in all_settings(committer)):
        assert Setting.of(setting.text) == setting
    with pytest.raises(ValueError, match="should read like"):
        Setting.of("a,b")


@pytest.mark.parametrize(
    "setting",
    [
        Setting(mode="append"),
        Setting(mode="overwrite"),
        Setting(mode="overwrite", committer="directory"),
        Setting(tracking="cluster", committer="partitioned", shape="losers"),
        Setting(committer="file-v2", store="local"),
    ],
    ids=lambda setting: setting.text,
)
def test_a_pair_by_snapshots_is_a_pair_by_crashes(setting: Setting) -> None:
    """What a crash leaves is the world at its moment: played both ways, the end is the same."""
    driver = grid.recorded_job(setting)
    for moment, cuts in list(driver.worlds())[::4]:
        number, side = cuts[0]
        crashed = grid.Scene.new(setting)

        async def cut(scene: grid.Scene = crashed, number: int = number, side: str = side) -> None:
            scene.watch(faults=[grid.Fault(grid._KINDS[side], number=number)])  # type: ignore[index]
            await scene.play_job()

        crashed.stage(cut())
        assert moment.same(crashed.world), (number, side)
        assert moment.history.states == crashed.history.states


def test_reproductions_run_again() -> None:
    setting = Setting(mode="overwrite").text
    expiring = Setting(shape="three")
    commits = [
        cuts[0]
        for moment, cuts in grid.recorded_job(expiring).worlds()
        if moment.history.state == "committing"
    ]
    for text in (
        f"whole:{setting}",
        f"single:{setting}:40:after:rollback",
        f"expired:{expiring.text}:{commits[0][0]}:{commits[0][1]}",
        f"driver:{setting}:50:before:forward",
        f"pair:{setting}:50:before:forward:5:after:rollback",
    ):
        scene = grid.reproduce(text)
        assert scene.traffic.count > 0
        assert not scene.violations, text
    assert len(PLANS) == 5


def test_a_run_of_a_classic_committer_is_made_again() -> None:
    for text, is_seen in (
        ("classic:direct:memory:abortable_job:0:loser, cut after 1", True),
        ("classic:file-v2:local:recoverable_job:0:loser, cut after 1", False),
    ):
        assert (played(text) is not None) == is_seen


def test_a_seed_is_a_run() -> None:
    def ran(seed: str) -> tuple[object, ...]:
        simulation = Simulation.of(seed)
        simulation.run()
        keys = tuple(sorted(simulation.world.objects))
        return tuple(simulation.traffic.log), keys, simulation.violations

    assert ran("7") == ran("7")
    assert ran("7") != ran("8")
    assert ran("directory.7") == ran("directory.7")


def test_what_reproduces_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["PYTHONHASHSEED"], before = "0", os.environ.get("PYTHONHASHSEED")
    try:
        for text in (
            *("nothing", "single:a:b", f"pair:{Setting().text}:1", "no such|whole:x", "simulated:direct.1"),
            *("classic:direct", "classic:magic:memory:abortable_job:0:abort, cut before 1"),
        ):
            assert main(["--reproduce", text]) == 2
            assert capsys.readouterr().err.strip()
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before


@pytest.mark.parametrize("mutant", ALL_MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_can_be_made_and_unmade(mutant: CrashMutant) -> None:
    functions = [f for f, _ in changed_functions(mutant.module, mutant.line, mutant.instead)]
    before = [function.__code__ for function in functions]
    with mutant.wrong() as sound:
        assert [function.__code__ for function in functions] != before
        with sound():
            assert [function.__code__ for function in functions] == before
        assert [function.__code__ for function in functions] != before
    assert [function.__code__ for function in functions] == before


def test_a_line_that_is_not_there_makes_no_mutant() -> None:
    for line, instead in (("no such line", "pass"), ("return self._done", "return self._done")):
        with (
            pytest.raises(ValueError, match=r"lines|changes nothing"),
            patched("magicfs.transaction.execute", line, instead),
        ):
            pytest.fail("there is nothing to patch")
