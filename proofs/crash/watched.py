"""A world that is looked at after every change."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from magicfs.committers.registry import committer_info
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Request
from proofs.crash import beside
from proofs.crash.cluster_files import SceneTraffic
from proofs.crash.disk import disk
from proofs.crash.history import Facts, JobHistory
from proofs.crash.invariants import Violation, check
from proofs.crash.processes import Outcome, apart, check_alive
from proofs.crash.snapshots import SnapshotWorld
from proofs.crash.writing import Clock
from proofs.doubles import virtual_time

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
    traffic: Traffic = field(default_factory=SceneTraffic)
    _looked: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for job in self.facts.jobs:
            self.histories.setdefault(job.job_id, JobHistory())

    @property
    def staged(self) -> bool:
        """Whether tasks write local files."""
        return committer_info(self.facts.jobs[0].committer).writes == "local files"

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

        self.traffic = SceneTraffic(after=seen, **options)
        return self.traffic

    def look(self, *, ended: bool = False) -> None:
        """Check the world as it is now: its objects, if they are others than at the last look."""
        for job in self.facts.jobs:
            self.histories[job.job_id].look(self.world, job, self.facts.destination)
        if not ended:
            # What engines know meanwhile can only excuse what was seen.
            if self._looked == self.world.objects:
                return
            self._looked = dict(self.world.objects)
        self.violations += check(self.before, self.world, self.facts, self.histories, ended=ended)

    def look_at_disk(self) -> None:
        """Take note of what lies on the disk of the machine."""
        if self.staged:
            self.world.local = disk().take()

    def look_beside(self, *, tidy: bool) -> None:
        """Check what lies beside the store.

        Args:
            tidy: Whether the jobs must have left nothing there.
        """
        if not self.staged:
            return
        self.look_at_disk()
        jobs = [job.job_id for job in self.facts.jobs]
        self.violations += [Violation("e", one) for one in beside.disturbed(self.before, self.world, jobs)]
        if tidy:
            self.violations += [Violation("d", one) for job in jobs for one in beside.left(self.world, job)]

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
        if self.staged:
            disk().lay(self.world.local)
        with apart(), virtual_time.deterministic(seed, clock or self.clock):
            result = virtual_time.run(program, seed=order, inline=check_alive)
        self.look_at_disk()
        return result
