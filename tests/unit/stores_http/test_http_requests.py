"""Requests and their answers over real sockets."""

from __future__ import annotations

import asyncio
import io

import pytest

from magicfs.stores.http import Answer
from tests.unit.stores_http.play import OK, Wire, asking, serving

pytestmark = pytest.mark.process

HI = Answer(200, {"content-length": "2"}, b"hi")


def test_a_request_arrives_as_it_was_given() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def play(wire: Wire) -> None:
        while True:
            seen.append(await wire.request())
            await wire.send(OK)

    async def scenario() -> None:
        async with serving(play) as served, asking() as client:
            headers = [("Host", "there"), ("x-amz-meta-a", "ä"), ("Content-Length", "4")]
            for body in (b"body", bytearray(b"body"), memoryview(b"<body>")[1:5], io.BytesIO(b"body")):
                assert await client.ask(served.address, "PUT", "/b/k%20?a=b", headers, body) == HI
            assert await client.ask(served.address, "GET", "/", [("Host", "there")]) == HI
            assert len(served.wires) == 1, "the connection is kept"

    asyncio.run(scenario())
    head = "PUT /b/k%20?a=b HTTP/1.1\r\nHost: there\r\nx-amz-meta-a: ä\r\nContent-Length: 4\r\n\r\n"
    assert seen == [(head.encode(), b"body")] * 4 + [(b"GET / HTTP/1.1\r\nHost: there\r\n\r\n", b"")]
