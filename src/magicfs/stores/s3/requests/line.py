"""The line to one bucket: where it is, who asks, how connections are made; and whether there is one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from magicfs.errors import UsageError
from magicfs.stores.s3.http import Address, Answer, HttpClient
from magicfs.stores.s3.requests.operation import Operation, operation_of
from magicfs.stores.s3.requests.route import Route, reason_against, region_caches, route_to
from magicfs.stores.s3.requests.signature import Credentials, Signer
from magicfs.stores.undocumented import log_missing, warn_of_exposure

if TYPE_CHECKING:
    from s3fs import S3FileSystem

Engine = Literal["auto", "own", "aiobotocore"]
"""Who sends requests: by the rule of ``route``, or one of the two whatever the rule says, for tests."""

_PLACE = "_magicfs_lines"
_log = logging.getLogger(__name__)

counts: dict[str, int] = {"own": 0, "aiobotocore": 0}
"""Requests of this process by who sent them. A benchmark looks whether any fell back."""


class Transport(Protocol):
    """What carries requests, as ``magicfs.stores.s3.http.HttpClient`` does."""

    async def ask(
        self,
        address: Address,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: Any = b"",
        *,
        size_max: int | None = None,
        patience_s: float = 0.0,
    ) -> Answer:
        """Send a request once, and read the answer."""


@dataclass(slots=True)
class Line:
    """How a bucket is asked; all stores of a bucket on a filesystem share one.

    Attributes:
        route: Where it is; another one once the store has said in which region it is.
        transport: What carries requests.
        credentials: Of who asks, renewed when they expire; None for nobody.
        agent: The header ``User-Agent``.
        model: The operation of a name, as botocore models it.
        elsewhere: The route in another region.
        sums: Whether bodies get a checksum wherever the operation knows one.
        asks_sums: Whether what is read is compared with its checksum.
        signs_payload: Whether bodies are hashed: always, never, or, with None, where nothing else protects
            them.
        clock: Seconds since the epoch, of this machine.
        skew_s: How far the store's clock is before it.
    """

    route: Route
    transport: Transport
    credentials: Callable[[], Awaitable[Credentials | None]]
    agent: str
    model: Callable[[str], Any]
    elsewhere: Callable[[str], Awaitable[Route]]
    sums: bool = True
    asks_sums: bool = True
    signs_payload: bool | None = None
    clock: Callable[[], float] = time.time
    skew_s: float = 0.0
    signer: Signer = field(default_factory=Signer)
    _operations: dict[str, Operation] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Line({self.route.address}{self.route.path})"

    def operation(self, method: str) -> Operation:
        """The operation that clients give a method of this name."""
        found = self._operations.get(method)
        if found is None:
            named = "".join(part.title() for part in method.split("_"))
            found = self._operations[method] = operation_of(self.model(named))
        return found


@dataclass(frozen=True, slots=True)
class _Found:
    client: Any
    loop: asyncio.AbstractEventLoop
    line: Line | None
    reason: str


async def line_to(filesystem: S3FileSystem, client: Any, bucket: str, engine: Engine) -> Line | None:
    """The line to a bucket; None if the filesystem's client of aiobotocore sends the requests."""
    if engine == "aiobotocore":
        return None
    lines: dict[str, _Found] = filesystem.__dict__.setdefault(_PLACE, {})
    found = lines.get(bucket)
    loop = asyncio.get_running_loop()
    if found is None or found.client is not client or found.loop is not loop:
        arguments = {**filesystem.s3_additional_kwargs, **filesystem.req_kw}
        warn_of_exposure(
            client.meta.endpoint_url,
            has_credentials=not filesystem.anon,
            verifies=filesystem.client_kwargs.get("verify") is not False,
        )
        try:
            found = await _found(client, loop, bucket, arguments)
        except (AttributeError, ImportError, KeyError, TypeError) as error:
            reason = f"a part of botocore or aiobotocore that magicfs sends requests with ({error})"
            log_missing(reason, "aiobotocore sends all requests, which takes longer")
            found = _Found(client, loop, None, f"the installed version lacks {reason}")
        lines[bucket] = found
        if found.reason:
            _log.debug("aiobotocore sends the requests to s3://%s: %s", bucket, found.reason)
    if found.line is None and engine == "own":
        raise UsageError(f"s3://{bucket}: only aiobotocore can send the requests: {found.reason}")
    return found.line


async def _found(
    client: Any, loop: asyncio.AbstractEventLoop, bucket: str, arguments: Mapping[str, Any]
) -> _Found:
    _import_parts()
    caches = region_caches(client)
    model = client.meta.service_model.operation_model
    route = await route_to(client, bucket, model("PutObject"))
    if reason := reason_against(client, bucket, route, arguments):
        return _Found(client, loop, None, reason)
    config = client.meta.config
    signer = client._request_signer  # noqa: SLF001 - there is no public way
    known = signer._credentials  # noqa: SLF001

    async def credentials() -> Credentials | None:
        return await known.get_frozen_credentials() if known is not None else None

    async def elsewhere(region: str) -> Route:
        for cache in caches:
            cache[bucket] = region
        return await route_to(client, bucket, model("PutObject"))

    try:
        transport = _transport(client, loop)
    except ValueError as error:  # a proxy that only aiohttp can use
        return _Found(client, loop, None, str(error))
    line = Line(
        route=route,
        transport=transport,
        credentials=credentials,
        agent=client._user_agent_creator.to_string(),  # noqa: SLF001
        model=model,
        elsewhere=elsewhere,
        sums=config.request_checksum_calculation == "when_supported",
        asks_sums=config.response_checksum_validation == "when_supported",
        signs_payload=(config.s3 or {}).get("payload_signing_enabled"),
    )
    return _Found(client, loop, line, "")


def _import_parts() -> None:
    """Look for all functions of botocore that requests are made with; AttributeError if one is missing."""
    from botocore import handlers, utils, validate

    for module, names in (
        (handlers, ("copy_source_sse_md5", "handle_copy_source_param", "sse_md5", "validate_bucket_name")),
        (utils, ("parse_to_aware_datetime",)),
        (validate, ("validate_parameters",)),
    ):
        for name in names:
            getattr(module, name)


def _transport(client: Any, loop: asyncio.AbstractEventLoop) -> HttpClient:
    """Connections beside those of a client of aiobotocore, made as it makes its own; they end with them."""
    from botocore.httpsession import get_cert_path

    session = client._endpoint.http_session  # noqa: SLF001 - there is no public way
    held = session.__dict__.get("_magicfs_transport")
    if held is not None and held[0] is loop:
        made: HttpClient = held[1]
        return made
    config = client.meta.config
    proxies = session._proxy_config  # noqa: SLF001
    pair = (session._cert_file, session._key_file)  # noqa: SLF001
    ways = {scheme: proxies.proxy_url_for(f"{scheme}://") for scheme in ("http", "https")}
    keepalive = (config.connector_args or {}).get("keepalive_timeout")
    made = HttpClient(
        connections_max=config.max_pool_connections,
        connect_timeout_s=config.connect_timeout,
        read_timeout_s=config.read_timeout,
        verify=get_cert_path(session._verify),  # noqa: SLF001
        client_cert=pair if pair[1] else pair[0],
        proxies={scheme: proxy for scheme, proxy in ways.items() if proxy},
        **({} if keepalive is None else {"keepalive_s": keepalive}),
    )
    session._exit_stack.callback(made.close)  # noqa: SLF001
    session.__dict__["_magicfs_transport"] = (loop, made)
    return made
