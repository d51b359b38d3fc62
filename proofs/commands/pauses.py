"""One command stands still before one of its requests, and everything else runs meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import product

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, MagicError, ObjectNotFound, UsageError
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Request
from proofs.commands.commands import COMMANDS, Command
from proofs.commands.places import PLACES, Place
from proofs.scenes.trouble import Trouble

__all__ = ["Cell", "meet", "play"]

_REFUSALS = (CommitDenied, CommitFailed, ObjectNotFound, UsageError)
"""A command may find that there is nothing to do, or that another was faster."""

_MORE = 8
"""Requests that a command may need more if others run meanwhile, at most so many are tried."""


@dataclass
class Cell:
    """One command beside another, beside a job."""

    runs: int = 0
    troubles: list[str] = field(default_factory=list)


def meet(
    place: str,
    first: str,
    second: str,
    *,
    every: int = 1,
    offset: int = 0,
    more: int = _MORE,
    store: str = "s3",
) -> Cell:
    """Let the first command stand still before each of its requests in turn, while the second runs whole.

    Beside a driver that is alive it stands still twice, or twice as long: the driver runs meanwhile, too.
    ``every`` and ``offset``: make only each run of that number, beginning with that one. ``more``: how many
    requests it may need more than alone. ``store``: on which kind of store.
    """
    cell = Cell()
    requests, is_alive = _alone(place, first, store)
    numbers = range(1, requests + more)
    driver_at = numbers if is_alive else [0]
    for number, (one, other) in enumerate(product(driver_at, numbers)):
        if number % every != offset % every:
            continue
        try:
            cell.runs += play(PLACES[place](store), COMMANDS[first], COMMANDS[second], one, other)
        except (Trouble, MagicError) as error:
            cell.runs += 1
            where = f"{place}: {first} before request {other}, {second}"
            cell.troubles.append(f"{where}, driver at {one}: {error!r}" if one else f"{where}: {error!r}")
    return cell


def play(place: Place, first: Command, second: Command, driver_at: int, second_at: int) -> bool:
    """One run: the first command stands still before two of its requests, by number; for the driver not at 0.

    False, and nothing was checked, if it has no such requests.
    """
    pauses = [_Pause(second_at, lambda: _run(place, second))]
    if driver_at:
        pauses.insert(0, _Pause(driver_at, lambda: _drive(place)))

    def look(request: Request) -> None:
        for pause in pauses:
            pause.look(request)

    engine = place.scene.engine(Traffic(before=look))

    async def process() -> None:
        with suppress(*_REFUSALS):
            await first(engine, place)

    place.scene.lived(process)
    for pause in pauses:
        for trouble in pause.troubles:
            raise trouble
    if not all(pause.happened for pause in pauses):
        return False
    place.check_end()
    return True


class _Pause:
    def __init__(self, number: int, deed: Callable[[], None]) -> None:
        self.number, self.deed = number, deed
        self.happened = False
        self.troubles: list[BaseException] = []

    def look(self, request: Request) -> None:
        if request.number != self.number or self.happened:
            return
        self.happened = True
        try:
            self.deed()
        except BaseException as error:  # noqa: BLE001 - a store's caller would take it for the store's
            self.troubles.append(error)


def _run(place: Place, command: Command) -> None:
    async def process(engine: Engine) -> None:
        with suppress(*_REFUSALS):
            await command(engine, place)

    place.scene.elsewhere(process)


def _drive(place: Place) -> None:
    with suppress(*_REFUSALS):
        place.driver()


@cache
def _alone(name: str, command: str, store: str) -> tuple[int, bool]:
    """How many requests a command makes if nobody else does anything; whether the job's driver is alive."""
    place, traffic = PLACES[name](store), Traffic()
    engine = place.scene.engine(traffic)

    async def process() -> None:
        with suppress(*_REFUSALS):
            await COMMANDS[command](engine, place)

    place.scene.lived(process)
    return traffic.count, place.is_alive
