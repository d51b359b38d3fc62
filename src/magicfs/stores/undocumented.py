"""What magicfs uses of other libraries that they do not document: it may be gone in their next version.

For each use there is also a documented way, which is slower or does less. That way is taken, and logged once.

And answers that others' clients read by aiohttp, within bounds that the clients do not know.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from magicfs.stores.answer_rules import DOCUMENT_BYTES_MAX, ERROR_BYTES_MAX, WORK_S, Malformed, deadline_s

_LOGGER = logging.getLogger("magicfs")
_logged: set[str] = set()


def log_once(message: str) -> None:
    """Log a warning, unless this process has logged it already."""
    if message not in _logged:
        _logged.add(message)
        _LOGGER.warning("%s", message)


def warn_of_exposure(url: str, *, has_credentials: bool, verifies: bool = True) -> None:
    """Warn if requests to a URL carry credentials in the clear to another machine, or trust any server."""
    at = urlsplit(url)
    host = at.hostname or ""
    if at.scheme == "http" and has_credentials and not _is_this_machine(host):
        log_once(
            f"requests with credentials go to {host} over http://, so anyone on the network can read and "
            "change them; use https://"
        )
    if at.scheme == "https" and not verifies:
        log_once(
            f"verify=False: any server can pose as {host} and read and change all requests; set the path of "
            "the certificates to trust, verify='ca.pem'"
        )


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def log_missing(what: str, instead: str) -> None:
    """Warn that a library lacks something, and what is done without it: once a process."""
    log_once(f"{what} is missing; {instead}; install a version that magicfs is tested with")


def send_once(session: Any) -> None:
    """Let a session of aiohttp send each request once, even if its kept connection broke."""
    if hasattr(session, "_retry_connection"):
        session._retry_connection = False  # noqa: SLF001 - there is no public way
    else:
        log_missing(
            "aiohttp's ClientSession._retry_connection",
            "a request whose kept connection broke may be sent twice before magicfs sees it",
        )


def bound(session: Any, response_class: type[Any]) -> None:
    """Let a session of aiohttp that somebody else has made read answers by a class of ours."""
    if hasattr(session, "_response_class"):
        session._response_class = response_class  # noqa: SLF001 - only its maker can give it
    else:
        log_missing(
            "aiohttp's ClientSession._response_class",
            "an answer of the store may have more bytes than magicfs requested",
        )


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
