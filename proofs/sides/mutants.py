"""The hunt for the mutants of the sides: each is noticed by its check, and not by one job and its rivals.

A mutant that only makes programs die of an exception has not been caught: a rule must be seen broken.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from proofs.crash.mutants import prepare_the_beaten_path, seen_on_the_beaten_path
from proofs.crash.patching import changed_functions, patched
from proofs.sides.checks import CHECKS
from proofs.sides.wrong_sides import SideMutant

__all__ = ["Hunted", "hunt_side"]


@dataclass(frozen=True, slots=True)
class Hunted:
    """How a mutant ended.

    Attributes:
        mutant: Its name.
        side: Its side.
        trouble: What gave it away; empty if nothing did.
        elsewhere: What gave it away without its side, where it should not be noticed.
        seconds: How long that took.
        problem: Why it could not be made, or what its check died of; empty if nothing.
    """

    mutant: str
    side: str
    trouble: str = ""
    elsewhere: str = ""
    seconds: float = 0.0
    problem: str = ""

    @property
    def caught(self) -> bool:
        """Whether its side noticed it, and nobody else."""
        return bool(self.trouble) and not self.elsewhere and not self.problem


def hunt_side(mutant: SideMutant, store: str = "s3") -> Hunted:
    """Play the mutant's check, and one job with its rivals, with the wrong line, on a kind of store."""
    begun, check = time.perf_counter(), CHECKS[mutant.check]
    wrong = mutant.module, mutant.line, mutant.instead
    try:
        changed_functions(*wrong)
    except ValueError as error:
        return Hunted(mutant.name, check.side, problem=str(error))
    prepare_the_beaten_path(store)
    trouble = elsewhere = problem = ""
    with patched(*wrong):
        try:
            trouble = check.play(store).trouble
        except Exception as error:  # noqa: BLE001 - that the code dies is no proof
            problem = repr(error)
        else:
            elsewhere = seen_on_the_beaten_path(store)
    return Hunted(mutant.name, check.side, trouble, elsewhere, time.perf_counter() - begun, problem)
