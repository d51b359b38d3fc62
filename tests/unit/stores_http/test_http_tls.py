"""Connections with TLS."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import ssl
from pathlib import Path

import pytest

from magicfs.stores.s3.http import Address, Answer, NoAnswer, NotConnected
from magicfs.stores.s3.http.connection import Trust
from proofs.doubles.certificates import Authority, authority
from tests.unit.stores_http.play import OK, Wire, answering, asking, pool_of, serving, until

pytestmark = pytest.mark.process

HOST = [("Host", "there")]
HI = Answer(200, {"content-length": "2"}, b"hi")


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(signer: Authority) -> ssl.SSLContext:
    return signer.server("127.0.0.1", "localhost")


def test_who_is_trusted_is_asked(signer: Authority, server: ssl.SSLContext) -> None:
    async def scenario() -> None:
        async with serving(answering, tls=server) as served, asking(verify=str(signer.bundle)) as client:
            for _ in range(3):
                assert await client.ask(served.address, "GET", "/", HOST) == HI
            assert len(served.wires) == 1, "tickets of sessions are no reason to leave"
            by_name = Address("https", "localhost", served.address.port)
            assert await client.ask(by_name, "GET", "/", HOST) == HI

    asyncio.run(scenario())


def test_a_directory_of_certificates_is_trusted(
    signer: Authority, server: ssl.SSLContext, tmp_path: Path
) -> None:
    context = ssl.create_default_context(cafile=str(signer.bundle))
    assert context.get_ca_certs()
    (tmp_path / f"{_hash_of(signer):08x}.0").write_bytes(signer.bundle.read_bytes())

    async def scenario() -> None:
        async with serving(answering, tls=server) as served, asking(verify=str(tmp_path)) as client:
            assert await client.ask(served.address, "GET", "/", HOST) == HI

    asyncio.run(scenario())


def _hash_of(signer: Authority) -> int:
    """What OpenSSL calls an authority's file in a directory: of SHA-1 of the canonical name four bytes."""
    [attribute] = signer.name
    text = " ".join(str(attribute.value).lower().split()).encode()
    kind = bytes.fromhex("0603550403")
    value = b"\x0c" + bytes([len(text)]) + text
    inner = b"\x30" + bytes([len(kind) + len(value)]) + kind + value
    canonical = b"\x31" + bytes([len(inner)]) + inner
    return int.from_bytes(hashlib.sha1(canonical).digest()[:4], "little")


@pytest.mark.parametrize("names", [["127.0.0.1"], ["elsewhere.example"]], ids=["unknown", "another's"])
def test_who_is_not_trusted_is_not_asked(signer: Authority, names: list[str]) -> None:
    is_known = names != ["127.0.0.1"]
    told = (
        "Hostname|IP address mismatch" if is_known else "self.signed certificate|unable to get local issuer"
    )

    async def scenario() -> None:
        verify = str(signer.bundle) if is_known else True
        async with serving(answering, tls=signer.server(*names)) as served:
            async with asking(verify=verify) as client:
                with pytest.raises(NotConnected, match=rf"its certificate is not trusted: .*({told})"):
                    await client.ask(served.address, "GET", "/", HOST)
                assert pool_of(client)._taken == 0
            async with asking(verify=False) as client:
                assert await client.ask(served.address, "GET", "/", HOST) == HI

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["one file", "two files"])
def test_a_certificate_is_shown_to_who_asks_for_one(signer: Authority, tmp_path: Path, kind: str) -> None:
    shown: str | tuple[str, str] = str(signer.issue("a client"))
    if kind == "two files":
        text = Path(str(shown)).read_text()
        certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
        at = text.index("-----BEGIN PRIVATE KEY")
        certificate.write_text(text[:at])
        key.write_text(text[at:])
        shown = (str(certificate), str(key))
    server = signer.server("127.0.0.1", asks_for_certificates=True)

    async def scenario() -> None:
        verify = str(signer.bundle)
        async with serving(answering, tls=server) as served:
            async with asking(verify=verify, client_cert=shown) as client:
                assert await client.ask(served.address, "GET", "/", HOST) == HI
            async with asking(verify=verify) as client:  # with TLS 1.3 refused after it was sent
                with pytest.raises(NoAnswer, match="it broke the connection"):
                    await client.ask(served.address, "GET", "/", HOST)

    asyncio.run(scenario())


@pytest.mark.parametrize("option", ["verify", "client_cert"])
def test_certificates_that_are_not_there_connect_nothing(option: str) -> None:
    async def scenario() -> None:
        async with serving(answering) as served, asking(**{option: "/nowhere/file.pem"}) as client:
            address = Address("https", "127.0.0.1", served.address.port)
            with pytest.raises(NotConnected, match="No such file"):
                await client.ask(address, "GET", "/", HOST)

    asyncio.run(scenario())


def test_the_context_is_made_once_and_when_it_is_needed(
    signer: Authority, server: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ssl.SSLContext] = []
    create = ssl.create_default_context

    def counted(*told: object, **more: object) -> ssl.SSLContext:
        made.append(create(*told, **more))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", counted)

    async def scenario() -> None:
        async with (
            serving(answering) as plain,
            serving(answering, tls=server) as served,
            asking(verify=str(signer.bundle)) as client,
        ):
            await client.ask(plain.address, "GET", "/", HOST)
            assert made == []
            await asyncio.gather(*(client.ask(served.address, "GET", "/", HOST) for _ in range(7)))
            assert len(served.wires) > 1
            assert len(made) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("of_proxy", [True, False])
def test_what_is_checked_of_certificates(*, verify: bool, of_proxy: bool) -> None:
    context = Trust(verify, None).context(of_proxy=of_proxy)
    assert context.verify_mode == (ssl.CERT_REQUIRED if verify else ssl.CERT_NONE)
    assert context.check_hostname is verify
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT, "authorities of many users are not so strict"
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_large_bodies_go_both_ways(signer: Authority, server: ssl.SSLContext) -> None:
    size = 8 * 2**20

    async def play(wire: Wire) -> None:
        while True:
            await wire.reader.readuntil(b"\r\n\r\n")
            body = bytearray()
            while len(body) < size:
                body += await wire.reader.read(size - len(body))
            await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + body)

    async def scenario() -> None:
        content = os.urandom(size)
        body = io.BytesIO(content)
        headers = [("Content-Length", str(size))]
        async with serving(play, tls=server) as served, asking(verify=str(signer.bundle)) as client:
            for _ in range(2):
                answer = await client.ask(served.address, "PUT", "/", headers, body)
                assert answer.body == content
            assert len(served.wires) == 1
        body.truncate(0)

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["cancelled", "silent"])
def test_a_buffer_can_be_used_again_after_a_failed_request(
    signer: Authority, server: ssl.SSLContext, how: str
) -> None:
    async def play(wire: Wire) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)

    async def scenario() -> None:
        body = io.BytesIO(bytes(2**25))
        async with (
            serving(play, tls=server) as served,
            asking(verify=str(signer.bundle), read_timeout_s=0.5 if how == "silent" else 60) as client,
        ):
            asked = asyncio.create_task(client.ask(served.address, "PUT", "/", HOST, body))
            await until(lambda: any(one._sent for one in pool_of(client)._all))
            if how == "cancelled":
                asked.cancel()
            with pytest.raises((NoAnswer, asyncio.CancelledError)):
                await asked
            body.truncate(0)
            assert pool_of(client)._taken == 0

    asyncio.run(scenario())


def test_a_body_that_lasts_until_the_end_needs_a_proper_end(
    signer: Authority, server: ssl.SSLContext
) -> None:
    """Anybody on the way can cut a connection, but only the server can say that it has ended."""

    async def play(wire: Wire) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        if wire.number == 0:
            wire.reset()

    async def scenario() -> None:
        async with serving(play, tls=server) as served, asking(verify=str(signer.bundle)) as client:
            with pytest.raises(NoAnswer, match="it broke the connection after 9 bytes of the answer's body"):
                await client.ask(served.address, "GET", "/", HOST)
            assert (await client.ask(served.address, "GET", "/", HOST)).body == b"all of it"

    asyncio.run(scenario())


def test_a_server_without_tls_is_not_spoken_to(signer: Authority) -> None:
    async def play(wire: Wire) -> None:
        await wire.reader.read(100)
        await wire.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def scenario() -> None:
        async with serving(play) as served, asking(verify=str(signer.bundle)) as client:
            address = Address("https", "127.0.0.1", served.address.port)
            with pytest.raises(NotConnected, match=f"^no connection to {address}: .*WRONG_VERSION_NUMBER"):
                await client.ask(address, "GET", "/", HOST)

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["silent", "cancelled", "closed", "reset"])
def test_hands_that_are_not_shaken(signer: Authority, how: str) -> None:
    async def play(wire: Wire) -> None:
        await wire.reader.read(100)
        if how == "reset":
            wire.reset()
        elif how != "closed":
            await wire.silence()

    async def scenario() -> None:
        async with (
            serving(play) as served,
            asking(verify=str(signer.bundle), connect_timeout_s=0.3 if how == "silent" else 60) as client,
        ):
            address = Address("https", "127.0.0.1", served.address.port)
            asked = asyncio.create_task(client.ask(address, "GET", "/", HOST))
            if how == "cancelled":
                await until(lambda: served.wires)
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
            else:
                told = "it took longer than 0.3 s" if how == "silent" else "."
                with pytest.raises(NotConnected, match=f"^no connection to {address}: {told}"):
                    await asked
            await until(lambda: served.gone)
            assert pool_of(client)._taken == 0

    asyncio.run(scenario())


def test_an_answer_before_the_request_was_wholly_sent_counts(
    signer: Authority, server: ssl.SSLContext
) -> None:
    async def play(wire: Wire) -> None:
        await wire.reader.readuntil(b"\r\n\r\n")
        await wire.send(OK)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)

    async def scenario() -> None:
        async with serving(play, tls=server) as served, asking(verify=str(signer.bundle)) as client:
            assert await client.ask(served.address, "PUT", "/", HOST, bytes(2**25)) == HI
            assert pool_of(client)._taken == 0

    asyncio.run(scenario())


class Contrary:
    """A socket on which TLS wants the other direction first, as it does when keys are exchanged anew."""

    def __init__(self, inner: ssl.SSLSocket) -> None:
        self.inner = inner
        self.obstacles: list[str] = []

    def send(self, data: bytes | memoryview) -> int:
        if self.obstacles and self.obstacles[0] == "send":
            del self.obstacles[0]
            raise ssl.SSLWantReadError
        return self.inner.send(data[:100_000])

    def recv_into(self, buffer: memoryview) -> int:
        if self.obstacles and self.obstacles[0] == "recv_into":
            del self.obstacles[0]
            raise ssl.SSLWantWriteError
        return self.inner.recv_into(buffer)

    def close(self) -> None:
        self.inner.close()


def test_sending_may_have_to_wait_for_reading_and_reading_for_sending(
    signer: Authority, server: ssl.SSLContext
) -> None:
    async def play(wire: Wire) -> None:
        while True:
            await wire.request()
            for byte in OK:
                await wire.send(bytes([byte]))
                await asyncio.sleep(0.01)

    async def scenario() -> None:
        async with serving(play, tls=server) as served, asking(verify=str(signer.bundle)) as client:
            await client.ask(served.address, "GET", "/", HOST)
            [one] = pool_of(client)._all
            contrary = Contrary(one._socket)
            one._socket = contrary
            for _ in range(2):
                contrary.obstacles = ["recv_into", "recv_into"]
                assert await client.ask(served.address, "GET", "/", HOST) == HI
                assert contrary.obstacles == []
            asked = asyncio.create_task(
                client.ask(served.address, "PUT", "/", [("Content-Length", "300000")], bytes(300_000))
            )
            contrary.obstacles = ["send", "send"]
            await asyncio.sleep(0.05)
            assert contrary.obstacles == []
            assert one._write_waits_for_read
            served.wires[0].writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # something comes
            assert await asked == HI

    asyncio.run(scenario())
