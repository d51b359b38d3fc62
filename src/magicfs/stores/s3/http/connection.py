"""One connection: a request goes out, its answer comes in, nothing else ever does.

The socket is used as it is, without a transport of asyncio between. So no byte of a large body is copied, it
is known when a buffer is no longer in use, and a socket can be closed whatever has become of its loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from magicfs.stores.s3.http.answer import Answer, AnswerReader, Malformed


def head_of(method: str, target: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """Request line and headers, with the empty line behind them.

    Raises ``ValueError``, which does not show a header, for what would not arrive as it is written here.
    """
    text = "".join(
        [f"{method} {target} HTTP/1.1\r\n", *[f"{name}: {value}\r\n" for name, value in headers], "\r\n"]
    )
    lines = len(headers) + 2
    if text.count("\n") != lines or text.count("\r") != lines or "\0" in text:
        raise ValueError("a request cannot hold line ends or NUL in its target or a header; nothing was sent")
    if " " in target or not target.isascii():
        raise ValueError("the target of a request must be percent-encoded; nothing was sent")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("a header holds what is no text; nothing was sent") from None


@dataclass(slots=True)
class Trust:
    """Makes each context of TLS when it is first needed, once: that takes tens of milliseconds."""

    verify: bool | str  # a path is that of a file or directory of certificates
    client_cert: str | tuple[str, str] | None = field(repr=False)
    _contexts: dict[bool, ssl.SSLContext] = field(default_factory=dict)

    def context(self, *, of_proxy: bool) -> ssl.SSLContext:
        """The context of all connections; raises ``OSError`` if certificates cannot be read.

        A proxy is not shown the certificate, which is for the server.
        """
        if of_proxy not in self._contexts:
            self._contexts[of_proxy] = self._made(None if of_proxy else self.client_cert)
        return self._contexts[of_proxy]

    def _made(self, client_cert: str | tuple[str, str] | None) -> ssl.SSLContext:
        if isinstance(self.verify, str):
            is_directory = Path(self.verify).is_dir()
            context = ssl.create_default_context(
                cafile=None if is_directory else self.verify, capath=self.verify if is_directory else None
            )
        elif self.verify:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        # Many private authorities are not made by the letter of RFC 5280; botocore's client takes them, too.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if isinstance(client_cert, str):
            context.load_cert_chain(client_cert)
        elif client_cert is not None:
            context.load_cert_chain(*client_cert)
        context.set_alpn_protocols(["http/1.1"])
        return context


class HttpError(OSError):
    """A request without an answer. ``str(error)`` names the server and what happened, and holds no secret."""


class NotConnected(HttpError):
    """There is no connection: nothing of the request was sent."""


class NoAnswer(HttpError):
    """The request was sent, perhaps in part, and no whole answer came: it may have taken place."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server; connections to it are kept, and used for no other."""

    scheme: str  # http or https
    host: str  # a name, or an IP address; one of IPv6 without brackets
    port: int

    def __post_init__(self) -> None:
        if self.scheme not in ("http", "https"):  # nothing meant for TLS may go without
            raise ValueError(f"the scheme of an address must be http or https, not {self.scheme!r}")

    def __str__(self) -> str:
        """As it stands in a URL and in messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


BUFFER_BYTES = 256 * 1024  # more than a record of TLS
_READ = 256 * 1024  # before others have their turn
_SENT = 512 * 1024  # the same; with half of it each byte takes half as long again
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """A connection of a pool, idle or with one request on it.

    The pool is told by ``on_free`` when another request may be made on it, and by ``on_closed``, once, when
    it is of no more use. All connections of a loop may share one ``buffer``: between calls it is not in use.
    """

    __slots__ = (
        *("address", "idle_since", "is_closed", "silent_ticks", "busy_ticks", "patience_s"),
        *("_loop", "_socket", "_number", "_is_tls"),
        *("_buffer", "_on_free", "_on_closed", "_reader", "_future", "_head", "_body", "_sent"),
        *("_is_sending", "_failed", "_write_waits_for_read", "_was_used"),
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connected: socket.socket,
        address: Address,
        buffer: memoryview,
        on_free: Callable[[Connection], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        self.address = address
        self.idle_since: float = 0.0
        self.is_closed: bool = False
        self.silent_ticks: int = 0
        self.busy_ticks: int = 0
        self.patience_s: float = 0.0
        self._loop = loop
        self._socket = connected
        self._number = connected.fileno()
        self._is_tls = isinstance(connected, ssl.SSLSocket)
        self._buffer = buffer
        self._on_free = on_free
        self._on_closed = on_closed
        self._reader = AnswerReader()
        self._future: asyncio.Future[Answer] | None = None
        self._head = b""
        self._body: memoryview | None = None
        self._sent = 0
        self._is_sending = False
        self._failed: OSError | None = None
        self._write_waits_for_read = False
        self._was_used = False
        loop.add_reader(self._number, self._on_readable)

    @property
    def is_busy(self) -> bool:
        """Whether a request is on its way."""
        return self._future is not None

    @property
    def moved(self) -> int:
        """Bytes of the bodies that have come and gone."""
        return self._sent + self._reader.size

    def start(
        self,
        head: bytes,
        body: memoryview | None,
        *,
        to_head: bool,
        size_max: int | None,
        patience_s: float = 0.0,
    ) -> asyncio.Future[Answer] | None:
        """Send a request; its answer comes with the future.

        ``patience_s``: how long it may take beyond what its bytes take.

        None if the connection turns out to be broken before a byte of the request is sent: it is closed then,
        and another one may be used.
        """
        future = self._future = self._loop.create_future()
        self._reader.expect(to_head=to_head, size_max=size_max)
        self.silent_ticks = self.busy_ticks = self._sent = 0
        self.patience_s = patience_s
        try:
            sent = self._socket.send(head)
        except _LATER:
            sent = 0
        except OSError as error:
            if self._was_used:
                self._future = None
                self.close()
                return None
            self._cannot_send(error)
            return future
        self._was_used = True
        if sent < len(head) or body is not None:
            self._head = head
            self._body = body
            self._sent = sent
            self._is_sending = True
            if sent == len(head):  # it may take more at once, and then nobody has to wait until it does
                self._send_if_it_takes_more()
            if self._is_sending and not self._write_waits_for_read:
                self._loop.add_writer(self._number, self._on_writable)
        return future

    def leave(self, future: asyncio.Future[Answer]) -> None:
        """Whoever waited does no longer. Afterwards nothing holds the request's body."""
        if self._future is future:
            self._future = None
            self.close()

    def check(self) -> bool:
        """Whether it can be used, as far as this side can know."""
        if not self.is_closed:
            self._on_readable()
        return not self.is_closed

    def fail(self, what: str, cause: Exception | None = None) -> None:
        """Close, and raise ``NoAnswer`` where the answer is waited for."""
        future, self._future = self._future, None
        self.close()
        if future is not None and not future.done():
            error = NoAnswer(f"no answer from {self.address}: {what}")
            error.__cause__ = cause
            future.set_exception(error)

    def fall_silent(self) -> None:
        """Fail, since nothing has come or gone for too long."""
        if self._is_sending:
            self.fail("it took no more of the request, and this side has waited as long as it may")
        elif self._reader.has_begun:
            self.fail(f"it fell silent {self._reader.missing()}, and this side has waited as long as it may")
        else:
            self.fail("it was silent for as long as this side may wait")

    def take_too_long(self) -> None:
        """Fail, since something comes or goes now and then, and too little of it."""
        self.fail(f"it takes too long: {self.moved} bytes have come and gone in all this time")

    def close(self) -> None:
        """Close; a second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self._head, self._body = b"", None
        self._loop.remove_reader(self._number)
        self._loop.remove_writer(self._number)
        self._socket.close()
        self._on_closed(self)

    def abandon(self) -> None:
        """Close the socket alone: its loop is closed, or the process's that this one was forked from.

        The kernel's list of what that loop watches is shared with that process, and stays as it is.
        """
        self.is_closed = True
        self._body = None
        self._socket.close()

    def _on_readable(self) -> None:
        if self._write_waits_for_read:
            self._write_waits_for_read = False
            self._loop.add_writer(self._number, self._on_writable)
        got = 0
        while got < _READ:
            try:
                count = self._socket.recv_into(self._buffer)
            except ssl.SSLWantWriteError:
                self._loop.add_writer(self._number, self._on_writable)
                return
            except _LATER:
                return
            except OSError as error:
                self._broken(error)
                return
            if not count:
                self._ended()
                return
            self.silent_ticks = 0
            if self._future is None:
                self.close()  # nobody has asked for anything
                return
            got += count
            try:
                is_whole = self._reader.feed(self._buffer[:count])
            except Malformed as error:
                self.fail(str(error))
                return
            if is_whole:
                self._answered()
                return
            if not self._is_tls:  # of which a call reads one record, and leaves the next in the kernel
                return

    def _on_writable(self) -> None:
        if not self._is_sending:  # reading had to wait for this
            self._loop.remove_writer(self._number)
            self._on_readable()
            return
        self._send_if_it_takes_more()

    def _send_if_it_takes_more(self) -> None:
        try:
            self._send_piece()
        except ssl.SSLWantReadError:
            self._write_waits_for_read = True
            self._loop.remove_writer(self._number)
        except _LATER:
            return
        except OSError as error:
            self._cannot_send(error)

    def _send_piece(self) -> None:
        head, body, start = self._head, self._body, self._sent
        if start < len(head):
            sent = self._socket.send(head[start:] if start else head)
        else:
            assert body is not None
            start -= len(head)
            with body[start : start + _SENT] as piece:
                sent = self._socket.send(piece)
        self._sent += sent
        self.silent_ticks = 0
        if self._sent == len(head) + (len(body) if body is not None else 0):
            self._stop_sending()

    def _stop_sending(self) -> None:
        self._is_sending = self._write_waits_for_read = False
        self._head, self._body = b"", None
        self._loop.remove_writer(self._number)

    def _cannot_send(self, error: OSError) -> None:
        """Send no more, but read: who refuses a request may answer and close before all of it has come."""
        if self._is_sending:
            self._stop_sending()
        self._failed = error
        self._on_readable()

    def _broken(self, error: OSError) -> None:
        if self._future is None:
            self.close()
        elif self._failed is not None:
            self.fail(f"it broke the connection while the request was sent: {_told(self._failed)}", error)
        else:
            self.fail(f"it broke the connection {self._reader.missing()}: {_told(error)}", error)

    def _ended(self) -> None:
        if self._future is None:
            self.close()
        elif self._reader.end():
            self._answered()
        elif self._failed is not None:
            self._broken(self._failed)
        else:
            self.fail(f"it closed the connection {self._reader.missing()}")

    def _answered(self) -> None:
        future, self._future = self._future, None
        answer = self._reader.take()
        assert future is not None
        is_left = future.done()
        if not is_left:
            future.set_result(answer)
        if is_left or self._reader.is_last or self._is_sending or self._failed is not None:
            self.close()
        else:
            self._on_free(self)


def _told(error: OSError) -> str:
    return error.strerror or type(error).__name__
