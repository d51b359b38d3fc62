from __future__ import annotations

import time

import pytest

from proofs.hostile import sealed
from proofs.hostile.part import WrongLine, hunt_attack


@pytest.mark.slow
def test_no_record_of_others_is_taken_apart() -> None:
    found = sealed.fixed()
    assert found.violations == []
    assert found.counts["sealed"] >= 200


def test_attacks_are_drawn_until_a_moment() -> None:
    found = sealed.fuzz(time.monotonic() + 2, 42)
    assert found.violations == []
    assert found.counts["sealed"]


@pytest.mark.sample(most=4)
@pytest.mark.parametrize("mutant", sealed.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_check_is_missed_when_it_is_gone(mutant: WrongLine) -> None:
    assert not mutant.attack()
    assert hunt_attack(mutant).caught
