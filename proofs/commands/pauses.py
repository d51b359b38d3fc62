"""One command stands still before one of its requests, and everything else runs meanwhile."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

from magicfs.errors import MagicError
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Request
from magicfs.transaction import prepare
from proofs.commands import orders
from proofs.commands.commands import COMMANDS
from proofs.commands.orders import DRIVER, Outcome
from proofs.commands.places import PLACES
from proofs.doubles.virtual_time import replaced
from proofs.scenes.trouble import Trouble

__all__ = ["Cell", "meet", "play"]

_MORE = 8
"""Requests that a command may need more if others run meanwhile, at most so many are tried."""


@dataclass
class Cell:
    """One command beside another, beside a job.

    Attributes:
        requests: How many the first one makes alone; one that is refused for its arguments makes none.
        runs: How many were made.
        troubles: What was wrong in them.
    """

    requests: int = 0
    runs: int = 0
    troubles: list[str] = field(default_factory=list)


def meet(
    place: str,
    first: str,
    second: str,
    *,
    every: int = 1,
    offset: int = 0,
    most: int | None = None,
    more: int = _MORE,
    store: str = "s3",
) -> Cell:
    """Let the first command stand still before each of its requests in turn, while the second runs whole.

    Beside a driver that is alive it stands still twice, or twice as long: the driver runs meanwhile, too.
    ``every`` and ``offset``: make only each run of that number, beginning with that one. ``most``: of all
    make only so many, drawn by the names and ``offset``. ``more``: how many requests it may need more than
    alone. ``store``: on which kind of store.
    """
    requests, is_alive = _alone(place, first, store)
    cell = Cell(requests)
    logging.getLogger("magicfs").setLevel(logging.CRITICAL)
    with replaced(prepare, "_PAUSE_S", 0.0):
        if not requests:
            return cell
        numbers = range(1, requests + more)
        draw = f"{place} {first} {second} {offset}"
        for one, other in _pauses(draw, numbers, every, offset, most, is_alive=is_alive):
            if cell.runs == most:
                break
            try:
                cell.runs += play(place, first, second, one, other, store)
            except (Trouble, MagicError) as error:
                cell.runs += 1
                where = f"{place}: {first} before request {other}, {second}"
                cell.troubles.append(f"{where}, driver at {one}: {error!r}" if one else f"{where}: {error!r}")
    return cell


def _pauses(
    draw: str, numbers: Sequence[int], every: int, offset: int, most: int | None, *, is_alive: bool
) -> Iterator[tuple[int, int]]:
    pauses = list(product(numbers if is_alive else [0], numbers))
    if most is not None:
        yield from random.Random(draw).sample(pauses, len(pauses))  # noqa: S311 - no secret
        return
    yield from (one for number, one in enumerate(pauses) if number % every == offset % every)


def play(name: str, first: str, second: str, driver_at: int, second_at: int, store: str = "s3") -> bool:
    """One run: the first command stands still before two of its requests, by number; for the driver not at 0.

    False, and nothing was checked, if it has no such requests.
    """
    place = PLACES[name](store)
    pauses = [_Pause(second, second_at, lambda: orders.run(place, second))]
    if driver_at:
        pauses.insert(0, _Pause(DRIVER, driver_at, place.driver))

    def look(request: Request) -> None:
        for pause in pauses:
            pause.look(request)

    engine = place.scene.engine(Traffic(before=look))
    said = orders.outcome_of(lambda: place.scene.lived(lambda: COMMANDS[first](engine, place)))
    for pause in pauses:
        for trouble in pause.troubles:
            raise trouble
    if not all(pause.said for pause in pauses):
        return False
    place.tidy()
    orders.check(place, name, store, [(first, said), *((one.verb, one.said) for one in pauses if one.said)])
    place.check_end()
    return True


class _Pause:
    def __init__(self, verb: str, number: int, deed: Callable[[], object]) -> None:
        self.verb, self.number, self.deed = verb, number, deed
        self.said: Outcome | None = None
        self.troubles: list[BaseException] = []

    def look(self, request: Request) -> None:
        if request.number != self.number or self.said is not None:
            return
        self.said = Outcome.UNKNOWN
        try:
            self.said = orders.outcome_of(self.deed)
        except BaseException as error:  # noqa: BLE001 - a store's caller would take it for the store's
            self.troubles.append(error)


@cache
def _alone(name: str, command: str, store: str) -> tuple[int, bool]:
    """How many requests a command makes if nobody else does anything; whether the job's driver is alive."""
    place, traffic = PLACES[name](store), Traffic()
    engine = place.scene.engine(traffic)
    orders.outcome_of(lambda: place.scene.lived(lambda: COMMANDS[command](engine, place)))
    return traffic.count, place.is_alive
