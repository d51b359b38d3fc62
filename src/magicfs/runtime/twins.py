"""Awaitable twins of what blocks, for programs that have a loop of their own."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magicfs.runtime.interrupt import awaited

__all__ = ["Twins"]

_Commit = TypeVar("_Commit")


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
