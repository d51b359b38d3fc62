"""No secret leaves memory, wherever it was given; and each protection is missed where it is gone."""

from __future__ import annotations

import time

import pytest

from proofs.hostile import canaries
from proofs.hostile.part import WrongLine, hunt_attack
from proofs.hostile.searching import Outputs, canary, spellings

pytestmark = pytest.mark.process


@pytest.mark.slow
def test_no_canary_is_in_any_output() -> None:
    found = canaries.fixed()
    assert found.violations == []
    assert found.counts["outputs"] > 500


def test_no_password_is_missed_in_random_options() -> None:
    found = canaries.fuzz(time.monotonic() + 0.5, 1)
    assert found.violations == []
    assert found.counts["outputs"] > 10


@pytest.mark.sample(most=4)
@pytest.mark.parametrize("mutant", canaries.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_protection_is_missed(mutant: WrongLine) -> None:
    assert hunt_attack(mutant).caught


def test_a_canary_is_found_in_every_spelling() -> None:
    secret = canary(7)
    for form in spellings(secret):
        outputs = Outputs("here", {"key": secret})
        outputs.look("a text", b"before " + form + b" after")
        assert outputs.violations == ["here: the key is in a text"]
    outputs = Outputs("here", {"key": secret})
    outputs.look("another", canary(8))
    outputs.show("an error", ValueError("nothing"))
    assert outputs.violations == []
