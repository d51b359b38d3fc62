"""The connections of one loop: kept, shared out, watched."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from magicfs.stores.answer_rules import deadline_s
from magicfs.stores.s3.http.connection import BUFFER_BYTES, Address, Connection, NotConnected, Trust
from magicfs.stores.s3.http.dial import Dialer, Proxy

__all__ = ["Pool", "Settings"]

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
