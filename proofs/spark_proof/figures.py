"""What a run shall reach, and its figures put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["PARTS", "Goal", "summary"]

PARTS = ("speed", "demo", "executors", "drivers", "streams", "speculation", "connect")
"""Speed comes first, while nothing else has left anything running."""

_ADDED = ("rows_wrong", "pending_after", "work_after", "troubles")
_ALWAYS = ("executor_kills", "driver_kills", "stream_restarts")
_RATIOS = ("ratio_2m_rows", "ratio_200_partitions", "ratio_s3")
_KILLS = {"executors": "executor_kills", "drivers": "driver_kills", "streams": "stream_restarts"}


@dataclass(frozen=True)
class Goal:
    """What a run shall do.

    Attributes:
        parts: The parts, in their order.
        executor_kills: How many executors are killed.
        driver_kills: How many drivers are.
        stream_restarts: How often a stream is.
        quick: Whether few losers and few rows are enough.
        server: Name of the store.
        seed: Of all that is drawn.
    """

    parts: tuple[str, ...]
    executor_kills: int
    driver_kills: int
    stream_restarts: int
    quick: bool
    server: str
    seed: int

    def arguments(self, part: str) -> list[str]:
        """The command line that does one part of it."""
        return [
            *("--only", part, "--server", self.server, "--seed", str(self.seed)),
            *("--executor-kills", str(self.executor_kills), "--driver-kills", str(self.driver_kills)),
            *("--stream-restarts", str(self.stream_restarts)),
            *(("--quick",) if self.quick else ()),
        ]


def summary(found: Iterable[Mapping[str, Any]], goal: Goal, seconds: float) -> dict[str, Any]:
    """The figures of all parts as those of one run.

    Args:
        found: Of each part.
        goal: What was to be reached.
        seconds: How long it took.

    Returns:
        What is counted by several parts is added up. A ratio that was not measured is None. ``ok`` says
        that nothing was wrong or left and every kill was made; it does not judge speed, ``slow`` does.
    """
    parts = list(found)
    figures: dict[str, Any] = dict.fromkeys(_ALWAYS, 0) | dict.fromkeys(_RATIOS)
    for part in parts:
        figures |= {
            name: value
            for name, value in part.items()
            if name not in _ADDED and not (name in figures and not value)
        }
    figures |= {name: sum(part.get(name, 0) for part in parts) for name in _ADDED}
    short = [
        name for part, name in _KILLS.items() if part in goal.parts and figures[name] < getattr(goal, name)
    ]
    figures["ok"] = not short and not any(figures[name] for name in _ADDED)
    return figures | {"seconds": seconds, "seed": goal.seed}
