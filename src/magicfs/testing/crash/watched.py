"""A world that is looked at after every change."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from magicfs.testing import virtual_time
from magicfs.testing.crash.history import Facts, JobHistory
from magicfs.testing.crash.invariants import Violation, check
from magicfs.testing.crash.processes import Outcome, apart
from magicfs.testing.crash.snapshots import SnapshotWorld
from magicfs.testing.crash.writing import Clock
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Request

__all__ = ["Watched"]

_T = TypeVar("_T")


@dataclass
class Watched:
    """Jobs in one world.

    Attributes:
        before: The world before them.
        world: The world.
        facts: What their engines know.
        histories: What they went through, by job id.
        violations: What was seen that must not be.
        traffic: What all requests pass.
    """

    before: SnapshotWorld
    world: SnapshotWorld
    facts: Facts
    histories: dict[str, JobHistory] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self) -> None:
        for job in self.facts.jobs:
            self.histories.setdefault(job.job_id, JobHistory())

    @property
    def clock(self) -> Clock:
        """The clock of the store."""
        assert isinstance(self.world.clock, Clock)
        return self.world.clock

    def watch(self, **options: Any) -> Traffic:
        """Let requests from now on pass a new traffic, every change of it looked at."""
        after: Callable[[Request], None] | None = options.pop("after", None)

        def seen(request: Request) -> None:
            if request.changes:
                self.look()
            if after is not None:
                after(request)

        self.traffic = Traffic(after=seen, **options)
        return self.traffic

    def look(self, *, ended: bool = False) -> None:
        """Check the world as it is now."""
        for job in self.facts.jobs:
            self.histories[job.job_id].look(self.world, job, self.facts.destination)
        self.violations += check(self.before, self.world, self.facts, self.histories, ended=ended)

    def surprised(self, who: str, outcome: Outcome) -> None:
        """Note a program that ended as none may: not one of the invariants, and no better for it."""
        if outcome.error is not None:
            self.violations.append(Violation("x", f"{who} raised {outcome.error!r}"))

    def stage(
        self,
        program: Coroutine[Any, Any, _T],
        *,
        seed: str | int = 0,
        order: str | int | None = None,
        clock: Callable[[], float] | None = None,
    ) -> _T:
        """Run a program in the world, the same in every run.

        Args:
            program: What to run.
            seed: Of everything random.
            order: Of the turns that tasks take; None for first come, first served.
            clock: What ``time.time()`` tells; by default the store's time.
        """
        with apart(), virtual_time.deterministic(seed, clock or self.clock):
            return virtual_time.run(program, seed=order)
