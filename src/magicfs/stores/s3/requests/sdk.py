"""Requests to a bucket of S3 that a client of aiobotocore sends."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from magicfs.stores import object_settings
from magicfs.stores.answer_rules import DOCUMENT_BYTES_MAX, NOT_READ, WORK_S, Malformed, deadline_s, words
from magicfs.stores.bounded_response import at_most, read
from magicfs.stores.port import PartBody
from magicfs.stores.s3.requests.answer import root_names
from magicfs.stores.s3.requests.line import counts

if TYPE_CHECKING:
    from s3fs import S3FileSystem

__all__ = ["ask", "expected_roots"]

_WORKS = frozenset({"complete_multipart_upload", "copy_object", "upload_part_copy"})
_root: ContextVar[tuple[str, ...] | None] = ContextVar("magicfs_expected_root", default=None)


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
    silence_s = float(client.meta.config.read_timeout or 0)
    # More of an object comes than is read of it where a server does not know ranges.
    most = sys.maxsize if method == "get_object" else DOCUMENT_BYTES_MAX
    with at_most(most, silence_s, _head_s(silence_s, method, given)):
        answer = await _answer(function, method, known)
    if method == "get_object":
        read_max = sys.maxsize if size_max is None else size_max
        # Not "as": aiobotocore before 3 gives aiohttp's response there, which reads no part of itself.
        async with answer["Body"]:
            answer["Body"] = await read(answer["Body"], read_max, silence_s)
    return answer


async def _answer(function: Any, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    names = root_names("".join(part.title() for part in method.split("_")))
    expected = (*names, "Error") if names else ()
    token = _root.set(None if method == "get_object" else expected)
    try:
        answer: dict[str, Any] = await function(**arguments)
    except (*NOT_READ, RuntimeError) as error:
        raise Malformed(f"it cannot be read: {type(error).__name__}: {words(error)}") from error
    finally:
        _root.reset(token)
    return answer


def expected_roots() -> tuple[str, ...] | None:
    """What the document may be called that answers the request that is being sent: nothing where there must
    be none, None where anything may come.
    """
    return _root.get()


def _head_s(silence_s: float, method: str, given: Mapping[str, Any]) -> float:
    body = given.get("Body")
    work = WORK_S if method in _WORKS else 0.0
    return work + deadline_s(silence_s, body.getbuffer().nbytes if body is not None else 0)


def _seekable(body: PartBody) -> io.BytesIO:
    # aiohttp warns about large bare bytes, and botocore must be able to read a body again to retry it. A
    # BytesIO made of bytes shares their memory until aiohttp asks for its buffer, which copies it.
    if isinstance(body, io.BytesIO):
        body.seek(0)
        return body
    return io.BytesIO(body)
