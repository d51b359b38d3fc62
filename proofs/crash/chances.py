"""What chance brings to a simulated job: faults, their rates, and when which process does what."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from magicfs.testing.store_faults import Fault, Kind, Request

__all__ = ["Chances", "Weather"]

_WEIGHTS = {
    Kind.ERROR_BEFORE: 4,
    Kind.REPLY_LOST: 6,
    Kind.THROTTLE: 4,
    Kind.CONFLICT: 2,
    Kind.REFUSED: 4,
    Kind.DELAY: 3,
    Kind.LATE: 3,
    Kind.CRASH_BEFORE: 1,
    Kind.CRASH_AFTER: 1,
}
_SLUGGISH_S = 20.0
_CRASHES = {Kind.CRASH_BEFORE, Kind.CRASH_AFTER}


@dataclass(slots=True)
class Weather:
    """How bad the store and the machines are.

    Attributes:
        fault_rate: Share of requests that something happens to.
        latency_s: Mean seconds of a request.
        page: Entries of one page of a listing; 0 for the store's own.
        stale: Whether later pages of a listing show what was there when it began.
    """

    fault_rate: float
    latency_s: float
    page: int
    stale: bool


@dataclass
class Chances:
    """Draws everything from one seed.

    Attributes:
        random: The source.
        weather: How bad it is.
        company: ``rivals``, ``races``, ``drivers``, ``names``, ``maintenance``, ``interrupts``, ``limits`` or
            ``days``; empty for what chance brings.
        calm: Whether nothing goes wrong any more.
        mortal: Names of processes that may crash.
        met: Faults by kind and by the state of the job that they met.
    """

    random: random.Random
    weather: Weather
    company: str = ""
    calm: bool = False
    mortal: set[str] = field(default_factory=set)
    met: Counter[tuple[str, str]] = field(default_factory=Counter)

    @classmethod
    def of(cls, seed: str, company: str = "") -> Chances:
        """The chances of a seed.

        In the company of ``rivals`` there are two jobs; of ``races`` one job and several who want to end it;
        of ``drivers`` two who drive it and two who abort it, and some slow requests; of ``names`` jobs with
        names that make trouble; of ``maintenance`` somebody who looks after the destination; of
        ``interrupts`` a driver that is interrupted while it commits; of ``limits`` files that may hardly be
        larger; of ``days`` a driver that waits for days before it commits. No request of these fails.
        """
        source = random.Random(seed)  # noqa: S311 - no secret
        weather = Weather(
            fault_rate=source.choice((0.0, 0.01, 0.03, 0.1, 0.2)),
            latency_s=source.choice((0.001, 0.05, 0.3)),
            page=source.choice((0, 0, 0, 0, 1, 3, 7)),
            stale=source.random() < 0.3,
        )
        if company:
            weather = Weather(0.0, 0.05, 0, stale=False)
        return cls(source, weather, company)

    def latency(self, _request: Request) -> float:
        """Seconds that a request takes."""
        if self.calm:
            return 0.0
        if self.company == "drivers" and self.one_in(10):
            return self.random.uniform(0.0, _SLUGGISH_S)
        return self.random.expovariate(1 / self.weather.latency_s)

    def fault(self, request: Request, state: str) -> Fault | None:
        """What happens to a request of a job in a state."""
        if self.calm or self.random.random() >= self.weather.fault_rate:
            return None
        kind = self.random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        if kind in _CRASHES and request.actor not in self.mortal:
            return None
        if kind is Kind.LATE and not request.changes:
            kind = Kind.DELAY
        self.met[kind.value, state] += 1
        return Fault(kind, seconds=self.random.choice((0.2, 2.0, 20.0, 70.0)))

    def moment(self) -> float:
        """Seconds until something happens: mostly while a job runs, sometimes long after."""
        if self.company:
            return self.random.uniform(0.0, 60 * self.weather.latency_s)
        if self.one_in(6):
            return self.random.uniform(0.0, 1000.0)
        return self.random.uniform(0.0, 150 * self.weather.latency_s)

    def pause(self, longest: float) -> float:
        """Seconds that somebody waits; mostly short."""
        return longest * self.random.random() ** 3

    def one_in(self, number: int) -> bool:
        """Whether a chance of one in so many comes true."""
        return self.random.randrange(number) == 0
