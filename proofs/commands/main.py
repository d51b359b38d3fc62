"""``python -m proofs.commands``: verb by verb by job, one standing still before its requests.

Each pair of verbs meets at each place. Of each such cell some runs are drawn, others by another ``--seed``;
with ``--share`` only some cells are met. ``--whole`` makes all runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final

from proofs.commands.commands import COMMANDS
from proofs.commands.pauses import Cell, meet
from proofs.commands.places import PLACES
from proofs.commands.wrong_verbs import VERB_MUTANTS, hunt_verb
from proofs.sides.main import played

__all__ = ["main"]

_PROCESSES: Final = 2
_SILENCE_S: Final = 60.0
_Name = tuple[str, str, str]
_Unit = tuple[str, str, Sequence[str], int, int, int | None]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a rule was broken, a cell is empty, or a mutant not caught."""
    parser = argparse.ArgumentParser(prog="python -m proofs.commands", description=__doc__)
    parser.add_argument("--place", choices=[*PLACES], action="append", help="only there; may be repeated")
    parser.add_argument("--first", choices=[*COMMANDS], action="append", help="only those that stand still")
    parser.add_argument(
        "--second", choices=[*COMMANDS], action="append", help="only those that run meanwhile"
    )
    parser.add_argument("--every", type=int, help="of all runs each of this number, in place of a sample")
    parser.add_argument("--share", type=int, default=1, help="of all cells each of this number (%(default)s)")
    parser.add_argument("--most", type=int, default=2, help="how many runs of each cell (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which runs are drawn (%(default)s)")
    parser.add_argument("--whole", action="store_true", help="all runs; that takes a day")
    given = parser.parse_args(arguments)
    every = 1 if given.whole else given.every
    started = time.monotonic()
    how = (given.seed, every or 1, None if every else given.most)
    is_named = given.place or given.first or given.second or every
    units = [
        (place, first, seconds, *how)
        for number, (place, first) in enumerate(product(given.place or PLACES, given.first or COMMANDS))
        if (seconds := _drawn(given.second or COMMANDS, given.seed + number, 1 if is_named else given.share))
    ]
    cells: dict[_Name, Cell] = {}
    for found in _done(units):
        cells |= found
    for place in given.place or PLACES:
        _print_table(place, {key[1:]: cell for key, cell in cells.items() if key[0] == place})
    troubles = [trouble for cell in cells.values() for trouble in cell.troubles]
    for trouble in troubles:
        _say(trouble)
    runs = sum(cell.runs for cell in cells.values())
    mutants = played(("a",), checks=False)
    hunted = [hunt_verb(one) for one in VERB_MUTANTS]
    for line in mutants.lines():
        _say(line)
    for one in hunted:
        _say(str(one))
    caught = sum(one.caught for one in hunted)
    side = mutants.table()["a"] | {"settings": len(cells), "scenes": runs}
    refused = sum(not cell.requests for cell in cells.values())
    empty = (
        sum(not cell.runs for cell in cells.values() if cell.requests) + (not side["mutants"]) + (not hunted)
    )
    is_caught = side["mutants"] == side["caught"] and caught == len(hunted)
    figures = {
        "verbs": len({name for _, *names in cells for name in names}),
        "settings": len({place for place, *_ in cells}),
        "cells": len(cells),
        "refused": refused,
        "empty": empty,
        "runs": runs,
        "sides": {"a": side},
        "violations": len(troubles),
        "mutants": len(hunted),
        "caught": caught,
        "seconds": round(time.monotonic() - started, 1),
        "ok": not troubles and not empty and is_caught,
    }
    print(json.dumps(figures, separators=(",", ":")))  # noqa: T201
    return 0 if figures["ok"] else 1


def _drawn(verbs: Iterable[str], offset: int, share: int) -> Sequence[str]:
    return [
        verb for number, verb in enumerate(verbs) if not (number + offset + offset // len(COMMANDS)) % share
    ]


def _done(units: Sequence[_Unit]) -> Iterator[dict[_Name, Cell]]:
    """All units, in two processes if there are several."""
    if len(units) == 1:
        yield _work(units[0])
        return
    told = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(_PROCESSES) as pool:
        for number, found in enumerate(pool.imap(_work, units), start=1):
            yield found
            if time.monotonic() - told > _SILENCE_S:
                told = time.monotonic()
                _say(f"{number} of {len(units)} units of work, {_broken(found.values())}")


def _broken(cells: Iterable[Cell]) -> str:
    return f"{sum(len(cell.troubles) for cell in cells)} violations in the last one"


def _work(unit: _Unit) -> dict[_Name, Cell]:
    """One verb that stands still, beside each of the others, at one place."""
    place, first, seconds, offset, every, most = unit
    how = {"every": every, "offset": offset, "most": most}
    return {(place, first, second): meet(place, first, second, **how) for second in seconds}  # type: ignore[arg-type]


def _print_table(place: str, cells: dict[tuple[str, str], Cell]) -> None:
    """Runs of each pair; the rows stand still, the columns run meanwhile."""
    firsts, seconds = (sorted(set(names), key=[*COMMANDS].index) for names in zip(*cells, strict=True))
    _say(f"\n{place}\n{' ' * 18}" + "".join(f"{name[:7]:>8}" for name in seconds))
    for first in firsts:
        _say(f"{first:18}" + "".join(_runs(cells.get((first, second))) for second in seconds))


def _runs(cell: Cell | None) -> str:
    return " " * 8 if cell is None else f"{cell.runs:8}"


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201
