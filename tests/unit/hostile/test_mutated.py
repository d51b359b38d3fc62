from __future__ import annotations

import time

import pytest

from proofs.hostile import mutated
from proofs.hostile.part import WrongLine, hunt_attack


@pytest.mark.slow
def test_fixed_attacks_find_nothing() -> None:
    found = mutated.fixed()
    assert found.violations == []
    assert found.counts["inputs"] >= 4000


def test_attacks_are_drawn_until_a_moment() -> None:
    found = mutated.fuzz(time.monotonic() + 0.3, 36)
    assert found.violations == []
    assert found.counts["inputs"]


@pytest.mark.sample(most=4)
@pytest.mark.parametrize("mutant", mutated.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_bound_is_noticed_when_it_is_gone(mutant: WrongLine) -> None:
    assert not mutant.attack()
    assert hunt_attack(mutant).caught
