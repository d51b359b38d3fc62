"""Azure's Blob service, through the client of an ``adlfs.AzureBlobFileSystem``.

Account, endpoint and credentials are those of the filesystem: there is no second way to give them. A bucket
is a container. Requests go past adlfs, whose files are committed when they are closed, whatever they are
told.

Azure has no uploads, only blocks that a blob has and does not show. ``blocks`` makes uploads of them.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import operator
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unavailable,
    UploadNotFound,
)
from magicfs.protocol import file_options
from magicfs.protocol.file_options import METADATA
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.parts import PartLimits, check_number, check_order
from magicfs.runtime.parallel import gathered
from magicfs.stores import port
from magicfs.stores.azure import blocks, errors
from magicfs.stores.azure import metadata as azure_metadata
from magicfs.stores.azure.folders import AzureFolders
from magicfs.stores.azure.requests import (
    PAGE_MAX,
    AzureRequests,
    as_stream,
    has_etag,
    if_match,
    if_nothing_is_there,
    md5_of,
    quoted,
    seconds,
    size_of,
    uncommitted,
)
from magicfs.stores.pages import Listing, Page, Pages, itself
from magicfs.stores.port import Body, Capabilities, ObjectInfo, Part, PartBody, PutMode, Update, UploadInfo
from magicfs.stores.trees import prune

_UPLOAD_OPTIONS: Final = frozenset({METADATA, *azure_metadata.DESCRIPTION})
_AT_ONCE: Final = 16
_KEY: Final = operator.attrgetter("key")
# A block without bytes is refused (Azure Storage, "Put Block").
_SAYING: Final = b"."
_CAPABILITIES: Final = Capabilities(
    rename="by bucket",
    # Azure Storage, "Scalability and performance targets for Blob storage".
    parts=PartLimits(size_min=1, size_max=4000 * 2**20, count_max=50_000, object_max=50_000 * 4000 * 2**20),
    uploads=port.Uploads(options=_UPLOAD_OPTIONS, apart=False, days=7),
    bulk_delete_max=256,
    list_page_max=PAGE_MAX,
    checksums=port.Checksums(of_put="MD5"),
)


class AzureStore(AzureRequests):
    """One container of Azure's Blob service; see ``magicfs.stores.port.Store`` for the contract."""

    name = "abfs"
    capabilities = _CAPABILITIES

    def folders(self) -> AzureFolders:
        return AzureFolders(self)

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        given = dict(options or {})
        file_options.check(given, _UPLOAD_OPTIONS, self.path(key), self.name)
        joined = file_options.joined_metadata(given.pop(METADATA, None), metadata)
        azure_metadata.encoded(joined, self.path(key))
        upload_id = blocks.new_upload_id(time.time())
        more, last = blocks.opening(upload_id, joined, given)

        async def say(block_id: str) -> None:
            await self.stage("create_upload", key, block_id, io.BytesIO(_SAYING))

        await gathered(more, say, _AT_ONCE)
        await say(last)
        return upload_id

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        stream = as_stream(body)
        md5 = md5_of(stream)
        etag = blocks.etag_of(md5)
        block_id = blocks.part(upload_id, number, etag)
        if not blocks.is_upload_id(upload_id) or block_id is None:
            raise self._no_upload("put_part", key)
        if etag != blocks.EMPTY:
            await self.stage("put_part", key, block_id, stream, md5)
        return Part(number, etag)

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        path = self.path(key)
        check_order([part.number for part in parts], path)
        there = await self.blocks("complete_upload", key)
        upload = blocks.uploads_of(there).get(upload_id)
        if upload is None:
            if if_absent:
                await self._refuse_if_there(key)
            raise self._no_upload("complete_upload", key)
        named = [self._named(key, upload_id, part, there) for part in parts]
        if None in named[:-1]:
            raise StoreError("complete_upload", path, "only the last part may be empty")
        return await self._commit(key, upload, [one for one in named if one], if_absent)

    def _named(self, key: str, upload_id: str, part: Part, there: frozenset[str]) -> str | None:
        """The id of the block of a part; None for one without bytes."""
        if part.etag == blocks.EMPTY:
            return None
        block_id = blocks.part(upload_id, part.number, part.etag)
        if block_id is None or block_id not in there:
            problem = f"part {part.number} of ETag {part.etag} was not sent"
            raise StoreError("complete_upload", self.path(key), problem)
        return block_id

    async def _commit(
        self, key: str, upload: blocks.OpenUpload, named: Sequence[str], if_absent: bool
    ) -> ObjectInfo:
        arguments = {
            "metadata": azure_metadata.encoded(upload.metadata, self.path(key)),
            **azure_metadata.settings_of(upload.options),
            **(if_nothing_is_there() if if_absent else {}),
        }
        whole = uncommitted(named)
        try:
            answer = await self.call(
                "complete_upload", key, lambda blob: blob.commit_block_list(whole, **arguments)
            )
        except UploadNotFound:
            if if_absent:
                await self._refuse_if_there(key)
            raise
        except PreconditionFailed as error:
            raise ObjectExists("complete_upload", error.key, "an object is there") from error
        return ObjectInfo(key, -1, has_etag(answer.get("etag"), "complete_upload", self.path(key)))

    async def abort_upload(self, key: str, upload_id: str) -> None:
        if not blocks.is_upload_id(upload_id):
            return
        if upload_id in blocks.uploads_of(await self.blocks("abort_upload", key)):
            await self.stage("abort_upload", key, blocks.end(upload_id), io.BytesIO(_SAYING))

    def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        async def of_key(key: str) -> builtins.list[UploadInfo]:
            found = blocks.uploads_of(await self.blocks("list_uploads", key))
            return [UploadInfo(key, upload_id, blocks.opened_s(upload_id)) for upload_id in found]

        async def page(position: dict[str, str]) -> Page[UploadInfo]:
            listed, following = await self.page(
                "list_uploads", prefix, position, "list_blobs", include=["uncommittedblobs", "metadata"]
            )
            keys = [
                blob.name
                for blob in listed
                if not blob.size
                and not blob.content_settings.content_type
                and not azure_metadata.is_directory(blob.metadata)
            ]
            found = await gathered(keys, of_key, _AT_ONCE)
            return Page([upload for uploads in found for upload in uploads], following, not listed)

        return Pages(Listing("list_uploads", self.bucket, prefix), page, _KEY)

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        named = azure_metadata.encoded(metadata or {}, self.path(key))
        condition = {"overwrite": mode is not PutMode.CREATE}
        condition |= if_match(mode.etag) if isinstance(mode, Update) else {}
        stream = as_stream(body)
        try:
            given = {"length": len(body), "metadata": named, **condition}
            answer = await self.call(
                "put", key, lambda blob: blob.upload_blob(stream, **given), sent=len(body)
            )
        except PreconditionFailed as error:
            if isinstance(mode, Update):
                raise
            raise ObjectExists("put", error.key, "an object is there") from error
        except ObjectNotFound as error:
            if not isinstance(mode, Update) or errors.code_of(error) in errors.NO_CONTAINER:
                raise
            raise PreconditionFailed("put", error.key, "no object is there") from error
        return ObjectInfo(key, len(body), has_etag(answer.get("etag"), "put", self.path(key)))

    async def copy(
        self, source: str, destination: str, *, etag: str = "", mode: PutMode | Update = PutMode.OVERWRITE
    ) -> int:
        from azure.core import MatchConditions

        head = await self.head(source)
        if etag.strip('"') not in {"", head.etag.strip('"')}:
            raise PreconditionFailed("copy", self.path(source), f"no object of ETag {etag} is there")
        if source == destination:
            return head.size
        condition = {"source_etag": head.etag, "source_match_condition": MatchConditions.IfNotModified}
        condition |= if_nothing_is_there() if mode is PutMode.CREATE else {}
        condition |= if_match(mode.etag) if isinstance(mode, Update) else {}
        origin = self.service.get_blob_client(self.bucket, source).url
        try:
            answer = await self.call(
                "copy", destination, lambda blob: blob.start_copy_from_url(origin, **condition)
            )
        except PreconditionFailed as error:
            if mode is not PutMode.OVERWRITE:
                raise
            problem = f"the source was replaced during the copy ({error.problem})"
            raise Unavailable("copy", self.path(source), problem, hint="copy it again") from error
        await self.copied(destination, answer)
        return head.size

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        if size_max == 0:
            await self.head(key)
            return b""
        if size_max is None:
            return await self.read("get", key, 0, None)
        try:
            return await self.read("get", key, 0, size_max)
        except StoreError as error:
            if errors.code_of(error) == "InvalidRange":  # of an empty object
                return b""
            raise

    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        try:
            return await self.read("get_range", key, start, size, **if_match(etag))
        except PreconditionFailed:
            await self.head(key)  # it is refused so where nothing is, too
            raise

    async def head(self, key: str) -> ObjectInfo:
        found = await self.call("head", key, lambda blob: blob.get_blob_properties())
        if azure_metadata.is_directory(found.metadata):
            raise ObjectNotFound("head", self.path(key), "a directory is there")
        with errors.translated("head", self.path(key)):
            return ObjectInfo(
                key,
                size_of(found.size),
                has_etag(found.etag, "head", self.path(key)),
                seconds(found.last_modified),
                azure_metadata.decoded(found.metadata),
                azure_metadata.described(found.content_settings),
            )

    def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        most = {} if limit is None else {"results_per_page": min(limit, self.capabilities.list_page_max)}

        async def page(position: dict[str, str]) -> Page[ObjectInfo]:
            listed, following = await self.page(
                "list", prefix, position, "list_blobs", include=["metadata"], **most
            )
            found = [
                ObjectInfo(blob.name, size_of(blob.size), quoted(blob.etag), seconds(blob.last_modified))
                for blob in listed
                if not azure_metadata.is_directory(blob.metadata)
            ]
            return Page(found, following, not listed)

        return Pages(Listing("list", self.bucket, prefix), page, _KEY, limit)

    def list_directories(self, prefix: str) -> AsyncIterator[str]:
        from azure.storage.blob.aio import BlobPrefix

        async def page(position: dict[str, str]) -> Page[str]:
            listed, following = await self.page(
                "list_directories", prefix, position, "walk_blobs", delimiter="/"
            )
            found = [entry.name for entry in listed if isinstance(entry, BlobPrefix)]
            return Page(found, following, not listed)

        return Pages(Listing("list_directories", self.bucket, prefix), page, itself)

    async def delete(self, keys: Sequence[str]) -> None:
        check_number("delete", self.bucket, keys, self.capabilities.bulk_delete_max)
        await self._delete("delete", [(key, "") for key in dict.fromkeys(keys)])

    async def delete_matching(self, key: str, etag: str) -> None:
        await self._delete_one("delete_matching", key, etag)
        await self._prune([key])

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        keys = [key for key, _ in objects]
        check_number("delete_all_matching", self.bucket, keys, self.capabilities.bulk_delete_max)
        return await self._delete("delete_all_matching", objects)

    async def _delete_one(self, operation: str, key: str, etag: str) -> None:
        condition = if_match(etag) if etag else {}
        try:
            await self.call(operation, key, lambda blob: blob.delete_blob(**condition))
        except PreconditionFailed:
            # It is refused so where nothing is, too.
            with contextlib.suppress(ObjectNotFound):
                await self.head(key)
                raise
        except ObjectNotFound as error:
            if errors.code_of(error) in errors.NO_CONTAINER:
                raise

    async def _delete(self, operation: str, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        """Delete objects, each by a request of its own; returns the keys whose ETag was another one."""
        left, failed = [], []

        async def one(named: tuple[str, str]) -> None:
            try:
                await self._delete_one(operation, *named)
            except PreconditionFailed:
                left.append(named[0])
            except StoreError as error:
                failed.append(error)

        await gathered(objects, one, _AT_ONCE)
        if failed:
            problem = f"{len(failed)} of {len(objects)} refused: {failed[0].problem}"
            raise type(failed[0])(operation, failed[0].key, problem, hint=failed[0].hint) from failed[0]
        await self._prune([key for key, _ in objects])
        return left

    async def _prune(self, keys: Sequence[str]) -> None:
        """Leave no directories of a job's work where the account has some."""
        if any(MAGIC in key for key in keys) and await (folders := self.folders()).exist():
            await prune(folders, keys)

    async def _refuse_if_there(self, key: str) -> None:
        try:
            await self.head(key)
        except ObjectNotFound:
            return
        raise ObjectExists("complete_upload", self.path(key), "an object is there, and the upload is gone")

    def _no_upload(self, operation: str, key: str) -> UploadNotFound:
        return UploadNotFound(
            operation,
            self.path(key),
            "no such upload: it was completed or aborted, is older than 7 days, or was dropped by another "
            "write to this name",
        )
