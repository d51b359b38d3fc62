"""The job commit of very many files on the stub: how time and memory grow."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchmarks.crew import WARM_UP, Side, Turn, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.groups.bucket import Bucket, on_stub
from benchmarks.session import Session

__all__ = ["measure"]

_FORGER = "benchmarks.sides.forged:Forger"
_DRIVER = "benchmarks.sides.forged:Driver"
_TASKS = 1000
_TENTH = "a tenth"
_WARM_UP = 100  # the discarded round is that much smaller
_ROUND_S = 600.0


def measure(session: Session) -> Mapping[str, Figure]:
    """Every commit has a driver of its own, fresh, which has only the commits of the tasks."""
    files = session.size(1_000_000, 2000)
    tasks = session.size(_TASKS, 10)
    with tempfile.TemporaryDirectory() as directory, on_stub(session) as bucket:
        one = partial(_driven, session, bucket, Path(directory) / "job.pickle")
        turns = {
            "all": partial(one, files=files, tasks=tasks),
            _TENTH: partial(one, files=files // 10, tasks=max(1, tasks // 10)),
        }
        measured = take_turns(session, turns, after=bucket.clear, round_s=_ROUND_S)
    return {
        "million_peak_mb": Figure.of([turn.values["peak_of_process_mb"] for turn in measured.turns["all"]]),
        "million_tenth_peak_mb": Figure.of(
            [turn.values["peak_of_process_mb"] for turn in measured.turns[_TENTH]]
        ),
        "million_vs_tenth": ratio_of(measured.wall_s("all", "commit"), measured.wall_s(_TENTH, "commit")),
        "million_tenth_s": Figure.of(measured.wall_s(_TENTH, "commit")),
        "million_s": Figure.of(measured.wall_s("all", "commit")),
        "million_cpu_ms": Figure.of([1000 * one / files for one in measured.cpu_s("all", "commit")]),
    }


def _driven(session: Session, bucket: Bucket, told: Path, where: str, *, files: int, tasks: int) -> Turn:
    if where.startswith(WARM_UP):
        files, tasks = files // _WARM_UP, max(1, tasks // _WARM_UP)
    forger = Side("magicfs", _FORGER, bucket.place)
    try:
        forger.do("forge", where, files=files, tasks=tasks, told=str(told))
    finally:
        forger.close()
    driver = Side("magicfs", _DRIVER, bucket.place)
    try:
        session.versions |= driver.versions
        return driver.do("commit", where, told=str(told))
    finally:
        driver.close()
