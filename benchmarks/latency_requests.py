"""How long a job takes far away, told from its requests: for sizes that take too long to be run.

Of each phase is known how many requests it makes, and how many of them come one after the other: both grow
with tasks and files in straight lines. The lines are not typed in but taken from three small runs of the
shipped code, on a store where a request takes one second and nothing is limited: so what such a run takes, in
seconds, is the length of its longest chain of requests. Chains of copies are taken from runs where only
copies take time. From there on it is arithmetic: a phase takes as long as its chain, or as long as the store
takes to let its requests pass, whichever is longer.

How near that comes is measured: ``benchmarks.latency`` runs the shipped code at a size beyond those of the
three runs, and says how far the two are apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.latency_job import Phase, Played, Subject, play
from benchmarks.latency_store import Rates

__all__ = ["Line", "Predicted", "RequestModel", "learn"]

PhaseName = Literal["setup", "work", "commit"]
_PHASES: Final[tuple[PhaseName, ...]] = ("setup", "work", "commit")
_ONE_A_REQUEST: Final = Rates(latency_s=1.0, jitter=0, writes_s=0, reads_s=0, object_mb=0)
_ONE_A_COPY: Final = Rates(latency_s=0.0, jitter=0, writes_s=0, reads_s=0, object_mb=1, copy_mb_s=(1, 1))
_TASKS: Final = 10
_FILES: Final = 1000
"""Of the smallest run. Whole pages of a listing, and 100 files a task: where a task sends several files at
once it does so in waves, so the lines are exact for that number only."""


@dataclass(frozen=True, slots=True)
class Line:
    """A number that grows with tasks and files.

    Attributes:
        always: What it is at least.
        a_task: What each task adds.
        a_file: What each file adds.
    """

    always: float = 0.0
    a_task: float = 0.0
    a_file: float = 0.0

    def at(self, tasks: float, files: float) -> float:
        """The number."""
        return self.always + self.a_task * tasks + self.a_file * files

    @classmethod
    def through(cls, tasks: int, files: int, found: Sequence[float]) -> Line:
        """The line through three runs: the smallest, one of twice the tasks, one of twice the files."""
        smallest, more_tasks, more_files = found
        a_task, a_file = (more_tasks - smallest) / tasks, (more_files - smallest) / files
        return cls(smallest - a_task * tasks - a_file * files, a_task, a_file)


@dataclass(frozen=True, slots=True)
class PhaseModel:
    """The requests of one phase.

    Attributes:
        writes: How many; a key of a bulk delete is one.
        reads: How many.
        chain: How many come one after the other.
        copies: How many copies do.
    """

    writes: Line
    reads: Line
    chain: Line
    copies: Line

    def seconds(self, tasks: int, files: int, rates: Rates) -> float:
        """How long the phase takes."""
        always_s = self.chain.always * rates.latency_s
        chain_s = self.chain.at(tasks, files) * rates.latency_s + self.copies.at(tasks, files) * rates.copy_s
        return always_s + max(chain_s - always_s, self.passing_s(tasks, files, rates))

    def passing_s(self, tasks: int, files: int, rates: Rates) -> float:
        """How long the store takes to let all requests pass."""
        writes_s = self.writes.at(tasks, files) / rates.writes_s if rates.writes_s else 0.0
        reads_s = self.reads.at(tasks, files) / rates.reads_s if rates.reads_s else 0.0
        return max(writes_s, reads_s)


@dataclass(frozen=True, slots=True)
class Predicted:
    """How long a job takes, by phases, in seconds."""

    setup_s: float
    work_s: float
    commit_s: float

    @property
    def total_s(self) -> float:
        """The whole job."""
        return self.setup_s + self.work_s + self.commit_s


@dataclass(frozen=True, slots=True)
class RequestModel:
    """The requests of a committer.

    Attributes:
        phases: By name.
        workers: How many there were in the runs; the chain of ``work`` is that of so many.
    """

    phases: dict[PhaseName, PhaseModel]
    workers: int

    def predict(self, tasks: int, files: int, rates: Rates, workers: int = 100) -> Predicted:
        """How long a job takes whose tasks all have equally many files."""
        setup, work, commit = (self.phases[name] for name in _PHASES)
        turns = math.ceil(tasks / workers)
        # One turn of any number of workers takes as long as one of these, if each has as many files.
        files_of_turn = self.workers * files / tasks
        chain_s = turns * (
            work.chain.at(self.workers, files_of_turn) * rates.latency_s
            + work.copies.at(self.workers, files_of_turn) * rates.copy_s
        )
        return Predicted(
            setup.seconds(0, 0, rates),
            max(chain_s, work.passing_s(tasks, files, rates)),
            commit.seconds(tasks, files, rates),
        )


def learn(subject: Subject, tasks: int = _TASKS, files: int = _FILES) -> RequestModel:
    """Run a committer three times, or six where it copies, and take its lines from that.

    Args:
        subject: The committer.
        tasks: Of the smallest run.
        files: Likewise.
    """
    sizes = ((tasks, files), (2 * tasks, files), (tasks, 2 * files))

    def run(rates: Rates) -> list[Played]:
        return [play(subject, *size, rates, workers=tasks) for size in sizes]

    requests = run(_ONE_A_REQUEST)
    copies = run(_ONE_A_COPY) if any(_copies(one) for one in requests) else None

    def line(runs: list[Played] | None, name: PhaseName, number: Callable[[Phase], float]) -> Line:
        found = [number(getattr(one, name)) for one in runs or ()]
        return Line.through(tasks, files, found) if found else Line()

    return RequestModel(
        {
            name: PhaseModel(
                line(requests, name, lambda phase: phase.tally.writes + phase.tally.more_keys),
                line(requests, name, lambda phase: phase.tally.reads),
                line(requests, name, lambda phase: phase.seconds),
                line(copies, name, lambda phase: phase.seconds),
            )
            for name in _PHASES
        },
        workers=tasks,
    )


def _copies(played: Played) -> bool:
    return any(phase.tally.counts["copy"] for phase in (played.setup, played.work, played.commit))
