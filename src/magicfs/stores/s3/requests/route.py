"""Where requests about a bucket go, and how they are signed: asked of botocore, without sending anything.

And the rule when requests are left to aiobotocore; ``docs/s3.md`` tells users the same. Our own requests do
what botocore's do by default; whatever asks for more, or for something that was not compared with botocore's,
is left to it. The rule is asked once for a filesystem and a bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any
from urllib.parse import urlsplit

from magicfs.stores.s3.checksums import ALGORITHMS
from magicfs.stores.s3.http import Address
from magicfs.stores.s3.requests.signature import Header, Scope

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a bucket.

    Attributes:
        address: The host that is asked.
        host: The header of that name.
        path: What paths begin with: empty, or the bucket where the host does not name it.
        scope: What requests are signed for.
        version: The version of signature that botocore chose, such as ``s3v4``; None for no signature.
        properties: What the endpoint's rules say beside; empty in most cases.
        headers: What the endpoint's rules add to requests.
    """

    address: Address
    host: str
    path: str
    scope: Scope
    version: Any = "s3v4"
    properties: Mapping[str, Any] = field(default_factory=dict)
    headers: tuple[Header, ...] = ()

    @property
    def is_secure(self) -> bool:
        """Whether it goes over TLS."""
        return self.address.scheme == "https"

    @property
    def is_local(self) -> bool:
        """Whether it stays on this machine."""
        return self.address.host in {"localhost", "::1"} or self.address.host.startswith("127.")


async def route_to(client: Any, bucket: str, operation: Any) -> Route:
    """The way that an aiobotocore client would take with an operation on a bucket.

    Raises botocore's errors for a name that no bucket has, and where no endpoint can be found.
    """
    import botocore
    from botocore.handlers import validate_bucket_name

    arguments = {"Bucket": bucket, "Key": "key"}
    validate_bucket_name(arguments)
    context: dict[str, Any] = {
        "client_region": client.meta.region_name,
        "client_config": client.meta.config,
        "has_streaming_input": operation.has_streaming_input,
        "auth_type": operation.auth_type,
    }
    url, headers, properties = await client._resolve_endpoint_ruleset(  # noqa: SLF001
        operation, arguments, context
    )
    signer = client._request_signer  # noqa: SLF001
    version = await signer._choose_signer(operation.name, "standard", context)  # noqa: SLF001
    signing = context.get("signing", {})
    region = signing.get("region") or signer._region_name  # noqa: SLF001
    service = signing.get("signing_name") or signer._signing_name  # noqa: SLF001
    parts = urlsplit(url)
    named = parts.hostname or ""
    shown = f"[{named}]" if ":" in named else named
    port = parts.port or _PORTS[parts.scheme]
    return Route(
        address=Address(parts.scheme, named, port),
        host=shown if port == _PORTS[parts.scheme] else f"{shown}:{port}",
        path=parts.path.rstrip("/"),
        scope=Scope(str(region), service),
        version=None if version is botocore.UNSIGNED else version,
        properties=properties,
        headers=tuple(headers.items()),
    )


def region_caches(client: Any) -> list[Any]:
    """Where a client remembers the regions of buckets that stores have named."""
    from botocore.utils import S3RegionRedirectorv2

    owners = [getattr(handler, "__self__", None) for handler in handlers_of(client)]
    return [one._cache for one in owners if isinstance(one, S3RegionRedirectorv2)]  # noqa: SLF001


def handlers_of(client: Any) -> list[Any]:
    """All that is called when an aiobotocore client makes requests."""
    events = client.meta.events
    trie = getattr(events, "_emitter", events)._handlers  # noqa: SLF001 - there is no public way
    found, nodes = [], [trie._root]  # noqa: SLF001
    while nodes:
        node = nodes.pop()
        nodes += node["children"].values()
        for section in node["values"] or ():
            found += section
    return found


METHODS = (
    *("create_multipart_upload", "upload_part", "complete_multipart_upload", "abort_multipart_upload"),
    *("list_multipart_uploads", "put_object", "get_object", "head_object", "copy_object"),
    *("upload_part_copy", "list_objects_v2", "delete_object", "delete_objects"),
    *("get_bucket_versioning", "list_object_versions", "list_parts", "get_bucket_lifecycle_configuration"),
)
"""What a store asks for, by the names that clients give to it."""

_CONNECTOR_ARGUMENTS = frozenset({"keepalive_timeout", "write_timeout", "pool_timeout"})
# Values of checksums and of modes that belong to one request, and whatever changes how answers are written.
_NOT_FOR_ALL = frozenset(
    {
        *("ChecksumMode", "ChecksumType", "ContentMD5", "ContentLength", "EncodingType", "PartNumber"),
        *("MFA", "VersionId", "Range", "WriteOffsetBytes"),
    }
)


def reason_against(client: Any, bucket: str, route: Route, arguments: Mapping[str, Any]) -> str:
    """Why requests to a bucket are left to a client of aiobotocore; empty if magicfs sends them itself.

    ``arguments``: what the filesystem adds to all requests.
    """
    config = client.meta.config
    if ":" in bucket:
        return "the bucket is named by an ARN"
    if bucket.endswith("-s3alias"):
        return "the bucket is an access point"
    if route.version not in {"s3v4", None}:
        return f"requests are signed by {route.version}"
    if "backend" in route.properties or route.scope.service != "s3":
        return "the bucket belongs to another service than S3 itself"
    if config.use_fips_endpoint:
        return "a FIPS endpoint is asked for"
    return _of_hooks(client) or _of_connections(client) or _of_arguments(arguments)


def _of_hooks(client: Any) -> str:
    for handler in handlers_of(client):
        function = handler.func if isinstance(handler, partial) else handler
        module = getattr(function, "__module__", None) or ""
        if module.partition(".")[0] not in {"botocore", "aiobotocore"}:
            return f"a hook is registered: {module}.{getattr(function, '__qualname__', type(function))}"
    events = client.meta.events
    trie = getattr(events, "_emitter", events)._handlers  # noqa: SLF001 - there is no public way
    mapping = client.meta.method_to_api_mapping
    choices = {tuple(map(id, trie.prefix_search(f"choose-signer.s3.{mapping[name]}"))) for name in METHODS}
    if len(choices) > 1:
        return "operations are signed in different ways"
    for name in _ENTRANCES:
        if name in vars(client) or not isinstance(getattr(type(client), name, None), FunctionType):
            return f"the client's {name} is wrapped"
    return ""


_ENTRANCES = ("_make_api_call", "_make_request", *METHODS)


def _of_connections(client: Any) -> str:
    from aiobotocore.httpsession import AIOHTTPSession

    from magicfs.stores.s3.client import is_session_class

    config = client.meta.config
    session = client._endpoint.http_session  # noqa: SLF001 - there is no public way
    if type(session) is not AIOHTTPSession and not is_session_class(type(session)):
        return f"connections are those of {type(session).__name__}"
    if others := sorted(set(config.connector_args or ()) - _CONNECTOR_ARGUMENTS):
        return f"connections are made with {', '.join(others)}"
    if config.proxies_config:
        return "proxies are used with settings of their own"
    timeouts = (config.connect_timeout, config.read_timeout)
    if not all(isinstance(timeout, int | float) for timeout in timeouts):
        return "a timeout is no number of seconds"
    return ""


def _of_arguments(arguments: Mapping[str, Any]) -> str:
    if others := sorted(
        name
        for name in arguments
        if name in _NOT_FOR_ALL or (name.startswith("Checksum") and name != "ChecksumAlgorithm")
    ):
        return f"all requests are given {', '.join(others)}"
    algorithm = arguments.get("ChecksumAlgorithm")
    if algorithm is not None and algorithm not in ALGORITHMS:
        return f"checksums are made by {algorithm}"
    return ""
