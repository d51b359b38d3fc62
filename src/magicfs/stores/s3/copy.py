"""Copying on the side of S3: whole in one request, or in parts where the object is too large for one.

User metadata and the headers that describe the content come along either way. So do settings that the store
was told of its objects; other tags come along only in one request.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from magicfs.errors import MagicError, PreconditionFailed, Unavailable, UploadNotFound
from magicfs.protocol.file_options import DESCRIPTION
from magicfs.protocol.parts import COPY_MAX, COPY_PART
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import Capabilities, Part, PutMode, Update
from magicfs.stores.s3 import checksums

_Members: TypeAlias = Mapping[str, Any]
_CONCURRENCY = 8
_ENCRYPTION = ("SSECustomerAlgorithm", "SSECustomerKey", "SSECustomerKeyMD5")


class Requests(Protocol):
    """How ``S3Store`` makes requests; see there."""

    bucket: str
    capabilities: Capabilities

    async def call(
        self, method: str, operation: str, key: str | None, about: str = "", /, **kwargs: Any
    ) -> Any:
        """Make a request to the client by the name of its method."""


async def copy(
    store: Requests, source: str, destination: str, defaults: _Members, etag: str, mode: PutMode | Update
) -> int:
    """Copy an object; see ``Store.copy``.

    One HEAD, and one CopyObject. Above ``COPY_MAX`` a multipart upload of copied parts, which is
    aborted if it fails; until then it is listed under the destination. ``defaults`` is what the store sends
    with every request.
    """
    head = await store.call("head_object", "copy", source)
    size = int(head["ContentLength"])
    if etag not in {"", head["ETag"]}:
        raise PreconditionFailed("copy", f"{store.bucket}/{source}", f"no object of ETag {etag} is there")
    if source == destination:  # S3 refuses it
        return size
    # Botocore makes the header of it, percent-encoded.
    origin = {
        "CopySource": {"Bucket": store.bucket, "Key": source},
        "CopySourceIfMatch": head["ETag"],
        **encryption_of_source(defaults),
    }
    condition = condition_of(mode)
    try:
        if size <= COPY_MAX:
            answer = await store.call("copy_object", "copy", destination, **origin, **condition)
            believed(store, answer.get("CopyObjectResult"), destination)
        else:
            await _in_parts(store, head, destination, origin, condition)
    except PreconditionFailed as error:
        if condition:
            raise
        problem = f"the source was replaced during the copy ({error.problem})"
        raise Unavailable("copy", f"{store.bucket}/{source}", problem, hint="copy it again") from error
    except UploadNotFound as error:
        problem = f"the copy's own upload was aborted ({error.problem})"
        raise Unavailable("copy", error.key, problem, hint="copy it again") from error
    return size


async def _in_parts(
    store: Requests, head: _Members, destination: str, origin: _Members, condition: _Members
) -> None:
    size = int(head["ContentLength"])
    step = max(COPY_PART, -(-size // store.capabilities.parts.count_max))
    described = {name: head[name] for name in DESCRIPTION if name in head}
    metadata = head.get("Metadata", {})
    opened = await store.call("create_multipart_upload", "copy", destination, Metadata=metadata, **described)
    upload = {"UploadId": opened["UploadId"]}

    async def part(number: int) -> Part:
        first = (number - 1) * step
        span = {"CopySourceRange": f"bytes={first}-{min(first + step, size) - 1}"}
        return await copied_part(store, "copy", destination, number, **span, **upload, **origin)

    try:
        parts = await gathered(range(1, -(-size // step) + 1), part, _CONCURRENCY)
        listed = [completed_part(part) for part in sorted(parts, key=lambda part: part.number)]
        complete = {"MultipartUpload": {"Parts": listed}, **upload, **condition}
        await store.call("complete_multipart_upload", "copy", destination, **complete)
    except BaseException:
        # What cannot be aborted now is found by its key, as every pending upload is.
        with contextlib.suppress(MagicError):
            await store.call("abort_multipart_upload", "copy", destination, **upload)
        raise


def condition_of(mode: PutMode | Update) -> dict[str, str]:
    """What a write requires of the object that it replaces."""
    if isinstance(mode, Update):
        return {"IfMatch": mode.etag}
    return {"IfNoneMatch": "*"} if mode is PutMode.CREATE else {}


async def copied_part(store: Requests, operation: str, key: str, number: int, **asked: Any) -> Part:
    """A part of an upload that is copied."""
    answer = await store.call("upload_part_copy", operation, key, PartNumber=number, **asked)
    copied = believed(store, answer.get("CopyPartResult"), key)
    return Part(number, str(copied["ETag"]), checksums.of_part(store.capabilities.checksums, copied))


def encryption_of_source(defaults: _Members) -> dict[str, Any]:
    """The customer's key of what is copied, which is that of all objects."""
    return {f"CopySource{name}": defaults[name] for name in _ENCRYPTION if name in defaults}


def completed_part(part: Part) -> dict[str, Any]:
    """A part as CompleteMultipartUpload names it."""
    plain = {"PartNumber": part.number, "ETag": part.etag}
    return plain | {f"Checksum{part.checksum[0]}": part.checksum[1]} if part.checksum else plain


def believed(store: Requests, result: _Members | None, destination: str) -> _Members:
    """An answer of 200 begins before the copying, and may end with nothing; botocore finds errors in it."""
    if not result or not result.get("ETag"):
        problem = "the answer does not confirm the copy"
        raise Unavailable("copy", f"{store.bucket}/{destination}", problem)
    return result
