"""The checks by their names: each plays scenes of one side until a rule is broken, or all of them hold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Final

from proofs.commands.pauses import meet
from proofs.scenes.trouble import Trouble, require
from proofs.sides import crowds, forgotten, interrupts, sizes, together

__all__ = ["CHECKS", "Check", "Played"]

_MORE: Final = 30
"""A mutant may make more requests than sound code."""

_EVERY_REQUEST: Final = 3
"""Here Ctrl-C comes at every third place; a test has them all."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a check came to: how many scenes held, and what was broken in the first that did not."""

    scenes: int
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One setting of a side. ``scenes`` yields how many have held on a kind of store, again and again."""

    side: str
    name: str
    scenes: Callable[[str], Iterator[int]]

    def play(self, store: str = "s3") -> Played:
        """Play it on a kind of store until a rule is broken."""
        held = 0
        try:
            for more in self.scenes(store):
                held += more
        except Trouble as trouble:
            return Played(held, str(trouble))
        return Played(held)


def _commands(place: str, first: str, second: str, store: str) -> Iterator[int]:
    cell = meet(place, first, second, more=_MORE, store=store)
    require(not cell.troubles, "; ".join(cell.troubles))
    yield cell.runs


def _interrupted(kind: str, mode: str, store: str) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as directory:
        for _ in interrupts.everywhere(kind, mode, Path(directory), every=_EVERY_REQUEST, store=store):
            yield 1


def _all() -> Iterator[Check]:
    for cell in _CELLS:
        yield Check("a", "{}: {} beside {}".format(*cell), partial(_commands, *cell))
    for kind, mode in product(interrupts.KINDS, ("append", "overwrite")):
        yield Check("d", f"Ctrl-C: {kind}, {mode}", partial(_interrupted, kind, mode))
    for name in forgotten.OF_JOB:
        yield Check("d", f"option {name}", partial(forgotten.option_of_a_job, name))
    for one in _TOGETHER:
        yield Check("d", one.__name__, one)
    for one in (sizes.manifests, sizes.job_objects, sizes.statistics, sizes.pending_sets, sizes.parts):
        yield Check("e", one.__name__, one)
    yield Check("e", crowds.crowded.__name__, crowds.crowded)


_CELLS: Final = (
    ("half visible, append", "adopt", "rollback"),
    ("half visible, replace", "adopt", "recover"),
    ("half visible, replace", "compact", "recover"),
    ("completed, append", "compact", "recover"),
    ("completed, replace", "adopt", "compact"),
    ("files by hand", "adopt", "adopt"),
    ("files by hand", "adopt", "compact"),
    ("files by hand", "compact", "adopt"),
    ("no job", "compact", "compact"),
    ("no job", "sweep", "sweep"),
    ("open", "sweep", "commit"),
    ("open", "abort", "commit"),
    ("open", "verify", "commit"),
)
"""Of all places and pairs of commands some that notice mutants; ``proofs.commands`` has them all."""

_TOGETHER: Final = (
    *(together.alternately, together.in_threads, together.elsewhere, together.not_closed),
    *(together.not_committed, together.not_handed_over, together.late, together.forked, together.at_exit),
)

CHECKS: Final[Mapping[str, Check]] = MappingProxyType({one.name: one for one in _all()})
"""Every check of the sides ``a``, ``d`` and ``e``."""
