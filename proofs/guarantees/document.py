"""``docs/guarantees.md``: the tables of a run, as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proofs.guarantees import paper
from proofs.guarantees.cost import BYTES, COLUMNS, FILES, TASKS, Cost
from proofs.guarantees.experiments import EXPERIMENTS
from proofs.guarantees.subjects import SUBJECTS

__all__ = ["Cell", "elsewhere", "render"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One attribute of one committer, as it was seen.

    Attributes:
        value: Whether the committer has it.
        run: The run that shows why it is not safe; empty where it is.
        seen: What was seen there.
    """

    value: bool
    run: str = ""
    seen: str = ""


_HEAD = """# What each committer promises

`tox run -e guarantees -- --store all --write docs/guarantees.md` writes this page. It tries every cell with
processes that die at any request, and a test fails if the page is out of date. A committer that is safer, or
less safe, than it declares (`committer.guarantees`) fails the run. `magicfs.protocol.guarantees.Guarantees`
explains the attributes.

"""

_SHOWN = """## Runs that show why

For every promise that a committer does not make, one run shows why.
`python -m proofs.guarantees --reproduce RUN` repeats it.

"""

_PAPER = """## Table V of the paper

The table of committers in "A Zero-Rename Committer" (Loughran, Blue, Radia, Demoor; edition of May 2021).
**Bold** marks cells where our runs show otherwise. The paper's S3A corresponds to our magic, directory and
partitioned, its EMR to task-completing, its one "atomic job commit" to both of ours.

"""

_BACK = """## What cannot be undone

After its commit point a job of `magic`, `directory`, `partitioned` or `manifest` can be undone until all its
files are visible or one has replaced an old file of the same name. The same holds for `file` where the store
renames. Where it copies, as on S3 and on the memory store of this table, a job of `file` can only go forward
after its commit point: a copy in progress cannot be recalled, and need not have the ETag of its source.

`file-v2` publishes when its tasks commit. So a listing shows files before their job ends; an abort leaves
committed files visible, because readers may have used them; an abandoned attempt that commits first is the
one that is published; and `mode="overwrite"` is refused. It has everything else that a job object gives:
recovery, `run_id`, manifests, and readers of the manifest that see all or nothing.

"""

_ELSEWHERE = """
## On other stores

Every cell was tried there, too: {stores}; this section lists the differences. Google Cloud Storage and Azure
are models of what the services document, and they refuse `manifest`, which renames. `local` uses real files;
`direct` writes them with fsspec's own filesystem, which the cuts do not reach. Google Cloud Storage completes
uploads without conditions: there, as everywhere, the job object and unique names keep jobs apart.

"""

_COSTS = f"""## What a job costs

{TASKS} tasks of {FILES} files of {BYTES / 1e6:g} MB; requests to the store from setup to the end of the
job, without the probing of the store's conditions.

"""


def render(table: Mapping[str, Mapping[str, Cell]], costs: Mapping[str, Cost]) -> str:
    """The document of a run.

    Args:
        table: Cell by attribute, by column.
        costs: Cost by column.
    """
    return _HEAD + _promises(table) + _BACK + _beside_the_paper(table) + _shown(table) + _costs(costs)


def elsewhere(others: Mapping[str, Mapping[str, Mapping[str, Cell]]]) -> str:
    """The section of the cells that are otherwise on other stores.

    Args:
        others: By store, column and attribute the cells that differ.
    """
    lines = [_row("store", "committer", "promise", "there", "shown by"), _row(*["---"] * 5)]
    head = len(lines)
    for store, columns in others.items():
        for column, row in columns.items():
            for attribute, cell in row.items():
                run = f"`{cell.run}`" if cell.run else "every run"
                lines.append(
                    _row(store, column, attribute.replace("_", " "), "yes" if cell.value else "no", run)
                )
    same = [store for store, columns in others.items() if not columns]
    said = [f"The same as in the table: {', '.join(same)}.\n"] if same else []
    table = ["\n".join(lines) + "\n"] if len(lines) > head else []
    return _ELSEWHERE.format(stores=", ".join(others)) + "\n".join([*table, *said])


def _promises(table: Mapping[str, Mapping[str, Cell]]) -> str:
    lines = [_row("", *table), _row("---", *(":---:" for _ in table))]
    for attribute in EXPERIMENTS:
        values = ("yes" if row[attribute].value else "no" for row in table.values())
        lines.append(_row(attribute.replace("_", " "), *values))
    where = ", ".join(f"{one.column} on {one.place}" for one in SUBJECTS)
    return "\n".join(lines) + f"\n\nTried: {where}.\n\n"


def _beside_the_paper(table: Mapping[str, Mapping[str, Cell]]) -> str:
    values = {column: {name: cell.value for name, cell in row.items()} for column, row in table.items()}
    found = paper.differences(values)
    bold = {(one.column, one.attribute) for one in found}
    lines = [_row("", *paper.COLUMNS), _row("---", *(":---:" for _ in paper.COLUMNS))]
    for attribute, row in paper.PAPER.items():
        words = ["yes" if value else "no" for value in row]
        marked = [
            f"**{word}**" if (column, attribute) in bold else word
            for column, word in zip(paper.COLUMNS, words, strict=True)
        ]
        lines.append(_row(attribute.replace("_", " "), *marked))
    reasons = (
        f"- {one.column}, {one.attribute.replace('_', ' ')}: {'yes' if one.paper else 'no'} in the paper, "
        f"{'no' if one.paper else 'yes'} for {', '.join(one.ours)}: {one.why}."
        for one in found
    )
    return _PAPER + "\n".join(lines) + "\n\n" + "\n".join(reasons) + "\n\n"


def _shown(table: Mapping[str, Mapping[str, Cell]]) -> str:
    runs = (f"- `{cell.run}`" for row in table.values() for cell in row.values() if cell.run)
    return _SHOWN + "\n".join(runs) + "\n\n"


def _costs(costs: Mapping[str, Cost]) -> str:
    lines = [_row("", *COLUMNS, "bytes copied"), _row("---", *("---:" for _ in COLUMNS), "---:")]
    for column, one in costs.items():
        lines.append(_row(column, *(f"{one.requests[name]:,}" for name in COLUMNS), f"{one.copied:,}"))
    return _COSTS + "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
