"""Bodies of objects, whole or in ranges."""

from __future__ import annotations

import re
from email.utils import formatdate
from urllib.parse import quote

from proofs.doubles.gcs.content import StoredObject, crc32c_of
from proofs.doubles.gcs.wire import Answer, Refusal, Request

__all__ = ["media"]

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def media(held: StoredObject, request: Request) -> Answer:
    """The body, or the range that the request asks for, with the headers of both APIs."""
    resource = held.resource
    hashes = [f"crc32c={crc32c_of(held.body)}"] + ([f"md5={held.md5}"] if held.md5 else [])
    headers = {
        "Content-Type": resource["contentType"],
        "Last-Modified": formatdate(held.updated or held.created, usegmt=True),
        "ETag": f'"{held.generation}"',
        "X-Goog-Generation": str(held.generation),
        "X-Goog-Metageneration": str(held.metageneration),
        "X-Goog-Hash": ",".join(hashes),
        "X-Goog-Stored-Content-Length": str(len(held.body)),
        "X-Goog-Stored-Content-Encoding": resource.get("contentEncoding", "identity"),
        "Accept-Ranges": "bytes",
    }
    for name, value in resource.get("metadata", {}).items():
        headers[f"x-goog-meta-{quote(name)}"] = quote(value, safe=" !\"#$%&'()*+,/:;<=>?@[\\]^_`{|}~")
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None or asked.groups() == ("", ""):
        return Answer(200, held.body, headers)
    size = len(held.body)
    first, last = asked.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if start >= size:
        raise Refusal(416, "requestedRangeNotSatisfiable", "Request range not satisfiable", "InvalidRange")
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return Answer(206, held.body[start:end], headers)
