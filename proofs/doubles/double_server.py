"""What doubles of stores share: requests and answers as values, and the process that carries them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, unquote

from aiohttp import web

__all__ = ["READY", "Answer", "Request", "serve"]

READY = "/__ready__"
"""What is asked until the process answers."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case, the path is as it travelled."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    base_url: str

    @classmethod
    def of(cls, method: str, target: str, headers: Mapping[str, str], body: bytes, base_url: str) -> Self:
        """A request from its line, headers and body."""
        path, _, query = target.partition("?")
        lower = {name.lower(): value for name, value in headers.items()}
        return cls(method, path, dict(parse_qsl(query, keep_blank_values=True)), lower, body, base_url)

    @property
    def elements(self) -> list[str]:
        """The elements of the path; a slash within an element travels as %2F."""
        return [unquote(element) for element in self.path.split("/")[1:]]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


async def serve(
    answer: Callable[[str, str, Mapping[str, str], bytes, str], Answer], host: str, port: int
) -> None:
    """Answer until somebody asks the process to end; ``answer`` takes the arguments of ``Request.of``."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == READY:
            return web.Response()
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        # Not request.read(), which refuses more than 1 MiB.
        body = await request.content.read()
        base_url = f"http://{request.headers.get('Host', f'{host}:{port}')}"
        made = answer(request.method, request.raw_path, request.headers, body, base_url)
        headers = {name: value for name, value in made.headers.items() if name.lower() != "content-length"}
        if request.method == "HEAD":
            response = web.StreamResponse(status=made.status, headers=headers)
            response.content_length = len(made.body)
            return response
        return web.Response(status=made.status, body=made.body, headers=headers)

    runner = web.ServerRunner(web.Server(handle, auto_decompress=False, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await runner.cleanup()
