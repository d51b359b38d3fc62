"""Long chains, in memory: what readers pay after very many publications, against a hundred."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Final

from benchmarks.figures import Figure, ratio_of
from benchmarks.long_chain import LOOKS, LongChain
from benchmarks.session import Session

__all__ = ["measure"]

_FEW: Final = 100
_LOOKS: Final = 20
_GROWS: Final = "whole"
"""What is as long as the chain: it is told by publication."""


def measure(session: Session) -> Mapping[str, Figure]:
    """Ratios of time, and the worst of requests."""
    figures: dict[str, Figure] = {}
    many = session.size(100_000, 1000)
    with closing(LongChain(_FEW)) as short, closing(LongChain(many)) as long:
        requests = {name: (short.requests(name), long.requests(name)) for name in LOOKS}
        for name, (before, after) in requests.items():
            figures[f"chain_{name}_requests_few"] = Figure.exact(before)
            figures[f"chain_{name}_requests_many"] = Figure.exact(after)
        figures["chain_requests"] = Figure.exact(
            max(after / before for name, (before, after) in requests.items() if name != _GROWS)
        )
        rounds = session.rounds_for(0)
        for name in LOOKS:
            looks = _LOOKS if name != _GROWS else 1
            few = [short.seconds(name, _LOOKS) for _ in range(1 + rounds)][1:]
            after_many = [long.seconds(name, looks) for _ in range(1 + rounds)][1:]
            session.say(f"   {name}: {min(few):.5f} s and {min(after_many):.5f} s, {requests[name]} requests")
            figures[f"chain_{name}_few_s"] = Figure.of(few)
            figures[f"chain_{name}_many_s"] = Figure.of(after_many)
            if name != _GROWS:
                figures[f"chain_{name}"] = ratio_of(after_many, few)
    return figures
