"""Beside Hadoop's own committers for S3, driven directly and by Spark."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks import hadoop
from benchmarks.figures import Figure
from benchmarks.session import Session

__all__ = ["measure"]


def measure(session: Session) -> Mapping[str, Figure]:
    """Ratios of medians; the spread is that of the ratios within each round."""
    with hadoop.scratch() as directory:
        results = hadoop.run(directory, quick=session.quick, rounds=session.rounds)
    session.fell_back(results.fallbacks)
    session.versions |= results.versions
    session.sides += results.sides()
    return results.figures
