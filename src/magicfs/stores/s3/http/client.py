"""The client: each request is sent once."""

from __future__ import annotations

import asyncio
import io
import weakref
from collections.abc import Mapping, Sequence

from magicfs.runtime.process_end import after_fork_in_child
from magicfs.stores.s3.http.answer import Answer
from magicfs.stores.s3.http.connection import Address, NotConnected, Trust, head_of
from magicfs.stores.s3.http.dial import proxy_of
from magicfs.stores.s3.http.pool import Pool, Settings

__all__ = ["HttpClient"]

Body = bytes | bytearray | memoryview | io.BytesIO

_JOINED = 64 * 1024
"""Of a body so much goes out with the head: copying it takes less time than a second call would."""

_Pools = dict[asyncio.AbstractEventLoop, Pool]


class HttpClient:
    """Makes requests of HTTP/1.1 over connections that it keeps.

    A request is sent once, whatever becomes of it: who asked decides whether it is made again. A connection
    whose request was cancelled, failed or was not wholly sent is closed.

    Each event loop has connections of its own; those of a closed one are dropped. A process that is forked
    from this one has none, and leaves this one's alone.
    """

    def __init__(
        self,
        *,
        connections_max: int,
        connect_timeout_s: float,
        read_timeout_s: float,
        verify: bool | str = True,
        client_cert: str | tuple[str, str] | None = None,
        proxies: Mapping[str, str] | None = None,
        keepalive_s: float = 12.0,
    ) -> None:
        """Connects nothing yet.

        Args:
            connections_max: Most connections of one loop, to all servers together.
            connect_timeout_s: For name, connection, proxy and TLS together.
            read_timeout_s: How long the server may take or send nothing while a request is on its way.
            verify: False trusts every certificate; a path is that of a file or directory of certificates.
            client_cert: The path of a certificate with its key, or the paths of both.
            proxies: The URL of a proxy by scheme of the server; user and password may stand in it.
            keepalive_s: How long a connection is kept without a request.

        Raises:
            ValueError: A proxy cannot be used.
        """
        self._settings = Settings(
            connections_max=connections_max,
            connect_timeout_s=connect_timeout_s,
            read_timeout_s=read_timeout_s,
            keepalive_s=keepalive_s,
            trust=Trust(verify, client_cert),
            proxies={scheme: proxy_of(scheme, url) for scheme, url in (proxies or {}).items()},
        )
        self._pools: _Pools = {}
        self._is_closed = False
        weakref.finalize(self, _close, self._pools).atexit = False
        _clients.add(self)

    async def ask(
        self,
        address: Address,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: Body = b"",
        *,
        size_max: int | None = None,
        patience_s: float = 0.0,
    ) -> Answer:
        """Make one request.

        It may take five times the read timeout, ``patience_s``, and a second for each 4 KiB that come or go;
        of an answer that is no success 64 KiB are read.

        Args:
            address: Where to.
            method: Its method.
            target: Path and query, percent-encoded.
            headers: Sent as they are, ``Host`` and ``Content-Length`` among them; nothing is added to them.
            body: Sent as it is, a large one without a copy. It must not change meanwhile; afterwards it may.
            size_max: Read at most so much of the answer's body; what is longer is cut off there, and the
                connection closed.
            patience_s: How long the server may work on it beyond the usual while it sends a little.

        Raises:
            NotConnected: Nothing was sent.
            NoAnswer: The request was sent, perhaps in part, and may have taken place.
            ValueError: The request cannot be written down; nothing was sent.
        """
        if self._settings.proxies and address.scheme == "http":
            target, headers = self._absolute(address, target, headers)
        message = head_of(method, target, headers)
        rest = None
        if body:
            message, rest = _joined(message, body)
        try:
            pool = self._pools.get(asyncio.get_running_loop()) or self._pool(address)
            future = None
            while future is None:
                connection = pool.idle(address) or await pool.connection(address)
                future = connection.start(
                    message, rest, to_head=method == "HEAD", size_max=size_max, patience_s=patience_s
                )
            try:
                return await future
            finally:
                connection.leave(future)
        finally:
            if rest is not None:
                rest.release()

    def close(self) -> None:
        """Close all connections, those with a request on them, too; later requests are refused.

        May be called from any thread, and whatever has become of the loops.
        """
        self._is_closed = True
        _close(self._pools)

    def _pool(self, address: Address) -> Pool:
        """A new pool for the running loop."""
        if self._is_closed:
            raise NotConnected(f"no connection to {address}: the client was closed")
        for loop, pool in list(self._pools.items()):
            if loop.is_closed():
                self._pools.pop(loop, None)
                pool.abandon()
        loop = asyncio.get_running_loop()
        return self._pools.setdefault(loop, Pool(loop, self._settings))

    def _absolute(
        self, address: Address, target: str, headers: Sequence[tuple[str, str]]
    ) -> tuple[str, Sequence[tuple[str, str]]]:
        """What a proxy wants to be told."""
        proxy = self._settings.proxies.get("http")
        if proxy is None:
            return target, headers
        told = [("Proxy-Authorization", proxy.authorization)] if proxy.authorization else []
        return f"http://{address}{target}", [*headers, *told]

    def _forget(self) -> None:
        """In a process forked from the one that made the connections."""
        _inherited.extend(self._pools.items())
        for pool in self._pools.values():
            pool.abandon()
        self._pools.clear()


_clients: weakref.WeakSet[HttpClient] = weakref.WeakSet()
_inherited: list[object] = []  # whatever of it went would reach for the other process's loop


def _joined(head: bytes, body: Body) -> tuple[bytes, memoryview | None]:
    """What goes out first, and the rest."""
    if isinstance(body, bytes) and len(body) <= _JOINED:
        return head + body, None
    with _bytes_of(body) as view:
        with view[:_JOINED] as first:
            message = b"".join((head, first))
        return message, view[_JOINED:] if len(view) > _JOINED else None


def _bytes_of(body: Body) -> memoryview:
    if isinstance(body, io.BytesIO):
        return body.getbuffer()
    view = memoryview(body)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def _close(pools: _Pools) -> None:
    """Close each pool where its loop runs; with a loop that has gone only the sockets are closed."""
    for loop, pool in list(pools.items()):
        pools.pop(loop, None)
        if loop.is_closed():
            pool.abandon()
        elif not loop.is_running() or asyncio._get_running_loop() is loop:  # noqa: SLF001
            pool.close()
        else:
            try:
                loop.call_soon_threadsafe(pool.close)
            except RuntimeError:  # closed meanwhile
                pool.abandon()


def _in_child() -> None:
    for client in list(_clients):
        client._forget()  # noqa: SLF001


after_fork_in_child(_in_child)
