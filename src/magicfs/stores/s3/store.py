"""S3 and what speaks its protocol, as an ``s3fs.S3FileSystem`` is told to reach it.

Endpoint, credentials, region and addressing are those of the filesystem: there is no second way to give them.
Encryption, ACL, tags and storage class are the filesystem's, too, but for objects of a job that was told
others. Requests are our own (``stores.s3.requests``), or, where its rule says so, those of the filesystem's
client, past s3fs's own retries (which multiply botocore's) and its listing cache.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unavailable,
    UploadNotFound,
)
from magicfs.protocol import file_options
from magicfs.protocol.file_options import DESCRIPTION, METADATA
from magicfs.protocol.parts import PartLimits, check_number, check_order
from magicfs.stores import object_settings, port
from magicfs.stores.answer_rules import WHOLE_BYTES_MAX, Malformed, whole
from magicfs.stores.object_settings import ObjectSettings
from magicfs.stores.pages import Listing, Page, Pages, itself
from magicfs.stores.port import (
    Body,
    Capabilities,
    ObjectInfo,
    Part,
    PartBody,
    PutMode,
    Update,
    UploadInfo,
    Versions,
)
from magicfs.stores.register import is_there
from magicfs.stores.s3 import checksums, copy
from magicfs.stores.s3 import errors as s3_errors
from magicfs.stores.s3.client import ask_client, connections_of, endpoint_of, is_r2
from magicfs.stores.s3.requests.answer import check_has
from magicfs.stores.s3.requests.line import Engine, Line, line_to
from magicfs.stores.s3.requests.own import OwnRequests
from magicfs.stores.s3.versions import S3Upkeep, S3Versions, described, seconds, version_in

if TYPE_CHECKING:
    from s3fs import S3FileSystem

# Of CreateMultipartUpload (Amazon S3 API reference). Left out is what later requests and readers of the
# object must know, too: keys of customers' own, algorithms of checksums, who pays.
_UPLOAD_OPTIONS = frozenset(
    {
        *(METADATA, *DESCRIPTION, *object_settings.NAMES - {"SSECustomerAlgorithm"}, "ExpectedBucketOwner"),
        *("ObjectLockMode", "ObjectLockRetainUntilDate", "ObjectLockLegalHoldStatus"),
    }
)
_KEY = operator.attrgetter("key")
_AGAIN = "S3 asks to upload all parts again: abort the job and write the file again"


class S3Store:
    """One bucket of S3; see ``magicfs.stores.port.Store`` for the contract.

    ``engine`` and ``line`` are for tests: who sends requests, whatever the rule says; and a line to the
    bucket that was made otherwise than by asking the filesystem's client.
    """

    name = "s3"

    engine: Engine = "auto"
    """What stores take that were told nothing else."""

    def __init__(
        self,
        filesystem: S3FileSystem,
        bucket: str,
        settings: ObjectSettings | None = None,
        *,
        engine: Engine | None = None,
        line: Line | None = None,
    ) -> None:
        self.bucket = bucket
        self._filesystem = filesystem
        self._engine = engine
        self._given_line = line
        self._own: OwnRequests | None = None
        self._twin: S3Store | None = None
        options = filesystem.s3_additional_kwargs
        self.object_settings: ObjectSettings = (
            object_settings.of_options(options) if settings is None else settings
        )
        self._arguments = object_settings.arguments(self.object_settings, options)
        records = object_settings.of_records(self.object_settings)
        self._arguments_of_records = object_settings.arguments(records, options)
        self.capabilities: Capabilities = Capabilities(
            parts=PartLimits(equal_sizes=bool(filesystem.fixed_upload_size) or is_r2(filesystem)),
            uploads=port.Uploads(options=_UPLOAD_OPTIONS),
            # What is put is a record, unless records are what files are.
            puts_files=records == self.object_settings and METADATA not in options,
            checksums=checksums.known(options),
            requests_max=connections_of(filesystem),
            versions=True,
        )

    @property
    def identity(self) -> str:
        return f"s3:{endpoint_of(self._filesystem)}/{self.bucket}"

    def with_object_settings(self, settings: ObjectSettings) -> S3Store:
        """The same bucket, with objects that bear these settings; the customer's key is the filesystem's."""
        twin = self._twin
        if twin is None or twin.object_settings != settings:
            line, engine = self._given_line, self._engine
            twin = self._twin = S3Store(self._filesystem, self.bucket, settings, engine=engine, line=line)
        return twin

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        given = dict(options or {})
        file_options.check(given, _UPLOAD_OPTIONS, f"{self.bucket}/{key}", self.name)
        users = given.get(METADATA, self._filesystem.s3_additional_kwargs.get(METADATA))
        given[METADATA] = file_options.joined_metadata(users, metadata)
        answer = await self.call("create_multipart_upload", "create_upload", key, **given)
        return str(answer["UploadId"])

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        answer = await self.call(
            "upload_part", "put_part", key, UploadId=upload_id, PartNumber=number, Body=body
        )
        checksum = checksums.of_part(self.capabilities.checksums, answer)
        return Part(number, str(answer["ETag"]), checksum)

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        # S3 refuses such a request; some of its relatives sort the parts, others join them as they come.
        check_order([part.number for part in parts], f"{self.bucket}/{key}")
        listed = [copy.completed_part(part) for part in parts]
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if if_absent else {}
        try:
            answer = await self.call(
                "complete_multipart_upload",
                "complete_upload",
                key,
                UploadId=upload_id,
                MultipartUpload={"Parts": listed},
                **condition,
            )
        except PreconditionFailed as error:
            raise ObjectExists("complete_upload", error.key, "an object is there") from error
        except Unavailable as error:
            if if_absent and s3_errors.code_of(error) == s3_errors.CONFLICT:
                raise StoreError("complete_upload", error.key, error.problem, hint=_AGAIN) from error
            raise
        # Ceph's gateway answers without an ETag; the size is in no answer.
        return ObjectInfo(key, -1, str(answer.get("ETag", "")), version=version_in(answer))

    async def abort_upload(self, key: str, upload_id: str) -> None:
        try:
            await self.call("abort_multipart_upload", "abort_upload", key, UploadId=upload_id)
        except UploadNotFound:
            return

    def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        async def page(position: dict[str, Any]) -> Page[UploadInfo]:
            answer = await self.call(
                "list_multipart_uploads", "list_uploads", None, prefix, Prefix=prefix, **position
            )
            found = [
                UploadInfo(
                    upload["Key"],
                    upload["UploadId"],
                    seconds(upload.get("Initiated")) or 0.0,
                    _initiator(upload.get("Initiator") or {}),
                )
                for upload in answer.get("Uploads", ())
            ]
            # SeaweedFS goes on by the upload alone, directory buckets by the key alone.
            names = ("KeyMarker", "UploadIdMarker") if answer.get("IsTruncated") else ()
            following = {name: answer[f"Next{name}"] for name in names if answer.get(f"Next{name}")}
            return Page(found, following or None, not found)

        return Pages(Listing("list_uploads", self.bucket, prefix), page, _KEY)

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        given: dict[str, Any] = {"Body": body, "Metadata": dict(metadata or {}), **copy.condition_of(mode)}
        try:
            answer = await self.call("put_object", "put", key, **given)
        except PreconditionFailed as error:
            if isinstance(mode, Update):
                raise
            raise ObjectExists("put", error.key, "an object is there") from error
        except ObjectNotFound as error:
            if not isinstance(mode, Update) or s3_errors.code_of(error) == "NoSuchBucket":
                raise
            raise PreconditionFailed("put", error.key, "no object is there") from error
        return ObjectInfo(key, len(body), str(answer.get("ETag", "")), version=version_in(answer))

    async def copy(
        self, source: str, destination: str, *, etag: str = "", mode: PutMode | Update = PutMode.OVERWRITE
    ) -> int:
        return await copy.copy(self, source, destination, self._arguments, etag, mode)

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        read_max = WHOLE_BYTES_MAX + 1 if size_max is None else size_max
        answer = await self.call("get_object", "get", key, size_max=read_max)
        return whole(bytes(answer["Body"]), size_max, "get", f"{self.bucket}/{key}")

    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        span = f"bytes={start}-{start + size - 1}"
        answer = await self.call("get_object", "get_range", key, size_max=size, Range=span, IfMatch=etag)
        if answer.get("ETag", etag) != etag:  # of a server that does not know the condition
            raise PreconditionFailed("get_range", f"{self.bucket}/{key}", f"no object of ETag {etag}")
        s3_errors.check_range(answer, start, "get_range", f"{self.bucket}/{key}")
        return bytes(answer["Body"])

    async def head(self, key: str) -> ObjectInfo:
        answer = await self.call("head_object", "head", key)
        with s3_errors.translated("head", f"{self.bucket}/{key}"):
            return described(key, answer)

    def versions(self) -> Versions:
        return S3Versions(self, self._arguments)

    def upkeep(self) -> S3Upkeep:
        return S3Upkeep(self)

    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        answer = await self.call("head_object", "checksums", key, ChecksumMode="ENABLED", IfMatch=etag)
        return checksums.of_object(f"{self.bucket}/{key}", answer, etag)

    def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        most: dict[str, Any] = (
            {} if limit is None else {"MaxKeys": min(limit, self.capabilities.list_page_max)}
        )

        async def page(position: dict[str, Any]) -> Page[ObjectInfo]:
            answer = await self.call(
                "list_objects_v2", "list", None, prefix, Prefix=prefix, **most, **position
            )
            found = [
                ObjectInfo(
                    entry["Key"], entry["Size"], entry.get("ETag", ""), seconds(entry.get("LastModified"))
                )
                for entry in answer.get("Contents", ())
            ]
            if any(info.size < 0 for info in found):
                raise Malformed("the answer has a size below zero")
            return Page(found, _following(answer), not found)

        return Pages(Listing("list", self.bucket, prefix), page, _KEY, limit)

    def list_directories(self, prefix: str) -> AsyncIterator[str]:
        async def page(position: dict[str, Any]) -> Page[str]:
            answer = await self.call(
                "list_objects_v2", "list_directories", None, prefix, Prefix=prefix, Delimiter="/", **position
            )
            found = [entry["Prefix"] for entry in answer.get("CommonPrefixes", ())]
            return Page(found, _following(answer), not found and not answer.get("Contents"))

        return Pages(Listing("list_directories", self.bucket, prefix), page, itself)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._delete("delete", [{"Key": key} for key in keys])

    async def delete_matching(self, key: str, etag: str) -> None:
        try:
            await self.call("delete_object", "delete_matching", key, IfMatch=etag)
        except PreconditionFailed:
            # SeaweedFS refuses so where nothing is, too.
            if await is_there(self, key):
                raise
        except ObjectNotFound as error:
            if s3_errors.code_of(error) == "NoSuchBucket":
                raise

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        listed = [{"Key": key, "ETag": etag} for key, etag in objects]
        return await self._delete("delete_all_matching", listed)

    async def _delete(self, operation: str, listed: Sequence[Mapping[str, str]]) -> builtins.list[str]:
        """Delete objects in one request; returns the keys whose ETag was another one."""
        if not listed:
            return []
        keys = [one["Key"] for one in listed]
        check_number(operation, self.bucket, keys, self.capabilities.bulk_delete_max)
        answer = await self.call(
            "delete_objects", operation, None, keys[0], Delete={"Objects": listed, "Quiet": True}
        )
        asked, left, errors = {*keys}, [], []
        for refused in answer.get("Errors", ()):
            if refused.get("Code") in {"PreconditionFailed", "412"} and refused.get("Key") in asked:
                left.append(refused["Key"])
            # A missing key is reported as deleted by S3 and as an error by some of its relatives.
            elif refused.get("Code") not in {"NoSuchKey", "404"}:
                errors.append(refused)
        if errors:
            raise s3_errors.of_some(errors, operation, self.bucket, keys)
        return left

    async def call(
        self,
        method: str,
        operation: str,
        key: str | None,
        about: str = "",
        /,
        *,
        size_max: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Make one request to the bucket by a method of the client; ``operation`` is the port's name of it.

        The key is None for a request about the bucket; messages name ``about`` in its place. ``size_max``:
        how much is read of a ``Body``.
        """
        if key is not None:
            kwargs["Key"] = key
        made = self._arguments_of_records if method == "put_object" else self._arguments
        if not object_settings.NAMES.isdisjoint(kwargs):
            made = object_settings.beside(made, kwargs)
        with s3_errors.translated(operation, f"{self.bucket}/{about if key is None else key}"):
            if (line := self._given_line) is None:
                filesystem = self._filesystem
                await filesystem.set_session()
                client = await filesystem.get_s3(self.bucket)
                line = await line_to(filesystem, client, self.bucket, self._engine or self.engine)
                if line is None:
                    kwargs["Bucket"] = self.bucket
                    answer = await ask_client(filesystem, client, method, made, kwargs, size_max)
                    check_has(answer, method)
                    return answer
            return await self._own_on(line).ask(method, made, kwargs, size_max)

    def _own_on(self, line: Line) -> OwnRequests:
        own = self._own
        if own is None or own.line is not line:
            filesystem = self._filesystem
            extra = {**filesystem.s3_additional_kwargs, **filesystem.req_kw}
            own = self._own = OwnRequests(line, self.bucket, extra)
        return own


def _initiator(named: Mapping[str, str]) -> str:
    return named.get("DisplayName") or named.get("ID") or ""


def _following(answer: Mapping[str, Any]) -> dict[str, str] | None:
    """Where the next page of a listing of objects begins."""
    return {"ContinuationToken": answer["NextContinuationToken"]} if answer.get("IsTruncated") else None
