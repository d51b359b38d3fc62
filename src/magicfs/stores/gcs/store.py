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
    UsageError,
)
from magicfs.protocol import file_options
from magicfs.protocol.file_options import METADATA
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.parts import PartLimits, check_number, check_order
from magicfs.stores import port
from magicfs.stores.answer_rules import (
    REACH,
    WHOLE_BYTES_MAX,
    Malformed,
    check_span,
    number,
    seconds_of,
    whole,
    words,
)
from magicfs.stores.checksums import of_bytes
from magicfs.stores.gcs import errors as gcs_errors
from magicfs.stores.gcs.client import CALLS_MAX, GcsBucket, following
from magicfs.stores.gcs.errors import Answer
from magicfs.stores.gcs.folders import GcsFolders, layout_of
from magicfs.stores.gcs.uploads import HEADERS, GcsUpkeep, GcsUploads
from magicfs.stores.pages import Listing, Page, Pages, itself
from magicfs.stores.port import Body, Capabilities, ObjectInfo, Part, PutMode, Update
from magicfs.stores.trees import prune

if TYPE_CHECKING:
    from gcsfs.core import GCSFileSystem

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
    bulk_delete_max=CALLS_MAX,
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


class GcsStore(GcsUploads):
    """One bucket of Google Cloud Storage; see ``magicfs.stores.port.Store`` for the contract."""

    name = "gcs"
    capabilities = _CAPABILITIES

    def __init__(self, filesystem: GCSFileSystem, bucket: str) -> None:
        super().__init__(GcsBucket(filesystem, bucket))
        self.bucket = bucket

    @property
    def identity(self) -> str:
        return f"gcs:{self._client.location}/{self.bucket}"

    def upkeep(self) -> GcsUpkeep:
        return GcsUpkeep(self._client)

    def folders(self) -> GcsFolders:
        return GcsFolders(self._client)

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        given = dict(options or {})
        file_options.check(given, self.capabilities.uploads.options, self._path(key), self.name)
        given[METADATA] = file_options.joined_metadata(given.get(METADATA), metadata)
        await self._refuse_rapid("create_upload")
        return await self.create(key, given)

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        if if_absent:
            problem = "Google's multipart uploads take no precondition"
            raise Unsupported("complete_upload", self._path(key), problem)
        check_order([part.number for part in parts], self._path(key))
        return ObjectInfo(key, -1, await self.complete(key, upload_id, parts))

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
            document = await self._client.document(
                "put", key, "POST", target, params=params, headers=headers, body=content
            )
        except PreconditionFailed as error:
            if isinstance(mode, Update):
                raise
            raise ObjectExists("put", error.key, "an object is there") from error
        with self._client.reading("put", key):
            return ObjectInfo(key, len(body), generation_in(document))

    async def copy(
        self, source: str, destination: str, *, etag: str = "", mode: PutMode | Update = PutMode.OVERWRITE
    ) -> int:
        if source == destination:  # a new generation of the same would be a change
            return (await self._described("copy", source)).size
        to = self._client.object(destination).removeprefix("/storage/v1")
        target = f"{self._client.object(source)}/rewriteTo{to}"
        params = {"fields": "done,rewriteToken,objectSize", **_condition(mode)}
        if etag:
            params["ifSourceGenerationMatch"] = _generation(etag)
        for _ in range(_REWRITES_MAX):
            document = await self._client.document("copy", source, "POST", target, params=params, body=b"")
            with self._client.reading("copy", destination):
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
        with self._client.reading("get_range", key):
            if answer.content:
                check_span(answer.headers.get("Content-Range", "bytes 0-"), start)
        return answer.content

    async def head(self, key: str) -> ObjectInfo:
        return await self._described("head", key)

    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        params = {"fields": "crc32c,md5Hash", "ifGenerationMatch": _generation(etag)}
        target = self._client.object(key)
        document = await self._client.document("checksums", key, "GET", target, params=params)
        if not document.keys() & {"crc32c", "md5Hash"}:  # every object has one of them
            raise Unavailable("checksums", self._path(key), "the answer has no checksum", hint=REACH)
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
        keys = [key for key, _ in objects]
        check_number(operation, self.bucket, keys, self.capabilities.bulk_delete_max)
        answers = await self._client.delete(operation, objects)
        left, errors = [], []
        for key, answer in zip(keys, answers, strict=True):
            error = gcs_errors.not_deleted(answer, operation, self._path(key))
            if isinstance(error, PreconditionFailed):
                left.append(key)
            elif error is not None:
                errors.append(error)
        if errors:
            # What may succeed later says so for all.
            raise min(errors, key=operator.attrgetter("retryable"))
        await self._prune(operation, keys)
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
            layout = await layout_of(self._client, operation)
            if layout.is_hierarchical:
                await prune(self.folders(), keys)

    async def _described(self, operation: str, key: str) -> ObjectInfo:
        fields = f"name,size,generation,timeCreated,metadata,{','.join(DESCRIPTION.values())}"
        target, params = self._client.object(key), {"fields": fields}
        document = await self._client.document(operation, key, "GET", target, params=params)
        with self._client.reading(operation, key):
            found = described(document)
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
        answer = await self._client.about(
            operation,
            key,
            "GET",
            self._client.object(key),
            params={"alt": "media", **params},
            headers={"Accept-Encoding": "gzip", **headers},  # else what is compressed comes unpacked
            size_max=size_max,
            accepts=416 if "Range" in headers else 0,
        )
        if answer.status == 416:  # an empty object has no first byte
            return Answer(200, {}, b"")
        with self._client.reading(operation, key):
            if not any(name in answer.headers for name in ("ETag", "x-goog-generation", "x-goog-hash")):
                raise Malformed("the answer is not about an object")
            if not any(name in answer.headers for name in ("Content-Length", "Transfer-Encoding")):
                raise Malformed("nothing in the answer says where its body ends")
        return answer

    async def _page(
        self, operation: str, prefix: str, params: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, str] | None]:
        target, params = f"{self._client.root}/o", {"prefix": prefix, **params}
        document = await self._client.document(
            operation, prefix, "GET", target, "storage#objects", params=params
        )
        return document, following(document)

    async def _refuse_rapid(self, operation: str) -> None:
        """Raise UsageError before anything is written to a Rapid bucket; each is asked once what it is."""
        try:
            layout = await layout_of(self._client, operation)
        except ObjectNotFound:
            return  # the write itself will tell
        if layout.is_zonal:
            raise UsageError(
                f"bucket {self.bucket!r} is a Rapid (zonal) bucket: its objects become visible while they "
                "are written and cannot be taken back, so uploads cannot be delayed; nothing was written; "
                "publish to a regional bucket"
            )

    def _path(self, key: str) -> str:
        return self._client.path(key)


def _generation(etag: str) -> str:
    """The generation that an ETag names; one that nothing has for an ETag of another store."""
    return etag if etag.isdecimal() and int(etag) else _OF_NOTHING


def _condition(mode: PutMode | Update) -> dict[str, str]:
    if isinstance(mode, Update):
        return {"ifGenerationMatch": _generation(mode.etag)}
    return {"ifGenerationMatch": "0"} if mode is PutMode.CREATE else {}


def _related(key: str, body: bytes, metadata: Mapping[str, str]) -> tuple[str, bytes]:
    """Content type and body of an insert: what the object bears, and its content."""
    resource = {"name": key, "metadata": dict(metadata), "crc32c": of_bytes("CRC32C", body)}
    boundary = f"magicfs-{secrets.token_hex(16)}"
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(resource)}\r\n"
        f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    )
    content = b"".join((head.encode(), body, f"\r\n--{boundary}--\r\n".encode()))
    return f"multipart/related; boundary={boundary}", content
