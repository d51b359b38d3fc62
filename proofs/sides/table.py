"""What a run came to on each side: settings, scenes, mutants, and mutants that only their side caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from proofs.crash.company import LIMITS, MAINTENANCE
from proofs.crash.names import FORMS
from proofs.crash.simulation import Result
from proofs.crash.wrong_lines import CrashMutant
from proofs.scenes.mutants import Hunted
from proofs.sides.checks import CHECKS, Played
from proofs.sides.wrong_sides import SideMutant

__all__ = ["COLUMNS", "SIDES", "SIDE_OF_COMPANY", "Sides"]

SIDES: Final = ("a", "b", "c", "d", "e")
"""Maintenance, other destinations, names, the public API, sizes."""

COLUMNS: Final = ("settings", "scenes", "mutants", "caught")

SIDE_OF_COMPANY: Final = {
    "maintenance": "a",
    "elsewhere": "b",
    "names": "c",
    "interrupts": "d",
    "limits": "e",
}
"""Which side a company of simulated jobs belongs to."""

_FAR: Final = {way: SIDE_OF_COMPANY[way] for way in ("elsewhere", "names")}
_SETTINGS: Final = {
    "maintenance": len(MAINTENANCE),
    "names": len(FORMS),
    "interrupts": 1,
    "limits": len(LIMITS),
}
"""Of each company: commands, forms of names, moments of an interruption, limits."""


@dataclass
class Sides:
    """The table.

    Attributes:
        sides: Those that the run is to look at.
        ways: Sides by the ways of those mutants that count for them.
        cells: By side and column.
        relations: How two destinations lay to each other.
        companies: Those of the simulated jobs.
        hunted: Mutants of ``a``, ``d`` and ``e``.
        far: Mutants of ``b`` and ``c``.
        troubles: What was found broken in sound code.
    """

    sides: Sequence[str] = SIDES
    ways: Mapping[str, str] = field(default_factory=lambda: _FAR)
    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    relations: set[str] = field(default_factory=set)
    companies: set[str] = field(default_factory=set)
    hunted: list[Hunted[SideMutant]] = field(default_factory=list)
    far: list[Hunted[CrashMutant]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def add_check(self, name: str, played: Played) -> None:
        """Add a check that was played with sound code."""
        side = CHECKS[name].side
        self.cells[side, "settings"] += 1
        self.cells[side, "scenes"] += played.scenes
        if played.trouble or not played.scenes:
            self.troubles.append(f"{name}: {played.trouble or 'no scene was played'}")

    def add_hunted(self, hunted: Hunted[SideMutant]) -> None:
        """Add a mutant of ``a``, ``d`` or ``e``."""
        self.hunted.append(hunted)
        self._add_mutant(_side_of(hunted), caught=hunted.caught)

    def add_far(self, hunted: Hunted[CrashMutant]) -> None:
        """Add a mutant that the simulations hunt; others than those of ``ways`` do not count here."""
        if (side := self.ways.get(hunted.mutant.way)) is not None:
            self.far.append(hunted)
            self._add_mutant(side, caught=hunted.caught)

    def _add_mutant(self, side: str, *, caught: bool) -> None:
        self.cells[side, "mutants"] += 1
        self.cells[side, "caught"] += caught

    def add_destinations(self, result: Result) -> None:
        """Add simulations of two jobs at destinations that touch."""
        self.relations |= {ending.rpartition(", ")[0] for ending in result.endings}
        self.cells["b", "settings"] = len(self.relations)
        self.cells["b", "scenes"] += result.jobs

    def add_company(self, company: str, result: Result) -> None:
        """Add simulations of jobs in some company, such as hostile names of all forms."""
        side = SIDE_OF_COMPANY[company]
        if company not in self.companies:
            self.companies.add(company)
            self.cells[side, "settings"] += _SETTINGS[company]
        self.cells[side, "scenes"] += result.jobs

    def table(self) -> dict[str, dict[str, int]]:
        """The cells, ready for JSON."""
        return {side: {name: self.cells[side, name] for name in COLUMNS} for side in self.sides}

    @property
    def empty(self) -> int:
        """How many cells are empty."""
        return sum(not cell for of in self.table().values() for cell in of.values())

    @property
    def whole(self) -> bool:
        """Whether no cell is empty, no rule was broken, and each mutant was caught by its side alone."""
        caught = all(of["mutants"] == of["caught"] for of in self.table().values())
        return caught and not self.empty and not self.troubles

    def lines(self) -> Iterator[str]:
        """The table, the mutants and the troubles, for people."""
        yield "side" + "".join(f"{name:>10}" for name in COLUMNS)
        for side, of in self.table().items():
            yield f"{side:4}" + "".join(f"{cell or 'EMPTY':>10}" for cell in of.values())
        for one in sorted(self.hunted, key=lambda one: (_side_of(one), one.mutant.name)):
            yield f"side {_side_of(one)}: {one}"
        yield from self.troubles

    def document(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        found = {"sides": self.table(), "empty": self.empty, "violations": len(self.troubles)}
        return found | {"ok": self.whole}


def _side_of(hunted: Hunted[SideMutant]) -> str:
    return CHECKS[hunted.mutant.check].side
