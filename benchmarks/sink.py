"""An S3 endpoint that takes everything and keeps nothing: what is left to measure is the client.

Run as a script it prints its port and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

_IDS = itertools.count(1)
_XML = '<?xml version="1.0" encoding="UTF-8"?>'


async def _answer(request: web.Request) -> web.StreamResponse:
    from aiohttp import web

    async for _ in request.content.iter_any():
        pass
    query = request.rel_url.query
    if request.method == "PUT":
        return web.Response(headers={"ETag": '"0123456789abcdef0123456789abcdef"'})
    if request.method == "POST" and "uploads" in query:
        upload = f"<UploadId>u{next(_IDS)}</UploadId>"
        body = f"<InitiateMultipartUploadResult>{upload}</InitiateMultipartUploadResult>"
    elif request.method == "POST":
        body = '<CompleteMultipartUploadResult><ETag>"0-1"</ETag></CompleteMultipartUploadResult>'
    elif request.method == "GET":
        body = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    else:
        return web.Response(status=404 if request.method == "HEAD" else 204)
    return web.Response(text=_XML + body, content_type="application/xml")


async def _serve() -> None:
    from aiohttp import web

    # An application, because the bare server does not answer ``Expect: 100-continue``.
    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{path:.*}", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


@contextmanager
def sink() -> Iterator[str]:
    """A sink in a process of its own; yields its endpoint."""
    command = [sys.executable, __file__]
    with subprocess.Popen(  # noqa: S603 - our own file
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"


if __name__ == "__main__":
    asyncio.run(_serve())
