"""An HTTP proxy in front of a server that counts requests and breaks some of them on purpose.

::

    with FaultProxy(server.endpoint) as proxy:
        client = server.s3_client(endpoint=proxy.endpoint)
        proxy.add(Rule("CompleteMultipartUpload", Action.LOST, times=1))
        ...
        assert proxy.counts["CompleteMultipartUpload"] == 2

Host, path, query and body go on byte for byte, so signatures hold.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from io import BytesIO
from types import TracebackType
from typing import Self
from xml.sax.saxutils import escape

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from magicfs.testing.faults import Action, ArmedRule, RequestSeen, Rule
from magicfs.testing.s3_operations import s3_operation

_START_SECONDS = 10.0
_LEAVE_SECONDS = 0.5
# These belong to one connection, not to the request; Expect and Content-Length are made again.
_PER_CONNECTION = frozenset(
    {
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("content-length", "expect", "proxy-authorization"),
    }
)
_ANSWER_PER_CONNECTION = _PER_CONNECTION - {"content-length"}
_ADDED_BY_AIOHTTP = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_LINGER_ZERO = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A request with its body, read to the end."""

    operation: str
    request: web.BaseRequest
    body: bytes

    @property
    def target(self) -> str:
        return self.request.raw_path


class FaultProxy:
    """The proxy, as a context manager. It runs in a thread of this process, on a free loopback port.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        upstream: str,
        named: Callable[[str, str, str, Mapping[str, str]], str] = s3_operation,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``named``: the operation of a request, by method, path, query and headers; S3's by default.
        ``tls``: what clients are spoken to with, by ``https``; none by default.
        """
        self._named = named
        self._tls = tls
        self._upstream = upstream.rstrip("/")
        self._lock = threading.Lock()
        self._rules: list[ArmedRule] = []
        self._counts: Counter[str] = Counter()
        self._caught = 0
        self._at_work: Counter[str] = Counter()
        self._peaks: Counter[str] = Counter()
        self._requests: list[RequestSeen] = []
        self._endpoint: str | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._session: aiohttp.ClientSession
        self._leaving: asyncio.Event
        self._clients: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()

    def __enter__(self) -> Self:
        started: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="fault-proxy", daemon=True)
        self._thread.start()
        self._endpoint = started.result(_START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._leaving.set)
            self._thread.join()
            self._thread = None

    @property
    def endpoint(self) -> str:
        """The URL that clients are given instead of the server's."""
        if self._endpoint is None:
            raise RuntimeError("The proxy is not running; use it in a with statement.")
        return self._endpoint

    @property
    def counts(self) -> Counter[str]:
        """A copy of the numbers of requests that arrived, by operation, repeated ones included."""
        with self._lock:
            return Counter(self._counts)

    @property
    def caught(self) -> int:
        """How many requests a rule has caught, those included that hang."""
        with self._lock:
            return self._caught

    @property
    def peaks(self) -> Counter[str]:
        """A copy of how many requests were at work at once, at most, by operation."""
        with self._lock:
            return Counter(self._peaks)

    @property
    def requests(self) -> list[RequestSeen]:
        """A copy of the list of requests that were answered or cut off."""
        with self._lock:
            return list(self._requests)

    def add(self, rule: Rule) -> None:
        """Arm a rule. A request is caught by the first rule, in the order of adding, that wants it."""
        with self._lock:
            self._rules.append(ArmedRule(rule))

    def clear(self) -> None:
        """Forget the rules, the counts, the peaks and the requests. What hangs already goes on hanging."""
        with self._lock:
            self._rules.clear()
            self._counts.clear()
            self._caught = 0
            self._peaks.clear()
            self._requests.clear()

    # Everything below runs in the proxy's own thread.

    def _run(self, started: Future[str]) -> None:
        try:
            asyncio.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._leaving = asyncio.Event()
        # A connection for each request: aiohttp repeats a request whose kept connection turns out to
        # be dead, and the server would see two where the client sent one.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session:
            self._session = session
            # Without auto_decompress=False a gzip body would be unpacked on its way in.
            server = web.Server(self._handle, auto_decompress=False, access_log=None)
            runner = web.ServerRunner(server, shutdown_timeout=_LEAVE_SECONDS)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls).start()
                scheme = "http" if self._tls is None else "https"
                started.set_result("{}://{}:{}".format(scheme, *runner.addresses[0]))
                await self._leaving.wait()
            finally:
                await runner.cleanup()
                for client in self._clients:  # TLS says good-bye for as long as half a minute
                    client.abort()
                await asyncio.sleep(0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.transport is not None:
            self._clients.add(request.transport)
        path, _, query = request.raw_path.partition("?")
        operation = self._named(request.method, path, query, request.headers)
        rule = self._begin(operation, request.raw_path)
        if request.headers.get("Expect", "").lower() == "100-continue":
            # botocore waits a second for it before it sends a body all the same.
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        try:
            # Not request.read(), which refuses more than 1 MiB.
            arrival = _Arrival(operation, request, await request.content.read())
        except (OSError, aiohttp.ClientError):
            with self._lock:
                self._at_work[operation] -= 1
            return self._abandon(request)  # the client went away before it had sent everything
        if rule is None:
            return await self._forward(arrival, None)
        return await self._break(arrival, rule)

    def _begin(self, operation: str, target: str) -> Rule | None:
        with self._lock:
            self._counts[operation] += 1
            self._at_work[operation] += 1
            self._peaks[operation] = max(self._peaks[operation], self._at_work[operation])
            rule = next((armed.rule for armed in self._rules if armed.catches(operation, target)), None)
            self._caught += rule is not None
            return rule

    async def _break(self, arrival: _Arrival, rule: Rule) -> web.StreamResponse:
        match rule.action:
            case Action.DELAY:
                await self._wait(rule.seconds)
                return await self._forward(arrival, rule.action)
            case Action.HANG:
                await self._wait(rule.seconds)
                return self._cut(arrival, rule.action)
            case Action.RESET:
                return self._cut(arrival, rule.action)
            case Action.LOST:
                await self._forward_unheard(arrival)
                return self._cut(arrival, rule.action)
            case Action.LOST_500:
                await self._forward_unheard(arrival)
                return self._error(arrival, rule, rule.status)
            case Action.ERROR:
                return self._error(arrival, rule, rule.status)
            case Action.ERROR_IN_200:
                return self._error(arrival, rule, HTTPStatus.OK)

    async def _wait(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._leaving.wait(), seconds)

    async def _ask_upstream(self, arrival: _Arrival) -> aiohttp.ClientResponse:
        request = arrival.request
        return await self._session.request(
            request.method,
            URL(self._upstream + arrival.target, encoded=True),
            headers=_without(_PER_CONNECTION, request.raw_headers),
            data=BytesIO(arrival.body) if request.body_exists else None,
            allow_redirects=False,
            skip_auto_headers=_ADDED_BY_AIOHTTP,
        )

    async def _forward(self, arrival: _Arrival, action: Action | None) -> web.StreamResponse:
        try:
            upstream = await self._ask_upstream(arrival)
        except aiohttp.ClientError:
            return self._cut(arrival, action)
        async with upstream:
            # Before the client can know the answer: it may look at the list right after.
            self._record(arrival, upstream.status, action)
            answer = web.StreamResponse(
                status=upstream.status,
                reason=upstream.reason,
                headers=_without(_ANSWER_PER_CONNECTION, upstream.raw_headers),
            )
            try:
                await answer.prepare(arrival.request)
                async for chunk in upstream.content.iter_any():
                    await answer.write(chunk)
                await answer.write_eof()
            except aiohttp.ClientError:
                return self._abandon(arrival.request)  # one side went away in the middle of the answer
            return answer

    async def _forward_unheard(self, arrival: _Arrival) -> None:
        with suppress(aiohttp.ClientError):
            async with await self._ask_upstream(arrival) as upstream:
                await upstream.read()

    def _error(self, arrival: _Arrival, rule: Rule, status: int) -> web.StreamResponse:
        self._record(arrival, status, rule.action)
        code = escape(rule.code)
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{code}</Code><Message>{code}, by the fault proxy</Message>"
            f"<Resource>{escape(arrival.target)}</Resource><RequestId>fault-proxy</RequestId></Error>"
        )
        return web.Response(status=status, text=body, content_type="application/xml")

    def _cut(self, arrival: _Arrival, action: Action | None) -> web.StreamResponse:
        self._record(arrival, None, action)
        return self._abandon(arrival.request)

    def _abandon(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is not None:
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
            transport.abort()
        return web.StreamResponse()  # aiohttp wants one, and finds that there is nobody to send it to

    def _record(self, arrival: _Arrival, status: int | None, action: Action | None) -> None:
        path, _, query = arrival.target.partition("?")
        lower = ((name.lower(), value) for name, value in arrival.request.headers.items())
        headers = {name: value for name, value in lower if name.startswith("x-amz-") or name == "user-agent"}
        seen = RequestSeen(arrival.operation, arrival.request.method, path, query, status, action, headers)
        with self._lock:
            self._at_work[arrival.operation] -= 1
            self._requests.append(seen)


def _without(names: frozenset[str], raw_headers: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    # Raw, because aiohttp's own table spells some names its own way (Etag).
    decoded = ((name.decode("ascii"), value.decode()) for name, value in raw_headers)
    return CIMultiDict([(name, value) for name, value in decoded if name.lower() not in names])
