"""How a run fails, and at which request: found by counting those of a run that does not fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from magicfs.testing.faults import Action, RequestSeen, Rule

__all__ = ["CASES", "Case", "Stop", "rule_of", "stop_of"]

_DATA = ("UploadPart", "PutObject")
_FILE = r"\.parquet(\?|$)"
_CHANGES = frozenset({"PUT", "POST", "DELETE"})


@dataclass(frozen=True)
class Case:
    """One way to fail."""

    name: str
    how: str  # ``raise``: the source of the rows; ``refuse``: the store; ``kill``: SIGKILL
    share: float = 0.5  # after which part of the requests that carry rows
    publishing: bool = False  # whether among the requests behind these instead, which publish and delete


CASES = (
    Case("raise", "raise"),
    Case("refuse", "refuse"),
    Case("kill 25 %", "kill", 0.25),
    Case("kill 50 %", "kill", 0.5),
    Case("kill 75 %", "kill", 0.75),
    Case("kill while publishing", "kill", publishing=True),
)


@dataclass(frozen=True)
class Stop:
    """A request of a run: the so-manieth of its operation that is sent to such paths."""

    operation: str
    number: int
    match: str | None


def stop_of(requests: Sequence[RequestSeen], case: Case) -> Stop | None:
    """Where a run stops that would make these requests; None where it makes none of the kind."""
    operation = max(_DATA, key=lambda one: sum(_carries(request, one) for request in requests))
    places = [number for number, request in enumerate(requests) if _carries(request, operation)]
    if not places:
        return None
    if not case.publishing:
        return Stop(operation, max(1, ceil(case.share * len(places))), _FILE)
    changes = [n for n, one in enumerate(requests) if n > places[-1] and one.method in _CHANGES]
    behind = [n for n in changes if requests[n].operation == "CompleteMultipartUpload"] or changes
    if not behind:
        return None
    middle = behind[len(behind) // 2]
    wanted = requests[middle].operation
    return Stop(wanted, sum(one.operation == wanted for one in requests[: middle + 1]), None)


def _carries(request: RequestSeen, operation: str) -> bool:
    path = request.path.lower()
    return request.operation == operation and path.endswith(".parquet")


def rule_of(stop: Stop, case: Case) -> Rule:
    """What the proxy does from that request on, or with it."""
    if case.how == "refuse":
        return Rule(
            stop.operation,
            Action.ERROR,
            skip=stop.number - 1,
            match=stop.match,
            status=403,
            code="AccessDenied",
        )
    return Rule(stop.operation, Action.HANG, skip=stop.number - 1, match=stop.match)
