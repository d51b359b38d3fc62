"""Our requests over TLS, as the filesystem was told to make connections."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from s3fs import S3FileSystem

from magicfs.errors import Unavailable
from magicfs.stores.memory.store import World
from magicfs.stores.s3.http import Address
from magicfs.stores.s3.store import S3Store
from proofs.doubles.certificates import Authority, authority
from proofs.doubles.s3_wire import S3Wire
from tests.unit.s3_requests.play import BUCKET
from tests.unit.stores_http.play import Wire, serving

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("authority"))


class Speaker:
    """A server of S3 on a socket, and what it was told."""

    def __init__(self) -> None:
        self.world = World(create_buckets=True)
        self.wire = S3Wire(self.world.store(BUCKET))
        self.heads: list[dict[str, str]] = []

    async def play(self, wire: Wire) -> None:
        while True:
            head, body = await wire.request()
            first, *lines = head.decode().rstrip("\r\n").split("\r\n")
            method, target, _ = first.split(" ")
            headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
            self.heads.append({name.lower(): value for name, value in headers})
            answer = await self.wire.ask(Address("http", "wire", 80), method, target, headers, body)
            told = {"content-length": str(len(answer.body)), **answer.headers}
            lines = [f"HTTP/1.1 {answer.status} x", *(f"{n}: {v}" for n, v in told.items())]
            await wire.send("\r\n".join([*lines, "", ""]).encode() + answer.body)


async def _ask(speaker: Speaker, tls: ssl.SSLContext, verify: Any, config: dict[str, Any]) -> None:
    async with serving(speaker.play, tls=tls) as served:
        options = {"key": "AKIA", "secret": "geheim", "endpoint_url": f"https://{served.address}"}
        more = {"client_kwargs": {"verify": verify}, "config_kwargs": config}
        filesystem = S3FileSystem(**options, **more, asynchronous=True, skip_instance_cache=True)
        store = S3Store(filesystem, BUCKET, engine="own")
        try:
            upload = await store.create_upload("a b", metadata={"id": "1"})
            part = await store.put_part("a b", upload, 1, b"content")
            await store.complete_upload("a b", upload, [part])
            assert await store.get("a b") == b"content"
            assert [info.key async for info in store.list("")] == ["a b"]
            assert await store.delete_all_matching([("a b", '"another"')]) == ["a b"]
        finally:
            await (await filesystem.set_session()).close()
        async with asyncio.timeout(30):
            while len(served.gone) < len(served.wires):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)


def test_content_is_sent_unsigned_with_its_checksum_and_documents_signed(signer: Authority) -> None:
    speaker = Speaker()
    asyncio.run(_ask(speaker, signer.server("127.0.0.1"), str(signer.bundle), {}))
    part, complete = speaker.heads[1:3]
    assert part["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
    assert part["x-amz-checksum-crc32"]
    assert len(complete["x-amz-content-sha256"]) == 64
    assert not {"expect", "transfer-encoding"} & set().union(*speaker.heads)


def test_certificate_of_the_client_is_shown(signer: Authority) -> None:
    tls = signer.server("127.0.0.1", asks_for_certificates=True)
    own: Path = signer.issue("client")
    asyncio.run(_ask(Speaker(), tls, str(signer.bundle), {"client_cert": str(own)}))
    speaker = Speaker()
    with pytest.raises(Unavailable):
        asyncio.run(_ask(speaker, tls, str(signer.bundle), {}))
    assert speaker.heads == []


def test_server_that_nobody_vouches_for_is_told_nothing(
    signer: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    speaker = Speaker()
    with pytest.raises(Unavailable, match="certificate"):
        asyncio.run(_ask(speaker, signer.server("127.0.0.1"), True, {}))
    assert speaker.heads == []
    asyncio.run(_ask(speaker, signer.server("127.0.0.1"), False, {}))
