"""Links, pipes and other people's files in every place of local files."""

from __future__ import annotations

import pytest

from proofs.hostile import local_places
from proofs.hostile.part import WrongLine, hunt_attack


# In the gate the attacks that each notice a mutant are made on sound code, too.
@pytest.mark.nightly
@pytest.mark.slow
def test_nothing_that_lies_in_the_way_is_followed_waited_for_or_obeyed() -> None:
    done = local_places.fixed()
    assert done.violations == []
    assert done.counts["local_cases"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("mutant", local_places.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_protection_is_missed(mutant: WrongLine) -> None:
    assert list(mutant.attack()) == []
    assert hunt_attack(mutant).caught
