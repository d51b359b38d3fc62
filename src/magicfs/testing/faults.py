"""What can be done to a request on its way, and to which: the rules of the fault proxy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum


class Action(StrEnum):
    """What happens to a request that a rule catches."""

    ERROR = "error"
    """Answer the rule's status and code. The server sees nothing."""
    LOST = "lost"
    """Let the server do it, then cut the connection. The effect took place."""
    LOST_500 = "lost-500"
    """Let the server do it, then answer the rule's status and code. The effect took place."""
    RESET = "reset"
    """Cut the connection. The server sees nothing."""
    ERROR_IN_200 = "error-in-200"
    """Answer 200 with an ``<Error>`` of the rule's code as body. The server sees nothing."""
    DELAY = "delay"
    """Wait for the rule's seconds, then go on as if nothing had happened."""
    HANG = "hang"
    """Say nothing for the rule's seconds, then cut the connection. The server sees nothing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Which requests are broken, and how.

    Attributes:
        operation: The S3 operation, as botocore's service model names it; ``*`` is any.
        action: What happens.
        times: How many requests are caught; None is all.
        skip: How many matching requests pass first.
        match: A regular expression searched in the raw path and query.
        status: The HTTP status of an error.
        code: The S3 error code.
        seconds: How long DELAY and HANG wait. None is until the proxy leaves.
    """

    operation: str
    action: Action
    _: KW_ONLY
    times: int | None = None
    skip: int = 0
    match: str | None = None
    status: int = 500
    code: str = "InternalError"
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.action is Action.DELAY and self.seconds is None:
            raise ValueError("A DELAY needs seconds=...; to wait without end use HANG.")


@dataclass(frozen=True, slots=True)
class RequestSeen:
    """One request that reached the proxy, in the order in which they ended; path and query are raw."""

    operation: str  # as botocore's service model names it
    method: str
    path: str
    query: str
    status: int | None  # what the client was answered; None if the connection was cut instead
    action: Action | None  # what a rule did to it
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """``user-agent``, and those that begin with ``x-amz-``; names are in small letters."""


class ArmedRule:
    """A rule at work: it remembers how many requests it has let pass and caught. Not for several threads."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._pattern = re.compile(rule.match or "")
        self._to_skip = rule.skip
        self._left = rule.times

    def catches(self, operation: str, target: str) -> bool:
        """Decide about one request, and count it."""
        if self.rule.operation not in ("*", operation) or not self._pattern.search(target):
            return False
        if self._to_skip > 0:
            self._to_skip -= 1
            return False
        if self._left is not None:
            if self._left <= 0:
                return False
            self._left -= 1
        return True
