"""Servers that do what they should not."""

from __future__ import annotations

import asyncio
import gc
import io
import socket
import time
from collections.abc import Callable
from typing import NoReturn

import pytest

from magicfs.stores.s3.http import Address, NoAnswer, NotConnected
from tests.unit.stores_http.play import OK, Play, Wire, answering, asking, pool_of, serving, until

pytestmark = pytest.mark.process

HOST = [("Host", "there")]
HINT = b"HTTP/1.1 100 Continue\r\n\r\n"


def says(data: bytes, then: Callable[[Wire], object] | None = None) -> Play:
    """A server that answers a request with this, and then closes, resets, or is silent."""

    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(data)
        if then is not None and (waiting := then(wire)) is not None:
            await waiting  # type: ignore[misc]

    return play


FAILURES: dict[str, tuple[Play, str]] = {
    "closes": (says(b""), "it closed the connection before a byte of the answer came"),
    "resets": (says(b"", Wire.reset), "it (broke|closed) the connection before a byte of the answer came"),
    "closes in the status": (says(OK[:9]), "it closed the connection within the headers of the answer"),
    "closes in the headers": (says(OK[:25]), "it closed the connection within the headers of the answer"),
    "closes in the body": (says(OK[:-1]), "after 1 bytes of the answer's body, which has 2"),
    "closes in a chunk": (
        says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"),
        "it closed the connection after 2 bytes of the answer's body$",
    ),
    "closes before the last chunk": (
        says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
        "it closed the connection after 3 bytes of the answer's body$",
    ),
    "resets in the body": (says(OK[:-1], Wire.reset), "after 1 bytes of the answer's body, which has 2"),
    "informs, then closes": (says(HINT), "it closed the connection within the headers"),
    "is no server of HTTP": (says(b"SSH-2.0-OpenSSH_9.6\r\n", Wire.silence), "the answer is malformed"),
    "sends headers without end": (
        says(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000, Wire.silence),
        "the answer has more than 65536 bytes of headers",
    ),
    "is silent": (says(b"", Wire.silence), "it was silent for as long as this side may wait"),
    "is silent in the headers": (says(OK[:25], Wire.silence), "it fell silent within the headers of the"),
    "is silent in the body": (says(OK[:-1], Wire.silence), "it fell silent after 1 bytes of the answer's"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_a_request_without_a_whole_answer_fails_and_its_connection_is_closed(name: str) -> None:
    play, told = FAILURES[name]
    requests = 0

    async def counted(wire: Wire) -> None:
        nonlocal requests
        requests += 1
        await play(wire)

    async def scenario() -> None:
        timeout_s = 0.3 if "silent" in name else 60
        async with serving(counted) as served, asking(read_timeout_s=timeout_s) as client:
            for number in (1, 2):
                with pytest.raises(NoAnswer, match=told) as caught:
                    await client.ask(served.address, "GET", "/", HOST)
                assert str(caught.value).startswith(
                    f"no answer from 127.0.0.1:{served.address.port}: it "
                ) or ("malformed" in told or "headers" in told)
                await until(lambda number=number: len(served.gone) == number)
                assert pool_of(client)._taken == 0
            assert requests == 2, "a request is sent once"

    asyncio.run(scenario())


def test_a_server_that_takes_nothing_more_of_a_request_is_given_up() -> None:
    async def play(wire: Wire) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)

    async def scenario() -> None:
        body = io.BytesIO(bytes(2**26))
        async with serving(play) as served, asking(read_timeout_s=0.3) as client:
            with pytest.raises(NoAnswer, match="it took no more of the request"):
                await client.ask(served.address, "PUT", "/", HOST, body)
            body.truncate(0)

    asyncio.run(scenario())


def test_a_server_that_resets_while_a_request_is_sent_breaks_it() -> None:
    async def play(wire: Wire) -> None:
        await wire.reader.readexactly(100_000)
        wire.reset()

    async def scenario() -> None:
        body = io.BytesIO(bytes(2**26))
        async with serving(play) as served, asking() as client:
            with pytest.raises(NoAnswer, match=r"it broke the connection (while|before)"):
                await client.ask(served.address, "PUT", "/", HOST, body)
            body.truncate(0)

    asyncio.run(scenario())


def test_a_loop_that_was_held_up_blames_no_server() -> None:
    async def play(wire: Wire) -> None:
        await wire.request()
        time.sleep(1)  # noqa: ASYNC251 - that is it
        for _ in range(3):  # the loop looks at its timers before the answer comes
            await asyncio.sleep(0)
        await wire.send(OK)

    async def scenario() -> None:
        async with serving(play) as served, asking(read_timeout_s=0.5) as client:
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"

    asyncio.run(scenario())


def test_a_connection_that_the_server_has_closed_is_not_used() -> None:
    async def scenario() -> None:
        async with serving(says(OK)) as served, asking() as client:
            for number in range(1, 10):
                assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"
                await until(lambda: not pool_of(client)._all)
                assert len(served.wires) == number

    asyncio.run(scenario())


def test_a_connection_that_breaks_while_a_request_is_sent_on_it_fails_that_request_alone() -> None:
    """The race of every kept connection; whether the request is made again is not decided here."""

    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        if wire.number == 0:
            await wire.request()  # arrives, and is not answered
        else:
            await answering(wire)

    async def scenario() -> None:
        async with serving(play) as served, asking() as client:
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"
            with pytest.raises(NoAnswer, match="before a byte of the answer came"):
                await client.ask(served.address, "GET", "/", HOST)
            assert len(served.wires) == 1
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"

    asyncio.run(scenario())


def test_a_kept_connection_on_which_nothing_can_be_sent_is_exchanged() -> None:
    """The loop has not yet heard that the server has reset it: not a byte of the request was sent on it."""

    async def scenario() -> None:
        async with serving(answering) as served, asking() as client:
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"
            [kept] = pool_of(client)._all
            kept._socket.shutdown(socket.SHUT_WR)
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"
            assert kept.is_closed
            assert len(served.wires) == 2

    asyncio.run(scenario())


def test_a_connection_idle_for_long_is_looked_at_before_it_is_used() -> None:
    async def scenario() -> None:
        async with serving(says(OK)) as served, asking() as client:
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"
            [kept] = pool_of(client)._all
            kept._loop.remove_reader(kept._number)  # the loop is busy with others
            await until(lambda: served.gone)
            kept.idle_since -= 5
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"
            assert kept.is_closed

    asyncio.run(scenario())


def test_a_server_that_speaks_unasked_is_left() -> None:
    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        if wire.number == 0:
            await until(lambda: is_read)
            await wire.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            await wire.silence()
        await answering(wire)

    is_read = False

    async def scenario() -> None:
        nonlocal is_read
        async with serving(play) as served, asking() as client:
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"
            is_read = True
            await until(lambda: served.gone == [0])
            assert pool_of(client)._taken == 0
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"

    asyncio.run(scenario())


def test_who_is_not_there_was_sent_nothing() -> None:
    with socket.socket() as bound:  # and not listening
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]

        async def scenario() -> None:
            async with asking() as client:
                with pytest.raises(NotConnected, match=f"^no connection to 127.0.0.1:{port}: Connect"):
                    await client.ask(Address("http", "127.0.0.1", port), "GET", "/", HOST)
                with pytest.raises(NotConnected, match=f"^no connection to localhost:{port}: Connect"):
                    await client.ask(Address("http", "localhost", port), "GET", "/", HOST)
                assert pool_of(client)._taken == 0

        asyncio.run(scenario())
    gc.collect()


@pytest.mark.parametrize("host", ["a..b", "x" * 300])
def test_what_is_no_name_was_sent_nothing(host: str) -> None:
    async def scenario() -> None:
        async with asking() as client:
            with pytest.raises(NotConnected, match=r"^no connection to .*:80: ."):
                await client.ask(Address("http", host, 80), "GET", "/", HOST)
            assert pool_of(client)._taken == 0

    asyncio.run(scenario())


def test_a_name_that_nobody_knows_was_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*told: object, **more: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", ask)

    async def scenario() -> None:
        async with asking() as client:
            told = r"^no connection to nowhere.invalid:80: Name or service not known$"
            with pytest.raises(NotConnected, match=told):
                await client.ask(Address("http", "nowhere.invalid", 80), "GET", "/", HOST)
            assert pool_of(client)._taken == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b""], ids=["body", "head"]
)
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(begin: bytes) -> None:
    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(begin)
        for byte in b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100:
            await wire.send(bytes([byte]))
            await asyncio.sleep(0.02)

    async def scenario() -> float:
        async with serving(play) as served, asking(read_timeout_s=0.1) as client:
            began = time.monotonic()
            with pytest.raises(NoAnswer, match=r"it takes too long: \d+ bytes have come and gone"):
                await client.ask(served.address, "GET", "/", HOST)
            return time.monotonic() - began

    assert asyncio.run(scenario()) >= 0.5


def test_a_server_that_works_and_sends_spaces_is_waited_for() -> None:
    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n")
        for _ in range(40):
            await wire.send(b" ")
            await asyncio.sleep(0.02)
        await wire.silence()

    async def scenario() -> None:
        async with serving(play) as served, asking(read_timeout_s=0.1) as client:
            answer = await client.ask(served.address, "POST", "/", HOST, patience_s=60.0)
            assert answer.body == b" " * 40

    asyncio.run(scenario())
