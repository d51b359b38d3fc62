"""Every mistake, in the order of the page."""

from proofs.mistakes.judge import Mistake
from proofs.mistakes.rows import destinations, drivers, maintenance, options, stores, tasks

__all__ = ["MISTAKES"]

MISTAKES: tuple[Mistake, ...] = tuple(
    Mistake(room.GROUP, what, make)
    for room in (options, tasks, drivers, destinations, maintenance, stores)
    for what, make in room.MISTAKES.items()
)
