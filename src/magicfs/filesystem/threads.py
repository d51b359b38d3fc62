"""A filesystem by its coroutines; methods that have none, as all of local files, run in threads."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

from fsspec.spec import AbstractFileSystem

from magicfs.errors import UsageError

__all__ = ["Coroutines"]

_OTHER_NAMES = {"_mv_file": "mv"}
"""Coroutines whose blocking methods are called otherwise."""


class Coroutines:
    """The coroutines of a filesystem: ``_info`` is its own, or ``info`` in a thread.

    ``info`` is the method: ``_info`` if that is what it runs, and otherwise itself in a thread.
    """

    def __init__(self, fs: AbstractFileSystem) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Callable[..., Any]:
        blocking = name.removeprefix("_")
        own = getattr(self._fs, f"_{blocking}", None) if self._fs.async_impl else None
        if inspect.iscoroutinefunction(own) and (
            name != blocking or hasattr(getattr(self._fs, blocking), "__wrapped__")
        ):
            return own
        method = getattr(self._fs, _OTHER_NAMES.get(name, blocking))

        @functools.wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(method, *args, **kwargs)

        return call

    async def walk_through(self, path: str, **kwargs: Any) -> AsyncIterator[Any]:
        """Its ``_walk``, or all that ``walk`` finds."""
        if inspect.isasyncgenfunction(walk := getattr(self._fs, "_walk", None)):
            async for step in walk(path, **kwargs):
                yield step
            return
        for step in await asyncio.to_thread(lambda: list(self._fs.walk(path, **kwargs))):
            yield step

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        """As the filesystem has it; refused by one that has no such files."""
        if self._fs.async_impl:
            return await self._fs.open_async(path, mode, **kwargs)
        raise UsageError(
            f"{path}: {type(self._fs).__name__} has no asynchronous files; open it with "
            f"filesystem.open({path!r}, {mode!r}) in a thread"
        )
