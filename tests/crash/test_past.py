"""Rollbacks, drops, rewrites, expiries and jobs that keep: cut at every request and pair, beside others."""

from __future__ import annotations

import pytest

from proofs.crash.log_cuts import TRIALS
from proofs.crash.past_cuts import (
    MEETINGS_OF_VERSIONS,
    MODELS,
    OF_VERSIONS,
    PAST_MEETINGS,
    VERSIONS,
    beside,
    cut_past,
    hunt_past,
    past_units,
    work_past,
)
from proofs.crash.past_deeds import DEEDS, Deed
from proofs.crash.past_scene import PastScene
from proofs.crash.wrong_log import LOG_MUTANTS
from proofs.crash.wrong_past import PAST_MUTANTS, Other, WrongPast
from tests.sample import Some

SEEDS = 30


@pytest.mark.sample
@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("model", MODELS)
def test_each_cut_leaves_exactly_old_or_new_and_what_is_promised(model: str, deed: Deed) -> None:
    tally = cut_past(model, deed, pairs=False)
    assert tally.findings == []
    assert tally.cuts >= 40
    assert tally.pairs == 0


@pytest.mark.sample
@pytest.mark.parametrize("deed", OF_VERSIONS)
def test_each_cut_in_a_bucket_with_versions_too(deed: Deed) -> None:
    tally = cut_past(VERSIONS, deed, step=1 if deed in {"rollback", "expire", "keep"} else 4, pairs=False)
    assert tally.findings == []
    assert tally.cuts >= 40


@pytest.mark.sample
@pytest.mark.parametrize(("deed", "other"), MEETINGS_OF_VERSIONS)
def test_two_at_once_in_a_bucket_with_versions_too(deed: Deed, other: Other) -> None:
    begun = PastScene.begin(VERSIONS, deed)
    assert [one for seed in range(SEEDS // 3) for one in beside(begun, other, seed)] == []


@pytest.mark.nightly
@pytest.mark.parametrize("deed", ["rollback", "rollback that keeps", "expire", "keep"])
def test_each_pair_in_a_bucket_with_versions_too(deed: Deed) -> None:
    tally = cut_past(VERSIONS, deed, step=5)
    assert tally.findings == []
    assert tally.pairs > 100


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("thinner", [4, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("deed", ["rollback", "expire", "partitions", "drop", "rewrite"])
def test_so_does_each_pair(deed: Deed, thinner: int) -> None:
    tally = cut_past("full", deed, step=thinner * (1 if deed == "expire" else 5))
    assert tally.findings == []
    assert tally.pairs > 100 // thinner


@pytest.mark.sample(most=6)
@pytest.mark.parametrize(("deed", "other"), PAST_MEETINGS)
def test_two_at_once_come_to_what_one_after_the_other_comes_to(deed: Deed, other: Other, some: Some) -> None:
    begun = PastScene.begin("full", deed)
    assert [one for seed in some(range(SEEDS), 8) for one in beside(begun, other, seed)] == []


@pytest.mark.sample(most=5)
@pytest.mark.parametrize("wrong", PAST_MUTANTS, ids=lambda one: one.name)
def test_a_wrong_line_is_noticed(wrong: WrongPast) -> None:
    hunted = hunt_past(wrong)
    assert hunted.caught, str(hunted)


def test_all_of_it_is_part_of_the_crash_loops() -> None:
    units = [what for _, what in past_units(quick=False)]
    of_logs = len(TRIALS) + len(LOG_MUTANTS)
    cut = len(MODELS) * len(DEEDS) + len(OF_VERSIONS)
    met = len(PAST_MEETINGS) + len(MEETINGS_OF_VERSIONS)
    assert len(units) == cut + met + len(PAST_MUTANTS) + of_logs
    whole = work_past("cuts", "full", "expire", 1)
    whole.add(work_past("beside", "rollback", "tag", 2))
    whole.add(work_past("mutant", PAST_MUTANTS[0]))
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
    harmless = WrongPast(
        "nothing is wrong",
        "magicfs.past.expire",
        "left = [one for one in left if not one.expires]",
        "left = [one for one in left if one.expires is False]",
        ("expire",),
    )
    found = work_past("mutant", harmless)
    assert (found.ok, found.missed) == (False, ["nothing is wrong"])
