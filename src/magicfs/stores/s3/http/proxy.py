"""A proxy between this machine and a server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from magicfs.stores.s3.http.address import Address
from magicfs.stores.s3.http.errors import NotConnected

__all__ = ["Proxy", "proxy_of"]

_ANSWER_BYTES_MAX = 64 * 1024
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where it is, and how to authorise oneself with it."""

    address: Address
    authorization: str = field(default="", repr=False)

    async def let_through(
        self, loop: asyncio.AbstractEventLoop, connected: socket.socket, target: Address
    ) -> None:
        """Have a connection to the proxy go on to a server; raises ``NotConnected`` or ``OSError``."""
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        await loop.sock_sendall(connected, "\r\n".join([*lines, "", ""]).encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            got = await loop.sock_recv(connected, 4096)
            answer += got
            if not got or len(answer) > _ANSWER_BYTES_MAX:
                raise self._refuses(target, "does not answer as a proxy does")
        version, _, status = answer.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        if not version.startswith("HTTP/1.") or not status.startswith("2"):
            raise self._refuses(target, f"answered {status[:100]!r}")

    def _refuses(self, target: Address, what: str) -> NotConnected:
        return NotConnected(f"no connection to {target}: the proxy {self.address} {what}")


def proxy_of(scheme: str, url: str) -> Proxy:
    """The proxy at a URL, for requests of the scheme; raises ``ValueError``, which does not show the URL."""
    host = None
    with contextlib.suppress(ValueError):  # which would show a part of the URL
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or _PORTS.get(parts.scheme)
        host = parts.hostname
    if not host or not port or parts.scheme not in _PORTS:
        raise ValueError(f"the proxy for {scheme} must be http://HOST:PORT or https://HOST:PORT")
    if scheme == parts.scheme == "https":
        raise ValueError("a proxy for https must be spoken to without TLS: http://HOST:PORT")
    known = ""
    if parts.username is not None:
        userinfo = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        known = "Basic " + base64.b64encode(userinfo.encode()).decode()
    return Proxy(Address(parts.scheme, host, port), known)
