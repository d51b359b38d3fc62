"""An endpoint on a port of this machine that answers as somebody else says, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

__all__ = ["Asked", "Endpoint", "Reply", "Sending", "written"]

_STALL_S = 30.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came; names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """A right answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Sending = Iterator[bytes | float]
"""Pieces that are sent one after the other; a number is a pause in seconds. Then the connection is closed."""


@dataclass
class Endpoint:
    """The endpoint, and a second one that nobody may ask: redirects lead there.

    Attributes:
        truth: What a request is answered rightly.
        lie: Makes what is sent of a request and its right answer; None sends that as it is.
        answers: How many were sent.
        sent: Bytes of the answer that had most.
        statuses: Of what was sent since somebody cleared them.
        asked: Requests since then.
        strangers: Requests that came to the second endpoint.
    """

    truth: Callable[[Asked], Awaitable[Reply]]
    lie: Callable[[Asked, Reply], Sending] | None = None
    answers: int = 0
    sent: int = 0
    statuses: set[int] = field(default_factory=set)
    asked: list[Asked] = field(default_factory=list)
    strangers: int = 0
    port: int = 0
    elsewhere: int = 0
    _attack: int = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._servers = [self._listen(self._serve), self._listen(self._stranger)]
        self.port, self.elsewhere = (server.sockets[0].getsockname()[1] for server in self._servers)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_STALL_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STALL_S)
        self._loop.close()

    def forget(self) -> None:
        """Clear what is counted for one attack."""
        self._attack += 1
        self.sent = 0
        self.statuses.clear()
        self.asked.clear()

    def _listen(self, serve: Callable[..., Awaitable[None]]) -> asyncio.Server:
        started = asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
        return asyncio.run_coroutine_threadsafe(started, self._loop).result(_STALL_S)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _stranger(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            if await reader.read(1):
                self.strangers += 1
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await _read(reader, writer)) is not None:
                self.asked.append(asked)
                reply = await self.truth(asked)
                self.answers += 1
                if self.lie is None:
                    writer.write(written(reply, asked))
                    await writer.drain()
                    continue
                await self._send(writer, self.lie(asked, reply))
                break
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the client has left
        finally:
            writer.transport.abort() if self.lie is not None and not writer.is_closing() else writer.close()

    async def _send(self, writer: asyncio.StreamWriter, sending: Sending) -> None:
        sent, attack = 0, self._attack
        for piece in sending:
            if isinstance(piece, float):
                await asyncio.sleep(piece)
                continue
            writer.write(piece if sent else self._beginning(piece))
            await writer.drain()
            sent += len(piece)
            if attack == self._attack:  # the end of an earlier one may come late
                self.sent = max(self.sent, sent)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def _beginning(self, piece: bytes) -> bytes:
        """The beginning of an answer, after which nothing may be asked: its end may come late."""
        if not piece[9:12].isdigit():
            return piece
        self.statuses.add(int(piece[9:12]))
        return piece if piece[9:10] == b"1" else piece.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    line, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = line.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines if one)}
    if headers.get("expect"):
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding") == "chunked":
        return Asked(method, target, headers, await _chunks(reader))
    return Asked(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    chunks = []
    while size := int((await reader.readline()).partition(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(chunks)


def written(reply: Reply, asked: Asked) -> bytes:
    """An answer as it goes over the wire, with the length of its body where it names none."""
    named = {name.lower() for name in reply.headers}
    lines = [f"HTTP/1.1 {reply.status} Told"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    if not named & {"content-length", "transfer-encoding"} and reply.status != 204:
        lines.append(f"Content-Length: {len(reply.body)}")
    head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
    return head if asked.method == "HEAD" else head + reply.body
