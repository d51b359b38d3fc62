"""What the stages count and measure, under Hadoop's names (``ManifestCommitterStatisticNames``)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from magicfs.formats.statistics import MeanStatistic, Statistics

__all__ = ["Counts"]


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
