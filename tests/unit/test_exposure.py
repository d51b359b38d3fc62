"""What is logged once where credentials go in the clear, or any server is trusted; what texts may show."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from adlfs import AzureBlobFileSystem
from gcsfs.core import GCSFileSystem
from google.oauth2.credentials import Credentials
from s3fs import S3FileSystem

from magicfs.errors import UsageError
from magicfs.stores import resolve, undocumented
from magicfs.stores.azure import requests as azure_requests
from magicfs.stores.gcs import client as gcs_client
from magicfs.stores.s3 import client as s3_client
from magicfs.stores.s3.requests.line import line_to
from magicfs.stores.undocumented import warn_of_exposure

KEY = "hunter2hunter2=="
ELSEWHERE = "http://store.example:9000"


@pytest.fixture(autouse=True)
def _first_in_this_process() -> None:
    undocumented._logged.clear()


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage() for one in log.records if one.name == "magicfs" and one.levelno == logging.WARNING
    ]


@pytest.mark.parametrize(
    ("url", "how", "said"),
    [
        (ELSEWHERE, {"has_credentials": True}, "with credentials go to store.example over http://"),
        ("http://10.0.0.1", {"has_credentials": True}, "go to 10.0.0.1 over http://"),
        (ELSEWHERE, {"has_credentials": False}, None),
        ("http://localhost:9000", {"has_credentials": True}, None),
        ("http://127.0.0.2:9000", {"has_credentials": True}, None),
        ("http://[::1]:9000", {"has_credentials": True}, None),
        ("http://store.localhost", {"has_credentials": True}, None),
        ("https://store.example", {"has_credentials": True}, None),
        ("https://store.example", {"has_credentials": False, "verifies": False}, "can pose as store.example"),
        ("https://127.0.0.1", {"has_credentials": True, "verifies": False}, "verify=False"),
        (ELSEWHERE, {"has_credentials": False, "verifies": False}, None),
    ],
)
def test_each_exposure_is_logged_once(
    url: str, how: dict[str, Any], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        warn_of_exposure(url, **how)
    found = warnings(caplog)
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endpoint_url": ELSEWHERE, "token": KEY}, ["over http://"]),
        ({"client_kwargs": {"endpoint_url": ELSEWHERE}}, ["over http://"]),
        ({"endpoint_url": ELSEWHERE, "anon": True, "key": None, "secret": None}, []),
        ({"endpoint_url": "https://store.example", "client_kwargs": {"verify": False}}, ["verify=False"]),
        ({"use_ssl": False}, ["over http://"]),
        ({}, []),
    ],
)
@pytest.mark.parametrize("session", [None, "hooked"])
def test_s3_is_looked_at_whoever_sends_requests(
    options: dict[str, Any], said: list[str], session: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    whole = {"key": "AKIA", "secret": KEY, **options, "asynchronous": True, "skip_instance_cache": True}
    if session is not None:
        whole["config_kwargs"] = {"signature_version": "s3"}

    async def ask() -> None:
        filesystem = S3FileSystem(**whole)
        client = await filesystem.set_session()
        try:
            for bucket in ("one", "two"):
                await line_to(filesystem, client, bucket, "auto")
        finally:
            await client.close()

    asyncio.run(ask())
    found = warnings(caplog)
    assert len(found) == len(said)
    assert all(one in text for one, text in zip(said, found, strict=True))
    assert KEY not in caplog.text


@pytest.mark.parametrize("token", ["anon", Credentials(KEY)])
def test_google_cloud_storage_is_looked_at(token: Any, caplog: pytest.LogCaptureFixture) -> None:
    filesystem = GCSFileSystem(
        token=token, endpoint_url=ELSEWHERE, asynchronous=True, skip_instance_cache=True
    )

    async def ask() -> None:
        for _ in range(2):
            session = await gcs_client.GcsClient(filesystem)._session()
        await session.close()

    asyncio.run(ask())
    assert len(warnings(caplog)) == (token != "anon")


@pytest.mark.parametrize("access", [f"AccountKey={KEY}", "SharedAccessSignature=sv=1&sig=abc"])
def test_azure_is_looked_at(access: str, caplog: pytest.LogCaptureFixture) -> None:
    text = f"BlobEndpoint=http://store.example/a;AccountName=a;{access}"
    filesystem = AzureBlobFileSystem(connection_string=text, skip_instance_cache=True)
    for _ in range(2):
        azure_requests._made(filesystem)
    [said] = warnings(caplog)
    assert "store.example" in said


REDACTED = {
    "http://u:p@h:1/a": "http://h:1/a",
    "http://u:p@ss@h": "http://h",
    "https://token@h": "https://h",
    "socks5h://u@h": "socks5h://h",
    "u:p@h:3128": "h:3128",
    "could not reach http://u:p@h/x, nor https://v:q@i": "could not reach http://h/x, nor https://i",
    "DefaultEndpointsProtocol=https;AccountKey=abc==;x=1": "DefaultEndpointsProtocol=https;AccountKey=…;x=1",
    "https://h/c?sv=1&sig=a%2Bb&se=2": "https://h/c?sv=1&sig=…&se=2",
}
SHOWN = (
    *("http://h:9000/a@b", "abfs://container@account.dfs.core.windows.net/a", "s3://bucket/sig=5/a:b@c"),
    *("file:///data/a:b@c", "arn:aws:iam::1:role/a@b", "proxy:3128", "/data/x:y@z", "eu-west-1"),
)


@pytest.mark.parametrize("text", REDACTED)
def test_passwords_in_texts_are_not_shown(text: str) -> None:
    assert resolve.redacted(text) == REDACTED[text]
    if " " not in text:
        assert resolve.secrets_of({"a": {"b": text}}) == {"a.b"}
        assert resolve.secrets_of({"a": [text]}) == resolve.secrets_of({"a": [{"x": text}]}) == {"a"}
        assert text not in str(resolve.without_secrets({"a": {"b": text}, "c": [text]}))


@pytest.mark.parametrize("text", SHOWN)
def test_what_only_looks_like_one_is_shown(text: str) -> None:
    assert resolve.redacted(text) == text
    assert resolve.secrets_of({"a": text, "b": [text], "c": {"d": text}}) == frozenset()
    assert resolve.without_secrets({"a": text, "b": [text]}) == {"a": text, "b": [text]}


def test_urls_as_objects_are_secrets_too() -> None:
    yarl = pytest.importorskip("yarl")
    given = {"session_kwargs": {"proxy": yarl.URL(f"http://u:{KEY}@h"), "base": yarl.URL("http://h"), "n": 1}}
    assert resolve.secrets_of(given) == {"session_kwargs.proxy"}
    assert resolve.without_secrets(given) == {"session_kwargs": {"base": yarl.URL("http://h"), "n": 1}}
    assert resolve.with_secrets(resolve.without_secrets(given), given) == given


@pytest.mark.parametrize(
    "url", [f"https://u:{KEY}@h/b/k", f"https://{KEY}@h/b/k", f"hdfs://u:{KEY}@h/x", f"u:{KEY}@bucket/x"]
)
def test_no_password_of_a_destination_is_quoted(url: str) -> None:
    with pytest.raises(UsageError, match="contains credentials") as refused:
        resolve.location_of(url)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"client_kwargs": f"aws_secret_access_key={KEY}"},
        {"config_kwargs": [KEY]},
        {"endpoint_url": f"u:{KEY}@h:9000"},
    ],
)
def test_no_option_is_quoted_whole(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        s3_client.check(options)
    assert KEY not in str(refused.value)
