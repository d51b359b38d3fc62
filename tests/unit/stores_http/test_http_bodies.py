"""Large bodies: sent without a copy, a piece at a time."""

from __future__ import annotations

import asyncio
import hashlib
import io
import socket
import tracemalloc
from typing import Any

import pytest

from magicfs.stores.s3.http import Answer
from tests.unit.stores_http.play import Wire, answering, asking, pool_of, serving, until

pytestmark = pytest.mark.process

SIZE = 64 * 2**20
HOST = [("Host", "there")]
SIZED = [("Host", "there"), ("Content-Length", str(SIZE))]


async def swallowing(wire: Wire) -> None:
    """Answer each request with the digest of its body, of which it holds little at a time."""
    while True:
        head = await wire.reader.readuntil(b"\r\n\r\n")
        left = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        digest = hashlib.blake2b(digest_size=8)
        while left:
            piece = await wire.reader.read(min(left, 65536))
            digest.update(piece)
            left -= len(piece)
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + digest.hexdigest().encode())


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_a_large_body_is_not_copied(kind: type) -> None:
    content = b"0123456789abcdef" * (SIZE // 16)
    wanted = hashlib.blake2b(content, digest_size=8).hexdigest().encode()
    if kind is io.BytesIO:
        body = io.BytesIO()
        body.write(content)  # made of bytes it would share them, and be copied as soon as it is looked into
    else:
        body = kind(content)

    async def scenario() -> None:
        async with serving(swallowing) as served, asking() as client:
            await client.ask(served.address, "GET", "/", HOST)
            tracemalloc.start()
            try:
                answer = await client.ask(served.address, "PUT", "/", SIZED, body)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert answer.body == wanted
            assert peak < 8 * 2**20, "the server's part included"
            assert len(served.wires) == 1

    asyncio.run(scenario())


def test_a_buffer_can_be_used_again_after_each_request() -> None:
    async def scenario() -> None:
        body = io.BytesIO()
        async with serving(swallowing) as served, asking() as client:
            for size in (10, 64 * 1024, 64 * 1024 + 1, 3 * 2**20):
                body.write(b"x" * size)
                headers = [("Content-Length", str(size))]
                answer = await client.ask(served.address, "PUT", "/", headers, body)
                assert answer.body == hashlib.blake2b(b"x" * size, digest_size=8).hexdigest().encode()
                body.seek(0)
                body.truncate()

    asyncio.run(scenario())


def test_a_buffer_can_be_used_again_after_a_cancelled_request() -> None:
    async def play(wire: Wire) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)

    async def scenario() -> None:
        body = io.BytesIO(bytes(SIZE))
        async with serving(play) as served, asking() as client:
            asked = asyncio.create_task(client.ask(served.address, "PUT", "/", SIZED, body))
            await until(lambda: any(one._sent for one in pool_of(client)._all))
            with pytest.raises(BufferError):
                body.truncate(0)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            body.truncate(0)

    asyncio.run(scenario())


def test_a_large_body_holds_no_other_request_up() -> None:
    async def play(wire: Wire) -> None:
        if wire.number == 0:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await released.wait()
            wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await swallowing(wire)
        await answering(wire)

    async def scenario() -> None:
        nonlocal released
        released = asyncio.Event()
        async with serving(play) as served, asking(connections_max=2) as client:
            large = asyncio.create_task(client.ask(served.address, "PUT", "/", SIZED, bytes(SIZE)))
            await until(lambda: any(one._sent for one in pool_of(client)._all))
            for _ in range(20):
                assert (await client.ask(served.address, "GET", "/", HOST)).body == b"hi"
            assert not large.done()
            released.set()
            assert (await large).status == 200
            assert len(served.wires) == 2

    released: asyncio.Event
    asyncio.run(scenario())


class Watched(socket.socket):
    """Tells how much it was given at once."""

    def __init__(self, inner: socket.socket) -> None:
        super().__init__(fileno=inner.detach())
        self.setblocking(False)
        self.given: list[int] = []

    def send(self, data: Any, flags: int = 0) -> int:
        self.given.append(len(data))
        return super().send(data, flags)


def test_others_have_their_turn_between_the_pieces_of_a_large_body() -> None:
    async def scenario() -> None:
        async with serving(swallowing) as served, asking() as client:
            await client.ask(served.address, "GET", "/", HOST)
            [one] = pool_of(client)._all
            one._socket = watched = Watched(one._socket)
            assert (await client.ask(served.address, "PUT", "/", SIZED, bytes(SIZE))).status == 200
            assert max(watched.given) <= 512 * 1024
            assert len(watched.given) >= SIZE // (512 * 1024)

    asyncio.run(scenario())


def test_a_large_answer_is_read_whole() -> None:
    async def play(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (SIZE // 4))
            for number in range(SIZE // 4 // 65536):
                await wire.send(number.to_bytes(4, "big") * (65536 // 4))

    async def scenario() -> None:
        wanted = b"".join(number.to_bytes(4, "big") * (65536 // 4) for number in range(SIZE // 4 // 65536))
        async with serving(play) as served, asking() as client:
            for _ in range(2):
                answer = await client.ask(served.address, "GET", "/", HOST)
                assert answer == Answer(200, {"content-length": str(SIZE // 4)}, wanted)
            assert len(served.wires) == 1

    asyncio.run(scenario())
