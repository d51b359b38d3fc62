"""Wrong lines that only two verbs at once can show, and the cell that must notice each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from proofs.commands.pauses import meet
from proofs.scenes.mutants import Hunted, Mutant, Sound, hunt

__all__ = ["VERB_MUTANTS", "VerbMutant", "hunt_verb"]

_MORE: Final = 20
"""Requests that a wrong verb may make more than a sound one."""


@dataclass(frozen=True, slots=True)
class VerbMutant(Mutant):
    """A wrong line, and its cell: place, the verb that stands still, and the one that runs meanwhile."""

    cell: tuple[str, str, str]


VERB_MUTANTS: Final[tuple[VerbMutant, ...]] = (
    VerbMutant(
        "two calls publish one path at once",
        "magicfs.datasets.own_paths",
        "await _end(engine, location, magic, job, Wish.ABORT if is_open else Wish.FINISH)",
        "pass",
        ("no job", "publish_over", "publish"),
    ),
    VerbMutant(
        "files are expired that a rollback is showing again",
        "magicfs.past.expire",
        "await _refuse_rollbacks(engine, location)",
        "pass",
        ("kept in place", "rollback_oldest", "expire"),
    ),
    VerbMutant(
        "a job that replaces does not look for one that was published meanwhile",
        "magicfs.transaction.prepare",
        "if not in_the_way and pointer != plan.pointer:",
        "if False:",
        ("no job", "overwrite", "append"),
    ),
    VerbMutant(
        "a job that replaces does not look for one that is replacing the same",
        "magicfs.transaction.prepare",
        "rivals = conflicting(others, context.job, partitions)",
        "rivals = []",
        ("no job", "overwrite", "overwrite"),
    ),
    VerbMutant(
        "what earlier jobs keep is deleted by who replaces later",
        "magicfs.past.extension",
        "_leave(look, plan, promises.held, shown)",
        "pass",
        ("kept in place", "overwrite", "read"),
    ),
)


def hunt_verb(mutant: VerbMutant, store: str = "s3") -> Hunted[VerbMutant]:
    """Run the mutant's cell with the wrong line, and with the right one, where nothing may be seen."""
    sound = meet(*mutant.cell, store=store).troubles

    def look(_: Sound) -> Iterator[str]:
        yield from meet(*mutant.cell, more=_MORE, store=store).troubles

    return hunt(mutant, look, lambda: "; ".join(sound))
