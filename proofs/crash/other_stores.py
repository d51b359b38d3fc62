"""What is cut, simulated and made wrong on models of other stores than S3: the same, but fewer pairs."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final

from proofs.crash import grid
from proofs.crash.drawing import DRIVEN
from proofs.crash.figures import Targets
from proofs.crash.grid import STAGED_PLANS
from proofs.crash.mutants import ALL_MUTANTS
from proofs.crash.settings import BY_TASKS, Setting, all_settings
from proofs.crash.store_models import KINDS, MODELS, is_numbered
from proofs.crash.wrong_lines import WITHOUT_SWAP, CrashMutant
from proofs.crash.wrong_stores import STORE_MUTANTS
from proofs.sides.checks import CHECKS
from proofs.sides.wrong_sides import SIDE_MUTANTS

__all__ = ["QUICK", "WHOLE", "mutants_on", "seeds_of", "sides_on", "units_on"]

WHOLE: Final = Targets(
    single_cuts=1_000, pairs=50_000, simulated_jobs=5_000, staged_jobs=2_500, elsewhere=2_500
)
QUICK: Final = Targets(single_cuts=20, pairs=50, simulated_jobs=60, staged_jobs=20, elsewhere=30)

_OF_SWAPS: Final = frozenset(
    {
        "a swap replaces whatever is there",
        "cleanup removes the job object first",
        "cleanup sees the first page only",
    }
)
"""Mutants that do not show where versions of a job object are numbered: nothing is swapped there, and what a
job has left is swept once more."""

_PAIRED: Final = 12
_COMPANIES: Final = ("maintenance", "names", "interrupts", "limits")
_SEEDS_A_UNIT: Final = 250
_QUICK_STEP: Final = 29
_Unit = tuple[str, Any]


def units_on(
    kind: str, committers: Collection[str], *, quick: bool, targets: Targets, first: int
) -> list[_Unit]:
    """What is to be done on a kind of store: what takes longest comes first."""
    made: list[_Unit] = []
    driven = [one for one in DRIVEN if one in committers]
    for committer in (*driven, *({BY_TASKS} & {*committers})):
        made += _cuts(kind, committer, quick=quick, first=first)
    made += [("mutant", mutant) for mutant in mutants_on(kind, committers)]
    if "magic" in committers:
        jobs = [_moved(job, kind) for job in WITHOUT_SWAP.jobs]
        made += [("without swap", job) for job in jobs[: 2 if quick else None] if job is not None]
        expiring = [one for one in all_settings(kind=kind) if one.names == "unique"]
        made += [("expired", one) for one in expiring[:: 7 if quick else 1]]
        made += _days_and_strangers(kind, quick=quick)
        made += sides_on(kind, checks=8 if quick else 1, mutants=6 if quick else 1)
        for company in _COMPANIES:
            made += seeds_of("company", (company, f"{kind}@{company}-"), first, targets.elsewhere // 2)
        made += seeds_of("elsewhere", (f"{kind}@",), first, targets.elsewhere)
        made += seeds_of("simulated", ("magic", f"{kind}@days-"), first, targets.elsewhere)
    for committer in driven:
        seeds = targets.simulated_jobs if committer == "magic" else targets.staged_jobs
        made += seeds_of("simulated", (committer, f"{kind}@{committer}."), first, seeds)
    return made


def sides_on(kind: str, *, checks: int = 1, mutants: int = 1) -> Iterator[_Unit]:
    """The mutants of the sides, every so many of them, and their checks, likewise, on a kind of store.

    No store lacks anything that one of them needs.
    """
    yield from (("side mutant", (one, kind)) for one in SIDE_MUTANTS[::mutants])
    yield from (("side", (name, kind)) for name in list(CHECKS)[::checks])


def _days_and_strangers(kind: str, *, quick: bool) -> Iterator[_Unit]:
    """Jobs that wait for days, some of them staging; and files that somebody writes amid a commit."""
    magic = list(all_settings(kind=kind))[:: 7 if quick else 1]
    staged = [one for name in DRIVEN if name != "magic" for one in all_settings(name, kind)]
    yield from (("waited", one) for one in (*magic, *staged[:: 101 if quick else 7]))
    for setting in magic:
        if setting.names == "unique" and MODELS[KINDS[kind][0]].hides_uploads:
            yield "overwritten", setting
        if setting.mode.startswith("overwrite"):
            yield "rewritten", setting


def seeds_of(work: str, what: tuple[str, ...], first: int, seeds: int) -> Iterator[_Unit]:
    """Units of some seeds each; ``what`` comes before the first seed and the one after the last."""
    last = first + seeds
    for start in range(first, last, _SEEDS_A_UNIT):
        yield work, (*what, start, min(start + _SEEDS_A_UNIT, last))


def mutants_on(kind: str, committers: Collection[str]) -> list[CrashMutant]:
    """The mutants that a kind of store can show: those of S3 moved there, and its own."""
    known = [one for one in ALL_MUTANTS if not (is_numbered(KINDS[kind][0]) and one.name in _OF_SWAPS)]
    moved = [_mutant_on(kind, one) for one in known]
    every = [*(one for one in moved if one is not None), *STORE_MUTANTS.get(kind, ())]
    return [one for one in every if any(job.committer in committers for job in one.jobs)]


def _mutant_on(kind: str, mutant: CrashMutant) -> CrashMutant | None:
    jobs = tuple(job for one in mutant.jobs if (job := _moved(one, kind)) is not None)
    return replace(mutant, jobs=jobs) if jobs else None


def _moved(setting: Setting, kind: str) -> Setting | None:
    """The same job on another store; None for one that tries what its own store lacks, or cannot be there."""
    if setting.store != KINDS["s3"][0]:
        return None
    moved = replace(setting, store=KINDS[kind][0])
    return moved if moved.possible else None


def _cuts(kind: str, committer: str, *, quick: bool, first: int) -> Iterator[_Unit]:
    every = list(all_settings(committer, kind))
    draw = random.Random(f"pairs {first}")  # noqa: S311 - no secret
    for setting in draw.sample(every, 1 if quick else _PAIRED):
        wishes = grid.wishes_of(setting)
        plans = [plan for plan in STAGED_PLANS if set(plan) <= {*wishes}]
        for plan in plans[:: 3 if quick else 1]:
            yield "pairs", (setting, plan, _QUICK_STEP if quick else 1)
    for setting in every[:: 23 if quick else 1]:
        yield "singles", (setting, _QUICK_STEP if quick else 1)
