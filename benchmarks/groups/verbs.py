"""The verbs of the days after, at a size and at a tenth of it: what grows faster than the files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from benchmarks.crew import LONG_S, Measured, crew, sized, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.session import Session

__all__ = ["VERBS", "measure"]

_SIDES: Final = {
    "whole": "benchmarks.sides.verbs:Verbs",
    "a tenth": "benchmarks.sides.verbs:Verbs",
}
VERBS: Final = (
    *("append", "status", "overwrite_partitions", "rollback", "expire", "rewrite", "drop"),
    *("uploads", "status_of_bucket", "abort"),
)


def measure(session: Session) -> Mapping[str, Figure]:
    """Time and requests of each verb against those of a tenth, and the peak of the process."""
    files = session.size(100_000, 10_000)
    sizes = {"whole": files, "a tenth": files // 10}
    with crew(session, _SIDES, None) as sides:
        turns = {name: sized(partial(sides[name].do, "verbs"), files=size) for name, size in sizes.items()}
        measured = take_turns(session, turns, round_s=LONG_S)
    figures = {
        "verbs_peak_mb": Figure.of([turn.values["peak_mb"] for turn in measured.turns["whole"]]),
        "verbs_time": max(
            (ratio_of(measured.wall_s("whole", one), measured.wall_s("a tenth", one)) for one in VERBS),
            key=lambda ratio: ratio.value,
        ),
        "verbs_requests": max(
            (
                ratio_of(_requests(measured, "whole", one), _requests(measured, "a tenth", one))
                for one in VERBS
            ),
            key=lambda ratio: ratio.value,
        ),
    }
    for verb in VERBS:
        figures[f"verbs_{verb}_s"] = Figure.of(measured.wall_s("whole", verb))
        figures[f"verbs_{verb}_requests"] = Figure.of(_requests(measured, "whole", verb))
    return figures


def _requests(measured: Measured, side: str, verb: str) -> list[float]:
    return [turn.values["requests"][verb] for turn in measured.turns[side]]
