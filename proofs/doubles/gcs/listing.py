"""Pages of a listing of objects."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from proofs.doubles.gcs.content import Bucket
from proofs.doubles.gcs.wire import Refusal, Request

__all__ = ["objects_page"]

_PAGE_MAX = 1000


def objects_page(bucket: Bucket, request: Request) -> dict[str, Any]:
    """The answer to ``objects.list``: objects and prefixes in the order of their bytes, page by page."""
    size = min(request.number("maxResults", _PAGE_MAX), _PAGE_MAX)
    after = _decoded(request.query["pageToken"]) if request.query.get("pageToken") else None
    items: list[dict[str, Any]] = []
    prefixes: list[str] = []
    last = ""
    for mark, name in _marks(bucket, request):
        if after is not None and mark <= after.encode():
            continue
        if len(items) + len(prefixes) == size:
            token = base64.urlsafe_b64encode(last.encode()).decode()
            return _page(items, prefixes) | {"nextPageToken": token}
        last = mark.decode()
        if name is None:
            prefixes.append(last)
        else:
            items.append(bucket.objects[name].described(bucket.name, request.base_url))
    return _page(items, prefixes)


def _marks(bucket: Bucket, request: Request) -> Iterator[tuple[bytes, str | None]]:
    """What is listed, in order: the place of an entry, and its name unless it is a prefix."""
    prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
    start, end = request.query.get("startOffset", ""), request.query.get("endOffset", "")
    found: dict[bytes, str | None] = {}
    for name in bucket.objects:
        if not name.startswith(prefix) or name < start or (end and name >= end):
            continue
        cut = name.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            found[name.encode()] = name
            continue
        found.setdefault(name[: cut + len(delimiter)].encode(), None)
        if request.query.get("includeTrailingDelimiter") == "true" and name.endswith(delimiter):
            found[name.encode()] = name
    if request.query.get("includeFoldersAsPrefixes") == "true" and delimiter == "/":
        for folder in bucket.folders:
            if folder.startswith(prefix) and len(folder) > len(prefix):
                found.setdefault(folder[: folder.find("/", len(prefix)) + 1].encode(), None)
    return iter(sorted(found.items()))


def _page(items: list[dict[str, Any]], prefixes: list[str]) -> dict[str, Any]:
    page: dict[str, Any] = {"kind": "storage#objects"}
    if items:
        page["items"] = items
    if prefixes:
        page["prefixes"] = prefixes
    return page


def _decoded(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, UnicodeError):
        raise Refusal(400, "invalid", f"Invalid page token: {token}") from None
