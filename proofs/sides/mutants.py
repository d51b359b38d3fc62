"""The hunt for the mutants of the sides: each is noticed by its check, and not by one job and its rivals."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from proofs.crash.mutants import prepare_the_beaten_path, seen_on_the_beaten_path
from proofs.scenes.mutants import Hunted, Sound, hunt
from proofs.sides.checks import CHECKS
from proofs.sides.wrong_sides import SideMutant

__all__ = ["hunt_side"]


def hunt_side(mutant: SideMutant, store: str = "s3") -> Hunted[SideMutant]:
    """Play the mutant's check, and one job with its rivals, with the wrong line, on a kind of store."""

    def look(_: Sound) -> Iterator[str]:
        yield CHECKS[mutant.check].play(store).trouble

    prepare_the_beaten_path(store)
    return hunt(mutant, look, partial(seen_on_the_beaten_path, store))
