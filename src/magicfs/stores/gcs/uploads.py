"""Multipart uploads of the XML API: S3's, with Google's names of headers and without preconditions."""

from __future__ import annotations

import io
import operator
from collections.abc import AsyncIterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote
from xml.sax.saxutils import escape

from magicfs.errors import StoreError, Unavailable, UploadNotFound
from magicfs.protocol.file_options import METADATA
from magicfs.stores.answer_rules import Malformed, number, root_of, seconds_of, words
from magicfs.stores.checksums import of_bytes
from magicfs.stores.gcs.client import GcsBucket
from magicfs.stores.gcs.errors import Answer
from magicfs.stores.pages import Listing, Page, Pages
from magicfs.stores.port import Part, PartBody, Rule, UploadInfo, Written

HEADERS = {
    "CacheControl": "Cache-Control",
    "ContentDisposition": "Content-Disposition",
    "ContentEncoding": "Content-Encoding",
    "ContentLanguage": "Content-Language",
    "ContentType": "Content-Type",
    "StorageClass": "x-goog-storage-class",
}
"""What can be said of an upload beside its metadata, by the names of the port."""


class GcsUploads:
    """The multipart uploads of one bucket."""

    def __init__(self, client: GcsBucket) -> None:
        self._client = client

    async def create(self, key: str, options: Mapping[str, Any]) -> str:
        """Open an upload."""
        headers = {HEADERS[name]: str(value) for name, value in options.items() if name != METADATA}
        headers.setdefault("Content-Type", "application/octet-stream")
        for name, value in options.get(METADATA, {}).items():
            headers[f"x-goog-meta-{name}"] = self._checked(key, name, str(value))
        answer = await self._ask("create_upload", key, "POST", {"uploads": ""}, headers=headers, body=b"")
        with self._client.reading("create_upload", key):
            return _text(root_of(answer.content, "InitiateMultipartUploadResult"), "UploadId")

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        """Send a part with its checksum; the answer's must be the same."""
        content = body.getvalue() if isinstance(body, io.BytesIO) else bytes(body)
        checksum = f"crc32c={of_bytes('CRC32C', content)}"
        answer = await self._ask(
            "put_part",
            key,
            "PUT",
            {"partNumber": str(number), "uploadId": upload_id},
            headers={"x-goog-hash": checksum, "Content-Type": "application/octet-stream"},
            body=content,
        )
        told = [one.strip() for one in answer.headers.get("x-goog-hash", checksum).split(",")]
        if any(one.startswith("crc32c=") and one != checksum for one in told):
            became = words(", ".join(told))
            problem = f"part {number} did not arrive as sent: {checksum} became {became}"
            raise Unavailable("put_part", self._client.path(key), problem)
        with self._client.reading("put_part", key):
            return Part(number, answer.headers["ETag"])

    async def complete(self, key: str, upload_id: str, parts: Sequence[Part]) -> str:
        """Make an upload visible; returns the generation of its object, empty where the answer has none."""
        listed = "".join(
            f"<Part><PartNumber>{part.number}</PartNumber><ETag>{escape(part.etag)}</ETag></Part>"
            for part in parts
        )
        answer = await self._ask(
            "complete_upload",
            key,
            "POST",
            {"uploadId": upload_id},
            headers={"Content-Type": "application/xml"},
            body=f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode(),
        )
        with self._client.reading("complete_upload", key):
            _text(root_of(answer.content, "CompleteMultipartUploadResult"), "ETag")
        return answer.headers.get("x-goog-generation", "")

    async def abort_upload(self, key: str, upload_id: str) -> None:
        try:
            answer = await self._ask("abort_upload", key, "DELETE", {"uploadId": upload_id})
        except UploadNotFound:
            return
        with self._client.reading("abort_upload", key):
            if answer.content.strip():
                raise Malformed("the answer must be empty")

    def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        what = Listing("list_uploads", self._client.bucket, prefix)
        return Pages(what, lambda position: self._uploads_page(prefix, position), operator.attrgetter("key"))

    async def _uploads_page(self, prefix: str, position: Mapping[str, str]) -> Page[UploadInfo]:
        params = {"uploads": "", "prefix": prefix, **position}
        target = f"/{self._client.bucket}"
        answer = await self._client.about("list_uploads", prefix, "GET", target, params=params)
        root = root_of(answer.content, "ListMultipartUploadsResult")
        found = [
            UploadInfo(
                _text(upload, "Key"),
                _text(upload, "UploadId"),
                _seconds(upload.findtext("{*}Initiated", "")),
            )
            for upload in root.iterfind("{*}Upload")
        ]
        if root.findtext("{*}IsTruncated") != "true":
            return Page(found, None, not found)
        following = {
            "key-marker": _text(root, "NextKeyMarker"),
            "upload-id-marker": root.findtext("{*}NextUploadIdMarker", ""),
        }
        return Page(found, following, not found)

    async def _ask(
        self, operation: str, key: str, method: str, params: Mapping[str, str], **request: Any
    ) -> Answer:
        target = f"/{self._client.bucket}/{quote(key, safe='')}"
        return await self._client.about(operation, key, method, target, params=params, **request)

    def _checked(self, key: str, name: str, value: str) -> str:
        """A header's value, which may be no other text than printable ASCII."""
        if not (value.isascii() and value.isprintable()):
            problem = f"metadata {name!r} cannot travel with an upload: it is not printable ASCII"
            raise StoreError(
                "create_upload", self._client.path(key), problem, hint="encode it, or leave it out"
            )
        return value


def _text(element: Any, name: str) -> str:
    text: str = element.findtext(f"{{*}}{name}", "")
    if not text:
        raise Malformed(f"the answer has no {name}")
    return text


def _seconds(moment: str) -> float:
    return seconds_of(moment) if moment else 0.0


_PAGES_MAX: Final = 100
_ASKED: Final = {"age", "matchesPrefix"}


class GcsUpkeep:
    """See ``magicfs.stores.port.Upkeep`` for the contract."""

    def __init__(self, client: GcsBucket) -> None:
        self._client = client

    async def clock(self) -> float:
        wanted = {"uploads": "", "max-uploads": "1"}
        answer = await self._client.about("clock", "", "GET", f"/{self._client.bucket}", params=wanted)
        with self._client.reading("clock", ""):
            return parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()

    async def written(self, key: str, upload_id: str) -> Written:
        target = f"/{self._client.bucket}/{quote(key, safe='')}"
        size, last, position = 0, None, ""
        for _ in range(_PAGES_MAX):
            wanted = {"uploadId": upload_id, **({"part-number-marker": position} if position else {})}
            answer = await self._client.about("written", key, "GET", target, params=wanted)
            with self._client.reading("written", key):
                root = root_of(answer.content, "ListPartsResult")
                for part in root.iterfind("{*}Part"):
                    size += number(part.findtext("{*}Size"), "size")
                    last = max(last or 0.0, seconds_of(part.findtext("{*}LastModified", "")))
                if root.findtext("{*}IsTruncated") != "true":
                    return Written(size, last)
                before, position = position, root.findtext("{*}NextPartNumberMarker", "")
                if position in {"", before}:
                    raise Malformed("a page of the listing repeats an earlier one")
        raise StoreError("written", self._client.path(key), "its parts have no end")

    async def rules(self) -> tuple[Rule, ...]:
        answered = await self._client.document("rules", "", "GET", self._client.root, "storage#bucket")
        found = []
        with self._client.reading("rules", ""):
            for rule in (answered.get("lifecycle") or {}).get("rule", ()):
                action, asked = rule["action"]["type"], rule["condition"]
                if action == "AbortIncompleteMultipartUpload" and "age" in asked and not {*asked} - _ASKED:
                    days = number(str(asked["age"]), "age")
                    found += [Rule(days, str(one)) for one in asked.get("matchesPrefix") or [""]]
        return tuple(found)
