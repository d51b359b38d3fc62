"""Replacing many partitions, in memory: only what magicfs itself computes."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.crew import WARM_UP, Turn, crew, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.session import Session

__all__ = ["measure"]

_WARM_UP = 10  # the discarded round is that much smaller
_ROUND_S = 30.0


def measure(session: Session) -> Mapping[str, Figure]:
    """The job commit that replaces every partition, against the one that wrote them."""
    given = {
        "files": session.size(100_000, 2000),
        "partitions": session.size(10_000, 200),
        "tasks": session.size(100, 10),
    }
    with crew(session, {"magicfs": "benchmarks.sides.forged:Forger"}, None) as sides:

        def turn(where: str) -> Turn:
            divided = _WARM_UP if where.startswith(WARM_UP) else 1
            sizes = {name: size // divided for name, size in given.items()}
            return sides["magicfs"].do("partitions", where, **sizes)

        measured = take_turns(session, {"magicfs": turn}, round_s=_ROUND_S)
    append = measured.wall_s("magicfs", "append")
    return {
        "partitions_vs_append": ratio_of(measured.wall_s("magicfs", "replace_partitions"), append),
        "partitions_append_s": Figure.of(append),
    }
