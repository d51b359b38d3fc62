"""What a run tells its groups: how much to measure, how often, and where to say so."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.figures import Figure

__all__ = ["Session", "SideTimes"]

ROUNDS = 5
ROUNDS_IF_LONG = 3
ROUNDS_IF_QUICK = 2
LONG_ROUND_S = 20.0


@dataclass(frozen=True, slots=True)
class SideTimes:
    """What one side of a group took."""

    group: str
    side: str
    phase: str
    wall_s: Figure
    cpu_s: Figure  # of the client
    server_cpu_s: Figure

    @property
    def times(self) -> tuple[Figure, Figure, Figure]:
        """Seconds, the client's processor seconds, the server's."""
        return self.wall_s, self.cpu_s, self.server_cpu_s


@dataclass(slots=True)
class Session:
    """One run of the benchmarks."""

    rounds: int | None = None  # None: 5, and 3 where a round takes long
    quick: bool = False  # small sizes: what comes out is no measurement
    quiet: bool = False
    group: str = ""  # that is being measured
    sides: list[SideTimes] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # what each group took
    remarks: dict[str, str] = field(default_factory=dict)  # sides that did not take part, and why
    versions: dict[str, str] = field(default_factory=dict)
    pictures: dict[str, tuple[str, str]] = field(default_factory=dict)  # title and SVG, by name
    fallbacks: dict[str, int] = field(
        default_factory=dict
    )  # requests of magicfs through aiobotocore, by operation

    def size(self, whole: int, quick: int) -> int:
        """The size of a measure, in a whole run or a quick one."""
        return quick if self.quick else whole

    def rounds_for(self, warm_up_s: float) -> int:
        """How many rounds to measure, given what a round of all sides takes."""
        if self.rounds is not None:
            return self.rounds
        if self.quick:
            return ROUNDS_IF_QUICK
        return ROUNDS_IF_LONG if warm_up_s > LONG_ROUND_S else ROUNDS

    def without(self, side: str, why: Exception) -> None:
        """Note that a side does not take part."""
        self.remarks[side] = f"did not take part: {str(why).splitlines()[-1]}"
        self.say(f"   {side} {self.remarks[side]}")

    def fell_back(self, requests: Mapping[str, int]) -> None:
        """Note requests of magicfs that another client has sent for it."""
        for operation, count in requests.items():
            self.fallbacks[operation] = self.fallbacks.get(operation, 0) + count

    def say(self, text: str) -> None:
        """Tell whoever watches."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    @contextmanager
    def timed(self, group: str) -> Iterator[None]:
        """Note what a group takes."""
        started = time.monotonic()
        self.say(f"== {group}")
        self.group = group
        yield
        self.seconds[group] = time.monotonic() - started
