"""Servers behind a proxy."""

from __future__ import annotations

import asyncio
import base64
import ssl
import traceback

import pytest

from magicfs.stores.s3.http import Answer, HttpClient, NoAnswer, NotConnected
from proofs.doubles.certificates import Authority, authority
from tests.unit.stores_http.play import OK, Wire, answering, asking, pool_of, serving, until

pytestmark = pytest.mark.process

HOST = [("Host", "there")]
HI = Answer(200, {"content-length": "2"}, b"hi")
SECRET = "canary of a password"
USERINFO = "user%40home:canary%20of%20a%20password"
BASIC = base64.b64encode(f"user@home:{SECRET}".encode())


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(signer: Authority) -> ssl.SSLContext:
    return signer.server("127.0.0.1")


class Tunnels:
    """A proxy that lets through whoever shows the password."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []

    async def play(self, wire: Wire) -> None:
        head = await wire.reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        method, target, _ = head.split(b" ", 2)
        assert method == b"CONNECT"
        if b"Proxy-Authorization: Basic " + BASIC not in head:
            await wire.send(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        host, _, port = target.decode().rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for byte in b"HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n":
            await wire.send(bytes([byte]))
        await asyncio.gather(pour(wire.reader, writer), pour(reader, wire.writer))


async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def test_requests_without_tls_are_made_of_the_proxy() -> None:
    seen: list[bytes] = []

    async def play(wire: Wire) -> None:
        while True:
            head, _ = await wire.request()
            seen.append(head)
            await wire.send(OK)

    async def scenario() -> None:
        async with serving(answering) as served, serving(play) as proxy:
            url = f"http://{USERINFO}@{proxy.address}"
            async with asking(proxies={"http": url}) as client:
                for _ in range(2):
                    assert await client.ask(served.address, "GET", "/b/k?x", [("Host", "there")]) == HI
            assert served.wires == []
            assert len(proxy.wires) == 1
            head = f"GET http://{served.address}/b/k?x HTTP/1.1\r\nHost: there\r\n"
            assert seen == [head.encode() + b"Proxy-Authorization: Basic " + BASIC + b"\r\n\r\n"] * 2

    asyncio.run(scenario())


def test_a_proxy_may_be_spoken_to_with_tls(signer: Authority, server: ssl.SSLContext) -> None:
    async def scenario() -> None:
        async with serving(answering) as served, serving(answering, tls=server) as proxy:
            url = f"https://127.0.0.1:{proxy.address.port}"
            async with asking(proxies={"http": url}, verify=str(signer.bundle)) as client:
                assert await client.ask(served.address, "GET", "/", HOST) == HI
            assert served.wires == []

    asyncio.run(scenario())


def test_a_proxy_is_not_shown_the_certificate_for_the_server(signer: Authority) -> None:
    """The proxy asks for one; a certificate that it trusts would be there to be shown."""
    asking_server = signer.server("127.0.0.1", asks_for_certificates=True)

    async def scenario() -> None:
        async with serving(answering) as served, serving(answering, tls=asking_server) as proxy:
            told = {"verify": str(signer.bundle), "client_cert": str(signer.issue("a client"))}
            async with asking(**told) as client:
                assert await client.ask(proxy.address, "GET", "/", HOST) == HI
            async with asking(**told, proxies={"http": f"https://{proxy.address}"}) as client:
                with pytest.raises(NoAnswer, match="it broke the connection"):
                    await client.ask(served.address, "GET", "/", HOST)

    asyncio.run(scenario())


def test_a_proxy_is_for_its_own_scheme_alone(signer: Authority, server: ssl.SSLContext) -> None:
    async def scenario() -> None:
        async with serving(answering) as plain, serving(answering, tls=server) as served:
            url = "http://127.0.0.1:1"
            async with asking(proxies={"https": url}) as client:
                assert await client.ask(plain.address, "GET", "/", HOST) == HI
            async with asking(proxies={"http": url}, verify=str(signer.bundle)) as client:
                assert await client.ask(served.address, "GET", "/", HOST) == HI

    asyncio.run(scenario())


def test_requests_with_tls_go_through_the_proxy(signer: Authority, server: ssl.SSLContext) -> None:
    tunnels = Tunnels()

    async def scenario() -> None:
        async with serving(answering, tls=server) as served, serving(tunnels.play) as proxy:
            url = f"http://{USERINFO}@{proxy.address}"
            async with asking(proxies={"https": url}, verify=str(signer.bundle)) as client:
                for _ in range(3):
                    assert await client.ask(served.address, "GET", "/", HOST) == HI
                assert len(served.wires) == len(proxy.wires) == 1
            assert tunnels.heads == [
                f"CONNECT {served.address} HTTP/1.1\r\nHost: {served.address}\r\n".encode()
                + (b"Proxy-Authorization: Basic " + BASIC + b"\r\n\r\n")
            ]

    asyncio.run(scenario())


async def _refuse(wire: Wire) -> None:
    await wire.reader.readuntil(b"\r\n\r\n")
    await wire.send(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    await wire.silence()


async def _babble(wire: Wire) -> None:
    await wire.send(b"220 mail.example ESMTP\r\n\r\n")
    await wire.silence()


async def _talk_for_ever(wire: Wire) -> None:
    while True:
        await wire.send(b"HTTP/1.1 200 OK\r\nA: " + b"a" * 1000)


async def _hang_up(wire: Wire) -> None:
    await wire.reader.readuntil(b"\r\n\r\n")


async def _be_silent(wire: Wire) -> None:
    await wire.silence()


@pytest.mark.parametrize(
    ("play", "told"),
    [
        (_refuse, "the proxy 127.0.0.1:[0-9]+ answered '407 Proxy Authentication Required'"),
        (_babble, "the proxy 127.0.0.1:[0-9]+ answered 'mail.example ESMTP'"),
        (_talk_for_ever, "the proxy 127.0.0.1:[0-9]+ does not answer as a proxy does"),
        (_hang_up, "the proxy 127.0.0.1:[0-9]+ does not answer as a proxy does"),
        (_be_silent, "through the proxy 127.0.0.1:[0-9]+: it took longer than 0.5 s"),
    ],
)
def test_a_proxy_that_lets_nothing_through_is_told_without_secrets(play: object, told: str) -> None:
    async def scenario() -> None:
        async with serving(answering) as served, serving(play) as proxy:  # type: ignore[arg-type]
            url = f"http://{USERINFO}@{proxy.address}"
            timeout_s = 0.5 if play is _be_silent else 60
            async with asking(proxies={"https": url}, connect_timeout_s=timeout_s) as client:
                address = type(served.address)("https", "127.0.0.1", served.address.port)
                with pytest.raises(NotConnected, match=told) as caught:
                    await client.ask(address, "GET", "/", HOST)
                assert pool_of(client)._taken == 0
                await until(lambda: proxy.gone)
            shown = "".join(traceback.format_exception(caught.value))
            for secret in (SECRET, USERINFO, BASIC.decode()):
                assert secret not in shown

    asyncio.run(scenario())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_was_told_nothing(scheme: str) -> None:
    async def scenario() -> None:
        async with serving(answering) as proxy:
            pass
        url = f"http://{USERINFO}@{proxy.address}"
        async with asking(proxies={scheme: url}) as client:
            address = type(proxy.address)(scheme, "there.example", 9)
            told = f"^no connection to there.example:9 through the proxy {proxy.address}: Connect call failed"
            with pytest.raises(NotConnected, match=told) as caught:
                await client.ask(address, "GET", "/", HOST)
            assert SECRET not in "".join(traceback.format_exception(caught.value))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("scheme", "url", "told"),
    [
        ("https", f"https://{USERINFO}@proxy:3128", "must be spoken to without TLS"),
        ("http", f"socks5://{USERINFO}@proxy", "must be http://HOST:PORT or https://HOST:PORT"),
        ("http", f"socks5://{USERINFO}@proxy:3128", "must be http://HOST:PORT or https://HOST:PORT"),
        ("http", f"http://{USERINFO}@proxy:canary", "must be http://HOST:PORT or https://HOST:PORT"),
        ("http", f"http://{USERINFO}@", "must be http://HOST:PORT or https://HOST:PORT"),
        ("http", f"http://{USERINFO}@[::canary", "must be http://HOST:PORT or https://HOST:PORT"),
        ("http", "", "must be http://HOST:PORT or https://HOST:PORT"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_showing_it(scheme: str, url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        HttpClient(connections_max=1, connect_timeout_s=1, read_timeout_s=1, proxies={scheme: url})
    assert "canary" not in "".join(traceback.format_exception(caught.value, limit=0))


@pytest.mark.parametrize(
    ("url", "wanted"),
    [("proxy:3128", "proxy:3128"), ("http://proxy", "proxy:80"), ("http://[::1]:3128/", "[::1]:3128")],
)
def test_spellings_of_proxies(url: str, wanted: str) -> None:
    client = HttpClient(connections_max=1, connect_timeout_s=1, read_timeout_s=1, proxies={"http": url})
    assert str(client._settings.proxies["http"].address) == wanted


def test_nothing_shows_the_password() -> None:
    proxies = {"http": f"http://{USERINFO}@proxy:3128"}
    client = HttpClient(connections_max=1, connect_timeout_s=1, read_timeout_s=1, proxies=proxies)
    for shown in (repr(client), repr(client._settings), repr(client._settings.proxies)):
        for secret in (SECRET, USERINFO, BASIC.decode()):
            assert secret not in shown
