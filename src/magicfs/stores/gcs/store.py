"""Google Cloud Storage, with the endpoint and the credentials of a ``gcsfs.GCSFileSystem``.

Objects go by the JSON API, delayed uploads by multipart uploads of the XML API. The ETag of an object is
its generation: no other object of the name ever has it, so every condition is exact. gcsfs's listing cache
plays no part.
"""

from __future__ import annotations

import builtins
import json
import operator
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unavailable,
    Unsupported,
    UploadNotFound,
    UsageError,
)
from magicfs.protocol import file_options
from magicfs.protocol.file_options import METADATA
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.parts import PartLimits
from magicfs.stores import port
from magicfs.stores.answer_rules import REACH, WHOLE_BYTES_MAX, Malformed, number, seconds_of, whole, words
from magicfs.stores.gcs import batch
from magicfs.stores.gcs import errors as gcs_errors
from magicfs.stores.gcs.client import GcsClient
from magicfs.stores.gcs.errors import Answer
from magicfs.stores.gcs.folders import GcsFolders, layout_of
from magicfs.stores.gcs.upkeep import GcsUpkeep
from magicfs.stores.gcs.uploads import HEADERS, GcsUploads, crc32c_of
from magicfs.stores.pages import Listing, Page, Pages, itself
from magicfs.stores.port import Body, Capabilities, ObjectInfo, Part, PartBody, PutMode, Update, UploadInfo
from magicfs.stores.trees import folders as folder_tree

if TYPE_CHECKING:
    from gcsfs.core import GCSFileSystem

__all__ = ["DESCRIPTION", "GcsStore", "described", "generation_in", "listed"]

DESCRIPTION: Final = {
    "CacheControl": "cacheControl",
    "ContentDisposition": "contentDisposition",
    "ContentEncoding": "contentEncoding",
    "ContentLanguage": "contentLanguage",
    "ContentType": "contentType",
}
"""What describes the content, and what Google calls it."""


def generation_in(item: Mapping[str, Any]) -> str:
    """The generation of an object; ``Malformed`` for what is none."""
    return str(number(str(item["generation"]), "generation"))


def listed(item: Mapping[str, Any]) -> ObjectInfo:
    """An object as a listing has it."""
    size = number(str(item.get("size", 0)), "size")
    return ObjectInfo(item["name"], size, generation_in(item), seconds_of(item["timeCreated"]))


def described(item: Mapping[str, Any]) -> ObjectInfo:
    """An object with its metadata."""
    info = listed(item)
    metadata = {name.lower(): value for name, value in item.get("metadata", {}).items()}
    description = {name: item[theirs] for name, theirs in DESCRIPTION.items() if theirs in item}
    if not all(isinstance(text, str) for text in (*metadata.values(), *description.values())):
        raise Malformed("the answer has metadata that is no text")
    return ObjectInfo(info.key, info.size, info.etag, info.modified, metadata, description)


_CAPABILITIES = Capabilities(
    rename="by bucket",
    bulk_delete_max=batch.CALLS_MAX,
    parts=PartLimits(object_max=5 * 2**40),
    uploads=port.Uploads(options=frozenset({METADATA, *HEADERS})),
    guesses_content_type=True,
    checksums=port.Checksums(("CRC32C",)),
)
# Generations count microseconds: none is 1, and 0 means that nothing is there.
_OF_NOTHING = "1"
_KEY = operator.attrgetter("key")
_REWRITES_MAX = 10_000
"""Each copies a megabyte at least."""


class GcsStore:
    """One bucket of Google Cloud Storage; see ``magicfs.stores.port.Store`` for the contract."""

    name = "gcs"
    capabilities = _CAPABILITIES

    def __init__(self, filesystem: GCSFileSystem, bucket: str) -> None:
        self.bucket = bucket
        self._client = GcsClient(filesystem)
        self._uploads = GcsUploads(self._client, bucket)

    @property
    def identity(self) -> str:
        return f"gcs:{self._client.location}/{self.bucket}"

    def upkeep(self) -> GcsUpkeep:
        return GcsUpkeep(self._client, self.bucket)

    def folders(self) -> GcsFolders:
        return GcsFolders(self._client, self.bucket)

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        given = dict(options or {})
        file_options.check(given, self.capabilities.uploads.options, self._path(key), self.name)
        given[METADATA] = file_options.joined_metadata(given.get(METADATA), metadata)
        await self._refuse_rapid("create_upload")
        return await self._uploads.create(key, given)

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        return await self._uploads.put_part(key, upload_id, number, body)

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        if if_absent:
            problem = "Google's multipart uploads take no precondition"
            raise Unsupported("complete_upload", self._path(key), problem)
        numbers = [part.number for part in parts]
        if not numbers or numbers != sorted(set(numbers)):
            problem = "parts must be named once each, in ascending order"
            raise StoreError("complete_upload", self._path(key), problem)
        return ObjectInfo(key, -1, await self._uploads.complete(key, upload_id, parts))

    async def abort_upload(self, key: str, upload_id: str) -> None:
        try:
            await self._uploads.abort(key, upload_id)
        except UploadNotFound:
            return

    def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        async def page(position: dict[str, str]) -> Page[UploadInfo]:
            return await self._uploads.page(prefix, position)

        return Pages(Listing("list_uploads", self.bucket, prefix), page, _KEY)

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        await self._refuse_rapid("put")
        params = {"uploadType": "multipart", "fields": "generation", **_condition(mode)}
        kind, content = _related(key, bytes(body), dict(metadata or {}))
        headers = {"Content-Type": kind}
        target = f"/upload/storage/v1/b/{quote(self.bucket)}/o"
        try:
            answer = await self._client.ask(
                "put", self._path(key), "POST", target, params=params, headers=headers, body=content
            )
        except PreconditionFailed as error:
            if isinstance(mode, Update):
                raise
            raise ObjectExists("put", error.key, "an object is there") from error
        with gcs_errors.reading("put", self._path(key)):
            document = gcs_errors.document(answer, "put", self._path(key))
            return ObjectInfo(key, len(body), generation_in(document))

    async def copy(
        self, source: str, destination: str, *, etag: str = "", mode: PutMode | Update = PutMode.OVERWRITE
    ) -> int:
        if source == destination:  # a new generation of the same would be a change
            return (await self._described("copy", source)).size
        target = f"{self._target(source)}/rewriteTo/b/{quote(self.bucket)}/o/{quote(destination, safe='')}"
        params = {"fields": "done,rewriteToken,objectSize", **_condition(mode)}
        if etag:
            params["ifSourceGenerationMatch"] = _generation(etag)
        for _ in range(_REWRITES_MAX):
            answer = await self._client.ask(
                "copy", self._path(source), "POST", target, params=params, body=b""
            )
            with gcs_errors.reading("copy", self._path(destination)):
                document = gcs_errors.document(answer, "copy", self._path(destination))
                if document.get("done"):
                    return number(str(document["objectSize"]), "size")
                params["rewriteToken"] = str(document["rewriteToken"])
        raise StoreError("copy", self._path(source), f"it is not finished after {_REWRITES_MAX:,} requests")

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        if size_max is None:
            found = await self._media("get", key, {}, {}, WHOLE_BYTES_MAX + 1)
            return whole(found.content, None, "get", self._path(key))
        headers = {"Range": f"bytes=0-{max(size_max, 1) - 1}"}
        return (await self._media("get", key, {}, headers, max(size_max, 1))).content[:size_max]

    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        params = {"ifGenerationMatch": _generation(etag)}
        span = {"Range": f"bytes={start}-{start + size - 1}"}
        answer = await self._media("get_range", key, params, span, size)
        with gcs_errors.reading("get_range", self._path(key)):
            given = answer.headers.get("Content-Range", "bytes 0-")
            if answer.content and not given.startswith(f"bytes {start}-"):
                raise Malformed(f"the answer has {words(given)} but the bytes from {start} on were requested")
        return answer.content

    async def head(self, key: str) -> ObjectInfo:
        return await self._described("head", key)

    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        params = {"fields": "crc32c,md5Hash", "ifGenerationMatch": _generation(etag)}
        path = self._path(key)
        answer = await self._client.ask("checksums", path, "GET", self._target(key), params=params)
        document = gcs_errors.document(answer, "checksums", path)
        if not document.keys() & {"crc32c", "md5Hash"}:  # every object has one of them
            raise Unavailable("checksums", path, "the answer has no checksum", hint=REACH)
        found = {"CRC32C": document.get("crc32c"), "MD5": document.get("md5Hash")}
        return {name: str(value) for name, value in found.items() if value}

    def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        most = {} if limit is None else {"maxResults": str(min(limit, self.capabilities.list_page_max))}
        wanted = {"fields": "kind,items(name,size,generation,timeCreated),nextPageToken", **most}

        async def page(position: dict[str, str]) -> Page[ObjectInfo]:
            document, following = await self._page("list", prefix, wanted | position)
            found = [listed(item) for item in document.get("items", ())]
            return Page(found, following, not found)

        return Pages(Listing("list", self.bucket, prefix), page, _KEY, limit)

    def list_directories(self, prefix: str) -> AsyncIterator[str]:
        wanted = {"delimiter": "/", "fields": "kind,prefixes,items(generation),nextPageToken"}

        async def page(position: dict[str, str]) -> Page[str]:
            document, following = await self._page("list_directories", prefix, wanted | position)
            found = builtins.list(document.get("prefixes", ()))
            return Page(found, following, not found and not document.get("items"))

        return Pages(Listing("list_directories", self.bucket, prefix), page, itself)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._delete("delete", [(key, "") for key in dict.fromkeys(keys)])

    async def delete_matching(self, key: str, etag: str) -> None:
        if await self._delete("delete_matching", [(key, _generation(etag))]):
            problem = f"no object of generation {etag} is there, but another"
            raise PreconditionFailed("delete_matching", self._path(key), problem)

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        return await self._delete("delete_all_matching", [(key, _generation(etag)) for key, etag in objects])

    async def _delete(self, operation: str, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        """Delete objects in one request; returns the keys that hold another generation."""
        if not objects:
            return []
        if len(objects) > self.capabilities.bulk_delete_max:
            path = self._path(objects[0][0])
            raise StoreError(operation, path, f"{len(objects)} keys are too many for one request")
        answers = await batch.delete(self._client, operation, quote(self.bucket), objects)
        left, errors = [], []
        for (key, _), answer in zip(objects, answers, strict=True):
            error = gcs_errors.not_deleted(answer, operation, self._path(key))
            if isinstance(error, PreconditionFailed):
                left.append(key)
            elif error is not None:
                errors.append(error)
        if errors:
            # What may succeed later says so for all.
            raise next((error for error in errors if not error.retryable), errors[0])
        await self._prune(operation, [key for key, _ in objects])
        # Google does not say what a condition is answered where nothing is.
        return [key for key in left if await self._is_there(operation, key)]

    async def _is_there(self, operation: str, key: str) -> bool:
        try:
            await self._described(operation, key)
        except ObjectNotFound:
            return False
        return True

    async def _prune(self, operation: str, keys: Sequence[str]) -> None:
        """Leave no folders of a job's work where the bucket has some."""
        if any(MAGIC in key for key in keys):
            layout = await layout_of(self._client, self.bucket, operation)
            if layout.is_hierarchical:
                await folder_tree.prune(self.folders(), keys)

    async def _described(self, operation: str, key: str) -> ObjectInfo:
        fields = f"name,size,generation,timeCreated,metadata,{','.join(DESCRIPTION.values())}"
        answer = await self._client.ask(
            operation, self._path(key), "GET", self._target(key), params={"fields": fields}
        )
        with gcs_errors.reading(operation, self._path(key)):
            found = described(gcs_errors.document(answer, "head", self._path(key)))
            if found.key != key:
                raise Malformed(f"the answer is about {words(found.key)!r}")
            return found

    async def _media(
        self,
        operation: str,
        key: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        size_max: int,
    ) -> Answer:
        answer = await self._client.ask(
            operation,
            self._path(key),
            "GET",
            self._target(key),
            params={"alt": "media", **params},
            headers={"Accept-Encoding": "gzip", **headers},  # else what is compressed comes unpacked
            size_max=size_max,
            accepts=416 if "Range" in headers else 0,
        )
        if answer.status == 416:  # an empty object has no first byte
            return Answer(200, {}, b"")
        with gcs_errors.reading(operation, self._path(key)):
            if not any(name in answer.headers for name in ("ETag", "x-goog-generation", "x-goog-hash")):
                raise Malformed("the answer is not about an object")
            if not any(name in answer.headers for name in ("Content-Length", "Transfer-Encoding")):
                raise Malformed("nothing in the answer says where its body ends")
        return answer

    async def _page(
        self, operation: str, prefix: str, params: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, str] | None]:
        answer = await self._client.ask(
            operation,
            self._path(prefix),
            "GET",
            f"/storage/v1/b/{quote(self.bucket)}/o",
            params={"prefix": prefix, **params},
        )
        document = gcs_errors.document(answer, operation, self._path(prefix), "storage#objects")
        token = document.get("nextPageToken")
        return document, {"pageToken": token} if token else None

    async def _refuse_rapid(self, operation: str) -> None:
        """Raise UsageError before anything is written to a Rapid bucket; each is asked once what it is."""
        try:
            layout = await layout_of(self._client, self.bucket, operation)
        except ObjectNotFound:
            return  # the write itself will tell
        if layout.is_zonal:
            raise UsageError(
                f"bucket {self.bucket!r} is a Rapid (zonal) bucket: its objects become visible while they "
                "are written and cannot be taken back, so uploads cannot be delayed; nothing was written; "
                "publish to a regional bucket"
            )

    def _target(self, key: str) -> str:
        return f"/storage/v1/b/{quote(self.bucket)}/o/{quote(key, safe='')}"

    def _path(self, key: str) -> str:
        return f"{self.bucket}/{key}"


def _generation(etag: str) -> str:
    """The generation that an ETag names; one that nothing has for an ETag of another store."""
    return etag if etag.isdecimal() and int(etag) else _OF_NOTHING


def _condition(mode: PutMode | Update) -> dict[str, str]:
    if isinstance(mode, Update):
        return {"ifGenerationMatch": _generation(mode.etag)}
    return {"ifGenerationMatch": "0"} if mode is PutMode.CREATE else {}


def _related(key: str, body: bytes, metadata: Mapping[str, str]) -> tuple[str, bytes]:
    """Content type and body of an insert: what the object bears, and its content."""
    resource = {"name": key, "metadata": dict(metadata), "crc32c": crc32c_of(body)}
    boundary = f"magicfs-{secrets.token_hex(16)}"
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(resource)}\r\n"
        f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    )
    content = b"".join((head.encode(), body, f"\r\n--{boundary}--\r\n".encode()))
    return f"multipart/related; boundary={boundary}", content
