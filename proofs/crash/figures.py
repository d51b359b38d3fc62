"""What a run of the crash loops came to, and how it is told."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from proofs.crash.classic import Tally
from proofs.crash.grid import Finding, Grid
from proofs.crash.past_cuts import PastTally
from proofs.crash.settings import BY_TASKS, Setting
from proofs.crash.simulation import Result
from proofs.crash.wrong_lines import CrashMutant
from proofs.scenes.mutants import Hunted
from proofs.sides.checks import Played
from proofs.sides.table import SIDE_OF_COMPANY, Sides

__all__ = ["ACCEPTED", "Figures", "Targets", "say", "tell"]

_SHOWN: Final = 20
_DROPPED: Final = {
    "waited": "waited_jobs",
    "overwritten": "overwritten_files",
    "rewritten": "rewritten_files",
    "altered": "altered_bundles",
}

ACCEPTED: Final = (
    "unique_names=False: an upload that no document has recorded yet when its worker dies may stay pending",
    "stores without If-Match: numbered versions of an ended job's object wait for a sweep of that job",
    "stores without If-Match: a late driver's move of an ended job that came back, until it is taken back",
    "stores without conditional delete: a request that is late by a whole recovery may delete _SUCCESS",
    "tasks that outlive their job: what they leave waits for a sweep of that job",
    "committers that stage: after a dead driver local files and the cluster's directory wait for job.abort()",
    "unique_names=False with a cluster_directory: so do uploads, which only its pending sets name",
    "small files: a put that the store carries out after a later job has deleted the file brings it back",
    "stores whose uploads are not apart: uploads under the name of an object are listed nowhere, and expire",
    "stores whose uploads are not apart: whoever writes to a name drops its other uploads",
)
"""What the invariants let pass, said with every run."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What a run must reach.

    Attributes:
        single_cuts: Single cuts of ``magic``.
        pairs: Pairs of cuts of it.
        simulated_jobs: Seeds of simulated jobs of it.
        staged_jobs: The same of each of the committers that stage.
        elsewhere: Seeds of two jobs at destinations that touch.
        mutants: How many mutants there are.
    """

    single_cuts: int
    pairs: int
    simulated_jobs: int
    staged_jobs: int
    elsewhere: int = 0
    mutants: int = 0


@dataclass
class Figures:
    """What a run came to.

    Attributes:
        store: The kind of store.
        dropped: Jobs that waited for days, and files that somebody wrote meanwhile.
        driven: For each committer under a job object its figures by their names.
        classic: For each other committer what was seen of each of its promises.
    """

    store: str = "s3"
    driven: dict[str, Counter[str]] = field(default_factory=dict)
    classic: dict[str, list[Tally]] = field(default_factory=dict)
    elsewhere: Result = field(default_factory=Result)
    expired_uploads: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    pair_worlds: int = 0
    without_swap_violations: int = 0
    findings: list[Finding] = field(default_factory=list)
    hunted: list[Hunted[CrashMutant]] = field(default_factory=list)
    rows: list[tuple[str, Grid]] = field(default_factory=list)
    simulated: Result = field(default_factory=Result)
    model: dict[str, Any] = field(default_factory=dict)
    sides: Sides = field(default_factory=Sides)
    past: PastTally = field(default_factory=PastTally)
    audits: PastTally = field(default_factory=PastTally)

    @classmethod
    def of(cls, kind: str) -> Figures:
        """Those of a run on a kind of store; on others than S3 every side is simulated."""
        return cls(kind) if kind == "s3" else cls(kind, sides=Sides(ways=SIDE_OF_COMPANY))

    def add(self, unit: tuple[str, Any], result: Any) -> None:
        """Add what a unit of work came to."""
        match unit[0], result:
            case "simulated", Result():
                self._of(unit[1][0])["simulated_jobs"] += result.jobs
                self._of(unit[1][0])["violations"] += len(result.findings)
                self.simulated.endings.update(result.endings)
                self.simulated.met.update(result.met)
                self.findings += [Finding(one, text) for one, text in result.findings]
            case "elsewhere", Result():
                self.elsewhere.jobs += result.jobs
                self.elsewhere.endings.update(result.endings)
                self.sides.add_destinations(result)
                self._of("magic")["violations"] += len(result.findings)
                self.findings += [Finding(one, text) for one, text in result.findings]
            case "company", Result():
                self.sides.add_company(unit[1][0], result)
                self._of("magic")["violations"] += len(result.findings)
                self.findings += [Finding(one, text) for one, text in result.findings]
            case "side", Played():
                self.sides.add_check(unit[1][0], result)
            case "side mutant", Hunted():
                self.sides.add_hunted(result)
            case "mutant", Hunted():
                self.hunted.append(result)
                self.sides.add_far(result)
            case "model", dict():
                self.model = result
            case "without swap", int():
                self.without_swap_violations += result
            case "past", PastTally():
                self.past.add(result)
            case "audits", PastTally():
                self.audits.add(result)
            case "classic", Tally():
                self.classic.setdefault(result.name, []).append(result)
            case kind, Grid():
                self._add_grid(kind, result)

    def _add_grid(self, kind: str, grid: Grid) -> None:
        of = self._of(grid.setting.committer)
        if kind == "expired":
            self.expired_uploads += grid.cuts
        elif kind in _DROPPED:
            self.dropped[_DROPPED[kind]] += grid.cuts
        else:
            of["single_cuts"] += grid.cuts
        of["pairs"] += grid.pairs
        of["violations"] += len(grid.findings)
        self.pair_worlds += grid.worlds
        self.findings += grid.findings
        self.rows.append((kind, grid))

    def _of(self, committer: str) -> Counter[str]:
        return self.driven.setdefault(committer, Counter())

    @property
    def broken(self) -> list[Tally]:
        """Promises that were made and are not kept, or not made and kept."""
        return [one for tallies in self.classic.values() for one in tallies if not one.honest]

    @property
    def violations(self) -> int:
        """Of invariants, of promises that were made, and of the model."""
        classic = sum(max(1, len(one.seen)) for one in self.broken)
        found = len(self.findings) + len(self.sides.troubles)
        found += len(self.past.findings) + len(self.audits.findings)
        return found + classic + int(self.model.get("violations", 0))

    def document(self, targets: Targets, seconds: float) -> dict[str, Any]:
        """The figures, ready for JSON."""
        classic = sum(one.cuts for tallies in self.classic.values() for one in tallies)
        totals: Counter[str] = sum(self.driven.values(), Counter())
        caught = sum(one.caught for one in self.hunted)
        figures = {
            "store": self.store,
            "single_cuts": totals["single_cuts"] + classic,
            "pairs": totals["pairs"],
            "pair_worlds": self.pair_worlds,
            "expired_uploads": self.expired_uploads,
            **{name: self.dropped[name] for name in _DROPPED.values()},
            "simulated_jobs": totals["simulated_jobs"],
            "elsewhere_jobs": self.elsewhere.jobs,
            "sides": self.sides.table(),
            "past": self.past.to_dict(),
            "audits": self.audits.to_dict(),
            "mutants": len(self.hunted),
            "mutants_caught": caught,
            "model_states": self.model.get("states", 0),
            "model_replays": self.model.get("replayed", 0),
            "violations": self.violations,
            "without_swap_violations": self.without_swap_violations,
            "committers": self._committers(),
            "seconds": round(seconds, 1),
        }
        is_whole = self.sides.whole or "magic" not in self.driven
        ok = not self.violations and caught == len(self.hunted) == targets.mutants and self._reaches(targets)
        return figures | {"ok": ok and is_whole and self.past.ok and self.audits.ok}

    def _committers(self) -> dict[str, dict[str, Any]]:
        names = ("single_cuts", "pairs", "simulated_jobs", "violations")
        found: dict[str, dict[str, Any]] = {
            committer: {name: of[name] for name in names} for committer, of in sorted(self.driven.items())
        }
        for name, tallies in sorted(self.classic.items()):
            of = self.driven.get(name, Counter())  # of tasks that publish under a job object
            found[name] = {
                "single_cuts": sum(one.cuts for one in tallies) + of["single_cuts"],
                "pairs": of["pairs"],
                "violations": sum(len(one.seen) for one in tallies),
                "declared": all(one.honest for one in tallies),
            }
        return found

    def _reaches(self, targets: Targets) -> bool:
        for committer, of in self.driven.items():
            if committer == "magic":
                least = (targets.single_cuts, targets.pairs, targets.simulated_jobs)
            else:
                least = (1, 1, 0 if committer == BY_TASKS else targets.staged_jobs)
            if any(
                of[name] < n
                for name, n in zip(("single_cuts", "pairs", "simulated_jobs"), least, strict=True)
            ):
                return False
        if "magic" not in self.driven:
            return True
        return self.without_swap_violations > 0 and self.elsewhere.jobs >= 2 * targets.elsewhere


def tell(figures: Figures) -> None:
    """The grid, the coverage, the promises, the mutants and the findings, for people."""
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
    for relation, number in sorted(figures.elsewhere.endings.items()):
        say(f"destinations that touch: {relation}: {number} jobs")
    met = figures.simulated.met
    states = sorted({state for _, state in met})
    if states:
        say("\nsimulated jobs ended: " + ", ".join(f"{k} {n}" for k, n in figures.simulated.endings.items()))
        say(f"{'fault':14}" + "".join(f"{state:>12}" for state in states))
        for kind in sorted({kind for kind, _ in met}):
            say(f"{kind:14}" + "".join(f"{met[kind, state]:12}" for state in states))
    _tell_promises([one for _, tallies in sorted(figures.classic.items()) for one in tallies])
    say("")
    for hunted in sorted(figures.hunted, key=lambda one: one.mutant.name):
        say(str(hunted))
    for line in figures.sides.lines():
        say(line)
    kinds = Counter(f"({one.violation.letter})" for one in figures.findings)
    if kinds:
        say(f"\nviolations: {dict(kinds)}")
    for finding in figures.findings[:_SHOWN]:
        say(str(finding))
    for tally in (figures.past, figures.audits):
        for text in tally.findings[:_SHOWN]:
            say(text)
        for name in tally.missed:
            say(f"mutant {name}: NOT CAUGHT")


def _tell_promises(tallies: Sequence[Tally]) -> None:
    for one in tallies:
        says = "promised" if one.promised else "not promised"
        bad = "" if one.honest else "  BROKEN" if one.promised else "  NEVER SEEN TO BREAK"
        say(f"{one.name:16} {one.promise:24} {says:12} {one.cuts:5} cuts, {len(one.seen):4} break it{bad}")
        shown = _SHOWN if bad else 1
        for text, seen in list(one.seen.items())[:shown]:
            say(f"    {text}\n        {seen}")


def say(text: str) -> None:
    """To the standard error output: the standard output is for the figures alone."""
    print(text, file=sys.stderr)  # noqa: T201
