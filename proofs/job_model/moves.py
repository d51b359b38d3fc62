"""What every executor does, one request at a time: the table of moves, and the words to write it in."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from proofs.job_model.rules import Rules
from proofs.job_model.world import ANY, OK, Absent, Actor, JobObject, Request, Value

__all__ = ["TABLE", "Move", "execute", "files", "go", "move", "read_job", "stop", "swap", "uploads"]


class Move(NamedTuple):
    """A request that an executor may make now, and where the answer leads it."""

    request: Request
    then: Callable[[Value], Actor]


Handler = Callable[[Actor, Rules], list[Move]]

TABLE: dict[str, Handler] = {}
"""Every place an executor can be at, but ``stopped``."""


def move(function: Handler) -> Handler:
    """Enter a handler under its own name, with dashes."""
    TABLE[function.__name__.removeprefix("_").replace("_", "-")] = function
    return function


def go(me: Actor, at: str, *notes: Value) -> Actor:
    """The same executor somewhere else, remembering only ``notes``."""
    return me._replace(at=at, notes=notes)


def stop(me: Actor) -> Actor:
    """An executor that has ended; what it knew does not matter any more."""
    return Actor("", me.job, "", "", "stopped")


def files(job: str) -> tuple[str, ...]:
    """The keys that a job publishes."""
    return (f"{job}1", f"{job}2")


def uploads(job: str, facts: str) -> tuple[str, ...]:
    """The uploads of the winners ``facts``."""
    return tuple(f"{key}{facts}" for key in files(job))


def read_job(me: Actor, then: Callable[[JobObject | None], Actor]) -> list[Move]:
    """Read the job object."""

    def answered(value: Value) -> Actor:
        if value is None:
            return stop(me)
        assert isinstance(value, JobObject)
        return then(value)

    return [Move(Request("get", f"{me.job}.job"), answered)]


def swap(
    me: Actor, rules: Rules, then: Callable[[JobObject], Actor], refused: str, **changes: object
) -> list[Move]:
    """Write the job object over the version that was read."""
    seen = me.seen
    assert seen is not None
    new = seen._replace(version=seen.version + 1, **changes)  # type: ignore[arg-type]
    condition = seen if rules.swap else ANY
    request = Request("put", f"{me.job}.job", new, condition)
    return [Move(request, lambda answer: then(new) if answer == OK else go(me, refused))]


def absent_or(value: Value) -> Value:
    """The condition that nothing has changed since ``value`` was read."""
    return Absent() if value is None else value


def execute(me: Actor, seen: JobObject) -> Actor:
    """What an executor does about a job object: what it says, or nothing while it is not decided."""
    me = me._replace(role="executor", mode="", facts="", seen=seen, notes=(), files_left=())
    if seen.state in ("open", "prepared"):
        return stop(me)
    if seen.state == "aborting" or (seen.state == "reverting" and not seen.facts):
        return me._replace(at="losers")
    return me._replace(at="load")


@move
def _reread(me: Actor, _rules: Rules) -> list[Move]:
    return read_job(me, lambda found: execute(me, found) if found else stop(me))
