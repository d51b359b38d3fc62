"""The five crossings, case by case: each is a function that raises Wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Final

from proofs.hadoop.ground import Ground, Wrong

__all__ = ["CASES", "Case", "case", "play"]

Case = Callable[[Ground], None]
CASES: Final[dict[str, list[Case]]] = {letter: [] for letter in "abcde"}
"""By crossing."""


def case(letter: str) -> Callable[[Case], Case]:
    """Enter a function as a case of a crossing."""

    def enter(one: Case) -> Case:
        CASES[letter].append(one)
        return one

    return enter


def play(ground: Ground, letter: str, only: str = "") -> list[str]:
    """Play the cases of a crossing; returns what was wrong."""
    wrong = []
    for one in CASES[letter]:
        name = one.__name__.strip("_").replace("_", " ")
        if only not in name:
            continue
        ground.counts[letter] += 1
        try:
            one(ground)
        except Wrong as problem:
            wrong.append(f"{letter} {ground.jars.hadoop}: {name}: {problem}")
        except Exception:  # noqa: BLE001 - told, and the others go on
            wrong.append(f"{letter} {ground.jars.hadoop}: {name}: {traceback.format_exc()[-2500:]}")
    return wrong
