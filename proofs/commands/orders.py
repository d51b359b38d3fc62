"""What may be there in the end: what some serial order leaves of the verbs that said that they succeeded.

Each order is run once, on a place of its own, one verb after the other. A verb that was refused has changed
nothing. Of one that does not know, or that ends jobs of others on its way, either may be true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cache
from itertools import combinations, permutations
from typing import Final

from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    ObjectNotFound,
    OutputExists,
    UsageError,
)
from proofs.commands.commands import COMMANDS
from proofs.commands.places import BY_HAND, PLACES, Place, Rows
from proofs.scenes.trouble import Trouble

__all__ = ["DRIVER", "Outcome", "check", "outcome_of", "run"]

DRIVER: Final = "driver"
"""The job's own, which commits it."""

_KEEP_ROWS: Final = frozenset(
    {
        *("compact", "adopt", "verify", "read", "history", "tag", "untag", "checkup", "expire"),
        *("register", "sweep", "late_task"),
    }
)
"""Verbs that never change a row, whatever they say."""

_END_JOBS: Final = frozenset({"recover", "rollback", "commit", "abort", "accept"})
"""Verbs that may have done a part, or find their work done by another one."""


_OF_PATHS: Final = ("publish", "publish_over")


class Outcome(Enum):
    """What became of a verb, as it says."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


Told = Sequence[tuple[str, Outcome]]


def outcome_of(verb: Callable[[], object]) -> Outcome:
    """Run a verb, and what it says."""
    try:
        verb()
    except (CommitFailed, CommitOutcomeUnknown):
        return Outcome.UNKNOWN
    except (CommitDenied, ObjectNotFound, OutputExists, UsageError):
        return Outcome.REFUSED
    return Outcome.DONE


def check(place: Place, name: str, store: str, told: Told) -> None:
    """Raise Trouble if no order explains what is there, once all is tidy, and what readers have seen."""
    verbs = [(verb, said) for verb, said in told if verb not in _KEEP_ROWS]
    if ("rollback", Outcome.DONE) in verbs and any((one, Outcome.REFUSED) in verbs for one in _OF_PATHS):
        verbs.append(("discard", Outcome.UNKNOWN))  # what is taken back of a path is discarded
    ends = {end for end, _ in _explained(name, store, verbs)}
    if place.shown not in ends:
        raise Trouble(f"rows are {_shown(place.shown)}, and no order leaves them: {_said(told)} {_all(ends)}")
    if not place.views:
        return
    anything = [(verb, Outcome.UNKNOWN) for verb, _ in verbs]
    views = {_without_hand(view) for _, view in _explained(name, store, anything)}
    for seen, is_partial in place.views:
        if seen not in views and not (is_partial and any(set(seen) <= set(view) for view in views)):
            raise Trouble(
                f"a reader saw {_shown(seen)}, and no order shows that: {_said(told)} {_all(views)}"
            )


def _explained(name: str, store: str, verbs: Told) -> Iterator[tuple[Rows, Rows]]:
    sure = [verb for verb, said in verbs if said is Outcome.DONE and verb not in _END_JOBS]
    doubtful = [verb for verb, said in verbs if said is Outcome.UNKNOWN or verb in _END_JOBS]
    for number in range(len(doubtful) + 1):
        for more in combinations(doubtful, number):
            for order in sorted(set(permutations([*sure, *more]))):
                succeeded, end, view = _after(name, store, order)
                if succeeded >= frozenset(sure):
                    yield end, view


@cache
def _after(name: str, store: str, order: tuple[str, ...]) -> tuple[frozenset[str], Rows, Rows]:
    """Which verbs succeed one after the other; what is there when all is tidy; what manifests show before."""
    place = PLACES[name](store)
    refused = {verb for verb in order if outcome_of(lambda verb=verb: run(place, verb)) is not Outcome.DONE}  # type: ignore[misc]
    view = place.shown
    place.tidy()
    return frozenset(order) - refused, place.shown, view


def run(place: Place, verb: str) -> None:
    """Run a verb whole, in a process of its own."""
    if verb == DRIVER:
        place.driver()
    else:
        place.scene.elsewhere(lambda engine: COMMANDS[verb](engine, place))


def _without_hand(rows: Rows) -> Rows:
    return tuple(row for row in rows if row != BY_HAND)


def _said(told: Told) -> str:
    return ", ".join(f"{verb} {said.value}" for verb, said in told)


def _all(rows: set[Rows]) -> str:
    return "; ".join(map(_shown, sorted(rows)))


def _shown(rows: Rows) -> str:
    return b", ".join(rows).decode() or "none"
