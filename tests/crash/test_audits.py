"""Audits, quarantine and acceptance: cut at every request and every pair, beside others, and mutants."""

from __future__ import annotations

import pytest

from proofs.crash import main
from proofs.crash.audit_cuts import (
    MEETINGS,
    audit_units,
    beside_audit,
    cut_audit,
    hunt_audit,
    work_audit,
)
from proofs.crash.audit_scene import STEPS, AuditScene, Step
from proofs.crash.figures import Figures, Targets
from proofs.crash.past_cuts import MODELS, PastTally
from proofs.crash.wrong_audit import AUDIT_MUTANTS, Rival, WrongAudit
from tests.sample import Some

SEEDS = 30


@pytest.mark.sample
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("model", MODELS)
def test_each_cut_shows_nothing_that_nobody_has_accepted(model: str, step: Step) -> None:
    tally = cut_audit(model, step, pairs=False)
    assert tally.findings == []
    assert tally.cuts >= 14
    assert tally.pairs == 0


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("thinner", [4, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("step", STEPS)
def test_nor_does_any_pair(step: Step, thinner: int) -> None:
    tally = cut_audit("full", step, every=thinner * (5 if step.startswith("accept") else 1))
    assert tally.findings == []
    assert tally.pairs > 500 // thinner // 2


@pytest.mark.sample(most=6)
@pytest.mark.parametrize(("step", "rival"), MEETINGS)
def test_beside_others_all_or_nothing_is_published_and_once(step: Step, rival: Rival, some: Some) -> None:
    begun = AuditScene.before("full", step)
    assert [one for seed in some(range(SEEDS), 8) for one in beside_audit(begun, rival, seed)] == []


def test_the_scene_comes_to_every_end() -> None:
    ends = set()
    for wish in ("forward", "back", "again"):
        scene = AuditScene.before("full", "judge")
        scene.stage(scene.play())
        assert scene.is_held()
        assert [one for one in scene.world.uploads.values() if scene.job in one.key]
        scene.stage(scene.settle(wish))
        scene.check_end()
        assert scene.violations == []
        ends.add((wish, scene.seen_new))
    assert ends == {("forward", True), ("back", False), ("again", True)}


@pytest.mark.sample(most=5)
@pytest.mark.parametrize("wrong", AUDIT_MUTANTS, ids=lambda one: one.name)
def test_a_wrong_line_is_noticed(wrong: WrongAudit) -> None:
    hunted = hunt_audit(wrong)
    assert hunted.caught, str(hunted)


def test_all_of_it_is_part_of_the_crash_loops() -> None:
    units = [what for _, what in audit_units(quick=False)]
    assert len(units) == len(MODELS) * len(STEPS) + len(MEETINGS) + len(AUDIT_MUTANTS)
    batch = main.units(["magic"], quick=True, targets=Targets(0, 0, 0, 0), first=0)
    quick = [unit for unit in batch if unit[0] == "audits"]
    assert quick == list(audit_units(quick=True))
    figures = Figures()
    figures.add(*main.work(quick[-1]))
    assert figures.document(Targets(0, 0, 0, 0), 1.0)["audits"]["mutants_caught"] == 1
    whole = work_audit("cuts", "full", "discard", 5)
    whole.add(work_audit("beside", "judge", "discard", 2))
    whole.add(work_audit("mutant", AUDIT_MUTANTS[0]))
    assert whole.ok
    assert whole.to_dict() | {"cuts": 0, "pairs": 0, "worlds": 0} == {
        "cuts": 0,
        "pairs": 0,
        "worlds": 0,
        "beside": 2,
        "mutants": 1,
        "mutants_caught": 1,
        "violations": 0,
    }


def test_a_mutant_that_nobody_notices_is_told() -> None:
    harmless = WrongAudit(
        "nothing is wrong",
        "magicfs.audit.extension",
        "if said.passed:",
        "if said.passed is True:",
        ("judge",),
    )
    found = work_audit("mutant", harmless)
    assert (found.ok, found.missed) == (False, ["nothing is wrong"])
    figures = Figures()
    figures.add(("audits", ()), found)
    figures.add(("audits", ()), PastTally(findings=["something"]))
    document = figures.document(Targets(0, 0, 0, 0), 1.0)
    assert (document["ok"], document["violations"]) == (False, 1)
    assert document["audits"]["mutants_caught"] == 0
