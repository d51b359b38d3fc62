"""``python -m magicfs.testing.crash``: all that can be cut, simulated and made wrong, and its figures."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from magicfs.testing.crash import grid
from magicfs.testing.crash.grid import PLANS, Finding, Grid, Plan
from magicfs.testing.crash.mutants import Caught, hunt, reproduced, without_swap
from magicfs.testing.crash.settings import Setting, all_settings
from magicfs.testing.crash.simulation import Result, simulate
from magicfs.testing.crash.wrong_lines import MUTANTS, WITHOUT_SWAP
from magicfs.testing.job_model import run as run_model

__all__ = ["Figures", "main", "run"]

PROCESSES: Final = 2
_SHOWN: Final = 20
_SILENCE_S: Final = 20.0
_SEEDS_A_UNIT: Final = 250
_REPLAYS: Final = 200
_Unit = tuple[str, Any]

ACCEPTED: Final = (
    "unique_names=False: an upload that no document has recorded yet when its worker dies may stay pending",
    "stores without If-Match: numbered versions of an ended job's object wait for a sweep of that job",
    "stores without conditional delete: a request that is late by a whole recovery may delete _SUCCESS",
    "tasks that outlive their job: what they leave waits for a sweep of that job",
)
"""What the invariants let pass, said with every run."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What a run must reach.

    Attributes:
        single_cuts: Single cuts.
        pairs: Pairs of cuts.
        simulated_jobs: Seeds of simulated jobs.
    """

    single_cuts: int
    pairs: int
    simulated_jobs: int


_WHOLE: Final = Targets(single_cuts=1_000, pairs=100_000, simulated_jobs=20_000)
_QUICK: Final = Targets(single_cuts=1_000, pairs=100_000, simulated_jobs=600)


@dataclass
class Figures:
    """What a run came to."""

    single_cuts: int = 0
    expired_uploads: int = 0
    pairs: int = 0
    pair_worlds: int = 0
    simulated_jobs: int = 0
    mutants: int = 0
    mutants_caught: int = 0
    without_swap_violations: int = 0
    findings: list[Finding] = field(default_factory=list)
    caught: list[Caught] = field(default_factory=list)
    rows: list[tuple[str, Grid]] = field(default_factory=list)
    simulated: Result = field(default_factory=Result)
    model: dict[str, Any] = field(default_factory=dict)

    def add(self, unit: _Unit, result: Any) -> None:
        """Add what a unit of work came to."""
        match unit[0], result:
            case "simulated", Result():
                self.simulated_jobs += result.jobs
                self.simulated.endings.update(result.endings)
                self.simulated.met.update(result.met)
                self.findings += [Finding(one, text) for one, text in result.findings]
            case "mutant", Caught():
                self.mutants += 1
                self.mutants_caught += result.finding is not None
                self.caught.append(result)
            case "model", dict():
                self.model = result
            case "without swap", int():
                self.without_swap_violations += result
            case kind, Grid():
                if kind == "expired":
                    self.expired_uploads += result.cuts
                else:
                    self.single_cuts += result.cuts
                self.pairs += result.pairs
                self.pair_worlds += result.worlds
                self.findings += result.findings
                self.rows.append((kind, result))

    def document(self, targets: Targets, seconds: float) -> dict[str, Any]:
        """The figures, ready for JSON."""
        figures = {
            "single_cuts": self.single_cuts,
            "pairs": self.pairs,
            "pair_worlds": self.pair_worlds,
            "expired_uploads": self.expired_uploads,
            "simulated_jobs": self.simulated_jobs,
            "mutants": self.mutants,
            "mutants_caught": self.mutants_caught,
            "model_states": self.model.get("states", 0),
            "model_replays": self.model.get("replayed", 0),
            "violations": len(self.findings) + self.model.get("violations", 0),
            "without_swap_violations": self.without_swap_violations,
            "seconds": round(seconds, 1),
        }
        ok = (
            not figures["violations"]
            and self.mutants_caught == self.mutants == len(MUTANTS)
            and self.without_swap_violations > 0
            and all(figures[name] >= getattr(targets, name) for name in ("single_cuts", "pairs"))
            and self.simulated_jobs >= targets.simulated_jobs
        )
        return figures | {"ok": ok}


# -- the work ------------------------------------------------------------------------------------------


def work(unit: _Unit) -> tuple[_Unit, Any]:
    """Do one unit of work, in whatever process."""
    kind, what = unit
    match kind:
        case "singles":
            return unit, grid.singles_of(what)
        case "expired":
            return unit, grid.expired_of(what)
        case "pairs":
            return unit, grid.pairs_of(*what)
        case "mutant":
            return unit, hunt(what)
        case "without swap":
            return unit, without_swap(what)
        case "model":
            return unit, run_model(what, 1)
        case _:
            result = Result()
            for seed in range(*what):
                simulate(str(seed), result)
            return unit, result


def units(*, quick: bool, seeds: int, first: int) -> list[_Unit]:
    """What is to be done: what takes longest comes first."""
    every = list(all_settings())
    # Steps that are prime to every dimension, so that each value of each is among those that are taken.
    singles, pairs = (every[::23], every[::19]) if quick else (every, every)
    plans: Sequence[Plan] = (PLANS[0], PLANS[1], PLANS[-1]) if quick else PLANS
    made: list[_Unit] = [
        ("pairs", (setting, plan))
        for setting in pairs
        for plan in plans
        if plan[0] in grid.wishes_of(setting)
    ]
    made += [("singles", setting) for setting in singles]
    made += [("mutant", mutant) for mutant in MUTANTS]
    if not quick:
        made.append(("model", _REPLAYS))
    made += [("without swap", job) for job in WITHOUT_SWAP.jobs[: 2 if quick else None]]
    made += [("expired", one) for one in (every[::7] if quick else every) if one.names == "unique"]
    made += [
        ("simulated", (start, min(start + _SEEDS_A_UNIT, first + seeds)))
        for start in range(first, first + seeds, _SEEDS_A_UNIT)
    ]
    return made


def run(batch: Sequence[_Unit]) -> Figures:
    """Do all of it in two processes."""
    figures, told = Figures(), time.monotonic()
    # The order of sets of text must be the same in every process, or a reproduction reproduces nothing.
    os.environ["PYTHONHASHSEED"] = "0"
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        for number, (unit, result) in enumerate(pool.imap_unordered(work, batch), start=1):
            figures.add(unit, result)
            if time.monotonic() - told > _SILENCE_S:
                told = time.monotonic()
                say(f"{number} of {len(batch)} units of work, {len(figures.findings)} violations")
    return figures


# -- what is told --------------------------------------------------------------------------------------


def tell(figures: Figures) -> None:
    """The grid, the coverage, the mutants and the findings, for people."""
    for kind, one in sorted(figures.rows, key=lambda row: (row[0], row[1].setting.text)):
        what = f"{one.pairs} pairs, {one.worlds} worlds" if kind == "pairs" else f"{one.cuts} cuts"
        bad = f", {len(one.findings)} VIOLATIONS" if one.findings else ""
        say(f"{kind:8} {one.setting.text:70} {one.requests:4} requests, {what}{bad}")
    say("")
    for line in ACCEPTED:
        say(f"let pass: {line}")
    for dimension in fields(Setting):
        sums: Counter[tuple[str, str]] = Counter()
        for kind, one in figures.rows:
            sums[getattr(one.setting, dimension.name), kind] += one.pairs or one.cuts
        values = sorted({value for value, _ in sums})
        told = (f"{value} {sums[value, 'singles']} cuts {sums[value, 'pairs']} pairs" for value in values)
        say(f"by {dimension.name}: {'; '.join(told)}")
    met = figures.simulated.met
    states = sorted({state for _, state in met})
    if states:
        say("\nsimulated jobs ended: " + ", ".join(f"{k} {n}" for k, n in figures.simulated.endings.items()))
        say(f"{'fault':14}" + "".join(f"{state:>12}" for state in states))
        for kind in sorted({kind for kind, _ in met}):
            say(f"{kind:14}" + "".join(f"{met[kind, state]:12}" for state in states))
    say("")
    for caught in sorted(figures.caught, key=lambda one: one.mutant):
        how = str(caught.finding or caught.problem or f"NOT CAUGHT in {caught.runs} runs")
        say(f"mutant {caught.mutant}: {how} ({caught.seconds:.1f} s)")
    kinds = Counter(f"({one.violation.letter})" for one in figures.findings)
    if kinds:
        say(f"\nviolations: {dict(kinds)}")
    for finding in figures.findings[:_SHOWN]:
        say(str(finding))


def say(text: str) -> None:
    """To the standard error output: the standard output is for the figures alone."""
    print(text, file=sys.stderr)  # noqa: T201


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a target is missed, 2 for a reproduction that is none."""
    parser = argparse.ArgumentParser(prog="python -m magicfs.testing.crash", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many jobs are simulated")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--quick", action="store_true", help="the part that belongs to every test run")
    parser.add_argument("--reproduce", metavar="TEXT", help="run exactly what a finding was printed with")
    given = parser.parse_args(arguments)
    if given.reproduce is not None:
        return _reproduce(given.reproduce)
    targets = _QUICK if given.quick else _WHOLE
    seeds = targets.simulated_jobs if given.seeds is None else given.seeds
    targets = Targets(targets.single_cuts, targets.pairs, seeds)
    begun = time.perf_counter()
    figures = run(units(quick=given.quick, seeds=seeds, first=given.first))
    tell(figures)
    document = figures.document(targets, time.perf_counter() - begun)
    print(json.dumps(document, separators=(",", ":")))  # noqa: T201
    return 0 if document["ok"] else 1


def _reproduce(text: str) -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "magicfs.testing.crash", "--reproduce", text]
        os.execve(sys.executable, command, environment)  # noqa: S606 - ourselves
    try:
        watched = reproduced(text)
    except ValueError as error:
        say(str(error))
        return 2
    violations = list(dict.fromkeys(watched.violations))
    met = {request.number: fault.kind for fault, request in watched.traffic.met}
    for request in watched.traffic.log:
        say(f"{request} {request.condition} {met.get(request.number, '')}".rstrip())
    for job, history in watched.histories.items():
        say(f"{job}: {' -> '.join(history.states)}")
    for violation in violations:
        say(str(violation))
    print(json.dumps({"violations": len(violations), "ok": not violations}, separators=(",", ":")))  # noqa: T201
    return 1 if violations else 0
