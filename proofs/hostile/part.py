"""The frame of the hostile proof: each part attacks one kind of input, and has mutants that only it notices.

A part is a module of this package with four names: ``NAME``; ``fixed()``, the same attacks on every run;
``fuzz(until, seed)``, attacks drawn from a seed until a moment of ``time.monotonic``; and ``MUTANTS``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

from proofs.crash.patching import patched

__all__ = ["Found", "Mutant", "Part", "Wrong", "is_caught"]

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


@dataclass(frozen=True, slots=True)
class Mutant:
    """One line of the shipped code that protects, made wrong.

    Attributes:
        name: What is missing with it, such as "extra destinations are believed".
        module: Full name of the module.
        line: The line without its indentation, as it stands there exactly once.
        instead: The line in its place.
        attack: The attack that must notice: it returns violations, none with sound code.
    """

    name: str
    module: str
    line: str
    instead: str
    attack: Callable[[], Sequence[str]]

    def wrong(self) -> AbstractContextManager[object]:
        """Within it the line reads otherwise."""
        return patched(self.module, self.line, self.instead)


class Wrong(Protocol):
    """Something that protects, made wrong."""

    @property
    def name(self) -> str:
        """What is missing."""
        ...

    @property
    def attack(self) -> Callable[[], Sequence[str]]:
        """The attack that must notice."""
        ...

    def wrong(self) -> AbstractContextManager[object]:
        """Within it the protection is missing."""
        ...


class Part(Protocol):
    """A module of this package that attacks one kind of input."""

    NAME: str
    MUTANTS: Sequence[Wrong]

    def fixed(self) -> Found:
        """The attacks of every run, the same each time, within seconds."""
        ...

    def fuzz(self, until: float, seed: int) -> Found:
        """Attacks drawn from a seed, until that moment of ``time.monotonic``."""
        ...


def is_caught(mutant: Wrong) -> bool:
    """Whether the attack of a mutant reports a violation with the wrong line. An exception is not enough.

    Clients that wait for 0.2 s may give up on a busy machine before they do what the wrong line lets them do.
    So an attack that shows nothing is made again.
    """
    with mutant.wrong():
        return any(mutant.attack() for _ in range(_TRIES))
