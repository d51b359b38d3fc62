"""Requests to a bucket of S3 that a client of aiobotocore sends."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from magicfs.stores import object_settings
from magicfs.stores.port import PartBody
from magicfs.stores.s3_requests.line import counts

if TYPE_CHECKING:
    from s3fs import S3FileSystem

__all__ = ["ask"]


async def ask(
    filesystem: S3FileSystem,
    client: Any,
    method: str,
    made: Mapping[str, Any],
    given: dict[str, Any],
    size_max: int | None = None,
) -> dict[str, Any]:
    """Make a request by a method of the client; see ``OwnRequests.ask``."""
    function = getattr(client, method)
    if "Body" in given:
        given["Body"] = _seekable(given["Body"])
    # The filesystem's own defaults (checksums, requester pays) too, if the method knows them.
    every = {**filesystem.s3_additional_kwargs, **filesystem.req_kw, **made, **given}
    foreign = object_settings.foreign(made.keys() | given.keys())
    model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method])
    known = {
        name: value
        for name, value in every.items()
        if name in model.input_shape.members and name not in foreign and value is not None
    }
    counts["aiobotocore"] += 1
    answer: dict[str, Any] = await function(**known)
    if method == "get_object":
        # Not "as": aiobotocore before 3 gives aiohttp's response there, which reads no part of itself.
        async with answer["Body"]:
            answer["Body"] = await _read(answer["Body"], size_max)
    return answer


async def _read(stream: Any, size_max: int | None) -> bytes:
    if size_max is None:
        whole: bytes = await stream.read()
        return whole
    chunks, left = [], size_max
    while left and (chunk := await stream.read(left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _seekable(body: PartBody) -> io.BytesIO:
    # aiohttp warns about large bare bytes, and botocore must be able to read a body again to retry it. A
    # BytesIO made of bytes shares their memory until aiohttp asks for its buffer, which copies it.
    if isinstance(body, io.BytesIO):
        body.seek(0)
        return body
    return io.BytesIO(body)
