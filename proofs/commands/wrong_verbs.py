"""Wrong lines that only two verbs at once can show, and the cell that must notice each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proofs.commands.pauses import meet
from proofs.crash.patching import changed_functions, patched

__all__ = ["VERB_MUTANTS", "VerbMutant", "hunt_verb"]

_MORE: Final = 20
"""Requests that a wrong verb may make more than a sound one."""


@dataclass(frozen=True, slots=True)
class VerbMutant:
    """One wrong line.

    Attributes:
        name: What is wrong.
        cell: Place, the verb that stands still, and the one that runs meanwhile.
        module: Where.
        line: What it says.
        instead: What it says instead.
    """

    name: str
    cell: tuple[str, str, str]
    module: str
    line: str
    instead: str


VERB_MUTANTS: Final[tuple[VerbMutant, ...]] = (
    VerbMutant(
        "two calls publish one path at once",
        ("no job", "publish_over", "publish"),
        "magicfs.datasets.own_paths",
        "await _end(engine, location, magic, job, Wish.ABORT if is_open else Wish.FINISH)",
        "pass",
    ),
    VerbMutant(
        "files are expired that a rollback is showing again",
        ("kept files", "rollback_oldest", "expire"),
        "magicfs.past.expire",
        "await _refuse_rollbacks(engine, location)",
        "pass",
    ),
    VerbMutant(
        "a job that replaces does not look for one that was published meanwhile",
        ("no job", "overwrite", "append"),
        "magicfs.transaction.prepare",
        "if not in_the_way and pointer != plan.pointer:",
        "if False:",
    ),
    VerbMutant(
        "a job that replaces does not look for one that is replacing the same",
        ("no job", "overwrite", "overwrite"),
        "magicfs.transaction.prepare",
        "rivals = conflicting(others, context.job, partitions)",
        "rivals = []",
    ),
    VerbMutant(
        "what earlier jobs keep is deleted by who replaces later",
        ("kept files", "overwrite", "read"),
        "magicfs.past.extension",
        "_leave(look, plan, promises.held, shown)",
        "pass",
    ),
)


def hunt_verb(mutant: VerbMutant, store: str = "s3") -> tuple[str, str]:
    """What gave a mutant away, empty if nothing did; and what sound code does there, empty if all is well."""
    changed_functions(mutant.module, mutant.line, mutant.instead)
    place, first, second = mutant.cell
    sound = meet(place, first, second, store=store).troubles
    with patched(mutant.module, mutant.line, mutant.instead):
        troubles = meet(place, first, second, more=_MORE, store=store).troubles
    return "; ".join(troubles[:1]), "; ".join(sound)
