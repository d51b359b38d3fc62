"""When requests are left to aiobotocore, and how one sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from aiobotocore.httpsession import AIOHTTPSession
from aiobotocore.session import AioSession
from botocore.handlers import disable_signing
from s3fs import S3FileSystem

from magicfs.errors import UsageError
from magicfs.stores.s3.client import without_retries
from magicfs.stores.s3.requests.line import Line, line_to
from magicfs.stores.s3.requests.route import METHODS

BUCKET = "some-bucket"


def _hook(**_: Any) -> None:
    pass


def _session(event: str, hook: Callable[..., Any]) -> AioSession:
    session = AioSession()
    session.register(event, hook)
    return session


class _Connections(AIOHTTPSession):
    pass


OURS: dict[str, dict[str, Any]] = {
    "nothing told": {},
    "AWS": {"client_kwargs": {"region_name": "eu-west-1"}},
    "anonymous": {"anon": True},
    "SSE-C": {"s3_additional_kwargs": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "0" * 32}},
    "checksums": {"s3_additional_kwargs": {"ChecksumAlgorithm": "SHA1"}},
    "kept for a while": {"config_kwargs": {"connector_args": {"keepalive_timeout": 3}}},
    "a session without hooks": {"session": AioSession()},
}
THEIRS: dict[str, tuple[dict[str, Any], str]] = {
    "signature": ({"config_kwargs": {"signature_version": "s3"}}, "signed by s3"),
    "SigV4a": ({"config_kwargs": {"signature_version": "s3v4a"}}, "signed by s3v4a"),
    "FIPS": (
        {"client_kwargs": {"region_name": "us-east-1"}, "config_kwargs": {"use_fips_endpoint": True}},
        "FIPS",
    ),
    "hook": ({"session": _session("before-send.s3", _hook)}, "test_fallback._hook"),
    "partial hook": ({"session": _session("before-sign.s3", partial(_hook, a=1))}, "test_fallback._hook"),
    "one operation unsigned": (
        {"session": _session("choose-signer.s3.GetObject", disable_signing)},
        "in different ways",
    ),
    "connections": ({"config_kwargs": {"http_session_cls": _Connections}}, "_Connections"),
    "connector": ({"config_kwargs": {"connector_args": {"force_close": True}}}, "force_close"),
    "proxy's own settings": (
        {"config_kwargs": {"proxies_config": {"proxy_use_forwarding_for_https": True}}},
        "proxies",
    ),
    "patience": ({"config_kwargs": {"read_timeout": None}}, "timeout"),
    "value of a checksum": ({"s3_additional_kwargs": {"ChecksumCRC32": "AAAAAA=="}}, "ChecksumCRC32"),
    "other checksum": ({"s3_additional_kwargs": {"ChecksumAlgorithm": "CRC64NVME"}}, "CRC64NVME"),
    "argument of one request": ({"s3_additional_kwargs": {"VersionId": "1"}}, "VersionId"),
}


def _asked(options: dict[str, Any], bucket: str = BUCKET, engine: Any = "auto") -> Line | None:
    if not any(name in options for name in ("client_kwargs", "anon")):
        options = {"endpoint_url": "http://store:1", **options}
    whole = {"key": "AKIA", "secret": "geheim", "skip_instance_cache": True, **options}

    async def ask() -> Line | None:
        filesystem = S3FileSystem(**whole, asynchronous=True)
        client = await filesystem.set_session()
        try:
            first = await line_to(filesystem, client, bucket, engine)
            assert await line_to(filesystem, client, bucket, engine) is first
        finally:
            await client.close()
        return first

    return asyncio.run(ask())


@pytest.mark.parametrize("name", OURS)
def test_requests_are_ours(name: str) -> None:
    assert _asked(OURS[name]) is not None
    assert _asked(OURS[name], engine="own") is not None
    assert _asked(OURS[name], engine="aiobotocore") is None


@pytest.mark.parametrize("name", THEIRS)
def test_requests_are_left_to_aiobotocore_and_the_reason_is_logged_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    options, reason = THEIRS[name]
    with caplog.at_level(logging.DEBUG, "magicfs"):
        assert _asked(options) is None
    told = [
        record.getMessage() for record in caplog.records if record.name == "magicfs.stores.s3.requests.line"
    ]
    assert len(told) == 1
    assert reason in told[0]
    with pytest.raises(UsageError, match="only aiobotocore"):
        _asked(options, engine="own")


@pytest.mark.parametrize(
    ("bucket", "reason"),
    [
        ("arn:aws:s3:eu-west-1:111122223333:accesspoint/mine", "ARN"),
        ("mine-1a2b3c4d5e6f7g8h9i0j1k2l3m4n5usw2a-s3alias", "access point"),
        ("mine--use1-az4--x-s3", "signed by|another service"),
    ],
)
def test_buckets_of_other_kinds_are_left_to_aiobotocore(bucket: str, reason: str) -> None:
    options = {"client_kwargs": {"region_name": "us-east-1"}}
    assert _asked(options, bucket) is None
    with pytest.raises(UsageError, match=reason):
        _asked(options, bucket, "own")


@pytest.mark.parametrize("method", ["_make_api_call", *METHODS])
def test_client_whose_methods_somebody_wrapped_is_left_alone(method: str) -> None:
    async def ask() -> Line | None:
        filesystem = S3FileSystem(asynchronous=True, skip_instance_cache=True, endpoint_url="http://store:1")
        client = await filesystem.set_session()
        setattr(client, method, partial(getattr(client, method)))
        try:
            return await line_to(filesystem, client, BUCKET, "auto")
        finally:
            await client.close()

    assert asyncio.run(ask()) is None


def test_connections_of_the_sibling_are_known_and_end_with_its_client() -> None:
    async def ask() -> None:
        options = {"key": "AKIA", "secret": "geheim", "endpoint_url": "http://127.0.0.1:9"}
        filesystem = S3FileSystem(**options, skip_instance_cache=True)
        sibling = without_retries(filesystem, options)
        client = await sibling.set_session()
        line = await line_to(sibling, client, BUCKET, "own")
        assert line is not None
        await client.close()
        with pytest.raises(OSError, match="closed"):
            await line.transport.ask(line.route.address, "GET", "/", [("Host", "x")])

    asyncio.run(ask())


def test_line_shows_no_secret() -> None:
    line = _asked({"token": "token-geheim"})
    shown = f"{line!r} {line.signer!r}" if line else ""
    assert shown
    assert "geheim" not in shown
