"""The same far away with jobs of up to 1,000 tasks and 100,000 files that the shipped code runs."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Figure
from benchmarks.latency_study import QUICK, WHOLE, study
from benchmarks.session import Session

__all__ = ["measure"]


def measure(session: Session) -> Mapping[str, Figure]:
    """How far code and arithmetic are apart there."""
    compared = study(QUICK if session.quick else WHOLE.up_to_100_000())
    for name, plot in compared.plots().items():
        session.pictures[f"{name}-full"] = plot.title, plot.svg()
    return {"latency_apart_full": Figure.exact(compared.figures()["latency_apart"])}
