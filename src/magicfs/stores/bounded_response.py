"""Answers that others' clients read by aiohttp, within bounds that the clients do not know."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from magicfs.stores.answer_rules import DOCUMENT_BYTES_MAX, ERROR_BYTES_MAX, Malformed

__all__ = ["at_most", "read", "response_class"]

_PIECE: Final = 256 * 1024
_bytes_max: ContextVar[int] = ContextVar("magicfs_answer_bytes_max", default=DOCUMENT_BYTES_MAX)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Within, an answer that is a success may have so many bytes; each other one 64 KiB."""
    token = _bytes_max.set(size)
    try:
        yield
    finally:
        _bytes_max.reset(token)


async def read(stream: Any, size_max: int) -> bytes:
    """At most so many bytes of a body."""
    chunks, left = [], size_max
    while left and (chunk := await stream.read(left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


class _Bounded:
    """The content of an answer, which is ``Malformed`` once it has too much. All else is the stream's."""

    def __init__(self, stream: Any, left: int) -> None:
        self._stream = stream
        self._left = left

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
        self._left -= len(chunk)
        if self._left < 0:
            raise Malformed("the answer has more bytes than was asked for")
        return chunk


@functools.cache
def response_class() -> type[Any]:
    """The class of answers for a session of aiohttp."""
    import aiohttp

    class BoundedResponse(aiohttp.ClientResponse):
        """An answer of which no more is read than ``at_most`` says."""

        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            started = await super().start(connection)
            size = _bytes_max.get() if self.status < 300 else ERROR_BYTES_MAX
            self.content = _Bounded(self.content, size)  # type: ignore[assignment]
            return started

    return BoundedResponse
