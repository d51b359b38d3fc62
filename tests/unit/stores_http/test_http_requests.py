"""Requests and their answers over real sockets."""

from __future__ import annotations

import asyncio
import io
import pickle
import socket

import pytest

from magicfs.stores.s3.http import Address, Answer, HttpClient, HttpError, NoAnswer, NotConnected
from magicfs.stores.s3.http.connection import head_of
from tests.unit.stores_http.play import OK, Wire, answering, asking, pool_of, serving, until

pytestmark = pytest.mark.process

HI = Answer(200, {"content-length": "2"}, b"hi")
HOST = [("Host", "there")]


def test_a_request_arrives_as_it_was_given() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def play(wire: Wire) -> None:
        while True:
            seen.append(await wire.request())
            await wire.send(OK)

    async def scenario() -> None:
        async with serving(play) as served, asking() as client:
            headers = [("Host", "there"), ("x-amz-meta-a", "ä"), ("Content-Length", "4")]
            numbers = memoryview(bytearray(b"body")).cast("I")
            for body in (
                b"body",
                bytearray(b"body"),
                memoryview(b"<body>")[1:5],
                numbers,
                io.BytesIO(b"body"),
            ):
                assert await client.ask(served.address, "PUT", "/b/k%20?a=b", headers, body) == HI
            assert await client.ask(served.address, "GET", "/", HOST) == HI
            assert len(served.wires) == 1, "the connection is kept"

    asyncio.run(scenario())
    head = "PUT /b/k%20?a=b HTTP/1.1\r\nHost: there\r\nx-amz-meta-a: ä\r\nContent-Length: 4\r\n\r\n"
    assert seen == [(head.encode(), b"body")] * 5 + [(b"GET / HTTP/1.1\r\nHost: there\r\n\r\n", b"")]


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "/a b", []),
        ("GET", "/a\r\nX: y", []),
        ("GET", "/ä", []),
        ("GE\nT", "/", []),
        ("GET", "/", [("A", "secret\r\nHost: there")]),
        ("GET", "/", [("A", "secret\nHost: there")]),
        ("GET", "/", [("A", "secret\rHost: there")]),
        ("GET", "/", [("A\r\nB", "secret")]),
        ("GET", "/", [("A", "secret\0")]),
        ("GET", "/", [("A", "secret\udcff")]),
    ],
)
def test_what_would_arrive_as_something_else_is_not_sent(
    method: str, target: str, headers: list[tuple[str, str]]
) -> None:
    with pytest.raises(ValueError, match=r"; nothing was sent$") as caught:
        head_of(method, target, headers)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None

    async def scenario() -> None:
        async with serving(answering) as served, asking() as client:
            with pytest.raises(ValueError, match="nothing was sent"):
                await client.ask(served.address, method, target, headers)
            assert served.wires == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "said", "wanted", "is_kept"),
    [
        ("GET", OK, HI, True),
        ("HEAD", OK[:-2], Answer(200, {"content-length": "2"}, b""), True),
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, {}, b""), True),
        ("GET", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n" + OK, HI, True),
        ("GET", OK.replace(b"1.1", b"1.0"), HI, False),
        (
            "GET",
            OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
            Answer(200, {"content-length": "2", "connection": "close"}, b"hi"),
            False,
        ),
        ("GET", OK + b"more", HI, False),
        ("GET", OK + OK, HI, False),
        ("HEAD", OK, Answer(200, {"content-length": "2"}, b""), False),
    ],
)  # fmt: skip
def test_a_connection_is_kept_after_an_answer_that_allows_it(
    method: str, said: bytes, wanted: Answer, is_kept: bool
) -> None:
    async def play(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(said)

    async def scenario() -> None:
        async with serving(play) as served, asking() as client:
            for _ in range(3):
                assert await client.ask(served.address, method, "/", HOST) == wanted
            await until(lambda: len(served.gone) == (0 if is_kept else 3))
            assert len(served.wires) == (1 if is_kept else 3)

    asyncio.run(scenario())


def test_a_body_may_last_until_the_connection_ends() -> None:
    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(10):
            await wire.send(b"0123456789")
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with serving(play) as served, asking() as client:
            for _ in range(2):
                assert await client.ask(served.address, "GET", "/", HOST) == Answer(
                    200, {}, b"0123456789" * 10
                )
            assert len(served.wires) == 2

    asyncio.run(scenario())


def test_an_answer_that_drips_is_read() -> None:
    """Silence is what counts, not slowness: the whole takes four times as long as a silence may."""

    async def play(wire: Wire) -> None:
        await wire.request()
        for byte in OK:
            await wire.send(bytes([byte]))
            await asyncio.sleep(0.05)

    async def scenario() -> None:
        async with serving(play) as served, asking(read_timeout_s=0.5) as client:
            assert await client.ask(served.address, "GET", "/", HOST) == HI

    asyncio.run(scenario())


def test_no_more_is_read_than_was_asked_for() -> None:
    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
        while True:
            await wire.send(b"x" * 1000)

    async def scenario() -> None:
        async with serving(play) as served, asking() as client:
            answer = await client.ask(served.address, "GET", "/", HOST, size_max=5000)
            assert answer == Answer(200, {"content-length": "99999999"}, b"x" * 5000)
            await until(lambda: served.gone)
            assert pool_of(client)._taken == 0

    asyncio.run(scenario())


def test_an_answer_before_the_request_was_wholly_sent_counts() -> None:
    """As S3 does it with requests that it refuses: it answers, closes, and what still comes meets a reset."""
    refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno!!"

    async def play(wire: Wire) -> None:
        await wire.reader.readuntil(b"\r\n\r\n")
        await wire.send(refused)

    async def scenario() -> None:
        body = io.BytesIO(b"x" * 2**24)
        async with serving(play) as served, asking() as client:
            for number in range(1, 21):
                answer = await client.ask(served.address, "PUT", "/", [("Content-Length", str(2**24))], body)
                assert answer == Answer(403, {"content-length": "4"}, b"no!!")
                assert len(served.wires) == number
                assert pool_of(client)._taken == 0
                body.write(b"it can be used again")
                body.truncate()
                body.write(b"x" * 2**24)

    asyncio.run(scenario())


def test_an_answer_counts_though_nothing_more_can_be_sent() -> None:
    async def play(wire: Wire) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)

    async def scenario() -> None:
        async with serving(play) as served, asking() as client:
            asked = asyncio.create_task(client.ask(served.address, "PUT", "/", HOST, b"x" * 2**26))
            await until(lambda: served.wires and any(one._sent for one in pool_of(client)._all))
            [one] = pool_of(client)._all
            served.wires[0].writer.write(OK)
            one._socket.shutdown(socket.SHUT_WR)
            one._on_writable()  # before it is known that there is something to read
            assert await asked == HI
            assert one.is_closed

    asyncio.run(scenario())


def test_an_early_answer_is_delivered_while_the_server_takes_no_more() -> None:
    async def play(wire: Wire) -> None:
        await wire.reader.readuntil(b"\r\n\r\n")
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(OK)
        await asyncio.sleep(3600)

    async def scenario() -> None:
        async with serving(play) as served, asking() as client:
            assert await client.ask(served.address, "PUT", "/", HOST, b"x" * 2**26) == HI
            assert pool_of(client)._taken == 0, "the rest will never be sent"

    asyncio.run(scenario())


def test_errors_travel_between_processes_and_are_errors_of_the_system() -> None:
    for kind in (NotConnected, NoAnswer):
        error = pickle.loads(pickle.dumps(kind("no answer from there:1: it was silent")))
        assert type(error) is kind
        assert str(error) == "no answer from there:1: it was silent"
        assert isinstance(error, HttpError)
        assert isinstance(error, OSError)


def test_addresses_are_told_as_in_urls() -> None:
    assert str(Address("http", "there", 80)) == "there:80"
    assert str(Address("http", "::1", 80)) == "[::1]:80"


def test_no_scheme_passes_for_one_without_tls() -> None:
    for scheme in ("HTTPS", "https:", "s3", ""):
        with pytest.raises(ValueError, match="must be http or https"):
            Address(scheme, "there", 443)


def test_a_client_needs_no_loop_to_be_made() -> None:
    HttpClient(connections_max=1, connect_timeout_s=1, read_timeout_s=1).close()
