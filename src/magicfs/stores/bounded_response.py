"""Answers that others' clients read by aiohttp, within bounds that the clients do not know."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from magicfs.stores.answer_rules import DOCUMENT_BYTES_MAX, ERROR_BYTES_MAX, WORK_S, Malformed, deadline_s

_PIECE: Final = 256 * 1024
_SILENCE_S: Final = 60.0
_bounds: ContextVar[tuple[int, float, float]] = ContextVar(
    "magicfs_answer_bounds", default=(DOCUMENT_BYTES_MAX, _SILENCE_S, WORK_S)
)


@contextmanager
def at_most(size: int, silence_s: float, head_s: float) -> Iterator[None]:
    """Within, an answer that is a success may have so many bytes; each other one 64 KiB.

    ``silence_s``: how long nothing of it may come; neither may a little come now and then for ever.
    ``head_s``: how long its headers may take, from when the request begins to be sent.
    """
    token = _bounds.set((size, silence_s, head_s))
    try:
        yield
    finally:
        _bounds.reset(token)


async def read(stream: Any, size_max: int, silence_s: float = _SILENCE_S) -> bytes:
    """At most so many bytes of a body."""
    pace = _Pace(silence_s)
    chunks, left = [], size_max
    while left and (chunk := await stream.read(left)):
        pace.check(len(chunk))
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


class _Pace:
    """How long a body takes, and how much of it has come."""

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._began = time.monotonic()
        self._size = 0

    def check(self, size: int) -> None:
        """So much more has come; raises ``TimeoutError`` if that is too little in all this time."""
        self._size += size
        if time.monotonic() - self._began > deadline_s(self._silence_s, self._size):
            raise TimeoutError(f"the answer is too slow: {self._size} bytes arrived in all this time")


class _Bounded:
    """The content of an answer, which is ``Malformed`` once it has too much. All else is the stream's."""

    def __init__(self, answer: Any, left: int, silence_s: float) -> None:
        self._answer = answer
        self._stream = answer.content
        self._left = left
        self._pace = _Pace(silence_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def read(self, n: int = -1) -> bytes:
        if n >= 0:
            return self._counted(await self._stream.read(n))
        chunks = []
        while chunk := self._counted(await self._stream.read(_PIECE)):
            chunks.append(chunk)
        return b"".join(chunks)

    def _counted(self, chunk: bytes) -> bytes:
        self._pace.check(len(chunk))
        self._left -= len(chunk)
        if self._left < 0:
            self._answer.close()
            raise Malformed("the answer has more bytes than requested")
        return chunk


async def _within(head_s: float, starting: Awaitable[Any]) -> None:
    async with asyncio.timeout(head_s):
        await starting


@functools.cache
def response_class() -> type[Any]:
    """The class of answers for a session of aiohttp."""
    import aiohttp

    class BoundedResponse(aiohttp.ClientResponse):
        """An answer of which no more is read than ``at_most`` says."""

        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            await _within(_bounds.get()[2], super().start(connection))
            size, silence_s, _ = _bounds.get()
            allowed = size if self.status < 300 else ERROR_BYTES_MAX
            self.content = _Bounded(self, allowed, silence_s)  # type: ignore[assignment]
            return self

    return BoundedResponse
