"""The stub as a process, ``python -m benchmarks.stub_server HOST PORT [TLS_PORT CERTIFICATE]``: HTTP/1.1, as
lean as Python allows.

Bodies of data are read into one buffer and dropped there, so that what is measured is the client.
"""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import sys
from functools import partial
from http import HTTPStatus
from urllib.parse import unquote

from benchmarks.stub_answers import Answer, Content, is_kept

__all__ = ["COUNTS", "READY"]

READY = "/__ready__"
COUNTS = "/__counts__"
_BUFFER = 1 << 20
_END = b"\r\n\r\n"
_REASONS = {int(status): status.phrase for status in HTTPStatus}


class _Connection(asyncio.BufferedProtocol):
    """One client: heads are parsed from what came, bodies that nobody keeps are skipped uncopied."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._buffer = memoryview(bytearray(_BUFFER))
        self._head = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        # Of the request whose body is being read:
        self._method = self._target = ""
        self._headers: dict[str, str] = {}
        self._left = -1  # bytes of the body still to come; -1 while a head is read
        self._kept: bytearray | None = None
        self._chunks: _Chunks | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        data = self._buffer[:count]
        while len(data):
            if self._chunks is not None:
                data = self._chunked(self._chunks, data)
            elif self._left >= 0:
                data = self._body(data)
            else:
                data = self._line(data)

    def _line(self, data: memoryview) -> memoryview:
        """Take what belongs to a head; what is left over follows it."""
        before = len(self._head)
        self._head += data
        end = self._head.find(_END, max(0, before - 3))
        if end < 0:
            return data[len(data) :]
        rest = data[end + len(_END) - before :]
        lines = self._head[:end].decode("latin-1").split("\r\n")
        self._head = bytearray()
        self._method, self._target, _ = lines[0].split(" ", 2)
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        self._headers = headers
        if headers.get("expect", "").lower() == "100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._kept = bytearray() if self._wanted() else None
        if headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunks = _Chunks(self._kept)
            return rest
        self._left = int(headers.get("content-length", "0"))
        if self._left == 0:
            self._finish()
        return rest

    def _wanted(self) -> bool:
        """Whether somebody looks at the body."""
        if self._method != "PUT":
            return True
        path = self._target.partition("?")[0]
        return is_kept(unquote(path[1:].partition("/")[2]))

    def _body(self, data: memoryview) -> memoryview:
        taken = min(self._left, len(data))
        if self._kept is not None:
            self._kept += data[:taken]
        self._left -= taken
        if self._left == 0:
            self._finish()
        return data[taken:]

    def _chunked(self, chunks: _Chunks, data: memoryview) -> memoryview:
        rest = chunks.feed(data)
        if chunks.ended:
            self._chunks = None
            self._finish()
        return rest

    def _finish(self) -> None:
        body = None if self._kept is None else bytes(self._kept)
        self._left, self._kept = -1, None
        if body and self._headers.get("content-encoding", "").startswith("aws-chunked"):
            body = _unchunked(body)
        if self._target.startswith("/__"):
            answer = self._about_itself()
        else:
            answer = self._content.answer(self._method, self._target, self._headers, body)
        head = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, '')}"]
        head += [f"{name}: {value}" for name, value in answer.headers]
        if answer.status != HTTPStatus.NO_CONTENT:
            length = len(answer.body) if answer.length is None else answer.length
            head.append(f"Content-Length: {length}")
        head.append("x-amz-request-id: stub\r\n\r\n")
        sent = "\r\n".join(head).encode("latin-1")
        self._write(sent if self._method == "HEAD" else sent + answer.body)
        if self._headers.get("connection", "").lower() == "close" and self._transport is not None:
            self._transport.close()

    def _about_itself(self) -> Answer:
        if self._target == COUNTS:
            counts = dict(self._content.counts)
            self._content.counts.clear()
            return Answer(200, json.dumps(counts).encode())
        return Answer()

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)


class _Chunks:
    """A body in HTTP's chunks, as it comes in pieces."""

    def __init__(self, kept: bytearray | None) -> None:
        self.ended = False
        self._kept = kept
        self._line = bytearray()
        self._left = 0  # bytes of the chunk, its line end included
        self._in_trailer = False

    def feed(self, data: memoryview) -> memoryview:
        """Take what belongs to the body; what is left over follows it."""
        while len(data) and not self.ended:
            if self._left:
                taken = min(self._left, len(data))
                if self._kept is not None:
                    self._kept += data[: max(0, min(taken, self._left - 2))]
                self._left -= taken
                data = data[taken:]
                continue
            end = bytes(data[:_BUFFER]).find(b"\n")
            taken = len(data) if end < 0 else end + 1
            self._line += data[:taken]
            data = data[taken:]
            if end >= 0:
                self._ended_line(bytes(self._line).strip())
                self._line = bytearray()
        return data

    def _ended_line(self, line: bytes) -> None:
        if self._in_trailer:
            self.ended = not line
            return
        size = int(line.partition(b";")[0], 16)
        self._in_trailer = size == 0
        self._left = size + 2 if size else 0


def _unchunked(body: bytes) -> bytes:
    """The content of a body in the chunks of ``aws-chunked``."""
    found: list[bytes] = []
    place = 0
    while True:
        end = body.index(b"\r\n", place)
        size = int(body[place:end].partition(b";")[0], 16)
        if size == 0:
            return b"".join(found)
        found.append(body[end + 2 : end + 2 + size])
        place = end + 2 + size + 2


async def _serve(host: str, port: str, tls_port: str = "", certificate: str = "") -> None:
    loop = asyncio.get_running_loop()
    content = Content()
    connection = partial(_Connection, content)
    servers = [await loop.create_server(connection, host, int(port), backlog=1024)]
    if tls_port:
        shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shown.load_cert_chain(certificate)
        servers.append(await loop.create_server(connection, host, int(tls_port), backlog=1024, ssl=shown))
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    for server in servers:
        server.close()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
