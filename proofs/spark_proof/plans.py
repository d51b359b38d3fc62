"""When whom to kill: drawn from a seed, so that a run can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias, get_args

from proofs.spark_proof.orders import Mode, Order, Route

__all__ = [
    "DriverPlan",
    "ExecutorPlan",
    "Phase",
    "Profile",
    "StreamPlan",
    "Target",
    "driver_plan",
    "executor_plan",
    "stream_plan",
]

Target: TypeAlias = Literal["jvm", "all"]
"""Whom a driver's kill meets: the JVM, or the JVM and at once every other process of the application."""

_ROUTES: tuple[Route, ...] = get_args(Route)
_MODES: tuple[Mode, ...] = get_args(Mode)
_TARGETS: tuple[Target, ...] = get_args(Target)
_AFTER_SECONDS = 5.0  # the second sweep of a job begins 4.5 s after its end
_EARLIEST, _LATEST = 0.05, 0.9


class Phase(StrEnum):
    """A stretch of a write."""

    SETUP = "setup"
    TASKS = "tasks"
    COMMIT = "commit"
    AFTER = "after"


# Most kills where most can go wrong.
_PHASES = (
    *(Phase.TASKS, Phase.COMMIT, Phase.COMMIT, Phase.TASKS, Phase.COMMIT),
    *(Phase.AFTER, Phase.COMMIT, Phase.TASKS, Phase.SETUP, Phase.COMMIT),
)


@dataclass(frozen=True)
class Profile:
    """The requests of an undisturbed write, counted.

    Attributes:
        setup: How many come before the first file.
        tasks: How many have come when the last file is uploaded.
        total: How many there are.
    """

    setup: int
    tasks: int
    total: int

    def range_of(self, phase: Phase) -> tuple[int, int]:
        """The first and the last request of a phase, counted from 1."""
        match phase:
            case Phase.SETUP:
                return 1, self.setup
            case Phase.TASKS:
                return self.setup + 1, self.tasks
            case Phase.COMMIT | Phase.AFTER:
                return self.tasks + 1, self.total


@dataclass(frozen=True)
class ExecutorPlan:
    """A write during which an executor is killed.

    Attributes:
        order: The write.
        moment: When, as a fraction of how long such a write takes.
        victim: Chooses among the executors that run.
    """

    order: Order
    moment: float
    victim: float


@dataclass(frozen=True)
class DriverPlan:
    """A write whose driver is killed.

    Attributes:
        order: The write.
        phase: In which phase.
        moment: Where in the phase, from 0 to 1.
        target: Who is killed.
        recover: Whether ``Dataset.recover`` comes before the write is run again.
    """

    order: Order
    phase: Phase
    moment: float
    target: Target
    recover: bool

    def request(self, profile: Profile) -> int | None:
        """The request at whose arrival the driver is killed; None for after the last one."""
        if self.phase is Phase.AFTER:
            return None
        first, last = profile.range_of(self.phase)
        return first + round(self.moment * max(last - first, 0))

    @property
    def delay(self) -> float:
        """Seconds from the end of the write to the kill, if it comes after the end."""
        return self.moment * _AFTER_SECONDS


@dataclass(frozen=True)
class StreamPlan:
    """One start of a query, and its end.

    Attributes:
        route: ``format`` for ``writeStream``, ``write`` for ``foreachBatch``.
        batches: After how many batches' worth of requests it is killed.
        target: Who is killed.
    """

    route: Route
    batches: float
    target: Target


def executor_plan(seed: int, number: int) -> ExecutorPlan:
    """The write of a number. Routes and modes take turns."""
    chance = _chance(seed, "executor", number)
    return ExecutorPlan(_order(number), chance.uniform(_EARLIEST, _LATEST), chance.random())


def driver_plan(seed: int, number: int) -> DriverPlan:
    """The write of a number. Routes, modes and phases take turns."""
    chance = _chance(seed, "driver", number)
    return DriverPlan(
        _order(number),
        _PHASES[number % len(_PHASES)],
        chance.random(),
        _TARGETS[(number // 3) % len(_TARGETS)],
        recover=chance.random() < 0.5,
    )


def stream_plan(seed: int, number: int, dropped: int) -> StreamPlan:
    """The start of a number.

    Args:
        seed: Of all that is drawn.
        number: Which start.
        dropped: How many new batches wait for it.
    """
    chance = _chance(seed, "stream", number)
    return StreamPlan(chance.choice(_ROUTES), chance.uniform(0, dropped), chance.choice(_TARGETS))


def _order(number: int) -> Order:
    return Order(number, _ROUTES[number % 2], _MODES[(number // 2) % 3])


def _chance(seed: int, what: str, number: int) -> random.Random:
    return random.Random(f"{seed}/{what}/{number}")  # noqa: S311 - to be repeated, not to be secret
