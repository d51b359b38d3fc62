"""Replacing many partitions, in memory: only what magicfs itself computes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.crew import LONG_S, crew, sized, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.session import Session

__all__ = ["measure"]


def measure(session: Session) -> Mapping[str, Figure]:
    """The job commit that replaces every partition, against the one that wrote them."""
    given = {
        "files": session.size(100_000, 2000),
        "partitions": session.size(10_000, 200),
        "tasks": session.size(100, 10),
    }
    with crew(session, {"magicfs": "benchmarks.sides.forged:Forger"}, None) as sides:
        turns = {"magicfs": sized(partial(sides["magicfs"].do, "partitions"), **given)}
        measured = take_turns(session, turns, round_s=LONG_S)
    append = measured.wall_s("magicfs", "append")
    return {
        "partitions_vs_append": ratio_of(measured.wall_s("magicfs", "overwrite_partitions"), append),
        "partitions_append_s": Figure.of(append),
    }
