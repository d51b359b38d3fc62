"""The hostile endpoint: nothing that it answers comes to harm, and each protection is needed."""

from __future__ import annotations

import pytest

from proofs.hostile import endpoint
from proofs.hostile.part import WrongLine, hunt_attack

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_no_lie_of_an_endpoint_comes_to_harm() -> None:
    found = endpoint.fixed()
    assert found.violations == []
    assert found.counts["answers"] > 1000


@pytest.mark.sample(most=4)
@pytest.mark.parametrize("mutant", endpoint.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_protection_is_missed(mutant: WrongLine) -> None:
    assert hunt_attack(mutant).caught
