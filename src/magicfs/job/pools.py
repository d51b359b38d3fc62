"""The executor of a job's tasks, or one after the other, where a dead process breaks them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Protocol, Self, cast
from weakref import WeakKeyDictionary

__all__ = ["Pools", "Submits"]


class Submits(Protocol):
    """What runs calls elsewhere: a process pool, a client of Dask, and whatever else has ``submit``."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Run a call; what is returned has ``result()`` and ``cancel()``, as a ``Future`` has."""


class Pools:
    """An executor of the caller, or executors that this makes and shuts down.

    Args:
        executor: One, which stays the caller's; or what makes one.
    """

    def __init__(self, executor: Submits | Callable[[], Submits]) -> None:
        self._make = None if hasattr(executor, "submit") else executor
        self._current = None if self._make is not None else cast("Submits", executor)
        self._made_by: WeakKeyDictionary[Future[Any], Submits] = WeakKeyDictionary()
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.__exit__(kind, error, trace)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a call on the executor that is in use."""
        if self._make is None:
            assert self._current is not None
            future: Future[Any] = self._current.submit(function, *arguments)
            return future
        executor = self._current or self._made(self._make)
        try:
            future = executor.submit(function, *arguments)
        except BrokenExecutor:  # by another call, which has not been looked at yet
            executor = self._made(self._make)
            future = executor.submit(function, *arguments)
        self._made_by[future] = executor
        return future

    def _made(self, make: Callable[[], Submits]) -> Submits:
        made = make()
        # One that holds processes or connections is a context manager.
        self._current = self._ends.enter_context(cast("Any", made)) if hasattr(made, "__exit__") else made
        return self._current

    def replace_broken(self, future: Future[Any]) -> bool:
        """Whether a call may be made again after its executor broke: on a new one, if this may make one.

        All calls of one that is broken come here; the first has it replaced.
        """
        if self._make is None:
            return False
        if self._made_by.get(future) is self._current:
            self._current = None
        return True
