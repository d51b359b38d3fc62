"""A proxy in front of the store that knows which process is at which request, and makes phases last."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web

from magicfs.testing.fault_proxy import FaultProxy, _Arrival
from magicfs.testing.faults import Action
from proofs.kill.phases import DRIVER, Phase, Request, phase_of
from proofs.kill.stores import Arrived, Kind

__all__ = ["DELAYS_S", "NO_DELAYS", "Sighting", "WatchingProxy"]

_JOB = re.compile(r"/__magic_job-([^/]+)/")
_POLL_SECONDS = 0.005
_CHANGES = frozenset(
    {
        *("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload"),
        *("PutObject", "DeleteObject", "DeleteObjects"),
    }
)

DELAYS_S: Final[Mapping[Phase, float]] = MappingProxyType(
    {
        Phase.OPEN: 0.07,
        Phase.PART: 0.08,
        Phase.PENDING: 0.06,
        Phase.TASK_COMMIT: 0.07,
        Phase.SWAP: 0.07,
        Phase.COMPLETE: 0.2,
        Phase.DELETE: 0.38,
        Phase.SUCCESS: 0.13,
        Phase.CLEANUP: 0.2,
    }
)
"""How long a request that changes something is held up, in seconds, by the phase that it belongs to. On a
server in this machine a job is over in a fifth of a second, most of it before its first request. The same
delays in every round give the phases comparable lengths, so that uniform times hit all of them.
"""


NO_DELAYS: Final[Mapping[Phase, float]] = MappingProxyType({})
"""For processes that need not be slowed down."""


@dataclass(slots=True)
class Sighting:
    """One request as the proxy saw it.

    Attributes:
        request: The request.
        phase: What its sender was doing.
        arrived: When, in seconds of ``time.monotonic``.
        in_flight: Whether it is not answered yet.
        ended: When that was over.
        status: Of the answer; None if there is none.
    """

    request: Request
    phase: Phase
    arrived: float
    in_flight: bool = True
    ended: float | None = None
    status: int | None = None

    def told(self, since: float) -> str:
        """The request in words, with times in seconds since another."""
        answer = self.status if self.status is not None else "no answer"
        ended = "" if self.ended is None else f" at {self.ended - since:.2f} s"
        role, operation = self.request.role, self.request.operation
        return f"{self.arrived - since:.2f} s: {operation} by the {role}: {answer}{ended}"


class WatchingProxy(FaultProxy):
    """The fault proxy for one job. Methods may be called from any thread.

    Args:
        upstream: The server.
        kind: Of what store it is one.
        destination: The key of the job's destination.
        delays_s: What stretches phases.
    """

    def __init__(
        self, upstream: str, kind: Kind[Any], destination: str, delays_s: Mapping[Phase, float] = DELAYS_S
    ) -> None:
        super().__init__(upstream, kind.operation)
        self._kind = kind
        self._destination = destination
        self._sightings: list[Sighting] = []
        self._phases: set[Phase] = set()
        self._watch = threading.Lock()
        self._delays_s = delays_s

    @property
    def sightings(self) -> list[Sighting]:
        """Every request that arrived, in the order of arrival."""
        with self._watch:
            return list(self._sightings)

    def at(self, roles: Collection[str]) -> Sighting | None:
        """The last request of some processes: one that is not answered, else the last one that was."""
        found = [one for one in self.sightings if one.request.role in roles]
        return next(reversed([one for one in found if one.in_flight] or found), None)

    def phase(self, roles: Collection[str]) -> Phase:
        """What some processes are doing; a driver that has set its job up is waiting for its workers."""
        last = self.at(roles)
        if last is None:
            return Phase.START
        waits = set(roles) == {DRIVER} and last.phase is Phase.SETUP and not last.in_flight
        if waits and any(one.request.role != DRIVER for one in self.sightings):
            return Phase.WAITING
        return last.phase

    def history(self, key: str) -> list[str]:
        """All requests about a key, in words."""
        found = self.sightings
        return [one.told(found[0].arrived) for one in found if key in one.request.keys]

    def has_published(self) -> bool:
        """Whether files were made visible. Small ones are put, not completed; then the manifest tells it."""
        return any(one.phase in {Phase.COMPLETE, Phase.MANIFEST} for one in self.sightings)

    def job(self) -> str | None:
        """The id of the job, once it has written something that bears it."""
        found = (_JOB.search(key) for one in self.sightings for key in one.request.keys)
        return next((match[1] for match in found if match is not None), None)

    def settle(self, seconds: float, roles: Collection[str] | None = None) -> bool:
        """Wait until nothing is in flight; requests go on to the server when their sender is dead.

        Args:
            seconds: How long at most.
            roles: Whose requests; by default everybody's.

        Returns:
            Whether that came to pass in time.
        """
        deadline = time.monotonic() + seconds
        while any(one.in_flight and (roles is None or one.request.role in roles) for one in self.sightings):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    # Below, in the proxy's own thread.

    async def _forward(self, arrival: _Arrival, action: Action | None) -> web.StreamResponse:
        with self._seen(arrival) as sighting:
            if sighting.request.operation in _CHANGES and sighting.phase in self._delays_s:
                await self._wait(self._delays_s[sighting.phase])
            answer = await super()._forward(arrival, action)
            sighting.status = answer.status if answer.prepared else None
            return answer

    @contextmanager
    def _seen(self, arrival: _Arrival) -> Iterator[Sighting]:
        path, _, query = arrival.target.partition("?")
        arrived = Arrived(arrival.operation, path, query, arrival.request.headers, arrival.body)
        request = self._kind.request(arrived)
        with self._watch:
            sighting = Sighting(request, phase_of(request, self._destination, self._phases), time.monotonic())
            self._phases.add(sighting.phase)
            self._sightings.append(sighting)
        try:
            yield sighting
        finally:
            sighting.in_flight = False
            sighting.ended = time.monotonic()
