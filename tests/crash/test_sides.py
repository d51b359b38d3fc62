"""The sides of the world: sound code holds, each mutant is caught by its side alone, no cell is empty."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from magicfs.stores.conditions import conditions_of
from proofs.crash.company import LIMITS
from proofs.crash.mutants import prepare_the_beaten_path, seen_on_the_beaten_path
from proofs.crash.names import FORMS
from proofs.crash.simulation import Result
from proofs.crash.store_models import KINDS, MODELS, world_of
from proofs.crash.wrong_lines import CrashMutant
from proofs.crash.wrong_stores import STORE_MUTANTS
from proofs.scenes.job_scene import JobScene
from proofs.scenes.mutants import Hunted, changed_functions
from proofs.scenes.trouble import Trouble
from proofs.sides import checks, main, mutants, table
from proofs.sides.checks import CHECKS, Check, Played
from proofs.sides.mutants import hunt_side
from proofs.sides.table import SIDE_OF_COMPANY, SIDES, Sides
from proofs.sides.wrong_sides import SIDE_MUTANTS, SideMutant

OTHERS = [kind for kind in KINDS if kind != "s3"]
LONG = {name for name, one in CHECKS.items() if one.side == "a" or name.startswith("Ctrl-C")}


@pytest.mark.sample(most=12)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("store", KINDS)
@pytest.mark.parametrize("name", sorted(CHECKS.keys() - LONG))
def test_sound_code_holds(name: str, store: str) -> None:
    played = CHECKS[name].play(store)
    assert not played.trouble
    assert played.scenes


@pytest.mark.slow
@pytest.mark.sample(most=3)
@pytest.mark.parametrize("name", [one for one in CHECKS if CHECKS[one].side == "a"])
def test_sound_code_holds_beside_commands(name: str) -> None:
    assert not CHECKS[name].play().trouble


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.sample(most=3)
@pytest.mark.parametrize("mutant", SIDE_MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_is_caught_by_its_side_alone(mutant: SideMutant) -> None:
    functions = [function for function, _ in changed_functions(mutant.module, mutant.line, mutant.instead)]
    before = [function.__code__ for function in functions]
    hunted = hunt_side(mutant)
    assert hunted.caught, hunted
    assert [function.__code__ for function in functions] == before


@pytest.mark.slow
@pytest.mark.sample(most=2)
@pytest.mark.parametrize("store", OTHERS)
@pytest.mark.parametrize("name", ["no job: sweep beside sweep", "Ctrl-C: magic, append"])
def test_sound_code_holds_beside_a_command_and_ctrl_c_on_other_stores(name: str, store: str) -> None:
    assert CHECKS[name].play(store).scenes > 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.sample(most=2)
@pytest.mark.parametrize("side", ["a", "d", "e"])
@pytest.mark.parametrize("store", OTHERS)
def test_a_mutant_of_each_side_is_caught_on_other_stores(store: str, side: str) -> None:
    of_side = [mutant for mutant in SIDE_MUTANTS if CHECKS[mutant.check].side == side]
    hunted = hunt_side(of_side[-1], store)
    assert hunted.caught, hunted


@pytest.mark.parametrize("store", KINDS)
def test_a_check_meets_the_store_that_is_asked_for(store: str) -> None:
    seen = []

    def scenes(kind: str) -> Iterator[int]:
        seen.append(JobScene(world=world_of(kind)))
        yield 1

    Check("d", "x", scenes).play(store)
    [scene] = seen
    assert scene.filesystem.store("bucket").capabilities.uploads.days == MODELS[KINDS[store][0]].upload_days
    first, second = (asyncio.run(scene.filesystem.store("bucket").put("a", b"same")).etag for _ in range(2))
    assert (first == second) == (store in {"s3", "wire"})  # both are S3: equal bytes have equal ETags
    probed = asyncio.run(conditions_of(scene.filesystem.store("bucket"), "x"))
    assert probed == scene.conditions == MODELS[KINDS[store][0]].honoured


def test_the_beaten_path_is_that_of_the_store() -> None:
    [mutant] = (one for one in STORE_MUTANTS["gcs"] if one.letter == "f")
    for store in ("s3", "gcs"):
        prepare_the_beaten_path(store)
    with mutant.wrong():
        assert seen_on_the_beaten_path("gcs")
        assert not seen_on_the_beaten_path("s3")


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("store", KINDS)
def test_sound_code_holds_on_the_beaten_path(store: str) -> None:
    assert seen_on_the_beaten_path(store) == ""


def test_a_mutant_that_one_job_and_its_rivals_notice_is_not_of_a_side() -> None:
    everybodys = SideMutant(
        "replace sees the first page only",
        "magicfs.transaction.planning",
        "async for info in engine.store.list(paths.prefix_of(directory)):",
        "async for info in engine.store.list(paths.prefix_of(directory), limit=1):",
        "not_committed",
    )
    hunted = hunt_side(everybodys)
    assert hunted.elsewhere
    assert not hunted.caught


def test_a_mutant_of_which_code_dies_is_not_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies() -> list[int]:
        raise ZeroDivisionError

    monkeypatch.setattr(mutants, "CHECKS", {"late": Check("d", "late", lambda _: iter(dies()))})
    [mutant] = (one for one in SIDE_MUTANTS if one.check == "late")
    hunted = hunt_side(mutant)
    assert (hunted.caught, hunted.problem) == (False, "ZeroDivisionError()")


def test_a_line_that_is_not_there_makes_no_mutant() -> None:
    hunted = hunt_side(SideMutant("nothing", "magicfs.job.job", "no such line", "pass", "late"))
    assert "correct the mutant" in hunted.problem
    assert not hunted.caught


def test_each_of_these_sides_has_checks_and_mutants() -> None:
    settings = Counter(one.side for one in CHECKS.values())
    caught = Counter(CHECKS[one.check].side for one in SIDE_MUTANTS)
    assert settings.keys() == caught.keys() == {"a", "d", "e"}
    assert min(settings.values()) >= 5
    assert min(caught.values()) >= 3


# -- the table -----------------------------------------------------------------------------------------


def side(check: str, **how: str) -> Hunted[SideMutant]:
    return Hunted(SideMutant("one", "module", "line", "instead", check), **how)  # type: ignore[arg-type]


def far(way: str, **how: str) -> Hunted[CrashMutant]:
    return Hunted(CrashMutant("one", "module", "line", "instead", "a", (), way), **how)  # type: ignore[arg-type]


def full() -> Sides:
    found = Sides()
    for name in ("late", "parts", "no job: compact beside compact"):
        found.add_check(name, Played(2))
        found.add_hunted(side(name, seen="noticed"))
    found.add_destinations(Result(jobs=2, endings=Counter({"parent, published": 1, "extra, published": 1})))
    found.add_company("names", Result(jobs=3))
    for way in ("elsewhere", "names", "singles"):
        found.add_far(far(way, seen="noticed"))
    return found


def test_the_table_has_every_side() -> None:
    found = full()
    assert found.table().keys() == set(SIDES)
    assert found.table()["b"] == {"settings": 2, "scenes": 2, "mutants": 1, "caught": 1}
    assert found.table()["c"] == {"settings": len(FORMS), "scenes": 3, "mutants": 1, "caught": 1}
    assert (found.empty, found.whole) == (0, True)


def test_what_companies_and_checks_bring_to_a_side_is_added_up() -> None:
    found = Sides(ways=SIDE_OF_COMPANY)
    found.add_check("parts", Played(2))
    for _ in range(2):
        found.add_company("limits", Result(jobs=3))
    assert found.table()["e"] == {"settings": len(LIMITS) + 1, "scenes": 8, "mutants": 0, "caught": 0}


@pytest.mark.parametrize("side", SIDES)
def test_an_empty_cell_fails(side: str) -> None:
    for column in table.COLUMNS:
        found = full()
        found.cells[side, column] = 0
        assert not found.whole, (side, column)
        assert any("EMPTY" in line for line in found.lines())


def test_what_is_broken_or_not_caught_or_caught_by_others_fails() -> None:
    for name, played in (("late", Played(1, "rows are gone")), ("late", Played(0))):
        found = full()
        found.add_check(name, played)
        assert not found.whole
    for hunted in (
        side("late"),
        side("late", seen="x", problem="p"),
        side("late", seen="x", elsewhere="y"),
    ):
        found = full()
        found.add_hunted(hunted)
        assert not found.whole
    found = full()
    found.add_far(far("names", seen="noticed", elsewhere="also"))
    assert not found.whole


def test_the_command_prints_the_table_and_the_figures_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: CHECKS[name] for name in ("parts", "job_objects")}
    monkeypatch.setattr(main, "CHECKS", few)
    monkeypatch.setattr(main, "SIDE_MUTANTS", [one for one in SIDE_MUTANTS if one.check == "parts"])
    assert main.main(["--side", "e"]) == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out.splitlines()[-1])
    assert figures["sides"] == {"e": {"settings": 2, "scenes": 7, "mutants": 1, "caught": 1}}
    assert figures["ok"] is True
    assert "a chunk may have more parts" in printed.err
    monkeypatch.setattr(main, "SIDE_MUTANTS", [])
    assert main.main(["--side", "e"]) == 1
    assert '"empty":2' in capsys.readouterr().out


def test_a_check_ends_with_the_first_trouble() -> None:
    def scenes() -> list[int]:
        raise Trouble("broken")

    assert Check("d", "x", lambda _: iter([1, 2])).play() == Played(3)
    assert Check("d", "x", lambda _: iter(scenes())).play() == Played(0, "broken")
    assert checks.Played(1).trouble == ""


def test_patched_code_is_sound_again_after_a_hunt() -> None:
    [mutant] = (one for one in SIDE_MUTANTS if one.check == "parts")
    with mutant.wrong():
        assert CHECKS[mutant.check].play().trouble
    assert not CHECKS[mutant.check].play().trouble
