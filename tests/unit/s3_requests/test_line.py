"""What a line takes from the client of its filesystem, and what goes over it."""

from __future__ import annotations

import array
import asyncio
import base64
import hashlib
import io
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from botocore.httpsession import get_cert_path
from s3fs import S3FileSystem

from magicfs.errors import PermissionDenied, StoreError
from magicfs.stores.port import PartBody
from magicfs.stores.s3.client import CONNECTIONS, without_retries
from magicfs.stores.s3.http import Answer
from magicfs.stores.s3.requests import line as lines
from magicfs.stores.s3.requests import own
from tests.unit.s3_requests.play import BUCKET, run, scripted

_PROXIES = [name for known in ("http_proxy", "https_proxy", "no_proxy") for name in (known, known.upper())]
_OPENED = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
_DONE = Answer(200, {"etag": '"e"'}, b"")


class _Key(NamedTuple):
    access_key: str
    secret_key: str
    token: str | None = None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {},
            {"connections_max": CONNECTIONS, "connect_timeout_s": 5, "read_timeout_s": 15, "keepalive_s": 12},
        ),
        ({}, {"verify": get_cert_path(True), "client_cert": None, "proxies": {}}),
        ({"client_kwargs": {"verify": False}}, {"verify": False}),
        ({"client_kwargs": {"verify": "/ca.pem"}}, {"verify": "/ca.pem"}),
        ({"config_kwargs": {"client_cert": "/both.pem"}}, {"client_cert": "/both.pem"}),
        ({"config_kwargs": {"client_cert": ("/a.pem", "/b.pem")}}, {"client_cert": ("/a.pem", "/b.pem")}),
        (
            {"config_kwargs": {"proxies": {"http": "proxy:3128", "https": "http://u:p@proxy:3129"}}},
            {"proxies": {"http": "http://proxy:3128", "https": "http://u:p@proxy:3129"}},
        ),
        (
            {"config_kwargs": {"max_pool_connections": 7, "connect_timeout": 1.5, "read_timeout": 2}},
            {"connections_max": 7, "connect_timeout_s": 1.5, "read_timeout_s": 2},
        ),
        ({"config_kwargs": {"connector_args": {"keepalive_timeout": 3}}}, {"keepalive_s": 3}),
    ],
)
def test_connections_are_made_as_the_filesystem_was_told(
    options: dict[str, Any], told: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []

    class Recorded:
        def __init__(self, **given: Any) -> None:
            made.append(given)

        def close(self) -> None:
            made.append({})

    monkeypatch.setattr(lines, "HttpClient", Recorded)
    for name in (*_PROXIES, "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)

    async def ask() -> None:
        whole = {"key": "AKIA", "secret": "geheim", "endpoint_url": "https://store:1", **options}
        filesystem = S3FileSystem(**whole, skip_instance_cache=True)
        sibling = without_retries(filesystem, whole)
        client = await sibling.set_session()
        for bucket in (BUCKET, "another"):
            assert await lines.line_to(sibling, client, bucket, "own") is not None
        assert len(made) == 1, "buckets of a filesystem share connections"
        await client.close()

    asyncio.run(ask())
    given, closed = made
    assert {name: given[name] for name in told} == told
    assert closed == {}


def test_proxies_of_the_environment_count_but_not_for_hosts_without(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    monkeypatch.setenv("NO_PROXY", "inside")

    async def ways(host: str) -> Any:
        filesystem = S3FileSystem(asynchronous=True, skip_instance_cache=True, endpoint_url=f"https://{host}")
        client = await filesystem.set_session()
        try:
            line = await lines.line_to(filesystem, client, BUCKET, "own")
            assert line is not None
            return line.transport._settings.proxies  # type: ignore[attr-defined]
        finally:
            await client.close()

    assert set(asyncio.run(ways("outside"))) == {"https"}
    assert not asyncio.run(ways("inside"))


def test_credentials_are_asked_for_each_time_and_missing_ones_are_named() -> None:
    store, line, script = scripted(_DONE, _DONE)
    keys = [_Key("FIRST", "a"), _Key("SECOND", "b", "token"), None]

    async def next_key() -> Any:
        return keys.pop(0)

    line.credentials = next_key
    run(store.put("k", b""))
    run(store.put("k", b""))
    signed = [asked.headers["authorization"] for asked in script.asked]
    assert ["FIRST" in signed[0], "SECOND" in signed[1]] == [True, True]
    assert [asked.headers.get("x-amz-security-token") for asked in script.asked] == [None, "token"]
    with pytest.raises(PermissionDenied, match="AWS_ACCESS_KEY_ID"):
        run(store.put("k", b""))
    assert len(script.asked) == 2


_LARGE = bytes(range(256)) * 4096
_BODIES: list[tuple[Callable[[], PartBody], bytes]] = [
    (lambda: b"content", b"content"),
    (lambda: bytearray(b"content"), b"content"),
    (lambda: memoryview(b"a content")[2:], b"content"),
    (lambda: memoryview(array.array("i", [1, 2])), array.array("i", [1, 2]).tobytes()),
    (lambda: _read_to_its_end(b"content"), b"content"),
    (lambda: _LARGE, _LARGE),
    (lambda: _read_to_its_end(_LARGE), _LARGE),
]


def _read_to_its_end(content: bytes) -> io.BytesIO:
    made = io.BytesIO(content)
    made.read()
    return made


@pytest.mark.parametrize("number", range(len(_BODIES)))
@pytest.mark.parametrize("threads", [True, False])
def test_bodies_of_all_kinds_are_sent_whole_with_their_sums(
    number: int, threads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, content = _BODIES[number]
    store, line, script = scripted(_DONE, _DONE)
    if not threads:  # as when the interpreter ends

        def refuse(*_: Any) -> None:
            raise RuntimeError("cannot schedule new futures after shutdown")

        monkeypatch.setattr(asyncio.BaseEventLoop, "run_in_executor", refuse)

    run(store.put_part("k", "u", 1, body()))
    line.sums = False
    store._own = None
    run(store.put_part("k", "u", 1, body()))

    crc = base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()
    assert [asked.body for asked in script.asked] == [content] * 2
    assert [asked.headers.get("x-amz-checksum-crc32") for asked in script.asked] == [crc, None]
    for asked in script.asked:
        assert asked.headers["x-amz-content-sha256"] == hashlib.sha256(content).hexdigest()
        assert asked.headers["content-length"] == str(len(content))
    assert len(content) < own._OFF_THE_LOOP or content is _LARGE


def test_options_of_one_file_are_looked_at_each_time() -> None:
    opened = Answer(200, {}, _OPENED)
    store, _, script = scripted(opened, opened)
    for kind in ("text/a", "text/b"):
        run(store.create_upload("k", metadata={"a": "b"}, options={"ContentType": kind}))
    with pytest.raises(StoreError, match="Invalid type for parameter ContentType"):
        run(store.create_upload("k", metadata={"a": "b"}, options={"ContentType": 5}))
    assert [asked.headers["content-type"] for asked in script.asked] == ["text/a", "text/b"]


def test_nothing_shows_a_customers_key_or_a_secret() -> None:
    store, line, script = scripted(_DONE)
    key = b"0123456789abcdef0123456789abcdef"
    customer = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}
    asks = own.OwnRequests(line, BUCKET, customer)
    run(asks.ask("put_object", customer, {"Key": "k", "Body": b"", "Metadata": {}}))
    coded = base64.b64encode(key).decode()
    assert script.asked[0].headers["x-amz-server-side-encryption-customer-key"] == coded
    [kind] = asks._kinds.values()
    shown = repr((store, line, asks, kind, kind.operation.draft({"SSECustomerKey": coded}), line.signer))
    assert coded not in shown
    assert "secret" not in shown
