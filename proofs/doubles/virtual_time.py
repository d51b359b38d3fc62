"""A deterministic asyncio loop with virtual time: hours of waiting take no time, and every run is the same.

When nothing is ready, ``loop.time()`` jumps to the next timer. There are no threads, no sockets and no real
sleeping. With a seed, tasks that are ready at the same moment take their turns in an order of its own. What
programs hand to threads is refused, or ``inline`` it is done on the loop, in a turn of its own.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
import time
from asyncio import base_events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_T = TypeVar("_T")


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: what is waited for will never happen."""


class _NoEvents:
    """Stands where a selector stands: instead of waiting it moves the loop's clock on."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set; something waits forever")
        self._loop.advance(timeout)
        return []

    def close(self) -> None:
        """Nothing is held."""


class VirtualLoop(base_events.BaseEventLoop):
    """An event loop whose clock moves only when nothing is ready.

    Args:
        seed: Of the order in which ready tasks take their turns; None for first come, first served.
        inline: Called before each work for threads, which is then done on the loop; None refuses it.
    """

    def __init__(self, seed: int | str | None = None, *, inline: Callable[[], object] | None = None) -> None:
        super().__init__()
        self._inline = inline
        self._selector = _NoEvents(self)
        self._now = 0.0
        self._thread = threading.get_ident()
        self._order = None if seed is None else random.Random(seed)  # noqa: S311 - no secret
        # Two timers of the same moment are due together, whatever floats make of them.
        self._clock_resolution = 1e-9
        self.set_exception_handler(self._note)
        self.complaints: list[dict[str, Any]] = []

    def time(self) -> float:
        """Seconds since the loop was made, as its tasks see it."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock on, and mix the tasks that are ready."""
        self._now += max(seconds, 0.0)
        if self._order is not None:
            self._mix(self._order)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """As ``call_soon``, for generators that are collected; refused in other threads."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("a virtual loop has no other threads")
        return self.call_soon(callback, *args, **kwargs)

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, work: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Without ``inline`` refused, for there are no threads; with it done in a turn of its own.

        Nothing else happens while the work is done, as if it took no time. Whatever it raises is raised where
        it is awaited, the crash of a process included.
        """
        if (first := self._inline) is None:
            raise RuntimeError("a virtual loop runs nothing in threads; call the function itself")
        done = self.create_future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                first()
                result = work(*args)
            except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
                done.set_exception(error)
            else:
                done.set_result(result)

        self.call_soon(run)
        return done

    def finish(self) -> None:
        """Cancel every task that is left, wait for them, and close the loop."""
        try:
            while left := [task for task in asyncio.all_tasks(self) if not task.done()]:
                for task in left:
                    task.cancel()
                self.run_until_complete(asyncio.wait(left))
            self.run_until_complete(self.shutdown_asyncgens())
        finally:
            self.close()

    def _mix(self, order: random.Random) -> None:
        """Tasks change places among themselves; other callbacks keep theirs, as asyncio promises."""
        ready: Any = self._ready  # type: ignore[attr-defined]
        if len(ready) < 2:
            return
        places = [n for n, handle in enumerate(ready) if _is_step(handle)]
        mixed = [ready[place] for place in places]
        order.shuffle(mixed)
        for place, handle in zip(places, mixed, strict=True):
            ready[place] = handle

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.complaints.append(context)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody waits in a selector."""


def _is_step(handle: Any) -> bool:
    callback = handle._callback  # noqa: SLF001 - asyncio has no other way to ask
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


def run(
    coroutine: Coroutine[Any, Any, _T],
    *,
    seed: int | str | None = None,
    inline: Callable[[], object] | None = None,
) -> _T:
    """Run a coroutine to its end on a new ``VirtualLoop``; tasks that it left behind are cancelled."""
    loop = VirtualLoop(seed, inline=inline)
    with _no_collections():
        try:
            return loop.run_until_complete(coroutine)
        finally:
            loop.finish()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Within it no cycles are collected: generators among them would take turns at moments of their own."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Within it an attribute has another value."""
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


@contextmanager
def deterministic(seed: int | str, clock: Callable[[], float]) -> Iterator[None]:
    """Within it every source of randomness is the seed's, and the time of day is ``clock()``.

    UUIDs and ``secrets`` are included, so nothing in here is secret. For one thread at a time.
    """
    source = random.Random(seed)  # noqa: S311 - no secret
    state = random.getstate()
    random.seed(source.random())
    try:
        with (
            replaced(os, "urandom", source.randbytes),
            replaced(random, "_urandom", source.randbytes),
            replaced(time, "time", clock),
            replaced(time, "time_ns", lambda: int(clock() * 1e9)),
        ):
            yield
    finally:
        random.setstate(state)
