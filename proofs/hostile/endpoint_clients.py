"""Our stores of three clouds, each on an endpoint of its own, and what each of them is asked."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from fsspec.asyn import sync

from magicfs.errors import MagicError
from magicfs.stores.azure import folders as azure_folders
from magicfs.stores.azure.store import AzureStore
from magicfs.stores.gcs import folders as gcs_layout
from magicfs.stores.gcs.store import GcsStore
from magicfs.stores.memory.store import World
from magicfs.stores.port import PutMode
from magicfs.stores.s3.client import without_retries
from magicfs.stores.s3.http import Address
from magicfs.stores.s3.store import S3Store
from proofs.doubles.adls.service import Service as AdlsService
from proofs.doubles.adls.wire import Request as AdlsRequest
from proofs.doubles.double_server import Request
from proofs.doubles.gcs.service import Service as GcsService
from proofs.doubles.gcs.wire import Request as GcsRequest
from proofs.doubles.s3_wire import S3Wire
from proofs.hostile.endpoint_server import Asked, Endpoint, Reply

__all__ = ["BODY", "BUCKET", "OPERATIONS", "PREFIX", "Client", "clients"]

BUCKET: Final = "bucket"
PREFIX: Final = "sales/"
BODY: Final = b"0123456789" * 20
_SILENCE_S: Final = 0.2
_TRIES: Final = 5
_PLACES: Final = re.compile(r"(?:continuation-token|pageToken|marker|key-marker|upload-id-marker)=")
_ACCOUNT: Final = "magicfslake"
_TOKEN: Final = "hostile"  # noqa: S105 - opens nothing but a double


@dataclass
class Client:
    """A store, and the endpoint that it asks.

    Attributes:
        name: Of the cloud, and of who sends its requests.
        store: Without retries.
        endpoint: Answers rightly until it gets a lie.
        loop: On which the store works.
        reset: Makes the world again what it was.
        known: Of the world: ETags, an upload and its part.
    """

    name: str
    store: Any
    endpoint: Endpoint
    loop: Any
    reset: Callable[[], None] = lambda: None
    known: dict[str, Any] = field(default_factory=dict)

    def run(self, program: Awaitable[Any], timeout_s: float = 20.0) -> Any:
        """Run a program on the store's loop, for so long at most."""

        async def bounded() -> Any:
            return await asyncio.wait_for(program, timeout_s)

        return sync(self.loop, bounded)

    def operations(self) -> Mapping[str, Callable[[Client], Awaitable[Any]]]:
        """What this store can be asked."""
        if not hasattr(self.store, "folders"):
            return OPERATIONS
        return {**OPERATIONS, **_FOLDERS}


async def _all(items: Any) -> list[Any]:
    return [one async for one in items]


async def _layout(client: Client) -> Any:
    gcs_layout._known.clear()  # noqa: SLF001 - as in a new process
    azure_folders._known.clear()  # noqa: SLF001
    try:
        return await client.store.folders().exist()
    finally:
        gcs_layout._known.clear()  # noqa: SLF001


OPERATIONS: Final[Mapping[str, Callable[[Client], Awaitable[Any]]]] = {
    "list": lambda c: _all(c.store.list(PREFIX)),
    "list_directories": lambda c: _all(c.store.list_directories(PREFIX)),
    "list_uploads": lambda c: _all(c.store.list_uploads(PREFIX)),
    "head": lambda c: c.store.head("sales/x"),
    "get": lambda c: c.store.get("sales/x"),
    "get some": lambda c: c.store.get("sales/x", size_max=4),
    "get_range": lambda c: c.store.get_range("sales/x", 2, 4, etag=c.known["etag"]),
    "checksums": lambda c: c.store.checksums("sales/x", etag=c.known["etag"]),
    "put": lambda c: c.store.put("sales/new", b"new"),
    "put if absent": lambda c: c.store.put("sales/new", b"new", mode=PutMode.CREATE),
    "create_upload": lambda c: c.store.create_upload("sales/new", metadata={"a": "b"}),
    "put_part": lambda c: c.store.put_part("sales/up", c.known["upload"], 1, BODY),
    "complete_upload": lambda c: c.store.complete_upload("sales/up", c.known["upload"], [c.known["part"]]),
    "abort_upload": lambda c: c.store.abort_upload("sales/up", c.known["upload"]),
    "copy": lambda c: c.store.copy("sales/x", "sales/copy"),
    "delete": lambda c: c.store.delete(["sales/x", "sales/sub/y"]),
    "delete_matching": lambda c: c.store.delete_matching("sales/x", c.known["etag"]),
    "delete_all_matching": lambda c: c.store.delete_all_matching([("sales/x", c.known["etag"])]),
}
"""By the port's name of it."""

_FOLDERS: Final[Mapping[str, Callable[[Client], Awaitable[Any]]]] = {
    "folders exist": _layout,
    "look": lambda c: c.store.folders().look("sales/x"),
    "entries": lambda c: _all(c.store.folders().entries("sales")),
}


@contextmanager
def clients() -> Iterator[list[Client]]:
    """All of them, on worlds that are alike; each has seen no lie."""
    made = []
    with (
        Endpoint(_nothing) as s3,
        Endpoint(_nothing) as sdk,
        Endpoint(_nothing) as gcs,
        Endpoint(_nothing) as abfs,
    ):
        made += [_s3("s3", s3, "own"), _s3("s3 by aiobotocore", sdk, "aiobotocore"), _gcs(gcs), _azure(abfs)]
        try:
            for client in made:
                _keep(client)
                client.reset()
            yield made
        finally:
            for client in made:
                _close(client)


async def _nothing(_: Asked) -> Reply:
    raise OSError("nothing is there yet")


async def _furnished(store: Any) -> dict[str, Any]:
    for key in ("sales/x", "sales/sub/y", "other/z"):
        await store.put(key, BODY)
    upload = await store.create_upload("sales/up", metadata={})
    part = await store.put_part("sales/up", upload, 1, BODY)
    return {"etag": (await store.head("sales/x")).etag, "upload": upload, "part": part}


def _keep(client: Client) -> None:
    """Furnish a world, and let it be that again whenever somebody asks."""
    holder = client.endpoint.truth.__self__  # type: ignore[attr-defined]

    def new_memory() -> None:
        holder.content = World(create_buckets=True)
        client.known = asyncio.run(_furnished(holder.content.store(BUCKET)))

    if isinstance(holder, _S3Truth):
        client.reset = new_memory
        return
    client.known = _patiently(lambda: client.run(_furnished(client.store)))
    kept = copy.deepcopy(holder.content)

    def as_it_was() -> None:
        holder.content = copy.deepcopy(kept)

    client.reset = as_it_was


def _patiently(furnish: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Where a machine is busy, even the truth can come later than these clients wait."""
    for _ in range(_TRIES - 1):
        with suppress(MagicError):
            return furnish()
    return furnish()


def _close(client: Client) -> None:
    filesystem = client.store.__dict__.get("_filesystem") or client.store._client.filesystem  # noqa: SLF001
    client.endpoint.lie = None
    with suppress(Exception):
        for place in ("_magicfs_service", "_magicfs_lake"):
            if (service := filesystem.__dict__.get(place)) is not None:
                client.run(service.close())


def _first_page(target: str) -> str:
    """The same request without the place of a page, which an endpoint may have made up: there is one page."""
    path, _, query = target.partition("?")
    kept = [pair for pair in query.split("&") if not _PLACES.match(pair)]
    return f"{path}?{'&'.join(kept)}" if query else path


class _S3Truth:
    """``S3Wire`` behind HTTP."""

    def __init__(self) -> None:
        self.content = World(create_buckets=True)

    async def answer(self, asked: Asked) -> Reply:
        wire = S3Wire(self.content.store(BUCKET))
        pairs, target = list(asked.headers.items()), _first_page(asked.target)
        known = await wire.ask(Address("http", "wire", 80), asked.method, target, pairs, asked.body)
        status = 206 if "range" in asked.headers and known.status == 200 else known.status
        headers = dict(known.headers)
        if asked.method == "GET" and "uploads" not in asked.target and "list-type" not in asked.target:
            headers["content-length"] = str(len(known.body))
            if status == 206 and (start := asked.headers["range"].removeprefix("bytes=").split("-")[0]):
                headers["content-range"] = f"bytes {start}-{int(start) + len(known.body) - 1}/{len(BODY)}"
        return Reply(status, headers, known.body)


class _DoubleTruth:
    """A double of a service behind HTTP."""

    def __init__(self, content: Any, request: type[Request]) -> None:
        self.content = content
        self._request = request

    async def answer(self, asked: Asked) -> Reply:
        made = self._request.of(
            asked.method, _first_page(asked.target), asked.headers, asked.body, "http://endpoint"
        )
        known = self.content.answer(made)
        return Reply(known.status, known.headers, known.body)


def _s3(name: str, endpoint: Endpoint, engine: Any) -> Client:
    from s3fs import S3FileSystem

    endpoint.truth = _S3Truth().answer
    options: dict[str, Any] = {
        "key": "AKIAHOSTILE",
        "secret": "secret",
        "endpoint_url": f"http://127.0.0.1:{endpoint.port}",
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {
            "retries": {"total_max_attempts": 1},
            "read_timeout": _SILENCE_S,
            "connect_timeout": 2,
        },
    }
    filesystem = S3FileSystem(**options, skip_instance_cache=True)
    store = S3Store(without_retries(filesystem, options), BUCKET, engine=engine)
    store.__dict__["_keeps"] = filesystem
    return Client(name, store, endpoint, filesystem.loop)


def _gcs(endpoint: Endpoint) -> Client:
    from gcsfs.core import GCSFileSystem

    service = GcsService(_TOKEN)
    endpoint.truth = _DoubleTruth(service, GcsRequest).answer
    options = {"endpoint_url": f"http://127.0.0.1:{endpoint.port}", "token": "anon"}
    filesystem = GCSFileSystem(**options, skip_instance_cache=True)
    document = {"name": BUCKET, "hierarchicalNamespace": {"enabled": True}}
    document["iamConfiguration"] = {"uniformBucketLevelAccess": {"enabled": True}}
    service.answer(
        GcsRequest.of("POST", "/storage/v1/b?project=p", {}, json.dumps(document).encode(), "http://endpoint")
    )
    return Client("gcs", GcsStore(filesystem, BUCKET), endpoint, filesystem.loop)


def _azure(endpoint: Endpoint) -> Client:
    from adlfs import AzureBlobFileSystem

    service = AdlsService(_ACCOUNT, _TOKEN)
    endpoint.truth = _DoubleTruth(service, AdlsRequest).answer
    key = "aG9zdGlsZQ=="
    place = f"http://127.0.0.1:{endpoint.port}/{_ACCOUNT}"
    filesystem = AzureBlobFileSystem(
        connection_string=f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={key};"
        f"BlobEndpoint={place};",
        read_timeout=_SILENCE_S,
        connection_timeout=2,
        skip_instance_cache=True,
    )
    target = f"/{_ACCOUNT}/{quote(BUCKET)}?restype=container"
    signed = {"authorization": f"SharedKey {_ACCOUNT}:x"}
    service.answer(AdlsRequest.of("PUT", target, signed, b"", "http://endpoint"))
    return Client("azure", AzureStore(filesystem, BUCKET), endpoint, filesystem.loop)
