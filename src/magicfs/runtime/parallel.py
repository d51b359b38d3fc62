"""Many requests at once: bounded, drained and never cancelled.

A request that was sent cannot be taken back. So after a failure nothing new is started, and everything in
flight is waited for.
"""

from __future__ import annotations

import asyncio
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
from typing import Any, Protocol, TypeVar

__all__ = ["Slots", "at_once", "drained", "gathered", "in_order", "raise_first"]


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
    work: Callable[[_Item], Awaitable[bool]],
    concurrency: int | Slots,
) -> None:
    """Apply ``work`` to items as they come, at most ``concurrency`` at once, or as many as there are slots.

    Stops drawing items once ``work`` has returned False or raised, or drawing has raised; waits for what is
    in flight; then raises the first exception, others attached to it as notes. Only a caller that is itself
    cancelled cancels what is in flight, and nothing runs on behind its back.
    """
    running: set[asyncio.Future[bool]] = set()
    errors: list[BaseException] = []
    source = aiter(items) if isinstance(items, AsyncIterable) else _one_by_one(items)
    slots = asyncio.Semaphore(concurrency) if isinstance(concurrency, int) else concurrency
    stopped = False

    def ended(future: asyncio.Future[bool]) -> None:
        nonlocal stopped
        running.discard(future)
        slots.release()
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            errors.append(error)
        stopped = stopped or error is not None or not future.result()

    try:
        while True:
            await slots.acquire()
            try:
                if stopped:
                    slots.release()
                    break
                item = await anext(source)
            except StopAsyncIteration:
                slots.release()
                break
            except Exception as error:  # noqa: BLE001 - raised below, after draining
                slots.release()
                errors.append(error)
                break
            except asyncio.CancelledError:
                slots.release()
                raise
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

    async def one(numbered: tuple[int, _Item]) -> bool:
        number, item = numbered
        results[number] = await work(item)
        return True

    await drained(_numbered(items), one, concurrency)
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


async def _numbered(items: Iterable[_Item] | AsyncIterable[_Item]) -> AsyncGenerator[tuple[int, _Item]]:
    source = aiter(items) if isinstance(items, AsyncIterable) else _one_by_one(items)
    number = 0
    try:
        async for item in source:
            yield number, item
            number += 1
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


async def _one_by_one(items: Iterable[_Item]) -> AsyncIterator[_Item]:
    for item in items:
        yield item
