"""``python -m proofs.job_model``: the model, its broken variants, and their replay on the code."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from proofs.job_model.audits import AUDITS
from proofs.job_model.checker import Result, Step, check
from proofs.job_model.jobs import Way
from proofs.job_model.past import PAST
from proofs.job_model.renames import RENAMES
from proofs.job_model.replay import Replayer
from proofs.job_model.rules import Rules
from proofs.job_model.scenes import DEEP, QUICK, SCENES, WALKED, Scene
from proofs.job_model.walks import walk

__all__ = ["BREAKS", "broken", "main", "replay", "run"]

BREAKS: Final = {
    "swap": "append+driver+recover+rollback",
    "delete_last": "overwrite+driver",
    "abort_first": "append+driver+rollback+late",
    "announce_first": "overwrite and overwrite",
    "pointer_match": "append and append",
    "pointer_again": "append and overwrite",
    "walk_always": "append and append",
    "read_back": "append+driver+recover+late",
    "object_last": "append+driver",
    "facts_gone_is_cleaned": "append+driver",
    "fence_success": "append+driver+rollback+late",
    "restore_again": "append+driver+rollback+late",
    "hide_any": "append and append",
    "head_success": "append and overwrite+rollback",
    "success_first": "append+driver",
    "success_last": "append+driver",
    "setup_fenced": "append+driver+rollback+late setup",
    "sum_own_name": "append+driver+compact+compact",
    "sum_match": "append+driver+compact+compact",
    "tidy_passed": "append+driver+adopt+compact+compact+by hand",
    "adopt_looks": "append+driver+adopt+by hand",
    "adopt_list_again": "append+driver+rollback+adopt+by hand",
    "below_counts": "overwrite around append",
    "jobs_above": "append around overwrite",
    "named_above": "append around overwrite",
}
"""For every rule a scene that goes wrong without it."""

SIDES: Final = ("a", "b")
"""What the model has beside jobs at one destination: maintenance, and other destinations."""

COLUMNS: Final = ("settings", "scenes", "mutants")
"""Of each side: scenes checked whole, interleavings replayed on the code, rules left out."""


_OTHER_WAYS: Final[tuple[Way, ...]] = ("manifest", "file", "copies")


@dataclass
class Figures:
    """What a run came to."""

    scenes: int = 0
    states: int = 0
    transitions: int = 0
    traces: int = 0
    replayed: int = 0
    turns: int = 0
    unmade: int = 0
    numbered: int = 0
    renamed: int = 0
    rules_broken: int = 0
    found: list[str] = field(default_factory=list)
    past: dict[str, int] = field(default_factory=dict)
    audits: dict[str, int] = field(default_factory=dict)
    renames: dict[str, int] = field(default_factory=dict)
    sides: dict[str, Counter[str]] = field(default_factory=lambda: {side: Counter() for side in SIDES})

    def count(self, scene: Scene, what: str) -> None:
        """Add one to what was done for the side of a scene."""
        if scene.side:
            self.sides[scene.side][what] += 1

    @property
    def empty(self) -> int:
        """How many cells of the table of sides are empty."""
        return sum(not of[name] for of in self.sides.values() for name in COLUMNS)

    def document(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        return {
            "scenes": self.scenes,
            "states": self.states,
            "transitions": self.transitions,
            "traces": self.traces,
            "replayed": self.replayed,
            "numbered": self.numbered,
            "renamed": self.renamed,
            "turns": self.turns,
            "unmade": self.unmade,
            "rules": len(BREAKS),
            "rules_broken": self.rules_broken,
            "sides": {side: {name: of[name] for name in COLUMNS} for side, of in self.sides.items()},
            "empty": self.empty,
            "past": self.past,
            "audits": self.audits,
            "renames": self.renames,
            "violations": len(self.found),
        }


def run(
    sample: int, seed: int, *, scenes: Sequence[str] | None = None, every_way: bool = False
) -> dict[str, Any]:
    """Check scenes whole, break every rule, and replay on the shipped code.

    Replayed are a shortest way to every different end of each scene, the shortest way to the violation of
    every broken rule, and a sample of interleavings drawn by chance from all scenes. A part of them runs on a
    store without If-Match, where versions are numbered. What is wrong is told on standard error.

    Args:
        sample: How many interleavings to draw.
        seed: Of the sample.
        scenes: Names of those that are checked whole; by default the quick ones.
        every_way: Whether every interleaving is replayed by each kind of rename.

    Returns:
        Figures; ``violations`` counts what went wrong in the model or on the code, and must be 0;
        ``sides`` counts for maintenance (a) and other destinations (b) what ``COLUMNS`` says; ``past`` tells
        of rollbacks and expiries, ``audits`` of quarantine and acceptance, ``renames`` of ``file`` and
        ``manifest``, which have models of their own.
    """
    figures = Figures()
    for name in sorted(QUICK) if scenes is None else scenes:
        result = check(SCENES[name], Rules())
        _count(figures, result)
        replay(SCENES[name], result.finals, figures, every_way=every_way)
    for rule in BREAKS:
        result = broken(rule)
        figures.rules_broken += result.violation is not None
        figures.count(result.scene, "mutants")
        if result.violation is None:
            figures.found.append(f"{rule} can be left out, and nothing goes wrong in {result.scene.name}")
        else:
            replay(result.scene, [result.trace], figures, every_way=every_way)
    figures.past = PAST.run(figures.found)
    figures.audits = AUDITS.run(figures.found)
    figures.renames = RENAMES.run(figures.found)
    names = list(SCENES)
    for number, name in enumerate(names):
        _sample(SCENES[name], [f"{seed}:{one}" for one in range(number, sample, len(names))], figures)
    for one in figures.found:
        print(one, file=sys.stderr)  # noqa: T201
    return figures.document()


def broken(rule: str) -> Result:
    """The first thing that goes wrong without a rule."""
    return check(SCENES[BREAKS[rule]], replace(Rules(), **{rule: False}))


def replay(
    scene: Scene, traces: Sequence[Sequence[Step]], figures: Figures, *, every_way: bool = False
) -> None:
    """Play interleavings on the code: everybody living or dying at the end, with and without If-Match; files
    become visible by completes, and at one destination once more by the renames of ``manifest`` and of
    ``file``, and by copies: each interleaving by one of these in turn, or with ``every_way`` by each.
    """
    for numbered in (False, True):
        replayer = Replayer(scene, numbered=numbered)
        others = [] if scene.side else [Replayer(scene, numbered=numbered, way=way) for way in _OTHER_WAYS]
        for number, trace in enumerate(traces):
            chosen = others if every_way else others[number % 3 :][:1]
            for one, die in product((replayer, *chosen), (False, True)):
                _play(one, trace, number, die, f"way {number}", figures)


def _count(figures: Figures, result: Result) -> None:
    figures.scenes += 1
    figures.count(result.scene, "settings")
    figures.states += result.states
    figures.transitions += result.transitions
    if result.violation is not None:
        figures.found.append(result.tell())
    told = f"{result.scene.name}: {result.states} states, {len(result.finals)} ends"
    print(told, file=sys.stderr)  # noqa: T201


def _sample(scene: Scene, seeds: Sequence[str], figures: Figures) -> None:
    if not seeds:
        return
    second = Replayer(scene, way="completes" if scene.side else "file")
    replayers = [Replayer(scene), second, Replayer(scene, numbered=True)]
    for number, seed in enumerate(seeds):
        trace, _, die = walk(scene, Rules(), seed)
        _play(replayers[number % len(replayers)], trace, number, die, f"seed {seed}", figures)


def _play(
    replayer: Replayer, trace: Sequence[Step], number: int, die: bool, which: str, figures: Figures
) -> None:
    figures.traces += 1
    figures.count(replayer.scene, "scenes")
    figures.numbered += replayer.numbered
    figures.renamed += replayer.way != "completes"
    played = replayer.play(trace, seed=number, die=die)
    figures.replayed += 1
    figures.turns += played.turns
    figures.unmade += played.unmade
    if played.violation is not None:
        told = Result(replayer.scene, violation=played.violation, trace=list(trace[: played.turns])).tell()
        how = f"{'dying' if die else 'living'}{', numbered' if replayer.numbered else ''}"
        how += f", by {replayer.way}" if replayer.way != "completes" else ""
        figures.found.append(f"on the code, {which}, {how}: {told}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and print the figures as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m proofs.job_model", description=__doc__)
    parser.add_argument("--sample", type=int, default=2_000, help="interleavings to draw (default 2000)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="only scenes of less than 10,000 states")
    which.add_argument(
        "--deep", action="store_true", help="also scenes of up to a million states; takes 3 GB"
    )
    chosen = parser.parse_args(arguments)
    left_out = WALKED if chosen.deep else WALKED | DEEP
    names = sorted(QUICK) if chosen.quick else [one for one in SCENES if one not in left_out]
    started = time.monotonic()
    document = run(chosen.sample, chosen.seed, scenes=names, every_way=not chosen.quick)
    document["seconds"] = round(time.monotonic() - started, 1)
    print(json.dumps(document, separators=(",", ":")))  # noqa: T201
    return int(document["violations"] > 0 or document["empty"] > 0)
