"""A way to a server on which every request takes longer: bytes are passed on as they are, later."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

__all__ = ["FarLink"]

_CHUNK = 2**16


class FarLink:
    """A proxy in a thread of this process, on a free port of its own.

    Args:
        endpoint: The URL of the server.
        seconds: What each request takes longer.
    """

    def __init__(self, endpoint: str, seconds: float) -> None:
        address = urlsplit(endpoint)
        assert address.hostname is not None
        self._address = address.hostname, address.port or 80
        self._seconds = seconds
        self._loop = asyncio.new_event_loop()
        self._started: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, name="far-link", daemon=True)

    @property
    def endpoint(self) -> str:
        """What clients are given instead of the server's URL."""
        return f"http://127.0.0.1:{self._started.result()}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._joined, "127.0.0.1", 0))
        self._started.set_result(server.sockets[0].getsockname()[1])
        self._loop.run_forever()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(*self._address)
        with suppress(OSError):
            await asyncio.gather(self._pass(reader, forth, self._seconds), self._pass(back, writer, 0.0))

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, later: float) -> None:
        due = 0.0
        while data := await source.read(_CHUNK):
            if later:  # none before the one before it
                due = max(self._loop.time() + later, due + 1e-6)
                self._loop.call_at(due, target.write, data)
            else:
                target.write(data)
        await asyncio.sleep(later)
        target.close()
