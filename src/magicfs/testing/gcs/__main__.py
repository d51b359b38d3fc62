"""The double as a process: ``python -m magicfs.testing.gcs HOST PORT TOKEN``."""

from __future__ import annotations

import asyncio
import signal
import sys

from aiohttp import web

from magicfs.testing.gcs.service import Service
from magicfs.testing.gcs.wire import Request

READY = "/__ready__"


async def serve(host: str, port: int, token: str) -> None:
    """Answer until somebody asks the process to end."""
    service = Service(token)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == READY:
            return web.Response()
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        # Not request.read(), which refuses more than 1 MiB.
        body = await request.content.read()
        base_url = f"http://{request.headers.get('Host', f'{host}:{port}')}"
        answer = service.answer(Request.of(request.method, request.raw_path, request.headers, body, base_url))
        headers = {name: value for name, value in answer.headers.items() if name.lower() != "content-length"}
        if request.method == "HEAD":
            response = web.Response(status=answer.status, headers=headers)
            response.content_length = len(answer.body)
            return response
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    runner = web.ServerRunner(web.Server(handle, auto_decompress=False, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
