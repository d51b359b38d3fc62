"""What other libraries do not document is gone in their next version: jobs publish all the same."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from adlfs import AzureBlobFileSystem
from aiobotocore.httpsession import AIOHTTPSession
from gcsfs.core import GCSFileSystem
from s3fs import S3FileSystem

import magicfs
from magicfs.runtime.interrupt import run_on
from magicfs.stores import undocumented
from magicfs.stores.azure import requests as azure_requests
from magicfs.stores.gcs import client as gcs_client
from magicfs.stores.s3 import client as s3_client
from magicfs.stores.s3.requests import line
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.servers import Server

pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")

FILES = {"a b%20.csv": b"1", "día 1/#+.csv": b"2" * 100}


def lacking(whole: Any, path: str) -> Any:
    """A copy of an object that lacks an attribute, or an attribute of one of its own."""
    first, _, rest = path.partition(".")

    def lacks(_: Any) -> None:
        raise AttributeError(f"{type(whole).__name__!r} object has no attribute {first!r}")

    members = {} if rest else {first: property(lacks)}
    made = object.__new__(type(type(whole).__name__, (type(whole),), members))
    made.__dict__.update(whole.__dict__)
    if rest:
        made.__dict__[first] = lacking(getattr(whole, first), rest)
    return made


@pytest.fixture(autouse=True)
def _first_in_this_process() -> None:
    undocumented._logged.clear()
    line.counts.update(own=0, aiobotocore=0)


def publishes(server: Any, bucket: str, options: dict[str, Any]) -> None:
    """Publish two jobs, of one process."""
    for number in range(2):
        url = f"{'gs' if isinstance(server, GcsDouble) else 's3'}://{bucket}/día 1"
        with magicfs.Job(url, mode="append", storage_options=options) as job, job.task(0) as task:
            for name, body in FILES.items():
                task.filesystem.pipe_file(f"{task.path}/{number} {name}", body)
    assert len([one for one in server.visible_keys(bucket, "día 1/") if one.endswith("csv")]) == 4


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage() for one in log.records if one.name == "magicfs" and one.levelno >= logging.WARNING
    ]


def options_of(server: Server) -> dict[str, Any]:
    return {**server.storage_options(), "skip_instance_cache": True}


CLIENT = (
    *("_resolve_endpoint_ruleset", "_request_signer", "_request_signer._choose_signer"),
    *("_request_signer._credentials", "_user_agent_creator", "_endpoint", "meta.events._emitter"),
    "meta.events._emitter._handlers._root",
)
CONNECTIONS = ("_endpoint.http_session", "_proxy_config", "_cert_file", "_key_file", "_verify", "_exit_stack")


@pytest.mark.sample(most=4)
@pytest.mark.parametrize("gone", [*CLIENT, *CONNECTIONS])
def test_a_client_of_s3_lacks_an_attribute(
    gone: str,
    ministack: Server,
    bucket_factory: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = "_found" if gone in CLIENT else "_transport"
    path = gone if gone.startswith("_endpoint") or gone in CLIENT else f"_endpoint.http_session.{gone}"
    found = getattr(line, name)
    monkeypatch.setattr(line, name, lambda client, *more: found(lacking(client, path), *more))
    publishes(ministack, bucket_factory(ministack), options_of(ministack))
    [said] = warnings(caplog)
    assert f"no attribute '{path.split('.')[-1] if gone != 'meta.events._emitter' else '_handlers'}'" in said
    assert "aiobotocore sends all requests" in said
    assert line.counts["own"] == 0
    assert line.counts["aiobotocore"] > 0


PARTS = (
    *("botocore.handlers.sse_md5", "botocore.handlers.validate_bucket_name"),
    *("botocore.handlers.handle_copy_source_param", "botocore.handlers.copy_source_sse_md5"),
    *("botocore.utils.S3RegionRedirectorv2", "botocore.utils.parse_to_aware_datetime"),
    *("botocore.validate.validate_parameters", "botocore.httpsession.get_cert_path"),
)


@pytest.mark.sample(most=2)
@pytest.mark.parametrize("gone", PARTS)
def test_botocore_lacks_a_function(
    gone: str,
    ministack: Server,
    bucket_factory: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    module, _, name = gone.rpartition(".")
    found = line._found

    async def without(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr(importlib.import_module(module), name)
            return await found(*given)

    monkeypatch.setattr(line, "_found", without)
    publishes(ministack, bucket_factory(ministack), options_of(ministack))
    [said] = warnings(caplog)
    assert name in said
    assert line.counts["own"] == 0


def test_s3fs_and_aiobotocore_lack_theirs(
    ministack: Server,
    bucket_factory: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from aiobotocore.session import AioSession

    async def nobody(*_: Any) -> None:
        return None

    monkeypatch.setattr("magicfs.stores.s3.store.line_to", nobody)
    monkeypatch.delattr(S3FileSystem, "_get_s3_method_kwargs")
    s3_client._session_class.cache_clear()
    create = AioSession._create_client
    monkeypatch.setattr(AioSession, "create_client", lambda self, *a, **k: _Context(create(self, *a, **k)))
    monkeypatch.delattr(AioSession, "_create_client")
    options = options_of(ministack) | {
        "s3_additional_kwargs": {"ContentType": "text/x", "StorageClass": "STANDARD"}
    }
    bucket = bucket_factory(ministack)
    with monkeypatch.context() as patch:
        hidden = AIOHTTPSession._get_session
        patch.delattr(AIOHTTPSession, "_get_session")
        s3_client._session_class()
        patch.setattr(AIOHTTPSession, "_get_session", hidden, raising=False)
        publishes(ministack, bucket, options)
    s3_client._session_class.cache_clear()
    [said] = warnings(caplog)
    assert "AIOHTTPSession._get_session is missing" in said
    key = next(one for one in ministack.all_keys(bucket) if one.endswith(".csv"))
    assert ministack.s3_client().head_object(Bucket=bucket, Key=key)["ContentType"] == "text/x"


class _Context:
    """What aiobotocore's ``create_client`` returns."""

    def __init__(self, making: Any) -> None:
        self._making = making

    async def __aenter__(self) -> Any:
        self._client = await self._making
        return await self._client.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(*error)


def test_gcsfs_lacks_its_own(
    gcs: GcsDouble, bucket_factory: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    GCSFileSystem(**gcs.storage_options())  # which is what the jobs find
    monkeypatch.setattr(GCSFileSystem, "base", f"{gcs.endpoint}/storage/v1/")
    for name in ("_location", "_get_params"):
        monkeypatch.delattr(GCSFileSystem, name)
    monkeypatch.delattr("gcsfs.credentials.GoogleCredentials._credentials_valid")
    publishes(gcs, bucket_factory(gcs), gcs.storage_options())


def test_gcsfs_makes_no_session(
    gcs: GcsDouble,
    bucket_factory: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    filesystem = GCSFileSystem(**gcs.storage_options(), skip_instance_cache=True)
    client = gcs_client.GcsClient(filesystem)

    async def listed() -> int:
        filesystem.session_kwargs = {"connector": aiohttp.TCPConnector(limit=3)}
        monkeypatch.delattr(GCSFileSystem, "_set_session")
        path = f"/storage/v1/b/{bucket}/o"
        statuses = [(await client.ask("list", bucket, "GET", path)).status for _ in range(2)]
        assert filesystem.__dict__["_magicfs_session"].connector is filesystem.session_kwargs["connector"]
        await filesystem.__dict__["_magicfs_session"].close()
        assert not filesystem.session_kwargs["connector"].closed
        await filesystem.session_kwargs["connector"].close()
        return max(statuses)

    bucket = bucket_factory(gcs)
    assert run_on(filesystem.loop, listed) == 200
    [said] = warnings(caplog)
    assert "GCSFileSystem._set_session is missing" in said


def test_adlfs_lacks_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "a2V5"
    filesystem = AzureBlobFileSystem(
        connection_string=f"BlobEndpoint=http://127.0.0.1:1/a;AccountName=a;AccountKey={key}",
        connection_timeout=3,
        read_timeout=4,
        skip_instance_cache=True,
    )
    del filesystem._timeout_kwargs
    transport = azure_requests._how(filesystem)["transport"]
    assert (transport.connection_config.timeout, transport.connection_config.read_timeout) == (3, 4)


def test_aiohttp_lacks_its_own(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        undocumented.send_once(object())
    [said] = warnings(caplog)
    assert "ClientSession._retry_connection is missing" in said
