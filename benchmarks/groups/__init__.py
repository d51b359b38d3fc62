"""The groups of measures: each is a module with a ``measure`` function, imported when it is run.

``measure`` takes the :class:`~benchmarks.session.Session` of the run, and returns figures by name: those that
``benchmarks.targets`` names are judged, all others are reported as they are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from benchmarks.figures import Figure
    from benchmarks.session import Session
    from benchmarks.targets import Run

__all__ = ["GROUPS", "groups_of", "measure_of"]

GROUPS: Final[Mapping[str, tuple[Run, str]]] = {
    "commit": ("bench", "benchmarks.groups.commit"),
    "files": ("bench", "benchmarks.groups.files"),
    "small": ("bench", "benchmarks.groups.small"),
    "stub-stream": ("bench", "benchmarks.groups.stub_stream"),
    "tls-stream": ("bench", "benchmarks.groups.tls_stream"),
    "stream": ("bench", "benchmarks.groups.stream"),
    "many": ("bench", "benchmarks.groups.many"),
    "one-by-one": ("bench", "benchmarks.groups.one_by_one"),
    "rows": ("bench", "benchmarks.groups.rows"),
    "engines": ("bench", "benchmarks.groups.engines"),
    "partitions": ("bench", "benchmarks.groups.partitions"),
    "chains": ("bench", "benchmarks.groups.chains"),
    "cold": ("bench", "benchmarks.groups.cold"),
    "latency": ("bench", "benchmarks.groups.latency"),
    "million": ("bench-full", "benchmarks.groups.million"),
    "verbs": ("bench-full", "benchmarks.groups.verbs"),
    "latency-full": ("bench-full", "benchmarks.groups.latency_full"),
    "hadoop": ("bench-hadoop", "benchmarks.groups.hadoop"),
}
"""By name: the run that a group is part of, and its module."""


def groups_of(run: Run) -> list[str]:
    """The names of a run's groups, in the order in which they are measured."""
    return [name for name, (its_run, _) in GROUPS.items() if its_run == run]


def measure_of(name: str) -> Callable[[Session], Mapping[str, Figure]]:
    """The function of a group."""
    module = importlib.import_module(GROUPS[name][1])
    return cast("Callable[[Session], Mapping[str, Figure]]", module.measure)
