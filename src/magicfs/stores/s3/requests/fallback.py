"""The rule when requests to S3 are left to aiobotocore. ``docs/s3.md`` tells users the same.

Our own requests do what botocore's do by default; whatever asks for more, or for something that was not
compared with botocore's, is left to it. The rule is asked once for a filesystem and a bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import FunctionType
from typing import Any

from magicfs.stores.s3.requests.checksum import ALGORITHMS
from magicfs.stores.s3.requests.route import Route, handlers_of

__all__ = ["METHODS", "reason_against"]

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
