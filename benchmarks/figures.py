"""Measured values: medians, spread, ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

__all__ = ["Figure", "Sample", "ratio_of"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one phase of one turn took, in seconds."""

    wall_s: float
    cpu_s: float  # processor time of the side: user and system, all its threads and the programs it ran
    server_cpu_s: float = 0.0  # of the server, in the same time


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of some rounds, and how far they lie apart."""

    value: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The median and the spread of one value a round."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    @classmethod
    def exact(cls, value: float) -> Self:
        """A value that is the same in every round, such as one of a simulation."""
        return cls(value, value, value, 1)


def ratio_of(numerators: Sequence[float], denominators: Sequence[float]) -> Figure:
    """The ratio of two medians; the spread is that of the ratios within each round."""
    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} rounds cannot be compared with {len(denominators)}")
    within = [a / b for a, b in zip(numerators, denominators, strict=True)]
    value = statistics.median(numerators) / statistics.median(denominators)
    return Figure(value, min(within), max(within), len(within))
