"""The client: each request is sent once."""

from __future__ import annotations

import asyncio
import io
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from magicfs.runtime.process_end import after_fork_in_child
from magicfs.stores.answer_rules import deadline_s
from magicfs.stores.s3.http.answer import Answer
from magicfs.stores.s3.http.connection import BUFFER_BYTES, Address, Connection, NotConnected, Trust, head_of
from magicfs.stores.s3.http.dial import Dialer, Proxy, proxy_of

_TICK_S_MAX = 1.0
_TICK_S_MIN = 0.01
_TICKS = 20  # in the read timeout, at least
_CHECKED_AFTER_S = 1.0  # idle for longer, a connection is looked at before it is used


@dataclass(frozen=True, slots=True)
class Settings:
    """How a client was made."""

    connections_max: int
    connect_timeout_s: float
    read_timeout_s: float
    keepalive_s: float
    trust: Trust
    proxies: Mapping[str, Proxy]


class Pool:
    """Connections to any number of servers, so many in all at most; who finds none waits in line.

    A tick watches them. Silence is counted in ticks, not by the clock: a machine that stood still, or a loop
    that was held up, has not listened, and no server is blamed for that.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: Settings) -> None:
        self._loop = loop
        self._settings = settings
        self._dialer = Dialer(loop, settings.connect_timeout_s, settings.trust, settings.proxies)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._taken = 0  # connections there are, and are about to be
        self._all: set[Connection] = set()
        self._idle: dict[Address, list[Connection]] = {}
        self._waiters: deque[tuple[Address, asyncio.Future[Connection | None]]] = deque()
        tick_s = min(_TICK_S_MAX, settings.read_timeout_s / _TICKS, settings.keepalive_s / 2)
        self._tick_s = max(tick_s, _TICK_S_MIN)
        self._ticks_max = settings.read_timeout_s / self._tick_s
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def idle(self, address: Address) -> Connection | None:
        """A kept connection, the one last used, which is no longer idle now."""
        stack = self._idle.get(address)
        while stack:
            found = stack.pop()
            idle_s = self._loop.time() - found.idle_since
            if idle_s > self._settings.keepalive_s:
                found.close()
            elif idle_s < _CHECKED_AFTER_S or found.check():
                return found
        return None

    async def connection(self, address: Address) -> Connection:
        """A connection, new, or one that another request has done with; raises ``NotConnected``."""
        add = self._waiters.append
        while not self._reserve(address):
            waiter: asyncio.Future[Connection | None] = self._loop.create_future()
            place = (address, waiter)
            add(place)
            try:
                handed = await waiter
            except asyncio.CancelledError:
                self._decline(place)
                raise
            if handed is None:
                break  # a free place, which is reserved already
            if not handed.is_closed:
                return handed
            add = self._waiters.appendleft  # it broke on the way: who was first stays first
        return await self._open(address)

    def give_back(self, connection: Connection) -> None:
        """Take a connection that is free, for who waits for it longest."""
        connection.idle_since = self._loop.time()
        if waiting := self._next():
            address, waiter = waiting
            if address == connection.address:
                waiter.set_result(connection)
            else:
                self._waiters.appendleft(waiting)
                connection.close()  # makes place for a new one
        else:
            self._idle.setdefault(connection.address, []).append(connection)

    def close(self) -> None:
        """Close all connections; runs on the loop, or while it stands still."""
        self._is_closed = True
        while waiting := self._next():
            waiting[1].set_exception(_closed_before(waiting[0]))
        for one in list(self._all):
            one.fail("the client was closed")

    def abandon(self) -> None:
        """Close the sockets alone: the loop is closed, or another process's."""
        self._is_closed = True
        self._dialer.is_abandoned = True
        for one in list(self._all):
            one.abandon()

    def _reserve(self, address: Address) -> bool:
        """Take a place for a new connection, if need be that of the one that has been idle longest."""
        if self._is_closed:
            raise _closed_before(address)
        if self._taken >= self._settings.connections_max:
            oldest = min(
                (stack[0] for stack in self._idle.values() if stack),
                key=lambda one: one.idle_since,
                default=None,
            )
            if oldest is None:
                return False
            oldest.close()
        self._taken += 1
        return True

    async def _open(self, address: Address) -> Connection:
        try:
            connected = await self._dialer.open(address)
            if self._is_closed:
                connected.close()
                raise _closed_before(address)
        except BaseException:
            self._free_place()
            raise
        made = Connection(self._loop, connected, address, self._buffer, self.give_back, self._closed)
        made.idle_since = self._loop.time()
        self._all.add(made)
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick_s, self._tick)
        return made

    def _closed(self, connection: Connection) -> None:
        self._all.discard(connection)
        stack = self._idle.get(connection.address)
        if stack and connection in stack:
            stack.remove(connection)
        self._free_place()

    def _free_place(self) -> None:
        self._taken -= 1
        if not self._is_closed and self._taken < self._settings.connections_max and (waiting := self._next()):
            self._taken += 1
            waiting[1].set_result(None)

    def _next(self) -> tuple[Address, asyncio.Future[Connection | None]] | None:
        """Who waits longest, no longer in line."""
        while self._waiters:
            waiting = self._waiters.popleft()
            if not waiting[1].done():
                return waiting
        return None

    def _decline(self, place: tuple[Address, asyncio.Future[Connection | None]]) -> None:
        """Leave the line, or pass on what was handed in the same moment."""
        waiter = place[1]
        if waiter.cancelled():
            if place in self._waiters:
                self._waiters.remove(place)
        elif waiter.exception() is None:
            handed = waiter.result()
            if handed is None:
                self._free_place()
            elif not handed.is_closed:
                self.give_back(handed)

    def _tick(self) -> None:
        self._timer = None
        oldest = self._loop.time() - self._settings.keepalive_s
        for one in list(self._all):
            if one.is_busy:
                one.silent_ticks += 1
                one.busy_ticks += 1
                if one.silent_ticks > self._ticks_max:
                    one.fall_silent()
                elif one.busy_ticks * self._tick_s > one.patience_s + self._deadline_s(one.moved):
                    one.take_too_long()
            elif one.idle_since < oldest:
                one.close()
        if self._all:
            self._timer = self._loop.call_later(self._tick_s, self._tick)

    def _deadline_s(self, moved: int) -> float:
        return deadline_s(self._settings.read_timeout_s, moved)


def _closed_before(address: Address) -> NotConnected:
    return NotConnected(f"no connection to {address}: the client was closed")


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
