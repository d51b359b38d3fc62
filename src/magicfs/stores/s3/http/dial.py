"""How a connection is opened: names looked up, families of addresses raced, proxies passed, hands shaken."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import unquote, urlsplit

from magicfs.stores.s3.http.connection import Address, NotConnected, Trust

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


_KNOWN_S = 10.0  # how long the addresses of a name are used without asking again
_HEAD_START_S = 0.25  # before the next address is tried as well (RFC 8305)

_Place = tuple[int, Any]  # family, and what connect() takes


@dataclass(slots=True)
class Dialer:
    """Opens connections for one loop."""

    loop: asyncio.AbstractEventLoop
    timeout_s: float
    trust: Trust
    proxies: Mapping[str, Proxy]
    is_abandoned: bool = False  # the loop is closed, or another process's
    _known: dict[tuple[str, int], tuple[float, list[list[_Place]]]] = field(default_factory=dict)
    _asking: dict[tuple[str, int], asyncio.Lock] = field(default_factory=dict)

    async def open(self, address: Address) -> socket.socket:
        """A connected socket, which does not block; raises ``NotConnected``."""
        proxy = self.proxies.get(address.scheme)
        by = f" through the proxy {proxy.address}" if proxy else ""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._open(address, proxy)
        except TimeoutError as error:
            problem = f"it took longer than {self.timeout_s:g} s"
            raise NotConnected(f"no connection to {address}{by}: {problem}") from error
        except NotConnected:
            raise
        except (OSError, UnicodeError) as error:  # a name that is none is found out when it is encoded
            self._known.clear()  # they may be others now
            raise NotConnected(f"no connection to {address}{by}: {_told(error)}") from error

    async def _open(self, address: Address, proxy: Proxy | None) -> socket.socket:
        first = proxy.address if proxy else address
        connected = await self._connect(first.host, first.port)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if first.scheme == "https":
                connected = await self._shake_hands(connected, first.host, of_proxy=proxy is not None)
            if proxy and address.scheme == "https":
                await proxy.let_through(self.loop, connected, address)
                connected = await self._shake_hands(connected, address.host, of_proxy=False)
        except BaseException:
            connected.close()
            raise
        return connected

    async def _connect(self, host: str, port: int) -> socket.socket:
        """To the first address that answers, of all that the name has."""
        places = await self._places(host, port)
        if len(places) == 1:
            return await self._reach(places[0])
        tasks: list[asyncio.Task[socket.socket]] = []
        winner: socket.socket | None = None
        try:
            for place in places:
                tasks.append(self.loop.create_task(self._reach(place)))
                if winner := await _first(tasks, _HEAD_START_S):
                    return winner
            if winner := await _first(tasks, None):
                return winner
        finally:
            for task in tasks:
                late = None if task.cancel() else _won(task)
                if late is not None and late is not winner:
                    late.close()
        raise OSError("; ".join(dict.fromkeys(_told(task.exception()) for task in tasks)))

    async def _reach(self, place: _Place) -> socket.socket:
        made = socket.socket(place[0], socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            await self.loop.sock_connect(made, place[1])
        except BaseException:
            made.close()
            raise
        return made

    async def _places(self, host: str, port: int) -> list[_Place]:
        """Where the host is; families take turns, and each call begins at another address."""
        for family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError, ValueError):
                socket.inet_pton(family, host)
                return [(family, (host, port))]
        key = (host, port)
        async with self._asking.setdefault(key, asyncio.Lock()):
            until, turns = self._known.get(key, (0.0, []))
            if until < self.loop.time():
                families: dict[int, list[_Place]] = {}
                for family, *_, where in await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                    families.setdefault(family, []).append((family, where))
                turns = list(families.values())
                self._known[key] = (self.loop.time() + _KNOWN_S, turns)
        places = [place for place in chain.from_iterable(zip_longest(*turns)) if place is not None]
        for turn in turns:
            turn.append(turn.pop(0))
        return places

    async def _shake_hands(self, connected: socket.socket, host: str, *, of_proxy: bool) -> ssl.SSLSocket:
        made = self.trust.context(of_proxy=of_proxy).wrap_socket(
            connected, do_handshake_on_connect=False, suppress_ragged_eofs=False, server_hostname=host
        )
        try:
            while True:
                try:
                    made.do_handshake()
                except ssl.SSLWantReadError:
                    await self._ready(made, self.loop.add_reader, self.loop.remove_reader)
                except ssl.SSLWantWriteError:
                    await self._ready(made, self.loop.add_writer, self.loop.remove_writer)
                else:
                    return made
        except BaseException:
            made.close()
            raise

    async def _ready(
        self, made: socket.socket, add: Callable[..., object], remove: Callable[[int], object]
    ) -> None:
        ready = self.loop.create_future()
        number = made.fileno()
        add(number, _wake, ready)
        try:
            await ready
        finally:
            if not self.is_abandoned:
                remove(number)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _first(tasks: list[asyncio.Task[socket.socket]], patience_s: float | None) -> socket.socket | None:
    """What the first task that succeeds returns, waited for so long, or until all have failed."""
    while (won := _won(*tasks)) is None and (waiting := [task for task in tasks if not task.done()]):
        await asyncio.wait(waiting, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        if patience_s is not None:
            return _won(*tasks)  # the next address has its turn, at once if this one has failed
    return won


def _won(*tasks: asyncio.Task[socket.socket]) -> socket.socket | None:
    """What the first of these returns that has succeeded."""
    ended = (task for task in tasks if task.done() and not task.cancelled())
    return next((task.result() for task in ended if task.exception() is None), None)


def _told(error: BaseException | None) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
