"""Many requests at once: bounded, drained and never cancelled.

A request that was sent cannot be taken back. So after a failure nothing new is started, and everything in
flight is waited for.

How many requests are in flight: as many as make a commit faster, and no more than the store lets pass.

A store far away needs hundreds at once to be kept busy, one that throttles takes few, and nobody knows
beforehand. So a pace starts with ``START``, or with more where answers are known to take long, and doubles
after every round of so many answers, as long as that makes answers come faster. Where it does not, the last
step is taken back, and a smaller one is tried now and then. A round in which the store throttled cuts the
pace to what passed; from then on it grows by small steps until the store throttles again. Requests that wait
to be made again count as being in flight: so the pauses of ``stores.retrying`` and this pace slow down the
same requests.

All engines of a loop that have the same bucket share one pace, first come, first served. What uploads ask for
has a second one: it starts as wide as can be, for memory bounds uploads already, and is narrowed only by a
store that throttles.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

START: Final = 32
"""Requests at once, to begin with; and the number that ``Job(concurrency=…)`` has by default."""

REQUESTS_MAX: Final = 600
"""Most requests at once to a store: 3,500 a second, which are answered after 150 ms, are 525."""

_FIRST_A_SECOND: Final = 1750.0
"""How many requests a second a pace may begin with: half of what S3 takes, so that one step leads there."""

_GROWN: Final = 1.15
"""How much faster answers have to come after the pace was doubled, so that it may be doubled again."""
_PROBED: Final = 1.03
"""The same after a smaller step."""
_STEP: Final = 8
"""A small step is one of so many parts of the pace."""
_CUT: Final = 0.9
_PAUSE_ROUNDS: Final = 8


class Limited(Protocol):
    """What is known of the limits of a store."""

    @property
    def requests_max(self) -> int:
        """The most requests at once."""


class Paced(Protocol):
    """A store, as far as its pace goes."""

    @property
    def identity(self) -> str:
        """Its bucket, the same for all stores of that."""

    @property
    def capabilities(self) -> Limited:
        """What it can do."""


class Pace:
    """Slots for requests, as many as the store takes; ``parallel.drained`` acquires and releases them."""

    def __init__(self, limit_max: int, *, start: int = START) -> None:
        self.limit: int = min(start, limit_max)
        self.in_flight: int = 0
        self._most = 0  # at once in this round
        self._limit_max = limit_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._before = self.limit
        self._best = 0.0
        self._is_doubling = True
        self._has_throttled = False
        self._rests = 0
        self._begin()

    async def acquire(self) -> None:
        """Wait for a slot."""
        if self.in_flight < self.limit and not self._waiting:
            self._take()
            return
        self._was_full = True
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.in_flight -= 1
                self._let_go()
            raise

    def release(self) -> None:
        """Give a slot back: its request was answered."""
        self.in_flight -= 1
        self._answered += 1
        self._look()
        self._let_go()

    def throttled(self) -> None:
        """The store has refused a request because there were too many."""
        self._answered += 1
        self._refused += 1
        self._look()

    def _let_go(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._take()
                turn.set_result(None)

    def _take(self) -> None:
        self.in_flight += 1
        self._most = max(self._most, self.in_flight)

    def _begin(self) -> None:
        self._answered = 0
        self._refused = 0
        self._was_full = bool(self._waiting)
        self._most = self.in_flight
        self._began: float | None = None

    def _look(self) -> None:
        """At the end of a round: decide how wide the next one is."""
        now = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = now
        at_once = min(self.limit, self._most)
        if self._answered <= at_once:
            return
        passed = self._answered - self._refused
        rate = passed / max(now - self._began, 1e-6)
        if self._refused:
            self._set(int(at_once * passed / self._answered * _CUT))
            self._has_throttled = True
        elif self._was_full:
            self._grow(rate)
        self._begin()

    def _grow(self, rate: float) -> None:
        step = max(1, self.limit // _STEP)
        if self._has_throttled:  # it says itself when it is too much
            self._set(self.limit + step)
            return
        needed = _GROWN if self._is_doubling else _PROBED
        if self._rests:
            self._rests -= 1
            self._best = max(self._best, rate)
        elif rate >= self._best * needed:
            self._best, self._before = rate, self.limit
            self._set(2 * self.limit if self._is_doubling else self.limit + step)
        else:  # the last step was of no use
            self._set(self._before)
            self._best, self._is_doubling, self._rests = rate, False, _PAUSE_ROUNDS

    def _set(self, limit: int) -> None:
        self.limit = max(1, min(limit, self._limit_max))
        self._let_go()


@dataclass(slots=True)
class _Paces:
    """Those of one bucket, on one loop."""

    most: int
    uploads: Pace
    batches: Pace | None = None
    answer_s: float = math.inf
    """The least time in which a small request was answered."""


_Loop = asyncio.AbstractEventLoop
_paces: weakref.WeakKeyDictionary[_Loop, dict[str, _Paces]] = weakref.WeakKeyDictionary()
_KEPT_MAX: Final = 1000


def limit_of(store: Paced, concurrency: int) -> Pace | int:
    """What bounds requests to a store at once: its pace, or a number that somebody has chosen."""
    if concurrency != START:
        return concurrency
    one = _of(store)
    if one.batches is None:
        known = one.answer_s if one.answer_s < math.inf else 0.0
        one.batches = Pace(one.most, start=max(START, int(known * _FIRST_A_SECOND)))
    return one.batches


def uploads_of(store: Paced) -> Pace:
    """What bounds the requests at once by which files are uploaded to a store."""
    return _of(store).uploads


def answered(store: Paced, seconds: float) -> None:
    """Tell that a request which carries nothing was answered after so long."""
    one = _of(store)
    one.answer_s = min(one.answer_s, seconds)


def report(store: Paced) -> None:
    """Tell the paces of a store that a request was refused because there were too many."""
    one = _of(store)
    for pace in (one.uploads, one.batches):
        if pace is not None and pace.in_flight:
            pace.throttled()


def _of(store: Paced) -> _Paces:
    paces = _paces.setdefault(asyncio.get_running_loop(), {})
    one = paces.get(store.identity)
    if one is None:
        if len(paces) >= _KEPT_MAX:
            paces.clear()
        most = max(START, min(store.capabilities.requests_max, _connections_max()))
        one = paces[store.identity] = _Paces(most, Pace(most, start=most))
    return one


def _connections_max() -> int:
    """Half of the files that this process may open: a connection is one, and a program has others."""
    try:
        import resource  # POSIX alone has it
    except ImportError:
        return REQUESTS_MAX
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return files // 2 if files > 0 else REQUESTS_MAX


class Slots(Protocol):
    """Places for what runs at once, which others may share."""

    async def acquire(self) -> object:
        """Wait for one."""

    def release(self) -> None:
        """Give it back."""


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


async def drained(
    items: Iterable[_Item] | AsyncIterable[_Item],
    work: Callable[[_Item], Awaitable[bool | None]],
    concurrency: int | Slots,
) -> None:
    """Apply ``work`` to items as they come, at most ``concurrency`` at once, or as many as there are slots.

    Stops drawing items once ``work`` has returned False or raised, or drawing has raised; waits for what is
    in flight; then raises the first exception, others attached to it as notes. Only a caller that is itself
    cancelled cancels what is in flight, and nothing runs on behind its back.
    """
    running: set[asyncio.Future[bool | None]] = set()
    errors: list[BaseException] = []
    source = aiter(items) if isinstance(items, AsyncIterable) else _one_by_one(items)
    slots = asyncio.Semaphore(concurrency) if isinstance(concurrency, int) else concurrency
    stopped = False

    def ended(future: asyncio.Future[bool | None]) -> None:
        nonlocal stopped
        running.discard(future)
        slots.release()
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            errors.append(error)
        stopped = stopped or error is not None or future.result() is False

    try:
        while True:
            await slots.acquire()
            try:
                if stopped:
                    raise StopAsyncIteration
                item = await anext(source)
            except BaseException as error:
                slots.release()
                if not isinstance(error, Exception):
                    raise
                if not isinstance(error, StopAsyncIteration):
                    errors.append(error)  # raised below, after draining
                break
            started = asyncio.ensure_future(work(item))
            running.add(started)
            started.add_done_callback(ended)
        while running:
            await asyncio.wait(running)
    except asyncio.CancelledError:
        for future in running:
            future.cancel()
        while running:
            await asyncio.wait(running)
        raise
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
    raise_first(errors)


async def gathered(
    items: Iterable[_Item] | AsyncIterable[_Item],
    work: Callable[[_Item], Awaitable[_Result]],
    concurrency: int,
) -> list[_Result]:
    """The same for work that has a result; returns the results in the order of the items."""
    results: dict[int, _Result] = {}

    async def one(place: tuple[int, _Item]) -> None:
        number, item = place
        results[number] = await work(item)

    await drained(numbered(items), one, concurrency)
    return [results[number] for number in range(len(results))]


async def at_once(*looks: Coroutine[Any, Any, Any]) -> list[Any]:
    """Look at several things that do not depend on each other at once; returns what each has found, in order.

    All of them are waited for. Then what the first of them in this order has raised is raised, as if they had
    come one after another: which answer was faster decides nothing.
    """
    if len(looks) == 1:  # no task for it
        return [await looks[0]]
    found = await asyncio.gather(*looks, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


async def in_order(
    items: Iterable[_Item], work: Callable[[_Item], Awaitable[_Result]], ahead: int
) -> AsyncGenerator[_Result]:
    """The results of ``work`` in the order of the items, at most ``ahead`` of them begun and not drawn yet.

    After a failure nothing new is started; it is raised in the place of its item, once all that is in flight
    has ended. Close the generator if it is left before its end (``contextlib.aclosing``).
    """
    source, waiting = iter(items), deque[asyncio.Future[_Result]]()
    try:
        while True:
            while len(waiting) < ahead and not any(_has_failed(one) for one in waiting):
                try:
                    waiting.append(asyncio.ensure_future(work(next(source))))
                except StopIteration:
                    break
            if not waiting:
                return
            await asyncio.wait([waiting[0]])
            if _has_failed(waiting[0]):
                break
            yield waiting.popleft().result()
        await asyncio.wait(waiting)
        raise_first([error for one in waiting if (error := one.exception()) is not None])
    except asyncio.CancelledError:
        for one in waiting:
            one.cancel()
        raise
    finally:
        while left := [one for one in waiting if not one.done()]:
            await asyncio.wait(left)
        for one in waiting:
            if not one.cancelled():
                one.exception()  # looked at: nobody is told that it was not


def _has_failed(future: asyncio.Future[_Result]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


def raise_first(errors: Sequence[BaseException]) -> None:
    """Raise the first of many errors, the others attached to it as notes; nothing if there are none."""
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(f"and: {other}")
        raise first


def numbered(
    items: Iterable[_Item] | AsyncIterable[_Item],
) -> Iterable[tuple[int, _Item]] | AsyncIterable[tuple[int, _Item]]:
    """Items as they come, with their numbers from 0."""
    return _numbered_later(items) if isinstance(items, AsyncIterable) else enumerate(items)


async def _numbered_later(items: AsyncIterable[_Item]) -> AsyncGenerator[tuple[int, _Item]]:
    number = 0
    try:
        async for item in items:
            yield number, item
            number += 1
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


async def _one_by_one(items: Iterable[_Item]) -> AsyncIterator[_Item]:
    for item in items:
        yield item
