"""What a bucket with a soft-delete policy keeps of objects that were deleted or written over.

It follows "Soft delete" and "Use soft-deleted objects" of Google's documentation: no listing and no read
shows such an object, unless ``softDeleted=true`` asks for it.
"""

from __future__ import annotations

from typing import Any

from proofs.doubles.gcs.content import Bucket, Content, SoftDeleted, timestamp
from proofs.doubles.gcs.wire import Refusal, Request

__all__ = ["answer", "is_asked_for"]

_PAGE_MAX = 1000


def is_asked_for(request: Request) -> bool:
    """Whether a request is about objects that were deleted."""
    return request.query.get("softDeleted", "").lower() == "true"


def answer(content: Content, bucket: Bucket, rest: list[str], request: Request) -> dict[str, Any]:
    """Answer a listing, a look at one object, or a restoration; ``rest`` follows the bucket's ``o``."""
    kept = [one for one in bucket.deleted if content.now() < one.until]
    match request.method, rest:
        case "GET", []:
            return _page(bucket, kept, request)
        case "GET", [name]:
            return _described(bucket, _found(bucket, kept, name, request), request)
        case "POST", [name, "restore"]:
            held = _found(bucket, kept, name, request).held
            made = content.write(
                bucket, name, held.body, held.resource, request.query, has_md5=bool(held.md5)
            )
            return made.described(bucket.name, request.base_url)
    raise Refusal(405, "methodNotAllowed", "Method not allowed")


def _found(bucket: Bucket, kept: list[SoftDeleted], name: str, request: Request) -> SoftDeleted:
    generation = request.query.get("generation")
    if generation is None:
        raise Refusal(400, "required", "A generation is required for soft-deleted objects.")
    for one in kept:
        if (one.held.name, str(one.held.generation)) == (name, generation):
            return one
    raise Refusal(404, "notFound", f"No such object: {bucket.name}/{name}", "NoSuchKey")


def _page(bucket: Bucket, kept: list[SoftDeleted], request: Request) -> dict[str, Any]:
    prefix, start = request.query.get("prefix", ""), int(request.query.get("pageToken") or 0)
    size = min(request.number("maxResults", _PAGE_MAX), _PAGE_MAX)
    found = [one for one in kept if one.held.name.startswith(prefix)]
    found.sort(key=lambda one: (one.held.name.encode(), one.held.generation))
    items = [_described(bucket, one, request) for one in found[start : start + size]]
    page: dict[str, Any] = {"kind": "storage#objects"} | ({"items": items} if items else {})
    return page | ({"nextPageToken": str(start + size)} if len(found) > start + size else {})


def _described(bucket: Bucket, one: SoftDeleted, request: Request) -> dict[str, Any]:
    times = {"softDeleteTime": timestamp(one.gone), "hardDeleteTime": timestamp(one.until)}
    return one.held.described(bucket.name, request.base_url) | times
