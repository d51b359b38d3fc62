"""Awaitable twins of what blocks, for programs that have a loop of their own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from magicfs.runtime.interrupt import awaited

__all__ = ["Twins", "awaitable"]

_P = ParamSpec("_P")
_S = TypeVar("_S")
_T = TypeVar("_T")


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
