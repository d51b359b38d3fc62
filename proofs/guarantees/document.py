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

This page is written by `tox run -e guarantees -- --store all --write docs/guarantees.md`, which tries every
cell with processes that die at any request; a test fails when it is not what a run says.
A committer that is safer, or less safe, than it declares (`committer.guarantees`) fails the run. What the
attributes mean stands in `magicfs.protocol.guarantees.Guarantees`.

"""

_SHOWN = """## The runs that show it

For every promise that is not made, a run that shows why.
`python -m proofs.guarantees --reproduce RUN` makes it again.

"""

_PAPER = """## Table V of the paper

What "A Zero-Rename Committer" (Loughran, Blue, Radia, Demoor; edition of May 2021) says in its table of
committers. **Bold** is where a run of ours shows otherwise; the paper's S3A stands beside our magic,
directory and partitioned, its EMR beside task-completing, its one "atomic job commit" beside both of ours.

"""

_BACK = """## What has no way back

Past its commit point a job of `magic`, `directory`, `partitioned` or `manifest` can be taken back, until all
its files are visible or one has replaced an old file of the same name. `file` can where the store renames.
Where it copies, on the memory store of this table and on S3, a job of `file` past its commit point can only
go forward: a copy that is on its way cannot be called back, and need not have the ETag of its source.

`file-v2` publishes when its tasks commit. So readers who list see files before their job; an abort leaves
visible what tasks have committed, for readers may have used it; an attempt that was given up and commits
first is what is published; and `mode="overwrite"` is refused. What else a job object gives it has:
recovery, `run_id`, manifests, and readers of these who see all or nothing.

"""

_ELSEWHERE = """
## On other stores

Every cell was tried there, too: {stores}; those that are otherwise than in the table above. Google Cloud
Storage and Azure are models of what the services document, and `manifest`, which renames, is refused there;
files are files, and `direct` writes them by fsspec's own filesystem, into which cuts do not reach. Where a
completion knows no condition (Google Cloud Storage), the job object and unique names keep jobs apart, as they
do on every store: no cell rests on that condition.

"""

_COSTS = f"""## What a job costs

{TASKS} tasks of {FILES} files of {BYTES / 1e6:g} MB; requests to the store from setting the job up to its
end, the trial of what the store honours left out.

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
