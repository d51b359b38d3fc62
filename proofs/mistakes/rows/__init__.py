"""Every mistake, in the order of the page."""

from proofs.mistakes.judge import Mistake
from proofs.mistakes.rows import (
    destinations,
    drivers,
    frames,
    going_back,
    interruptions,
    kept,
    local_files,
    maintenance,
    options,
    stores,
    tasks,
)
from proofs.mistakes.user import a_local_user

__all__ = ["MISTAKES"]

MISTAKES: tuple[Mistake, ...] = (
    *(
        Mistake(room.GROUP, what, make)
        for room in (
            *(options, tasks, drivers, interruptions, frames, destinations, maintenance),
            *(going_back, kept, stores),
        )
        for what, make in room.MISTAKES.items()
    ),
    *(Mistake(local_files.GROUP, what, make, a_local_user) for what, make in local_files.MISTAKES.items()),
)
