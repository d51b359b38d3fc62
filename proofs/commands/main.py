"""``python -m proofs.commands``: command by command by job, one standing still before its requests."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import product

from proofs.commands.commands import COMMANDS
from proofs.commands.pauses import Cell, meet
from proofs.commands.places import PLACES
from proofs.sides.main import played

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a rule was broken, a cell is empty, or a mutant not caught."""
    parser = argparse.ArgumentParser(prog="python -m proofs.commands", description=__doc__)
    parser.add_argument("--place", choices=[*PLACES], action="append", help="only there; may be repeated")
    parser.add_argument("--first", choices=[*COMMANDS], action="append", help="only those that stand still")
    parser.add_argument(
        "--second", choices=[*COMMANDS], action="append", help="only those that run meanwhile"
    )
    parser.add_argument("--every", type=int, default=1, help="of all runs only each of this number")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    cells: dict[tuple[str, str, str], Cell] = {}
    for place, first, second in product(
        given.place or PLACES, given.first or COMMANDS, given.second or COMMANDS
    ):
        cells[place, first, second] = meet(place, first, second, every=given.every, offset=len(cells))
    for place in given.place or PLACES:
        _print_table(place, {key[1:]: cell for key, cell in cells.items() if key[0] == place})
    troubles = [trouble for cell in cells.values() for trouble in cell.troubles]
    for trouble in troubles:
        print(trouble, file=sys.stderr)  # noqa: T201
    runs = sum(cell.runs for cell in cells.values())
    mutants = played(("a",), checks=False)
    for line in mutants.lines():
        print(line, file=sys.stderr)  # noqa: T201
    side = mutants.table()["a"] | {"settings": len(cells), "scenes": runs}
    empty = sum(not cell.runs for cell in cells.values()) + (not side["mutants"])
    is_caught = side["mutants"] == side["caught"]
    figures = {
        "places": len({key[0] for key in cells}),
        "cells": len(cells),
        "empty": empty,
        "runs": runs,
        "sides": {"a": side},
        "violations": len(troubles),
        "seconds": round(time.monotonic() - started, 1),
        "ok": not troubles and not empty and is_caught,
    }
    print(json.dumps(figures, separators=(",", ":")))  # noqa: T201
    return 0 if figures["ok"] else 1


def _print_table(place: str, cells: dict[tuple[str, str], Cell]) -> None:
    """Runs of each pair; the rows stand still, the columns run meanwhile."""
    firsts, seconds = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    print(f"\n{place}", file=sys.stderr)  # noqa: T201
    print(" " * 10 + "".join(f"{name:>9}" for name in seconds), file=sys.stderr)  # noqa: T201
    for first in firsts:
        runs = "".join(f"{cells[first, second].runs:9}" for second in seconds)
        print(f"{first:10}{runs}", file=sys.stderr)  # noqa: T201
