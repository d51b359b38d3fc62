"""Awaitable twins of what blocks, for programs that have a loop of their own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from magicfs.runtime.interrupt import awaited

__all__ = ["Twins", "awaitable"]

_Commit = TypeVar("_Commit")
_P = ParamSpec("_P")
_S = TypeVar("_S")
_T = TypeVar("_T")


def awaitable(
    verb: Callable[Concatenate[_S, _P], _T],
) -> Callable[Concatenate[_S, _P], Coroutine[Any, Any, _T]]:
    """Make the twin of a method that blocks: in its class, write ``averb`` as ``awaitable`` of ``verb``.

    It has the same arguments, answers and errors; see ``Twins.asetup`` for cancellation.
    """

    @wraps(verb)
    async def twin(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await awaited(partial(verb, self, *args, **kwargs))

    twin.__name__ = f"a{verb.__name__}"
    twin.__qualname__ = verb.__qualname__.removesuffix(verb.__name__) + twin.__name__
    twin.__doc__ = (
        f"``{verb.__name__}``, awaitable: in a thread, with the same arguments, answers and errors."
    )
    return twin


class Twins(Generic[_Commit]):
    """What ``Job`` and ``Task`` have in common: a twin does what the call without its ``a`` does."""

    async def asetup(self, *args: Any) -> Self:
        """``setup``, awaitable, with the same arguments, answers and errors.

        The work is done in a thread. Who is cancelled meanwhile is treated as one who pressed Ctrl-C: what
        may be stopped is stopped first, what must not be is waited for, and the CancelledError bears the same
        notes. Cancelled once more, the twin leaves the rest to itself.
        """
        return await awaited(_blocking(self).setup, *args)

    async def acommit(self, *args: Any, **how: Any) -> _Commit:
        """``commit``, awaitable; see ``asetup``."""
        return await awaited(partial(_blocking(self).commit, *args, **how))

    async def aabort(self) -> None:
        """``abort``, awaitable; see ``asetup``."""
        await awaited(_blocking(self).abort)

    async def __aenter__(self) -> Self:
        return await awaited(_blocking(self).__enter__)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await awaited(_blocking(self).__exit__, exc_type, exc, trace)


def _blocking(twin: Twins[Any]) -> Any:
    """The same, as the class that has the calls."""
    return twin
