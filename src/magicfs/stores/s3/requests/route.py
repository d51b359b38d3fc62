"""Where requests about a bucket go, and how they are signed: asked of botocore, without sending anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from magicfs.stores.s3.http import Address
from magicfs.stores.s3.requests.signature import Header, Scope

__all__ = ["Route", "handlers_of", "region_caches", "route_to"]

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
