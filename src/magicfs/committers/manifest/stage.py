"""What a stage is, and what all stages of a task attempt or a job commit share: settings and counters."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from magicfs.committers.manifest.places import Places
from magicfs.committers.options import ManifestOptions
from magicfs.engine import Event
from magicfs.errors import ProtocolViolation
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.protocol.ids import TaskId
from magicfs.stores.tree_port import Tree
from magicfs.transaction.context import JobContext

__all__ = ["Counts", "Stage", "StageConfig"]


class Counts:
    """Counters and durations of one task attempt or one job commit."""

    def __init__(self) -> None:
        self._counters: Counter[str] = Counter()
        self._measured: dict[str, tuple[int, int, int, int]] = {}
        self._means: dict[str, MeanStatistic] = {}

    def add(self, name: str, count: int = 1) -> None:
        """Count something."""
        self._counters[name] += count

    def __getitem__(self, name: str) -> int:
        return self._counters[name]

    def sample(self, name: str, value: int) -> None:
        """Add a value to a mean."""
        self._means[name] = self._means.get(name, MeanStatistic()) + MeanStatistic(1, value)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure how long something takes, in milliseconds; what raises is measured as a failure.

        As Hadoop's duration statistics: ``name`` counts all, ``name.failures`` those that raised.
        """
        started = time.monotonic()
        self.add(name)
        measured = f"{name}.failures"
        try:
            yield
            measured = name
        finally:
            if measured != name:
                self.add(measured)
            took = round((time.monotonic() - started) * 1000)
            least, greatest, samples, total = self._measured.get(measured, (took, took, 0, 0))
            self._measured[measured] = (min(least, took), max(greatest, took), samples + 1, total + took)

    def statistics(self) -> Statistics:
        """All of it so far."""
        measured = sorted(self._measured.items())
        return Statistics(
            counters=dict(sorted(self._counters.items())),
            minimums={f"{name}.min": least for name, (least, *_) in measured},
            maximums={f"{name}.max": greatest for name, (_, greatest, *_) in measured},
            meanstatistics=self._means
            | {f"{name}.mean": MeanStatistic(samples, total) for name, (*_, samples, total) in measured},
        )


_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def _nobody(_event: Event) -> None:
    return None


@dataclass(slots=True, kw_only=True)
class StageConfig:
    """What the stages of one task commit, or of one job commit, work with."""

    context: JobContext
    places: Places
    tree: Tree
    options: ManifestOptions
    concurrency: int  # most requests at once
    final_key: Callable[[str, TaskId], str]  # of a file that a task wrote under a relative path
    name_bytes_max: int = 0  # of the longest name that the store takes; 0 for any
    tell: Callable[[Event], None] = _nobody  # called with every finished rename
    pause_s: float = 0.5  # after the n-th failure to save a file it waits n times so long
    counts: Counts = field(default_factory=Counts)
    entered: str = ""  # name of the stage that was begun last; empty before the first


class Stage(ABC, Generic[_Argument, _Result]):
    """One step of the protocol. A stage object runs once."""

    name: ClassVar[str]  # Hadoop's, under which its runs are counted and measured

    def __init__(self, config: StageConfig) -> None:
        self.config = config
        self._began = False

    async def run(self, argument: _Argument) -> _Result:
        """Carry the stage out. Raises ProtocolViolation if it was carried out before, or is under way."""
        if self._began:
            raise ProtocolViolation(
                f"stage {self.name} of job {self.config.context.job} attempted twice; make a new one"
            )
        self._began = True
        self.config.entered = self.name
        with self.config.counts.timed(self.name):
            return await self._run(argument)

    @abstractmethod
    async def _run(self, argument: _Argument) -> _Result:
        """What the stage does."""
