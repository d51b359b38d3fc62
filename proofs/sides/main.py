"""``python -m proofs.sides``: the checks of maintenance, public API and sizes, and their mutants."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence

from proofs.sides.checks import CHECKS
from proofs.sides.mutants import hunt_side
from proofs.sides.table import Sides
from proofs.sides.wrong_sides import SIDE_MUTANTS

__all__ = ["main", "played"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a rule was broken, a mutant not caught, or a cell is empty."""
    sides = sorted({one.side for one in CHECKS.values()})
    parser = argparse.ArgumentParser(prog="python -m proofs.sides", description=__doc__)
    parser.add_argument("--side", choices=sides, action="append", help="only this one; may be repeated")
    given = parser.parse_args(arguments)
    logging.getLogger("magicfs").setLevel(logging.ERROR)
    started = time.monotonic()
    found = played(given.side or sides)
    for line in found.lines():
        print(line, file=sys.stderr)  # noqa: T201
    document = found.document() | {"seconds": round(time.monotonic() - started, 1)}
    print(json.dumps(document, separators=(",", ":")))  # noqa: T201
    return 0 if found.whole else 1


def played(sides: Sequence[str], *, checks: bool = True) -> Sides:
    """All of some sides. Without ``checks`` sound code is taken for sound, and only mutants are hunted."""
    found = Sides(sides)
    for name, check in CHECKS.items():
        if checks and check.side in sides:
            found.add_check(name, check.play())
    for mutant in SIDE_MUTANTS:
        if CHECKS[mutant.check].side in sides:
            found.add_hunted(hunt_side(mutant))
    return found
