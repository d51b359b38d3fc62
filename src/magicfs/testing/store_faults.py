"""What can go wrong with a request to a store, and with which: the rules of ``FaultyStore``."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

_CHANGING = (
    *("create_", "put", "complete_", "abort_", "copy", "delete"),
    *("make_", "rename", "write"),
)


class Crash(BaseException):
    """The process is gone. No ``except Exception`` stops it, and no handler of it reaches the store."""


class Kind(StrEnum):
    """What happens to a request."""

    CRASH_BEFORE = "crash-before"
    """The process dies; the store sees nothing."""
    CRASH_AFTER = "crash-after"
    """The store does it; the process dies before it hears."""
    ERROR_BEFORE = "error-before"
    """The store answers an error and does nothing."""
    REPLY_LOST = "reply-lost"
    """The store does it; the answer is lost."""
    THROTTLE = "throttle"
    """503 SlowDown; nothing is done."""
    CONFLICT = "409"
    """Another request was on its way: nothing is done, the request is to be repeated."""
    REFUSED = "412"
    """A layer below repeats a request whose reply was lost, and is refused by the request's own work: 412, or
    404 for an upload. What nothing can refuse is done."""
    DELAY = "delay"
    """The request waits, then goes on."""
    LATE = "late"
    """No answer, and the store does it some time afterwards."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Which requests fail, and how.

    Attributes:
        kind: What happens.
        number: The number of the request among all, from 1; None for any.
        operation: The port's name of it; ``*`` is any.
        prefix: Beginning of the key, or of the target.
        actor: Name of the actor; empty for any.
        skip: How many that match pass first.
        times: How many are caught; None is all from then on: the fault lasts.
        seconds: How long a delay takes.
    """

    kind: Kind
    _: KW_ONLY
    number: int | None = None
    operation: str = "*"
    prefix: str = ""
    actor: str = ""
    skip: int = 0
    times: int | None = 1
    seconds: float = 1.0

    def matches(self, request: Request) -> bool:
        """Whether it is about this request."""
        return (
            self.number in (None, request.number)
            and self.operation in ("*", request.operation)
            and any(key.startswith(self.prefix) for key in (request.key, request.target))
            and self.actor in ("", request.actor)
        )


@dataclass(frozen=True, slots=True)
class Request:
    """One request, which is also every page of a listing."""

    number: int  # among all of its traffic, from 1
    actor: str  # who sent it
    operation: str  # the port's name of it
    key: str  # its key or prefix; of many keys the first
    condition: str = ""  # ``if_absent`` (``PutMode.CREATE``) or ``if_match`` (``Update``)
    target: str = ""  # where a copy or a rename leads

    @property
    def changes(self) -> bool:
        """Whether it may change the store."""
        return self.operation.startswith(_CHANGING)

    def __str__(self) -> str:
        leads = f" to {self.target}" if self.target else ""
        return f"{self.number} {self.actor}: {self.operation} {self.key}{leads}"


@dataclass(slots=True)
class Actor:
    """One process, by the name that messages and faults use. A dead one has crashed."""

    name: str
    dead: bool = False


@dataclass(slots=True)
class ArmedFault:
    """A fault at work: it remembers how many requests it has let pass and caught."""

    fault: Fault
    skip: int
    left: int | None

    def catches(self, request: Request) -> bool:
        """Decide about one request, and count it."""
        if self.left == 0 or not self.fault.matches(request):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.left is not None:
            self.left -= 1
        return True
