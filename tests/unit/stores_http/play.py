"""Servers written by hand, which do what the tests say, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from magicfs.stores.s3.http import Address, HttpClient
from magicfs.stores.s3.http.client import Pool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

Play = Callable[["Wire"], Awaitable[None]]


@dataclass
class Wire:
    """The server's end of one connection."""

    number: int  # of the connections of the server
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> tuple[bytes, bytes]:
        """The head of the next request, and its body; raises ``IncompleteReadError`` if there is none."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return head, await self.reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def silence(self) -> None:
        """Say nothing more, until the other side has gone."""
        while await self.reader.read(65536):
            pass

    def reset(self) -> None:
        """Break the connection, as a process that is killed does."""
        self.writer.transport.abort()


@dataclass
class Served:
    """A server, and what it has seen."""

    address: Address
    wires: list[Wire] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)  # numbers of connections that are over
    errors: list[Exception] = field(default_factory=list)


@contextlib.asynccontextmanager
async def serving(
    play: Play, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Served]:
    """A server whose every connection plays the same; what it raises is raised at the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(len(served.wires), reader, writer)
        served.wires.append(wire)
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            await play(wire)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client has gone
        except asyncio.CancelledError:  # the test is over
            writer.transport.abort()
        except Exception as error:  # noqa: BLE001 - raised where the test sees it
            served.errors.append(error)
        finally:
            served.gone.append(wire.number)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError, TimeoutError):
                async with asyncio.timeout(5):  # with TLS it may last until the other side has answered
                    await writer.wait_closed()

    server = await asyncio.start_server(connected, host, 0, ssl=tls, limit=2**20)
    port = server.sockets[0].getsockname()[1]
    served = Served(Address("https" if tls else "http", host, port))
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for error in served.errors:
        raise error


async def answering(wire: Wire) -> None:
    """Answer every request with OK."""
    while True:
        await wire.request()
        await wire.send(OK)


@contextlib.asynccontextmanager
async def asking(**told: object) -> AsyncIterator[HttpClient]:
    """A client that closes a connection for a reason, and not because it was idle."""
    times = {"connect_timeout_s": 60.0, "read_timeout_s": 60.0, "keepalive_s": 3600.0}
    options = {"connections_max": 8, **times, **told}
    client = HttpClient(**options)  # type: ignore[arg-type]
    try:
        yield client
    finally:
        client.close()


async def until(condition: Callable[[], object]) -> None:
    """Let others run until something is so; a test that waits in vain is over by its own timeout."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it may hang on what has no event
            await asyncio.sleep(0.005)


def pool_of(client: HttpClient) -> Pool:
    """The client's connections of the running loop."""
    return client._pools.get(asyncio.get_running_loop()) or client._pool(Address("http", "", 0))
