"""All committers on a store that is far away, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks import latency
from benchmarks.figures import Figure
from benchmarks.latency_study import QUICK, WHOLE
from benchmarks.session import Session

__all__ = ["measure"]


def measure(session: Session) -> Mapping[str, Figure]:
    """The pace of a job commit, and the curves of all committers."""
    sizes = QUICK if session.quick else WHOLE
    found, compared = latency.measured(sizes, files=session.size(10_000, 500))
    for name, plot in compared.plots().items():
        session.pictures[name] = plot.title, plot.svg()
    return {name: Figure.exact(value) for name, value in found.items()}
