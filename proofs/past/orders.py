"""What is done in one turn: drawn from a seed and from what is there."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from proofs.past.ledger import Files, Ledger, State, day_of

__all__ = ["KINDS", "PUBLISHES", "Deed", "Drawing", "Turn"]

KINDS: Final = MappingProxyType(
    {
        "append": 20,
        "overwrite": 18,
        "overwrite_partitions": 15,
        "rollback": 22,
        "drop": 6,
        "rewrite": 12,
        "expire": 13,
        "compact": 5,
        "tag": 7,
    }
)
"""What is done, and how often in comparison."""

PUBLISHES: Final = ("append", "overwrite", "overwrite_partitions", "rollback", "drop", "rewrite")
"""What adds a publication."""
_TAGS: Final = ("gold", "month-end", "v1.0_final")
_NOT_TWICE: Final = (["tag", "tag"], ["compact", "compact"], ["rewrite", "rewrite"])
_DAYS: Final = 5
_FILES_MAX: Final = 25
_PAIRS: Final = 0.35
_KILLED: Final = 0.65
_KEPT: Final = 0.65


@dataclass(frozen=True, slots=True)
class Deed:
    """What one process does.

    Attributes:
        kind: One of ``KINDS``.
        run_id: Of the job, if it is one; different for every deed.
        keep_s: For how long a job keeps what it replaces.
        rows: What a job brings, by day.
        day: What a drop takes away.
        target: The job that a rollback leads to, or that a tag shall name.
        named: How a command is told the target.
        tag: The tag.
        kill_at: After which share of its usual time it is killed; None if it is not.
        ended_by: What is done when it was killed: ``recover``, or ``repeat`` the call.
    """

    kind: str
    run_id: str
    keep_s: int | None = None
    rows: Files = field(default_factory=dict)
    day: str = ""
    target: str = ""
    named: str = ""
    tag: str = ""
    kill_at: float | None = None
    ended_by: str = "recover"


@dataclass(frozen=True, slots=True)
class Turn:
    """Deeds that begin at the same moment.

    Attributes:
        number: The turn's.
        deeds: One or two.
        recovers: Whether somebody calls ``magicfs recover`` meanwhile.
    """

    number: int
    deeds: tuple[Deed, ...]
    recovers: bool = False


class Drawing:
    """Draws one turn after the other.

    Args:
        seed: Of all that is drawn.
        keeps_s: For how long jobs keep what they replace.
        only: The only kind that is killed, each time; by default all are, now and then.
    """

    def __init__(self, seed: int, keeps_s: Sequence[int], only: str | None = None) -> None:
        self._draw = random.Random(seed)  # noqa: S311 - a run must be repeatable
        self._keeps_s = keeps_s
        self._only = only

    def turn(self, number: int, ledger: Ledger, names: set[str]) -> Turn:
        """A turn, drawn from what the ledger and the listing hold."""
        if not ledger.states:
            return Turn(number, (self._deed("append", f"run {number}", ledger, names),))
        if self._only:
            return self._one_kind(number, ledger, names)
        kinds = self._draw.choices(list(KINDS), list(KINDS.values()), k=2)
        if len(ledger.shown) > _FILES_MAX:
            kinds[0] = "overwrite"
        if self._draw.random() > _PAIRS or kinds in _NOT_TWICE:
            kinds = kinds[:1]
        deeds = [
            self._killed(self._deed(kind, f"run {number}.{place}", ledger, names))
            for place, kind in enumerate(kinds)
        ]
        return Turn(number, tuple(deeds), recovers=self._draw.random() < _PAIRS / 2)

    def _one_kind(self, number: int, ledger: Ledger, names: set[str]) -> Turn:
        """A job that leaves something to do; then one of the kind, killed."""
        assert self._only is not None
        if number % 2:
            kind = self._draw.choice(("overwrite", "overwrite", "overwrite_partitions", "append"))
            if self._only == "rewrite":  # it needs two files in a directory
                return Turn(
                    number, (Deed("append", f"run {number}", rows=self._rows(f"run {number}", _DAYS)),)
                )
            return Turn(number, (self._deed(kind, f"run {number}", ledger, names, keeps=True),))
        deed = self._deed(self._only, f"run {number}", ledger, names, present=True)
        ended_by = self._draw.choice(("recover", "repeat"))
        return Turn(number, (replace(deed, kill_at=self._draw.uniform(0.05, 1), ended_by=ended_by),))

    def _killed(self, deed: Deed) -> Deed:
        if self._draw.random() > _KILLED:
            return deed
        ended_by = self._draw.choice(("recover", "repeat"))
        return replace(deed, kill_at=self._draw.uniform(0.05, 1), ended_by=ended_by)

    def _deed(
        self,
        kind: str,
        run: str,
        ledger: Ledger,
        names: set[str],
        *,
        keeps: bool = False,
        present: bool = False,
    ) -> Deed:
        keep = self._draw.choice(self._keeps_s) if keeps or self._draw.random() < _KEPT else None
        if kind == "append":
            return Deed(kind, run, rows=self._rows(run))
        if kind in {"overwrite", "overwrite_partitions"}:
            return Deed(kind, run, keep, rows=self._rows(run))
        if kind == "rewrite":
            return Deed(kind, run, keep)
        if kind == "drop":
            days = sorted({day_of(name) for name in ledger.shown}) or ["d0"]
            return Deed(kind, run, keep, day=self._draw.choice(days))
        if kind == "rollback":
            whole = [one for one in ledger.states if one.files.keys() <= names]
            wide = whole if present or self._draw.random() < 0.8 else ledger.states
            target = self._draw.choice(wide)
            return Deed(kind, run, keep, target=target.job_id, named=self._named(target))
        if kind == "tag":
            target = self._draw.choice(ledger.states)
            return Deed(
                kind, run, target=target.job_id, named=self._named(target), tag=self._draw.choice(_TAGS)
            )
        return Deed(kind, run)

    def _named(self, state: State) -> str:
        by_run = [f"run:{state.run_id}"] if state.run_id else []
        return self._draw.choice([f"job:{state.job_id}", *by_run])

    def _rows(self, run: str, count: int | None = None) -> Files:
        days = self._draw.sample(range(_DAYS), count or self._draw.randint(1, 3))
        return {
            f"d{day}": tuple(f"{run}/d{day}/{row}" for row in range(self._draw.randint(1, 4)))
            for day in sorted(days)
        }
