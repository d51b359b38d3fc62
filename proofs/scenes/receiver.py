"""A server that hears of publications: it keeps what it was sent, and answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

__all__ = ["Heard", "Receiver"]


class Heard(NamedTuple):
    """A request."""

    path: str
    headers: Mapping[str, str]
    body: Any


class Receiver:
    """Listens on loopback.

    Args:
        statuses: What it answers, in this order; then 204. A text is a redirect to there.
    """

    def __init__(self, *statuses: int | str) -> None:
        self.heard: list[Heard] = []
        self._statuses = list(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.heard.append(Heard(self.path, dict(self.headers), json.loads(raw)))
                receiver.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens, with a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    @property
    def events(self) -> Sequence[Any]:
        """The bodies."""
        return [one.body for one in self.heard]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Send the next answer."""
        status = self._statuses.pop(0) if self._statuses else 204
        handler.send_response(status if isinstance(status, int) else 307)
        if isinstance(status, str):
            handler.send_header("Location", status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
