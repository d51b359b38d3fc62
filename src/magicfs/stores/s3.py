"""S3 and what speaks its protocol, through the client of an ``s3fs.S3FileSystem``.

Endpoint, credentials, region, addressing and encryption are those of the filesystem: there is no second
way to give them. Requests go to its client directly, past s3fs's own retries (which multiply botocore's)
and its listing cache.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from magicfs.errors import ObjectExists, PreconditionFailed, StoreError, Unavailable, UploadNotFound
from magicfs.protocol.parts import PartLimits
from magicfs.stores import s3_errors
from magicfs.stores.port import Body, Capabilities, ObjectInfo, Part, PartBody, UploadInfo

if TYPE_CHECKING:
    from s3fs import S3FileSystem

__all__ = ["S3Store"]

# Bodies are cheap to send again, and conflicts last as long as one request.
_PUT_ATTEMPTS = 5
_PUT_PAUSE_S = 0.1


class S3Store:
    """One bucket of S3; see ``magicfs.stores.port.Store`` for the contract.

    Args:
        filesystem: Where client, credentials and request defaults come from.
        bucket: The bucket.
    """

    name = "s3"

    def __init__(self, filesystem: S3FileSystem, bucket: str) -> None:
        self.bucket = bucket
        self._filesystem = filesystem
        self.capabilities = Capabilities(parts=PartLimits(equal_sizes=bool(filesystem.fixed_upload_size)))

    async def create_upload(self, key: str, *, metadata: Mapping[str, str]) -> str:  # noqa: D102
        answer = await self._call("create_multipart_upload", "create_upload", key, Metadata=dict(metadata))
        return str(answer["UploadId"])

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:  # noqa: D102
        answer = await self._call(
            "upload_part", "put_part", key, UploadId=upload_id, PartNumber=number, Body=_seekable(body)
        )
        return Part(number, str(answer["ETag"]), self._checksum(answer))

    async def complete_upload(self, key: str, upload_id: str, parts: Sequence[Part]) -> ObjectInfo:  # noqa: D102
        numbers = [part.number for part in parts]
        # S3 refuses such a request; some of its relatives sort the parts, others join them as they come.
        if not numbers or numbers != sorted(set(numbers)):
            path = f"{self.bucket}/{key}"
            raise StoreError("complete_upload", path, "parts must be named once each, in ascending order")
        listed = [_completed_part(part) for part in parts]
        answer = await self._call(
            "complete_multipart_upload",
            "complete_upload",
            key,
            UploadId=upload_id,
            MultipartUpload={"Parts": listed},
        )
        # Ceph's gateway answers without an ETag; the size is never told.
        return ObjectInfo(key, -1, str(answer.get("ETag", "")))

    async def abort_upload(self, key: str, upload_id: str) -> None:  # noqa: D102
        try:
            await self._call("abort_multipart_upload", "abort_upload", key, UploadId=upload_id)
        except UploadNotFound:
            return

    async def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:  # noqa: D102
        position: dict[str, str] = {}
        while True:
            page = await self._call(
                "list_multipart_uploads", "list_uploads", None, prefix, Prefix=prefix, **position
            )
            for upload in page.get("Uploads", ()):
                yield UploadInfo(upload["Key"], upload["UploadId"], _seconds(upload.get("Initiated")) or 0.0)
            # SeaweedFS says that a page is cut short and does not say where the next one begins.
            if not page.get("IsTruncated") or not page.get("NextKeyMarker"):
                return
            position = {"KeyMarker": page["NextKeyMarker"]}
            if page.get("NextUploadIdMarker"):  # directory buckets have none
                position["UploadIdMarker"] = page["NextUploadIdMarker"]

    async def put(  # noqa: D102
        self, key: str, body: Body, *, metadata: Mapping[str, str] | None = None, if_absent: bool = False
    ) -> ObjectInfo:
        condition = {"IfNoneMatch": "*"} if if_absent else {}
        arguments = {"Metadata": dict(metadata or {}), **condition}
        for attempt in range(1, _PUT_ATTEMPTS + 1):
            try:
                answer = await self._call("put_object", "put", key, Body=_seekable(body), **arguments)
                break
            except PreconditionFailed as error:
                raise ObjectExists("put", error.key, "an object is there") from error
            except Unavailable as error:
                if s3_errors.CONFLICT not in error.problem or attempt == _PUT_ATTEMPTS:
                    raise
                await asyncio.sleep(_PUT_PAUSE_S * attempt)
        return ObjectInfo(key, len(body), str(answer.get("ETag", "")))

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:  # noqa: D102
        answer = await self._call("get_object", "get", key)
        with s3_errors.translated("get", f"{self.bucket}/{key}"):
            async with answer["Body"] as stream:
                return await _read(stream, size_max)

    async def head(self, key: str) -> ObjectInfo:  # noqa: D102
        answer = await self._call("head_object", "head", key)
        metadata = {name.lower(): value for name, value in answer.get("Metadata", {}).items()}
        return ObjectInfo(
            key,
            answer["ContentLength"],
            answer.get("ETag", ""),
            _seconds(answer.get("LastModified")),
            metadata,
        )

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:  # noqa: D102
        position: dict[str, Any] = {} if limit is None else {"MaxKeys": min(limit, 1000)}
        yielded = 0
        while True:
            page = await self._call("list_objects_v2", "list", None, prefix, Prefix=prefix, **position)
            for entry in page.get("Contents", ()):
                yield ObjectInfo(
                    entry["Key"], entry["Size"], entry.get("ETag", ""), _seconds(entry.get("LastModified"))
                )
                yielded += 1
                if limit is not None and yielded >= limit:
                    return
            if not page.get("IsTruncated"):
                return
            position["ContinuationToken"] = page["NextContinuationToken"]

    async def delete(self, keys: Sequence[str]) -> None:  # noqa: D102
        if not keys:
            return
        if len(keys) > self.capabilities.bulk_delete_max:
            path = f"{self.bucket}/{keys[0]}"
            raise StoreError("delete", path, f"{len(keys)} keys are too many for one request")
        listed = [{"Key": key} for key in keys]
        answer = await self._call(
            "delete_objects", "delete", None, keys[0], Delete={"Objects": listed, "Quiet": True}
        )
        # A missing key is reported as deleted by S3 and as an error by some of its relatives.
        errors = [e for e in answer.get("Errors", ()) if e.get("Code") not in {"NoSuchKey", "404"}]
        if errors:
            first = errors[0]
            code, told = first.get("Code", ""), first.get("Message", "")
            path = f"{self.bucket}/{first.get('Key', keys[0])}"
            problem = f"{len(errors)} of {len(keys)} refused: {code} {told}".strip()
            raise s3_errors.kind_of(code, "")("delete", path, problem)

    def _checksum(self, answer: Mapping[str, Any]) -> tuple[str, str] | None:
        # Answers carry a checksum that botocore added by itself, too; only an upload that was opened with an
        # algorithm must be completed with the checksums of its parts.
        algorithm = self._filesystem.s3_additional_kwargs.get("ChecksumAlgorithm")
        value = answer.get(f"Checksum{algorithm}")
        return (algorithm, value) if algorithm and value else None

    async def _call(
        self, method: str, operation: str, key: str | None, about: str = "", /, **kwargs: Any
    ) -> Any:
        filesystem = self._filesystem
        kwargs["Bucket"] = self.bucket
        if key is not None:
            kwargs["Key"] = key
        path = f"{self.bucket}/{about if key is None else key}"
        with s3_errors.translated(operation, path):
            await filesystem.set_session()
            client = await filesystem.get_s3(self.bucket)
            function = getattr(client, method)
            # Adds the filesystem's own defaults (encryption, ACL, requester pays), if the method knows them.
            known = filesystem._get_s3_method_kwargs(function, **kwargs)  # noqa: SLF001
            return await function(**known)


def _completed_part(part: Part) -> dict[str, Any]:
    plain = {"PartNumber": part.number, "ETag": part.etag}
    return plain | {f"Checksum{part.checksum[0]}": part.checksum[1]} if part.checksum else plain


async def _read(stream: Any, size_max: int | None) -> bytes:
    if size_max is None:
        whole: bytes = await stream.read()
        return whole
    chunks, left = [], size_max
    while left and (chunk := await stream.read(left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _seekable(body: PartBody) -> io.BytesIO:
    # aiohttp warns about large bare bytes, and botocore must be able to read a body again to retry it. A
    # BytesIO made of bytes shares their memory until aiohttp asks for its buffer, which copies it.
    if isinstance(body, io.BytesIO):
        body.seek(0)
        return body
    return io.BytesIO(body)


def _seconds(moment: dt.datetime | None) -> float | None:
    return moment.timestamp() if moment is not None else None
