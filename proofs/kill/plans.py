"""What happens in each round, drawn from the seed before anything runs."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal, get_args

from proofs.kill.phases import DRIVER
from proofs.kill.victim import SLOTS, Tracking, WriteMode

__all__ = [
    "EVERY_SHAPE",
    "JOBS_PER_LANE",
    "SERVER_EVERY",
    "Plan",
    "Shape",
    "kills_server",
    "of_renames",
    "plan",
    "undisturbed",
]

SERVER_EVERY = 20
"""Every so many rounds the server is killed, too."""

JOBS_PER_LANE = 8
"""A destination begins with a job in mode ``error``, and is given up after so many jobs."""

_REPLACING: tuple[WriteMode, ...] = ("append", "overwrite", "overwrite_partitions")
_WEIGHTS = (2, 3, 3)
_ROLLBACKS = 0.3
_RECOVERIES_CUT = 0.25
_ABORTS_ON_LOSS = 0.3
_HURRIES = 0.5
_LISTINGS = 0.4
_STORE_TRACKING = 0.6
_SMALL = 0.5
# Of kills while workers live: a worker alone, the driver alone, the whole machine.
_VICTIMS = ("worker", "driver", "all")
_VICTIM_WEIGHTS = (6, 1, 3)


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides how long a job runs.

    Attributes:
        mode: The mode.
        tracking: Where unfinished work is recorded; ``small``: in memory, and small files ride in bundles.
    """

    mode: WriteMode
    tracking: Tracking

    def __str__(self) -> str:
        return f"{self.mode}/{self.tracking}"


EVERY_SHAPE = tuple(
    Shape(mode, tracking)
    for tracking in get_args(Tracking)
    for mode in ("error", "append", "overwrite", "overwrite_partitions")
)
"""In an order in which one destination can take them all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One round.

    Attributes:
        number: From 0.
        shape: Of the job.
        winners: How the driver tells what was committed.
        on_loss: What the driver does about a lost worker.
        fraction: When somebody is killed, as a part of the measured run time; uniform.
        server: Whether the server is killed at the same moment.
        wish: What is wanted of a job that was cut while it was being published.
        recovery_cut: When the first recovery is killed, as a part of its measured run time; uniform. None is
            never.
        hurry: Whether recovery begins while workers of a dead driver are still at work.
        again: Whether a recovery that has nothing to do is run at the end.
        seed: Decides about rows and about who is killed.
    """

    number: int
    shape: Shape
    winners: Literal["engine", "listing"]
    on_loss: Literal["retry", "abort"]
    fraction: float
    server: bool
    wish: Literal["finish", "rollback"]
    recovery_cut: float | None
    hurry: bool
    again: bool
    seed: str

    def victims(self, alive: list[str]) -> list[str]:
        """Who is killed, in which order, of the roles that run."""
        chance = random.Random(f"{self.seed}/victims")  # noqa: S311
        slots = [f"worker-{number}" for number in range(SLOTS)]
        workers = [role for role in alive if role in slots]
        if not workers:
            return [DRIVER]
        match chance.choices(_VICTIMS, _VICTIM_WEIGHTS)[0]:
            case "worker":
                return [chance.choice(workers)]
            case "driver":
                return [DRIVER]
            case _:
                return chance.sample(alive, len(alive))


def kills_server(number: int) -> bool:
    """Whether a round kills the server."""
    return number % SERVER_EVERY == SERVER_EVERY - 1


def plan(seed: int, number: int, *, fresh: bool) -> Plan:
    """Draw a round.

    Args:
        seed: Of the run.
        number: Of the round.
        fresh: Whether its destination is empty.
    """
    name = f"{seed}/{number}"
    chance = random.Random(name)  # noqa: S311  a run must be repeatable
    mode = chance.choices(_REPLACING, _WEIGHTS)[0]
    tracking: Tracking = "store" if chance.random() < _STORE_TRACKING else "memory"
    # Of a source of its own: what else is drawn stays as it was.
    if tracking == "memory" and random.Random(f"{name}/small").random() < _SMALL:  # noqa: S311
        tracking = "small"
    listing = chance.random() < _LISTINGS and tracking == "store"
    made = Plan(
        number=number,
        shape=Shape("error" if fresh else mode, tracking),
        winners="listing" if listing else "engine",
        on_loss="abort" if chance.random() < _ABORTS_ON_LOSS else "retry",
        fraction=chance.random(),
        server=kills_server(number),
        wish="rollback" if chance.random() < _ROLLBACKS else "finish",
        recovery_cut=chance.random() if chance.random() < _RECOVERIES_CUT else None,
        hurry=chance.random() < _HURRIES,
        again=chance.random() < _RECOVERIES_CUT,
        seed=name,
    )
    # Once a small file may have been put there is no way back.
    return replace(made, wish="finish") if tracking == "small" else made


def of_renames(made: Plan) -> Plan:
    """The round for a committer that opens no uploads, so that there is nothing to track."""
    return replace(made, shape=replace(made.shape, tracking="store"))


def undisturbed(shape: Shape, name: str) -> Plan:
    """A round in which nobody is killed."""
    return Plan(
        number=0,
        shape=shape,
        winners="engine",
        on_loss="retry",
        fraction=1.0,
        server=False,
        wish="finish",
        recovery_cut=None,
        hurry=False,
        again=False,
        seed=name,
    )
