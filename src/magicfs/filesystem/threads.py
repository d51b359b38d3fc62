"""The coroutines of a filesystem that has none, such as that of local files: its methods, run in threads."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

from fsspec.spec import AbstractFileSystem

from magicfs.errors import UsageError

__all__ = ["InThreads"]


class InThreads:
    """A filesystem whose methods block, as an asynchronous one: ``_info`` is ``info`` in a thread."""

    def __init__(self, fs: AbstractFileSystem) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._fs, name.removeprefix("_"))

        @functools.wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(method, *args, **kwargs)

        return call

    async def _walk(self, path: str, **kwargs: Any) -> AsyncIterator[Any]:
        for step in await asyncio.to_thread(lambda: list(self._fs.walk(path, **kwargs))):
            yield step

    async def open_async(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """Refused, as by every filesystem that has no such files."""
        raise UsageError(
            f"{path}: {type(self._fs).__name__} has no files for coroutines; open it with "
            f"filesystem.open({path!r}, {mode!r}) in a thread"
        )
