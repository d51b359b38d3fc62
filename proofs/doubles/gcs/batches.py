"""Many calls of the JSON API in one request; each has an answer of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus

from proofs.doubles.gcs.wire import Answer, Refusal, Request

__all__ = ["answer"]

_CALLS_MAX = 100
_BOUNDARY = "batch_magicfs_double"


def answer(request: Request, call: Callable[[Request], Answer]) -> Answer:
    """Answer a request to ``/batch/storage/v1``."""
    told = re.search(r"""boundary=["']?([^"';]+)""", request.headers.get("content-type", ""))
    if told is None:
        raise Refusal(400, "badRequest", "The boundary of the calls is missing")
    pieces = request.body.split(b"--" + told[1].encode())[1:-1]
    if not 0 < len(pieces) <= _CALLS_MAX:
        raise Refusal(400, "badRequest", f"A batch has 1 to {_CALLS_MAX} calls")
    told_of_all = []
    for piece in pieces:
        text = piece.decode().replace("\r\n", "\n").lstrip("\n")
        envelope, _, inner = text.partition("\n\n")
        line, _, rest = inner.partition("\n")
        head, _, body = rest.partition("\n\n")
        given = line.split(" ")
        if len(given) < 2:
            raise Refusal(400, "badRequest", "A call has no request line")
        target = re.sub(r"^https?://[^/]+", "", given[1])
        inner_request = Request.of(
            given[0], target, _headers(head) | _credentials(request), body.strip().encode(), request.base_url
        )
        told_of_all.append(_part(_headers(envelope).get("content-id", ""), call(inner_request)))
    closing = f"--{_BOUNDARY}--\r\n".encode()
    headers = {"Content-Type": f"multipart/mixed; boundary={_BOUNDARY}"}
    return Answer(200, b"".join(told_of_all) + closing, headers)


def _part(number: str, one: Answer) -> bytes:
    reason = HTTPStatus(one.status).phrase
    head = "".join(f"{name}: {value}\r\n" for name, value in one.headers.items())
    envelope = (
        f"--{_BOUNDARY}\r\nContent-Type: application/http\r\n"
        f"Content-ID: <response-{number.strip('<>')}>\r\n\r\n"
        f"HTTP/1.1 {one.status} {reason}\r\n{head}Content-Length: {len(one.body)}\r\n\r\n"
    )
    return envelope.encode() + one.body + b"\r\n"


def _headers(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.split("\n") if ":" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _credentials(request: Request) -> dict[str, str]:
    told = request.headers.get("authorization")
    return {} if told is None else {"authorization": told}
