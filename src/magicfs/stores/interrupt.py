"""Waiting for a coroutine on another thread's loop, and staying in control of it.

Ctrl-C, Jupyter's stop and whatever else is raised in the thread that waits would leave the coroutine running,
and a job that nobody sees would go on and publish. Here the coroutine is stopped first. What must not be
stopped half-way says so, and is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

__all__ = ["Call", "held", "hold", "run_on"]

_T = TypeVar("_T")

_CALL: contextvars.ContextVar[Call[Any] | None] = contextvars.ContextVar("magicfs_call", default=None)
_WAIT_S = 1.0
"""An exception that another thread sets in this one is seen after that time; Ctrl-C at once."""


class Call(Generic[_T]):
    """One coroutine on the loop of another thread, which one thread waits for.

    ``work`` makes it. With ``whole`` it is never stopped half-way. ``waiting`` is logged as a warning when an
    interruption has to wait for its end.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None,
        work: Callable[[], Coroutine[Any, Any, _T]],
        *,
        whole: bool = False,
        waiting: str = "",
    ) -> None:
        if loop is None or loop.is_closed():
            raise RuntimeError("the loop of the filesystem is not running")
        self._loop = loop
        self._work: Callable[[], Coroutine[Any, Any, _T]] | None = work
        self._waiting = waiting
        # The following belong to the loop's thread.
        self._holds = int(whole)
        self._wanted_stopped = False
        self._stopped = False
        self._task: asyncio.Task[None] | None = None
        self._ended = threading.Event()
        self._results: list[_T] = []
        self._error: BaseException | None = None
        self.interrupted = False  # whether the thread that waited was interrupted

    @property
    def ended(self) -> bool:
        """Whether the coroutine runs no more, or never will."""
        return self._ended.is_set()

    @property
    def succeeded(self) -> bool:
        """Whether it has come to its end without an error."""
        return self.ended and bool(self._results)

    @property
    def error(self) -> BaseException | None:
        """What it raised: CancelledError if it was stopped before its end. None while it runs."""
        return self._error if self.ended else None

    def result(self) -> _T:
        """What it returned; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def run(self) -> _T:
        """Start it and wait for it.

        Whatever is raised here while waiting is raised again once the coroutine has stopped, or has come to
        its end where it is not to be stopped: ``error`` and ``succeeded`` tell. A second time it is raised at
        once, and the coroutine goes on.
        """
        self._start()
        try:
            _wait(self._ended)
        except BaseException as interruption:
            self.interrupted = True
            self._loop.call_soon_threadsafe(self._stop)
            _wait(self._ended)
            if isinstance(self._error, Exception):
                interruption.add_note(f"and: {self._error}")
            raise
        return self.result()

    def _start(self) -> None:
        loop = self._loop
        if _running_loop() is loop:
            self._ended.set()
            raise RuntimeError("Calling sync() from within a running loop")
        context = contextvars.copy_context()
        context.run(lambda: _CALL.set(self))
        loop.call_soon_threadsafe(self._begin, context=context)

    def _begin(self) -> None:
        if self._wanted_stopped and not self._holds:
            self._error = asyncio.CancelledError()
            self._ended.set()
            return
        self._task = self._loop.create_task(self._main())

    async def _main(self) -> None:
        # Contexts that outlive the call, of timers and connections, hold the call: not also what it works on.
        work, self._work = self._work, None
        assert work is not None
        try:
            self._results.append(await work())
        except BaseException as error:  # noqa: BLE001 - raised by result
            self._error = error
        finally:
            self._task = None
            self._ended.set()

    def _stop(self) -> None:
        self._wanted_stopped = True
        if self._holds and not self.ended and self._waiting:
            logging.getLogger("magicfs").warning("%s", self._waiting)
        self._stop_if_free()

    def _stop_if_free(self) -> None:
        if not self._holds and not self._stopped and self._task is not None:
            self._stopped = True  # what cleans up afterwards is not stopped
            self._task.cancel()

    def hold(self) -> None:
        """On the loop: do not stop it before ``release``."""
        self._holds += 1

    def release(self) -> None:
        """Undo one ``hold``."""
        self._holds -= 1
        if self._wanted_stopped:
            # Not at once: it would be the next request that is cut, which may be held, too.
            self._loop.call_soon(self._stop_if_free)


def run_on(
    loop: asyncio.AbstractEventLoop | None,
    work: Callable[..., Coroutine[Any, Any, _T]],
    *args: Any,
    **kwargs: Any,
) -> _T:
    """Run a coroutine on the loop of another thread, and stop it if the wait for it is interrupted."""
    return Call(loop, partial(work, *args, **kwargs)).run()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """What runs within is not stopped by an interruption, only what comes after it.

    For requests whose answer must be known, such as a swap.
    """
    call = _CALL.get()
    if call is None:
        yield
        return
    call.hold()
    token = _CALL.set(None)  # what is held within is held already
    try:
        yield
    finally:
        _CALL.reset(token)
        call.release()


def hold() -> None:
    """From here on to its end, the call is not stopped any more."""
    if (call := _CALL.get()) is not None:
        call.hold()


def _wait(ended: threading.Event) -> None:
    while not ended.wait(_WAIT_S):
        pass


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None
