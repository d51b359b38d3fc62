"""Forged records: nothing is done by their word outside of the job's place."""

from __future__ import annotations

import pytest

from proofs.hostile import records
from proofs.hostile.part import Attacked, hunt_attack


@pytest.mark.slow
def test_no_forged_record_is_obeyed() -> None:
    found = records.fixed()
    assert found.violations == []
    assert found.counts["records"] > 400


@pytest.mark.sample(most=4)
@pytest.mark.parametrize("mutant", records.MUTANTS, ids=lambda one: one.name)
def test_each_comparison_is_needed(mutant: Attacked) -> None:
    assert list(mutant.attack()) == []
    assert hunt_attack(mutant).caught
