"""``python -m benchmarks``: magicfs and its peers, measured side by side.

The table goes to the standard error output. The last line of the standard output is one JSON object with
every figure. A target that is not met fails nothing; a request of magicfs that fell back to aiobotocore does.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine, page
from benchmarks.figures import Figure
from benchmarks.groups import GROUPS, groups_of, measure_of
from benchmarks.session import Session
from benchmarks.table import as_text
from benchmarks.targets import RUNS, of_run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a request of magicfs fell back to aiobotocore, or a group failed."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.write is not None and given.group:
        parser.error("--write wants a whole run, so that the page has figures of one day: leave --group out")
    session = Session(rounds=given.rounds, quick=given.quick, quiet=given.json)
    about = machine.describe()
    figures: dict[str, Figure] = {}
    started = time.monotonic()
    failed = []
    for name in given.group or groups_of(given.run):
        try:
            with session.timed(name):
                figures |= measure_of(name)(session)
        except Exception as error:  # noqa: BLE001 - what the others have measured is told all the same
            session.say(traceback.format_exc())
            session.remarks[name] = f"failed: {error}"
            failed.append(name)
    targets = [target for target in of_run(given.run) if not given.group or target.name in figures]
    session.say(as_text(targets, figures))
    for name, why in session.remarks.items():
        session.say(f"{name}: {why}")
    if session.fallbacks:
        session.say(f"requests of magicfs that fell back to aiobotocore: {session.fallbacks}")
    told = {
        "run": given.run,
        "quick": session.quick,
        "date": machine.today(),
        "machine": about,
        "versions": dict(sorted(session.versions.items())),
        "seconds": {name: round(seconds, 1) for name, seconds in session.seconds.items()},
        "whole_s": round(time.monotonic() - started, 1),
        "fallbacks": session.fallbacks,
        "failed": failed,
        "remarks": session.remarks,
        "met": {t.name: t.is_met(figures[t.name].value) for t in targets if t.name in figures},
        "spread": {name: [_short(one.low), _short(one.high)] for name, one in figures.items()},
        "rounds": {name: one.rounds for name, one in figures.items()},
        "sides": [
            [one.group, one.side, one.phase, *(_short(time.value) for time in one.times)]
            for one in session.sides
        ],
        **{name: _short(figure.value) for name, figure in figures.items()},
    }
    if given.write is not None:
        page.write(given.write, given.run, figures, told, session.sides, session.pictures)
    print(json.dumps(told, separators=(",", ":"), ensure_ascii=False))
    return 1 if failed or (session.fallbacks and not given.allow_fallbacks) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--run", choices=RUNS, default="bench", help="which groups to measure")
    parser.add_argument(
        "--group", action="append", choices=GROUPS, help="only this group; may be repeated", metavar="NAME"
    )
    parser.add_argument("--rounds", type=int, help="rounds of every group; by default 5, or 3 of long ones")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: try the machinery, measure nothing"
    )
    parser.add_argument("--json", action="store_true", help="print the JSON line and nothing else")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the part of this run into the page")
    parser.add_argument(
        "--allow-fallbacks", action="store_true", help="do not fail if a request fell back to aiobotocore"
    )
    return parser


def _short(value: float) -> float:
    return float(f"{value:.4g}")
