"""The XML API: objects, and multipart uploads, which are S3's but for what the documentation leaves out."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from proofs.doubles.gcs.content import (
    Bucket,
    Content,
    Upload,
    check_conditions,
    checked,
    crc32c_of,
    md5_of,
    timestamp,
)
from proofs.doubles.gcs.download import media
from proofs.doubles.gcs.wire import NAMESPACE, Answer, Refusal, Request, xml_answer

__all__ = ["XmlApi"]

_PART_BYTES_MIN = 5 * 2**20
_PARTS_MAX = 10_000
_PAGE_MAX = 1000
_DESCRIBING = {
    "content-type": "contentType",
    "content-encoding": "contentEncoding",
    "content-disposition": "contentDisposition",
    "content-language": "contentLanguage",
    "cache-control": "cacheControl",
    "x-goog-storage-class": "storageClass",
    "x-goog-custom-time": "customTime",
}
_META = "x-goog-meta-"
_CONDITIONS = {
    "x-goog-if-generation-match": "ifGenerationMatch",
    "x-goog-if-metageneration-match": "ifMetagenerationMatch",
}


class XmlApi:
    """Everything at ``/BUCKET/OBJECT``."""

    def __init__(self, content: Content) -> None:
        self._content = content

    def answer(self, request: Request) -> Answer:
        """Answer a request."""
        name, *elements = request.elements
        bucket, key = self._content.bucket(name), "/".join(elements)
        query = request.query
        if not key:
            if request.method == "GET" and "uploads" in query:
                return _uploads(bucket, request)
            raise Refusal(400, "invalid", "The double has no such request of the XML API about buckets")
        if bucket.is_zonal and ("uploads" in query or "uploadId" in query):
            problem = "Multipart uploads are not supported in buckets with Rapid storage."
            raise Refusal(400, "invalid", problem, "NotImplemented")
        if "uploads" in query and request.method == "POST":
            return self._initiate(bucket, key, request)
        if "uploadId" in query:
            return self._of_upload(bucket, key, request)
        return self._object(bucket, key, request)

    def _object(self, bucket: Bucket, key: str, request: Request) -> Answer:
        conditions = {
            name: request.headers[header] for header, name in _CONDITIONS.items() if header in request.headers
        }
        match request.method:
            case "PUT":
                checked(_hashes(request), request.body)
                made = self._content.write(bucket, key, request.body, _resource(request), conditions)
                headers = {"ETag": f'"{made.generation}"', "x-goog-generation": str(made.generation)}
                return Answer(200, headers=headers)
            case "DELETE":
                self._content.remove(bucket, key, conditions)
                return Answer(204)
            case "GET" | "HEAD":
                held = bucket.found(key)
                check_conditions(conditions, held)
                return media(held, request)
        raise Refusal(405, "methodNotAllowed", "Method not allowed", "MethodNotAllowed")

    def _initiate(self, bucket: Bucket, key: str, request: Request) -> Answer:
        _refuse_conditions(request)
        upload_id = secrets.token_urlsafe(24)
        bucket.uploads[upload_id] = Upload(key, self._content.now(), _resource(request))
        return xml_answer(
            f"<InitiateMultipartUploadResult xmlns='{NAMESPACE}'><Bucket>{escape(bucket.name)}</Bucket>"
            f"<Key>{escape(key)}</Key><UploadId>{upload_id}</UploadId></InitiateMultipartUploadResult>"
        )

    def _of_upload(self, bucket: Bucket, key: str, request: Request) -> Answer:
        upload_id = request.query["uploadId"]
        upload = bucket.uploads.get(upload_id)
        if upload is None or upload.name != key:
            raise Refusal(404, "notFound", "The requested upload was not found.", "NoSuchUpload")
        match request.method:
            case "PUT":
                return self._part(upload, request)
            case "GET":
                return _parts(bucket, upload, request)
            case "DELETE":
                del bucket.uploads[upload_id]
                return Answer(204)
            case "POST":
                return self._complete(bucket, upload_id, upload, request)
        raise Refusal(405, "methodNotAllowed", "Method not allowed", "MethodNotAllowed")

    def _part(self, upload: Upload, request: Request) -> Answer:
        number = request.number("partNumber", 0)
        if not 1 <= number <= _PARTS_MAX:
            raise Refusal(400, "invalid", f"Part number must be between 1 and {_PARTS_MAX}.")
        checked(_hashes(request), request.body)
        etag = f'"{secrets.token_hex(2)}{md5_of(request.body)}"'
        upload.parts[number] = (request.body, etag, self._content.now())
        hashes = f"crc32c={crc32c_of(request.body)},md5={md5_of(request.body)}"
        return Answer(200, headers={"ETag": etag, "x-goog-hash": hashes})

    def _complete(self, bucket: Bucket, upload_id: str, upload: Upload, request: Request) -> Answer:
        _refuse_conditions(request)
        body = b"".join(_named_parts(upload, request.body))
        made = self._content.write(bucket, upload.name, body, upload.resource, has_md5=False)
        del bucket.uploads[upload_id]
        document = (
            f"<CompleteMultipartUploadResult xmlns='{NAMESPACE}'>"
            f"<Location>{request.base_url}{escape(request.path)}</Location>"
            f"<Bucket>{escape(bucket.name)}</Bucket><Key>{escape(upload.name)}</Key>"
            f'<ETag>"{made.generation}"</ETag></CompleteMultipartUploadResult>'
        )
        answer = xml_answer(document)
        told = {"x-goog-generation": str(made.generation), "x-goog-hash": f"crc32c={crc32c_of(body)}"}
        return Answer(200, answer.body, {**answer.headers, **told})


def _named_parts(upload: Upload, document: bytes) -> Iterable[bytes]:
    """The bodies of the parts that a completion names, which are all there and large enough."""
    try:
        root = ET.fromstring(document)  # noqa: S314 - of a test on loopback
    except ET.ParseError:
        raise Refusal(400, "invalid", "The XML you provided was not well-formed.", "MalformedXML") from None
    named = []
    for part in root.iterfind("{*}Part"):
        number, etag = part.findtext("{*}PartNumber", ""), part.findtext("{*}ETag", "")
        body, known, _ = upload.parts.get(int(number), (b"", None, 0.0))
        if known is None or known.strip('"') != etag.strip('"'):
            problem = "One or more of the specified parts could not be found, or its ETag did not match."
            raise Refusal(400, "invalid", problem, "InvalidPart")
        named.append((int(number), body))
    if not named:
        raise Refusal(400, "invalid", "The XML you provided was not well-formed.", "MalformedXML")
    numbers = [number for number, _ in named]
    if numbers != sorted(set(numbers)):
        problem = "The list of parts was not in ascending order."
        raise Refusal(400, "invalid", problem, "InvalidPartOrder")
    if any(len(body) < _PART_BYTES_MIN for _, body in named[:-1]):
        problem = "Your proposed upload is smaller than the minimum object size."
        raise Refusal(400, "invalid", problem, "EntityTooSmall")
    return [body for _, body in named]


def _uploads(bucket: Bucket, request: Request) -> Answer:
    """A page of pending uploads, by key and then by when they were opened."""
    prefix, size = request.query.get("prefix", ""), request.number("max-uploads", _PAGE_MAX)
    after = request.query.get("key-marker", ""), request.query.get("upload-id-marker", "")
    found = [(u.name, u.initiated, i) for i, u in bucket.uploads.items() if u.name.startswith(prefix)]
    found.sort(key=lambda one: (one[0].encode(), one[1], one[2]))
    if after[0]:
        places = [place for place, (name, _, word) in enumerate(found) if (name, word) == after]
        passed = places[0] + 1 if places else _passed(found, after[0])
        found = found[passed:]
    page = found[: min(size, _PAGE_MAX)]

    def entry(name: str, initiated: float, upload_id: str) -> str:
        return (
            f"<Upload><Key>{escape(name)}</Key><UploadId>{upload_id}</UploadId>"
            f"<StorageClass>STANDARD</StorageClass><Initiated>{timestamp(initiated)}</Initiated></Upload>"
        )

    following = (
        f"<NextKeyMarker>{escape(page[-1][0])}</NextKeyMarker>"
        f"<NextUploadIdMarker>{page[-1][2]}</NextUploadIdMarker>"
        if len(page) < len(found)
        else ""
    )
    return _document("ListMultipartUploadsResult", bucket, len(page) < len(found), following, page, entry)


def _passed(found: list[tuple[str, float, str]], key: str) -> int:
    return sum(1 for name, _, _ in found if name.encode() <= key.encode())


def _parts(bucket: Bucket, upload: Upload, request: Request) -> Answer:
    after, size = request.number("part-number-marker", 0), request.number("max-parts", _PAGE_MAX)
    found = sorted((number, *part) for number, part in upload.parts.items() if number > after)
    page = found[: min(size, _PAGE_MAX)]

    def entry(number: int, body: bytes, etag: str, sent: float) -> str:
        return (
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag>"
            f"<Size>{len(body)}</Size><LastModified>{timestamp(sent)}</LastModified></Part>"
        )

    following = (
        f"<NextPartNumberMarker>{page[-1][0]}</NextPartNumberMarker>" if len(page) < len(found) else ""
    )
    return _document("ListPartsResult", bucket, len(page) < len(found), following, page, entry)


def _document(
    root: str,
    bucket: Bucket,
    is_cut: bool,
    following: str,
    page: Iterable[tuple[Any, ...]],
    entry: Callable[..., str],
) -> Answer:
    entries = "".join(entry(*one) for one in page)
    return xml_answer(
        f"<{root} xmlns='{NAMESPACE}'><Bucket>{escape(bucket.name)}</Bucket>"
        f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>{following}{entries}</{root}>"
    )


def _resource(request: Request) -> dict[str, Any]:
    """What headers say of the object."""
    described: dict[str, Any] = {
        name: request.headers[header] for header, name in _DESCRIBING.items() if header in request.headers
    }
    metadata = {
        name.removeprefix(_META): value for name, value in request.headers.items() if name.startswith(_META)
    }
    return described | ({"metadata": metadata} if metadata else {})


def _hashes(request: Request) -> Mapping[str, str]:
    told = (one.strip().partition("=") for one in request.headers.get("x-goog-hash", "").split(","))
    hashes = {{"md5": "md5Hash"}.get(name, name): value for name, _, value in told if value}
    if "content-md5" in request.headers:
        hashes["md5Hash"] = request.headers["content-md5"]
    return hashes


def _refuse_conditions(request: Request) -> None:
    """Multipart uploads take no preconditions, as their documentation says."""
    named = {*_CONDITIONS, "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"}
    if named & request.headers.keys():
        problem = "A header or query you provided requested a function that is not implemented."
        raise Refusal(400, "notImplemented", problem, "NotImplemented")
