"""``python -m proofs.guarantees``: what nine committers promise, from a live run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from proofs.guarantees import cost, document
from proofs.guarantees.case import Case
from proofs.guarantees.document import Cell
from proofs.guarantees.experiments import EXPERIMENTS
from proofs.guarantees.subjects import OTHERS, SUBJECTS, Subject, is_elsewhere, subjects_on

__all__ = ["declared", "differing", "every_cell", "main", "reproduce", "tried"]

EVERYWHERE: Final = "all"

Table = dict[str, dict[str, Cell]]


def tried(subject: Subject, attribute: str) -> Cell:
    """Try one attribute of one committer, until something is seen against it."""
    experiment = EXPERIMENTS[attribute]
    for variant in experiment.variants(subject):
        if (seen := experiment.run(subject, variant)) is not None:
            column = f"{subject.column}@{subject.place}" if is_elsewhere(subject) else subject.column
            return Cell(experiment.unsafe, f"{column}:{attribute}:{variant}", seen)
    return Cell(not experiment.unsafe)


def declared(subject: Subject) -> dict[str, bool]:
    """What a committer says of itself, on the store that it is tried on."""
    with Case(subject) as case:
        return case.process().committer.guarantees.to_dict()


def reproduce(run: str) -> str | None:
    """Make one run again; what it saw.

    Raises:
        ValueError: There is no such run.
    """
    column, _, rest = run.partition(":")
    attribute, _, variant = rest.partition(":")
    column, _, store = column.partition("@")
    subjects = subjects_on(store) if store in OTHERS else () if store else SUBJECTS
    subject = next((one for one in subjects if one.column == column), None)
    if subject is None or attribute not in EXPERIMENTS:
        raise ValueError(f"no run {run!r}; it is COLUMN:ATTRIBUTE:VARIANT, as the table prints it")
    return EXPERIMENTS[attribute].run(subject, variant)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a committer is safer or less safe than it says."""
    parser = argparse.ArgumentParser(prog="python -m proofs.guarantees", description=__doc__)
    parser.add_argument("--reproduce", metavar="RUN", help="make one run of the table again")
    parser.add_argument(
        "--store",
        action="append",
        choices=(*OTHERS, EVERYWHERE),
        help=f"try every cell there, too; may be repeated; {EVERYWHERE!r} is all of them",
    )
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables as a document")
    given = parser.parse_args(arguments)
    if given.reproduce is not None:
        seen = reproduce(given.reproduce)
        say(seen or "nothing was seen against it")
        return int(seen is not None)
    table, wrong = every_cell(SUBJECTS)
    costs = {subject.column: cost.of(subject) for subject in SUBJECTS}
    others: dict[str, Table] = {}
    stores = given.store or ()
    for store in OTHERS if EVERYWHERE in stores else stores:
        there, wrong_there = every_cell(subjects_on(store))
        others[store] = differing(table, there)
        wrong += wrong_there
    text = document.render(table, costs) + (document.elsewhere(others) if others else "")
    say(text)
    if given.write is not None:
        given.write.write_text(text, encoding="utf-8")
    figures: dict[str, Any] = dict(_values(table))
    if others:
        figures["otherwise"] = {store: _values(cells) for store, cells in others.items()}
    print(json.dumps(figures, separators=(",", ":")))  # noqa: T201
    return 1 if wrong else 0


def differing(table: Table, there: Table) -> Table:
    """The cells of another store that are not what the table has; no column without one."""
    found = {
        column: {name: cell for name, cell in row.items() if cell.value != table[column][name].value}
        for column, row in there.items()
    }
    return {column: row for column, row in found.items() if row}


def every_cell(subjects: Sequence[Subject]) -> tuple[Table, int]:
    """The table of some subjects, and how many cells are not as they are declared."""
    table: Table = {}
    wrong = 0
    for subject in subjects:
        table[subject.column] = {attribute: tried(subject, attribute) for attribute in EXPERIMENTS}
        for attribute, says in declared(subject).items():
            cell = table[subject.column][attribute]
            wrong += cell.value != says
            otherwise = "" if cell.value == says else f"  DECLARED {says}"
            say(f"{subject.column:16} {attribute:32} {cell.value!s:6} {cell.run}{otherwise}")
    return table, wrong


def _values(table: Table) -> dict[str, dict[str, bool]]:
    return {column: {name: cell.value for name, cell in row.items()} for column, row in table.items()}


def say(text: str) -> None:
    """To the standard error output: the standard output is for the figures alone."""
    print(text, file=sys.stderr)  # noqa: T201
