"""The frame of the hostile proof: each part attacks one kind of input, and has mutants that only it notices.

A part is a module of this package with four names: ``NAME``; ``fixed()``, the same attacks on every run;
``fuzz(until, seed)``, attacks drawn from a seed until a moment of ``time.monotonic``; and ``MUTANTS``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from proofs.scenes.mutants import Hunted, Mutant, Wrong, hunt

__all__ = ["Attacked", "Found", "Part", "WrongLine", "hunt_attack"]

_TRIES: Final = 3


@dataclass
class Found:
    """What some attacks came to.

    Attributes:
        counts: How many of each kind were tried, such as ``{"answers": 412}``.
        violations: One line for each thing that must not happen; the line says how to repeat it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Add what other attacks came to."""
        self.counts.update(other.counts)
        self.violations.extend(other.violations)


class Attacked(Wrong, Protocol):
    """Something that protects, made wrong, and the attack that must notice: nothing is seen of sound code."""

    @property
    def attack(self) -> Callable[[], Sequence[str]]:
        """Returns violations."""


@dataclass(frozen=True, slots=True)
class WrongLine(Mutant):
    """A wrong line of what protects, and the attack that must notice."""

    attack: Callable[[], Sequence[str]]


class Part(Protocol):
    """A module of this package that attacks one kind of input."""

    NAME: str
    MUTANTS: Sequence[Attacked]

    def fixed(self) -> Found:
        """The attacks of every run, the same each time, within seconds."""
        ...

    def fuzz(self, until: float, seed: int) -> Found:
        """Attacks drawn from a seed, until that moment of ``time.monotonic``."""
        ...


_A = TypeVar("_A", bound=Attacked)


def hunt_attack(mutant: _A) -> Hunted[_A]:
    """Attack with the wrong line.

    Clients that wait for 0.2 s may give up on a busy machine before they do what the wrong line lets them do.
    So an attack that shows nothing is made again.
    """
    return hunt(mutant, lambda _: (seen for _ in range(_TRIES) for seen in mutant.attack()))
