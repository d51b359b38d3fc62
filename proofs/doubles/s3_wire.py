"""S3's HTTP in one process: an ``S3Store`` whose requests are answered from another store.

What an ``S3Store`` sends is written, signed and read as always, but goes over no connection; no clock and no
thread is in it, so it runs in virtual time.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
    Unsupported,
    UploadNotFound,
)
from magicfs.stores.port import Part, PutMode, Store, Update
from magicfs.stores.s3.http import Address, Answer
from magicfs.stores.s3.requests.line import Line
from magicfs.stores.s3.requests.route import Route
from magicfs.stores.s3.requests.signature import Credentials, Scope
from magicfs.stores.s3.store import S3Store
from magicfs.testing.s3_operations import s3_operation

__all__ = ["S3Wire", "over_wire"]

_HOST: Final = "wire"
_META: Final = "x-amz-meta-"
_DESCRIPTION: Final[Mapping[str, str]] = {
    "CacheControl": "cache-control",
    "ContentDisposition": "content-disposition",
    "ContentEncoding": "content-encoding",
    "ContentLanguage": "content-language",
    "ContentType": "content-type",
    "Expires": "expires",
    "WebsiteRedirectLocation": "x-amz-website-redirect-location",
}
_REFUSALS: Final[Sequence[tuple[type[StoreError], int, str]]] = (
    (UploadNotFound, 404, "NoSuchUpload"),
    (ObjectNotFound, 404, "NoSuchKey"),
    (ObjectExists, 412, "PreconditionFailed"),
    (PreconditionFailed, 412, "PreconditionFailed"),
    (PermissionDenied, 403, "AccessDenied"),
    (Unsupported, 501, "NotImplemented"),
    (Unavailable, 503, "ServiceUnavailable"),
    (StoreError, 400, "InvalidRequest"),
)


class _Asked(NamedTuple):
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def metadata(self) -> dict[str, str]:
        return {n.removeprefix(_META): v for n, v in self.headers.items() if n.startswith(_META)}


class _Key(NamedTuple):
    access_key: str
    secret_key: str
    token: str | None


def over_wire(inner: Store, clock: Callable[[], float] | None = None) -> S3Store:
    """An ``S3Store`` of the same bucket, whose requests another store answers.

    ``clock`` dates its signatures; without one they are of no certain time.
    """
    filesystem = SimpleNamespace(
        s3_additional_kwargs={},
        req_kw={},
        fixed_upload_size=False,
        endpoint_url=f"http://{_HOST}",
        client_kwargs={},
        config_kwargs={},
        asynchronous=False,
        kwargs={},
    )
    route = Route(Address("http", _HOST, 80), _HOST, f"/{inner.bucket}", Scope("us-east-1", "s3"))

    async def credentials() -> Credentials:
        return _Key("AKIA", "secret", None)

    async def elsewhere(region: str) -> Route:
        raise AssertionError(f"nothing is in region {region}")

    line = Line(
        route=route,
        transport=S3Wire(inner),
        credentials=credentials,
        agent="magicfs",
        model=_model().operation_model,
        elsewhere=elsewhere,
        clock=clock or (lambda: 0.0),
    )
    made = S3Store(filesystem, inner.bucket, line=line)
    made.capabilities = inner.capabilities
    return made


@functools.cache
def _model() -> Any:
    import botocore.session

    return botocore.session.get_session().get_service_model("s3")


class S3Wire:
    """Answers requests to one bucket from a store.

    It knows the requests that an ``S3Store`` makes. Signatures are looked for and not checked.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._doers = {
            "CreateMultipartUpload": self._create,
            "UploadPart": self._part,
            "CompleteMultipartUpload": self._complete,
            "AbortMultipartUpload": self._abort,
            "ListMultipartUploads": self._uploads,
            "PutObject": self._put,
            "GetObject": self._get,
            "HeadObject": self._head,
            "CopyObject": self._copy,
            "ListObjectsV2": self._list,
            "DeleteObject": self._delete,
            "DeleteObjects": self._delete_all,
        }

    async def ask(
        self,
        address: Address,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: Any = b"",
        *,
        size_max: int | None = None,
        patience_s: float = 0.0,  # noqa: ARG002 - it answers at once
    ) -> Answer:
        """Answer a request, as ``HttpClient.ask`` does."""
        path, _, query = target.partition("?")
        named = {name.lower(): value for name, value in headers}
        if address.host != _HOST or "authorization" not in named:
            return _error(403, "AccessDenied", "the request is not signed")
        bucket, _, key = path.removeprefix("/").partition("/")
        if bucket != self._inner.bucket:
            return _error(404, "NoSuchBucket", "no such bucket")
        doer = self._doers.get(operation := s3_operation(method, path, query, named))
        if doer is None:
            return _error(501, "NotImplemented", f"{operation} is not known")
        asked = _Asked(
            unquote(key), dict(parse_qsl(query, keep_blank_values=True)), named, bytes(memoryview(body))
        )
        try:
            answer = await doer(asked)
        except StoreError as error:
            status, code = next((s, c) for kind, s, c in _REFUSALS if isinstance(error, kind))
            of_bucket = code == "NoSuchKey" and error.problem.startswith("no bucket")
            answer = _error(status, "NoSuchBucket" if of_bucket else code, error.problem)
        if method == "HEAD":
            return Answer(answer.status, answer.headers, b"")
        return Answer(answer.status, answer.headers, answer.body[:size_max])

    async def _create(self, asked: _Asked) -> Answer:
        described = {n: asked.headers[h] for n, h in _DESCRIPTION.items() if h in asked.headers}
        upload = await self._inner.create_upload(asked.key, metadata=asked.metadata, options=described)
        return _document("InitiateMultipartUploadResult", _element("UploadId", upload))

    async def _part(self, asked: _Asked) -> Answer:
        number = int(asked.query["partNumber"])
        part = await self._inner.put_part(asked.key, asked.query["uploadId"], number, asked.body)
        return Answer(200, {"etag": part.etag}, b"")

    async def _complete(self, asked: _Asked) -> Answer:
        parts = [
            Part(int(part["PartNumber"]), part["ETag"])
            for part in map(_texts, ET.fromstring(asked.body))  # noqa: S314 - of our own store
        ]
        info = await self._inner.complete_upload(
            asked.key, asked.query["uploadId"], parts, if_absent=asked.headers.get("if-none-match") == "*"
        )
        return _document("CompleteMultipartUploadResult", _element("ETag", info.etag))

    async def _abort(self, asked: _Asked) -> Answer:
        await self._inner.abort_upload(asked.key, asked.query["uploadId"])
        return Answer(204, {}, b"")

    async def _put(self, asked: _Asked) -> Answer:
        info = await self._inner.put(asked.key, asked.body, metadata=asked.metadata, mode=_mode(asked))
        return Answer(200, {"etag": info.etag}, b"")

    async def _head(self, asked: _Asked) -> Answer:
        info = await self._inner.head(asked.key)
        told = {"etag": info.etag, "content-length": str(info.size)}
        if info.modified is not None:
            told["last-modified"] = formatdate(info.modified, usegmt=True)
        told |= {_DESCRIPTION[name]: str(value) for name, value in info.description.items()}
        return Answer(200, told | {f"{_META}{n}": v for n, v in info.metadata.items()}, b"")

    async def _get(self, asked: _Asked) -> Answer:
        head = await self._head(asked)
        if (etag := asked.headers.get("if-match", head.headers["etag"])) != head.headers["etag"]:
            return _error(412, "PreconditionFailed", "another object is there")
        if (span := asked.headers.get("range")) is None:
            return Answer(200, head.headers, await self._inner.get(asked.key))
        first, _, last = span.removeprefix("bytes=").partition("-")
        size = int(last) - int(first) + 1
        body = await self._inner.get_range(asked.key, int(first), size, etag=etag)
        given = f"bytes {first}-{int(first) + len(body) - 1}/{head.headers['content-length']}"
        return Answer(206, {**head.headers, "content-length": str(len(body)), "content-range": given}, body)

    async def _copy(self, asked: _Asked) -> Answer:
        _, _, source = unquote(asked.headers["x-amz-copy-source"]).partition("/")
        info = await self._inner.head(source)
        if info.etag != asked.headers.get("x-amz-copy-source-if-match", info.etag):
            return _error(412, "PreconditionFailed", "another object is there")
        await self._inner.copy(source, asked.key, mode=_mode(asked))
        return _document("CopyObjectResult", _element("ETag", (await self._inner.head(asked.key)).etag))

    async def _delete(self, asked: _Asked) -> Answer:
        if (etag := asked.headers.get("if-match")) is None:
            await self._inner.delete([asked.key])
        else:
            await self._inner.delete_matching(asked.key, etag)
        return Answer(204, {}, b"")

    async def _delete_all(self, asked: _Asked) -> Answer:
        root = ET.fromstring(asked.body)  # noqa: S314 - of our own store
        objects = [_texts(child) for child in root if child.tag.endswith("}Object")]
        named = [(one["Key"], one["ETag"]) for one in objects if "ETag" in one]
        left: list[str] = []
        if named:
            left = await self._inner.delete_all_matching(named)
        if others := [one["Key"] for one in objects if "ETag" not in one]:
            await self._inner.delete(others)
        refused = [_element("Key", key) + _element("Code", "PreconditionFailed") for key in left]
        return _document("DeleteResult", "".join(f"<Error>{one}</Error>" for one in refused))

    async def _list(self, asked: _Asked) -> Answer:
        prefix, after = asked.query.get("prefix", ""), asked.query.get("continuation-token", "")
        entries: list[tuple[str, str]] = []
        if asked.query.get("delimiter"):
            entries += [
                (name, f"<CommonPrefixes>{_element('Prefix', quote(name))}</CommonPrefixes>")
                async for name in self._inner.list_directories(prefix)
            ]
        else:
            async for info in self._inner.list(prefix):
                told = _element("Key", quote(info.key)) + _element("LastModified", _iso(info.modified))
                told += _element("ETag", info.etag) + _element("Size", str(info.size))
                entries.append((info.key, f"<Contents>{told}</Contents>"))
        rest = [(name, text) for name, text in entries if name.encode() > after.encode()]
        page, more = _cut(rest, int(asked.query.get("max-keys", 1000)))
        told = _element("EncodingType", "url") + _element("IsTruncated", str(more).lower())
        if more:
            told += _element("NextContinuationToken", page[-1][0])
        return _document("ListBucketResult", told + "".join(text for _, text in page))

    async def _uploads(self, asked: _Asked) -> Answer:
        prefix, marker = asked.query.get("prefix", ""), asked.query.get("upload-id-marker", "")
        uploads = [one async for one in self._inner.list_uploads(prefix)]
        ids = [one.upload_id for one in uploads]
        rest = uploads[ids.index(marker) + 1 :] if marker in ids else uploads
        page, more = _cut(rest, 1000)
        told = _element("IsTruncated", str(more).lower())
        if more:
            told += _element("NextKeyMarker", page[-1].key)
            told += _element("NextUploadIdMarker", page[-1].upload_id)
        for one in page:
            text = _element("Key", one.key) + _element("UploadId", one.upload_id)
            told += f"<Upload>{text}{_element('Initiated', _iso(one.initiated))}</Upload>"
        return _document("ListMultipartUploadsResult", told)


def _cut(rest: list[Any], size: int) -> tuple[list[Any], bool]:
    return rest[:size], len(rest) > size


def _iso(seconds: float | None) -> str:
    moment = dt.datetime.fromtimestamp(seconds or 0, dt.UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _texts(element: ET.Element) -> dict[str, str]:
    return {child.tag.rpartition("}")[2]: child.text or "" for child in element}


def _element(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>"


def _document(root: str, inner: str) -> Answer:
    space = "http://s3.amazonaws.com/doc/2006-03-01/"
    return Answer(
        200, {}, f'<?xml version="1.0" encoding="UTF-8"?><{root} xmlns="{space}">{inner}</{root}>'.encode()
    )


def _mode(asked: _Asked) -> PutMode | Update:
    if "if-match" in asked.headers:
        return Update(asked.headers["if-match"])
    return PutMode.CREATE if "if-none-match" in asked.headers else PutMode.OVERWRITE


def _error(status: int, code: str, message: str) -> Answer:
    return Answer(
        status, {}, f"<Error>{_element('Code', code)}{_element('Message', message)}</Error>".encode()
    )
