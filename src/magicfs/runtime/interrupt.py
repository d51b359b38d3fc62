"""Waiting for a coroutine on another thread's loop, and staying in control of it.

Ctrl-C, Jupyter's stop and whatever else is raised in the thread that waits would leave the coroutine running,
and a job that nobody sees would go on and publish. Here the coroutine is stopped first. What must not be
stopped half-way says so, and is waited for. Awaitable twins of what blocks serve programs that have a loop of
their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from magicfs.errors import MagicError

_P = ParamSpec("_P")
_S = TypeVar("_S")
_T = TypeVar("_T")


_LOGGER = logging.getLogger("magicfs")

_CALL: contextvars.ContextVar[_Stop | None] = contextvars.ContextVar("magicfs_call", default=None)
_WAITER: contextvars.ContextVar[_Waiter | None] = contextvars.ContextVar("magicfs_waiter", default=None)
_LOOK_S = 0.02
"""So late at most a thread sees that the coroutine which it waits for was cancelled."""
_WAIT_S = 1.0
"""An exception that another thread sets in this one is seen after that time; Ctrl-C at once."""


class _Stop:
    """How the coroutine of one call is stopped. All of it belongs to the loop's thread.

    Contexts have it, and those of timers and connections outlive the call: so it holds nothing of what the
    call works on, returns or raises.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, whole: bool, waiting: str) -> None:
        self.task: asyncio.Task[None] | None = None
        self.is_running = False  # before its first step a task that is cancelled runs no ``finally``
        self._loop = loop
        self._waiting = waiting
        self._holds = int(whole)
        self._wanted = False
        self._stopped = False

    @property
    def comes_first(self) -> bool:
        """Whether the coroutine is to be stopped before it has begun."""
        return self._wanted and not self._holds

    def want(self) -> None:
        """Stop it as soon as nothing is held."""
        self._wanted = True
        if self._holds and self.task is not None and self._waiting:
            _LOGGER.warning("%s", self._waiting)
        self._stop_if_free()

    def _stop_if_free(self) -> None:
        if self.is_running and not self._holds and not self._stopped and self.task is not None:
            self._stopped = True  # what cleans up afterwards is not stopped
            self.task.cancel()

    def hold(self) -> None:
        """Do not stop it before ``release``."""
        self._holds += 1

    def release(self) -> None:
        """Undo one ``hold``."""
        self._holds -= 1
        if self._wanted:
            # Not at once: it would be the next request that is cut, which may be held, too.
            self._loop.call_soon(self._stop_if_free)


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
        self._work = work
        self._stop = _Stop(loop, whole, waiting)
        self.ended: bool = False  # whether the coroutine runs no more, or never will
        # No Event: Ctrl-C can meet a thread that has just got the lock of its condition, and never frees it.
        self._running = threading.Lock()
        self._running.acquire()
        self._results: list[_T] = []
        self._error: BaseException | None = None
        self._has_begun = False
        self.interrupted: bool = False  # whether the thread that waited was interrupted

    @property
    def succeeded(self) -> bool:
        """Whether it has come to its end without an error."""
        return self.ended and bool(self._results)

    @property
    def error(self) -> BaseException | None:
        """What it raised: CancelledError if it was stopped before its end. None while it runs."""
        return self._error if self.ended else None

    def result(self) -> _T:
        """What it returned; raises what it raised, an error of magicfs without the way that led to it."""
        if self._error is not None:
            if isinstance(self._error, MagicError):
                _tell_briefly(self._error)
            raise self._error
        return self._results[0]

    def run(self) -> _T:
        """Start it and wait for it.

        Whatever is raised here while waiting is raised again once the coroutine has stopped, or has come to
        its end where it is not to be stopped: ``error`` and ``succeeded`` tell. A second time it is raised at
        once, and the coroutine goes on.
        """
        if _running_loop() is self._loop:
            self.ended = True
            raise RuntimeError("Calling sync() from within a running loop")
        try:
            self._start()
            _wait(self._running)
        except BaseException as interruption:
            self.interrupted = True
            self._loop.call_soon_threadsafe(self._interrupt)
            if not self.ended:
                _wait(self._running)
            if isinstance(self._error, Exception):
                interruption.add_note(f"and: {self._error}")
            raise
        return self.result()

    def _start(self) -> None:
        context = contextvars.copy_context()
        context.run(_CALL.set, self._stop)
        self._loop.call_soon_threadsafe(self._begin, context=context)

    def _begin(self) -> None:
        self._has_begun = True
        self._stop.task = self._loop.create_task(self._main())

    def _interrupt(self) -> None:
        if self._has_begun:
            self._stop.want()
        else:  # the interruption came before the loop had the call, and the loop will never have it
            self._error = asyncio.CancelledError()
            self.ended = True
            self._running.release()

    async def _main(self) -> None:
        self._stop.is_running = True
        try:
            if self._stop.comes_first:
                raise asyncio.CancelledError
            self._results.append(await self._work())
        except BaseException as error:  # noqa: BLE001 - raised by result
            self._error = error
        finally:
            self._stop.task = None
            self.ended = True
            self._running.release()


def run_on(
    loop: asyncio.AbstractEventLoop | None,
    work: Callable[..., Coroutine[Any, Any, _T]],
    *args: Any,
    **kwargs: Any,
) -> _T:
    """Run a coroutine on the loop of another thread, and stop it if the wait for it is interrupted."""
    return Call(loop, partial(work, *args, **kwargs)).run()


def result_of(future: Future[_T]) -> _T:
    """What a future of an executor returns or raises, awaited here so that ``awaited`` can interrupt it."""
    if (waiter := _WAITER.get()) is not None:
        running = threading.Lock()
        running.acquire()
        future.add_done_callback(lambda _: running.release())
        waiter.wait(running)
    return future.result()


class _Interrupted(BaseException):
    """Raised where a thread waits on behalf of a coroutine that was cancelled."""


class _Waiter:
    """How a thread waits, on behalf of a coroutine that may be cancelled meanwhile."""

    def __init__(self) -> None:
        self.interruptions = 0

    def wait(self, running: threading.Lock) -> None:
        while not running.acquire(timeout=_LOOK_S):
            if self.interruptions:
                self.interruptions -= 1
                raise _Interrupted


async def awaited(function: Callable[..., _T], *args: Any) -> _T:
    """Call what blocks in a thread of its own, and wait for it without holding up the running loop.

    If the wait is cancelled, what the thread waits for is interrupted, as by Ctrl-C; the end of the function
    is waited for, and its notes are those of the CancelledError. Cancelled a second time, it is interrupted
    once more, which leaves it.
    """
    waiter, context = _Waiter(), contextvars.copy_context()
    context.run(_WAITER.set, waiter)
    work = asyncio.get_running_loop().run_in_executor(None, partial(context.run, function, *args))
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            result = await asyncio.shield(work)
        except asyncio.CancelledError as error:
            cancelled = error
            waiter.interruptions += 1
        except BaseException as error:
            if cancelled is None:
                raise
            for note in getattr(error, "__notes__", ()):
                cancelled.add_note(note)
            if isinstance(error, Exception):
                cancelled.add_note(f"and: {error}")
            raise cancelled from None
        else:
            if cancelled is not None:
                cancelled.add_note("the operation finished anyway")
                raise cancelled
            return result


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


def _tell_briefly(error: MagicError) -> None:
    """Leave the caller's lines and the messages in a traceback; the log has all of it."""
    _LOGGER.debug("%s", error, exc_info=error)
    one: BaseException | None = error
    while one is not None and one.__traceback__ is not None:
        one.__traceback__ = None
        if one.__cause__ is not None:
            one.__suppress_context__ = True
        one = one.__cause__ or one.__context__


def _wait(running: threading.Lock) -> None:
    if (waiter := _WAITER.get()) is not None:
        waiter.wait(running)
        return
    while not running.acquire(timeout=_WAIT_S):
        pass


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def awaitable(
    verb: Callable[Concatenate[_S, _P], _T],
) -> Callable[Concatenate[_S, _P], Coroutine[Any, Any, _T]]:
    """Make the awaitable twin of a method: in a thread, with the same arguments, answers and errors.

    If you cancel it, it stops as on Ctrl-C: what may be stopped is stopped first, what must not be is waited
    for, and the CancelledError bears the same notes. Cancelled once more, the twin leaves the rest to itself.
    """

    @wraps(verb)
    async def twin(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        result: _T = await awaited(partial(getattr(self, verb.__name__), *args, **kwargs))
        return result

    twin.__name__ = f"a{verb.__name__}"
    twin.__qualname__ = f"{verb.__qualname__.rpartition('.')[0]}.{twin.__name__}"
    twin.__doc__ = f"``{verb.__name__}``, awaitable."
    return twin


class Twins:
    """``async with``, for what has a ``with``."""

    async def __aenter__(self) -> Self:
        return await awaited(_blocking(self).__enter__)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await awaited(_blocking(self).__exit__, exc_type, exc, trace)


def _blocking(twin: Twins) -> Any:
    """The same, as the class that has the calls."""
    return twin
