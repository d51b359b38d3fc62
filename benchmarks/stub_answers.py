"""What the stub answers: enough of S3 that clients and a job of magicfs believe it.

What a job writes about itself is kept, with the conditions of S3: objects below an element that begins with
``__magic`` or ``_magicfs``, and ``_SUCCESS``. Of all others nothing is kept: their parts and bodies are taken
and forgotten, and they are neither listed nor found.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from html import unescape
from urllib.parse import unquote, unquote_plus
from xml.sax.saxutils import escape

__all__ = ["Answer", "Content", "is_kept"]

_ETAG = '"0123456789abcdef0123456789abcdef"'
_DATE = "2026-01-01T00:00:00.000Z"
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_KEPT = re.compile(r"(?:^|/)(?:__magic[^/]*|_magicfs|_temporary)/|(?:^|/)_SUCCESS$")
_ENTRY = re.compile(r"<Object>(.*?)</Object>", re.DOTALL)
_PART = re.compile(r"<PartNumber>(\d+)</PartNumber>")
_PAGE = 1000


def is_kept(key: str) -> bool:
    """Whether the stub keeps an object of this key."""
    return _KEPT.search(key) is not None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. ``length`` stands for a body that a HEAD leaves out."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    length: int | None = None


@dataclass(frozen=True, slots=True)
class _Object:
    body: bytes
    etag: str
    headers: tuple[tuple[str, str], ...]  # that a reader gets back


@dataclass(slots=True)
class _Upload:
    key: str
    headers: tuple[tuple[str, str], ...]
    parts: dict[int, bytes] = field(default_factory=dict)  # of kept objects only


class _Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.answer = Answer(status, _xml("Error", f"<Code>{code}</Code><Message>{code}</Message>"))


class Content:
    """All that the stub knows. One bucket's name is as good as another's: they share their keys."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._objects: dict[str, _Object] = {}
        self._keys: list[str] = []  # the same, sorted
        self._uploads: dict[str, _Upload] = {}
        self._number = 0
        completed = f"<Location>/</Location><Bucket>b</Bucket><Key>k</Key><ETag>{escape(_ETAG)}</ETag>"
        self._completed = Answer(200, _xml("CompleteMultipartUploadResult", completed), _XML)
        self._taken = Answer(200, b"", (("ETag", _ETAG),))

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """The answer to a request; ``body`` is None where it was dropped on the way."""
        path, _, query = target.partition("?")
        key = path[1:].partition("/")[2]
        if "%" in key or "+" in key:
            key = unquote(key)
        try:
            if key:
                return self._on_object(method, key, query, headers, body)
            return self._on_bucket(method, query, body or b"")
        except _Refused as refused:
            return refused.answer

    # -- objects ---------------------------------------------------------------------------------------

    def _on_object(
        self, method: str, key: str, query: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        upload = _value(query, "uploadId") if "uploadId" in query else ""
        if upload and method == "PUT":
            self.counts["part"] += 1
            return self._part(upload, query, body)
        if upload and method == "POST":
            self.counts["complete of a record" if is_kept(key) else "complete"] += 1
            return self._complete(upload, key, headers, body or b"")
        if method == "POST" and "uploads" in query:
            self.counts["create"] += 1
            return self._create(key, headers)
        if upload and method == "DELETE":
            self.counts["abort"] += 1
            self._uploads.pop(upload, None)
            return Answer(204)
        if method == "PUT":
            self.counts["put"] += 1
            return self._put(key, headers, body)
        if method in {"GET", "HEAD"} and not upload:
            self.counts[method.lower()] += 1
            return self._get(key, headers, head=method == "HEAD")
        if method == "DELETE":
            self.counts["delete"] += 1
            return self._delete(key, headers.get("if-match"))
        self.counts["other"] += 1
        raise _Refused(501, "NotImplemented")

    def _create(self, key: str, headers: Mapping[str, str]) -> Answer:
        self._number += 1
        upload = f"stub-upload-{self._number:032d}"
        self._uploads[upload] = _Upload(key, _described(headers) if is_kept(key) else ())
        told = f"<Bucket>b</Bucket><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
        return Answer(200, _xml("InitiateMultipartUploadResult", told), _XML)

    def _part(self, upload: str, query: str, body: bytes | None) -> Answer:
        if body is None:
            return self._taken
        found = self._uploads.get(upload)
        if found is not None:
            found.parts[int(_value(query, "partNumber"))] = body
        return Answer(200, b"", (("ETag", f'"{hashlib.md5(body).hexdigest()}"'),))  # noqa: S324 - as S3 has it

    def _complete(self, upload: str, key: str, headers: Mapping[str, str], body: bytes) -> Answer:
        # An upload that was never created is completed as well: peers complete ids that they made up.
        if not is_kept(key):
            self._uploads.pop(upload, None)
            return self._completed
        found = self._uploads.get(upload)
        if found is None:
            raise _Refused(404, "NoSuchUpload")
        self._check(key, headers)
        numbers = [int(number) for number in _PART.findall(body.decode())]
        del self._uploads[upload]
        etag = self._keep(key, b"".join(found.parts[number] for number in numbers), found.headers)
        told = f"<Key>{escape(key)}</Key><ETag>{escape(etag)}</ETag>"
        return Answer(200, _xml("CompleteMultipartUploadResult", told), _XML)

    def _put(self, key: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        if "x-amz-copy-source" in headers:
            source = unquote(headers["x-amz-copy-source"]).lstrip("/").partition("/")[2]
            found = self._found(source)
            etag = self._keep(key, found.body, found.headers) if is_kept(key) else _ETAG
            told = f"<LastModified>{_DATE}</LastModified><ETag>{escape(etag)}</ETag>"
            return Answer(200, _xml("CopyObjectResult", told), _XML)
        if body is None:
            return self._taken
        self._check(key, headers)
        return Answer(200, b"", (("ETag", self._keep(key, body, _described(headers))),))

    def _get(self, key: str, headers: Mapping[str, str], *, head: bool) -> Answer:
        found = self._found(key)
        if headers.get("if-match", found.etag) != found.etag:
            raise _Refused(412, "PreconditionFailed")
        told = (("ETag", found.etag), ("Last-Modified", _MODIFIED), *found.headers)
        if head:
            return Answer(200, b"", told, len(found.body))
        if (span := re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))) is not None:
            first, last = int(span[1]), int(span[2] or len(found.body) - 1)
            part = found.body[first : last + 1]
            content = f"bytes {first}-{first + len(part) - 1}/{len(found.body)}"
            return Answer(206, part, (*told, ("Content-Range", content)))
        return Answer(200, found.body, told)

    def _delete(self, key: str, etag: str | None) -> Answer:
        if etag is not None and key in self._objects and self._objects[key].etag != etag:
            raise _Refused(412, "PreconditionFailed")
        self._forget(key)
        return Answer(204)

    # -- buckets ---------------------------------------------------------------------------------------

    def _on_bucket(self, method: str, query: str, body: bytes) -> Answer:
        given = dict(_pairs(query))
        if method == "POST" and "delete" in given:
            self.counts["bulk delete"] += 1
            return self._bulk_delete(body.decode())
        if method == "GET" and "uploads" in given:
            self.counts["list uploads"] += 1
            return self._list_uploads(given)
        if method == "GET" and "location" in given:
            return Answer(200, _xml("LocationConstraint", ""), _XML)
        if method == "GET" and ("list-type" in given or not given or "prefix" in given):
            self.counts["list"] += 1
            return self._list(given)
        if method in {"HEAD", "PUT"} and not given:
            return Answer()
        self.counts["other"] += 1
        raise _Refused(501, "NotImplemented")

    def _bulk_delete(self, text: str) -> Answer:
        told = []
        for entry in _ENTRY.findall(text):
            key = unescape(_element(entry, "Key") or "")
            etag = _element(entry, "ETag")
            try:
                self._delete(key, None if etag is None else unescape(etag))
            except _Refused as refused:
                told.append(f"<Error><Key>{escape(key)}</Key><Code>{refused}</Code></Error>")
        return Answer(200, _xml("DeleteResult", "".join(told)), _XML)

    def _list_uploads(self, given: Mapping[str, str]) -> Answer:
        prefix = given.get("prefix", "")
        after = (given.get("key-marker", ""), given.get("upload-id-marker", ""))
        # By S3's order; a key marker alone is past all uploads of its key.
        found = sorted(
            (upload.key, name) for name, upload in self._uploads.items() if upload.key.startswith(prefix)
        )
        found = [one for one in found if one > after and (after[1] or one[0] != after[0])]
        page = found[:_PAGE]
        told = [f"<IsTruncated>{str(len(found) > len(page)).lower()}</IsTruncated>"]
        if len(found) > len(page):
            told += [f"<NextKeyMarker>{escape(page[-1][0])}</NextKeyMarker>"]
            told += [f"<NextUploadIdMarker>{page[-1][1]}</NextUploadIdMarker>"]
        told += [
            f"<Upload><Key>{escape(key)}</Key><UploadId>{name}</UploadId><Initiated>{_DATE}</Initiated></Upload>"
            for key, name in page
        ]
        return Answer(200, _xml("ListMultipartUploadsResult", "".join(told)), _XML)

    def _list(self, given: Mapping[str, str]) -> Answer:
        prefix, delimiter = given.get("prefix", ""), given.get("delimiter", "")
        most = min(int(given.get("max-keys", _PAGE)), _PAGE)
        after = given.get("continuation-token") or given.get("start-after") or given.get("marker", "")
        told: list[str] = []
        place = bisect_left(self._keys, max(prefix, f"{after}\0" if after else ""))
        last = ""
        while place < len(self._keys) and self._keys[place].startswith(prefix) and len(told) < most:
            key = self._keys[place]
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end >= 0:
                last = key[: end + len(delimiter)] + "\U0010ffff"
                told.append(f"<CommonPrefixes><Prefix>{escape(key[: end + 1])}</Prefix></CommonPrefixes>")
                place = bisect_left(self._keys, last)
                continue
            one = self._objects[key]
            told.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{_DATE}</LastModified>"
                f"<ETag>{escape(one.etag)}</ETag><Size>{len(one.body)}</Size></Contents>"
            )
            last = key
            place += 1
        more = place < len(self._keys) and self._keys[place].startswith(prefix)
        head = f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(told)}</KeyCount><MaxKeys>{most}</MaxKeys>"
        head += f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        head += f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
        return Answer(200, _xml("ListBucketResult", head + "".join(told)), _XML)

    # -- what is kept ----------------------------------------------------------------------------------

    def _found(self, key: str) -> _Object:
        if key not in self._objects:
            raise _Refused(404, "NoSuchKey")
        return self._objects[key]

    def _check(self, key: str, headers: Mapping[str, str]) -> None:
        found = self._objects.get(key)
        if headers.get("if-none-match") == "*" and found is not None:
            raise _Refused(412, "PreconditionFailed")
        if (etag := headers.get("if-match")) is not None:
            if found is None:
                raise _Refused(404, "NoSuchKey")
            if found.etag != etag:
                raise _Refused(412, "PreconditionFailed")

    def _keep(self, key: str, body: bytes, headers: tuple[tuple[str, str], ...]) -> str:
        if key not in self._objects:
            insort(self._keys, key)
        etag = f'"{hashlib.md5(body).hexdigest()}"'  # noqa: S324 - as S3 has it
        self._objects[key] = _Object(body, etag, headers)
        return etag

    def _forget(self, key: str) -> None:
        if self._objects.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]


_XML = (("Content-Type", "application/xml"),)
_MODIFIED = formatdate(1_767_225_600, usegmt=True)


def _xml(name: str, content: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{name} {_NAMESPACE}>{content}</{name}>'.encode()


def _element(text: str, name: str) -> str | None:
    found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return None if found is None else found[1]


def _described(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value)
        for name, value in headers.items()
        if name.startswith("x-amz-meta-") or name in {"content-type", "content-encoding", "cache-control"}
    )


def _pairs(query: str) -> list[tuple[str, str]]:
    pairs = (one.partition("=") for one in query.split("&") if one)
    return [(name, unquote_plus(value)) for name, _, value in pairs]


def _value(query: str, name: str) -> str:
    for pair in query.split("&"):
        if pair.startswith(f"{name}="):
            return unquote(pair[len(name) + 1 :])
    return ""
