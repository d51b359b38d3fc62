"""``objects.insert`` of the JSON API: in one request, with metadata, or by a resumable session."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from proofs.doubles.gcs.content import Bucket, Content, check_conditions, checked
from proofs.doubles.gcs.wire import Answer, Refusal, Request, json_answer

__all__ = ["Inserts"]

_UNIT = 256 * 1024  # a chunk that is not the last is kept in whole units
_LIFETIME_S = 7 * 24 * 3600
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(slots=True)
class _Session:
    bucket: Bucket
    name: str
    resource: dict[str, Any]
    conditions: dict[str, str]
    begun: float
    body: bytearray = field(default_factory=bytearray)
    answer: Answer | None = None
    is_cancelled: bool = False


class Inserts:
    """All ways to upload by the JSON API."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._sessions: dict[str, _Session] = {}

    def answer(self, request: Request) -> Answer:
        """Answer a request below ``/upload/``."""
        if "upload_id" in request.query:
            return self._chunk(request)
        # /upload/storage/v1/b/BUCKET/o
        bucket = self._content.bucket(request.elements[4])
        match request.query.get("uploadType"):
            case "media":
                resource = {"contentType": request.headers.get("content-type")}
                return self._insert(bucket, request, resource, request.body)
            case "multipart":
                resource, body = _parts(request)
                return self._insert(bucket, request, resource, body)
            case "resumable" if request.method == "POST":
                return self._begin(bucket, request)
            case other:
                raise Refusal(400, "invalid", f"Invalid upload type: {other}")

    def _insert(self, bucket: Bucket, request: Request, resource: Mapping[str, Any], body: bytes) -> Answer:
        name = str(resource.get("name") or request.query.get("name", ""))
        checked(resource, body)
        made = self._content.write(bucket, name, body, resource, request.query)
        return json_answer(made.described(bucket.name, request.base_url))

    def _begin(self, bucket: Bucket, request: Request) -> Answer:
        resource = request.document()
        name = str(resource.get("name") or request.query.get("name", ""))
        resource.setdefault("contentType", request.headers.get("x-upload-content-type"))
        conditions = {key: value for key, value in request.query.items() if key.startswith("if")}
        check_conditions(conditions, bucket.objects.get(name))
        word = secrets.token_hex(16)
        self._sessions[word] = _Session(bucket, name, resource, conditions, self._content.now())
        location = (
            f"{request.base_url}/upload/storage/v1/b/{quote(bucket.name)}/o"
            f"?uploadType=resumable&name={quote(name, safe='')}&upload_id={word}"
        )
        return Answer(200, headers={"Location": location, "X-GUploader-UploadID": word})

    def _chunk(self, request: Request) -> Answer:
        session = self._sessions.get(request.query["upload_id"])
        if session is None:
            raise Refusal(404, "notFound", "The requested upload session was not found.")
        if session.is_cancelled or request.method == "DELETE":
            session.is_cancelled = True
            return Answer(499)
        if self._content.now() > session.begun + _LIFETIME_S:
            raise Refusal(410, "gone", "The upload session has expired.")
        if session.answer is not None:
            return session.answer
        total = _received(session, request)
        if total != len(session.body):
            kept = {"Range": f"bytes=0-{len(session.body) - 1}"} if session.body else {}
            return Answer(308, headers=kept)
        body = bytes(session.body)
        checked(session.resource, body)
        made = self._content.write(session.bucket, session.name, body, session.resource, session.conditions)
        session.answer = json_answer(made.described(session.bucket.name, request.base_url))
        return session.answer


def _received(session: _Session, request: Request) -> int | None:
    """Keep what a request brings; the length of the whole if the request names it."""
    body = request.body
    whole = f"bytes 0-{len(body) - 1}/{len(body)}" if body else "bytes */0"
    told = _CONTENT_RANGE.fullmatch(request.headers.get("content-range", whole))
    if told is None:
        raise Refusal(400, "invalid", "Invalid Content-Range")
    first, last, length = told.groups()
    total = None if length == "*" else int(length)
    if first is None:
        return total
    if int(last) - int(first) + 1 != len(body):
        raise Refusal(400, "invalid", "Content-Range does not match the length of the body")
    if int(first) > len(session.body):
        raise Refusal(503, "backendError", "Bytes before this chunk are missing")
    session.body += body[len(session.body) - int(first) :]
    if total != len(session.body):
        del session.body[len(session.body) // _UNIT * _UNIT :]
    return total


def _parts(request: Request) -> tuple[dict[str, Any], bytes]:
    """The object resource and the body of a ``multipart/related`` request."""
    told = re.search(r"""boundary=["']?([^"';]+)""", request.headers.get("content-type", ""))
    if told is None:
        raise Refusal(400, "badContent", "The boundary of the parts is missing")
    mark = b"--" + told[1].encode()
    pieces = request.body.split(mark, 2)
    if len(pieces) != 3 or not pieces[2].rstrip().endswith(mark + b"--"):
        raise Refusal(400, "badContent", "Two parts are needed")
    newline = b"\r\n" if pieces[1].startswith(b"\r\n") else b"\n"
    _, found, document = pieces[1].partition(newline * 2)
    head, also_found, rest = pieces[2].partition(newline * 2)
    if not (found and also_found):
        raise Refusal(400, "badContent", "A part has no headers")
    body = rest[: rest.rindex(newline + mark)] if newline + mark in rest else b""
    resource: dict[str, Any] = json.loads(document)
    kind = re.search(rb"(?i)content-type: *([^\r\n]+)", head)
    if kind is not None:
        resource.setdefault("contentType", kind[1].decode())
    return resource, body
