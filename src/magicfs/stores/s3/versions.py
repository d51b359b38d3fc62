"""Versions of objects of S3, and the upkeep of a bucket."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from magicfs.errors import ObjectNotFound, StoreError, Unavailable, Unsupported
from magicfs.protocol.file_options import DESCRIPTION
from magicfs.protocol.parts import check_number
from magicfs.stores.answer_rules import Malformed, is_moment, number
from magicfs.stores.pages import Listing, Page, Pages
from magicfs.stores.port import UNVERSIONED, ObjectInfo, Part, Rule, Version, Written
from magicfs.stores.s3 import copy
from magicfs.stores.s3 import errors as s3_errors
from magicfs.stores.s3.copy import Requests
from magicfs.stores.s3.requests.answer import moment

_GONE: Final = frozenset({"NoSuchVersion", "NoSuchKey", "404"})


class S3Versions:
    """The versions of one bucket; see ``magicfs.stores.port.Versions`` for the contract.

    ``defaults`` is what the store sends with every request.
    """

    def __init__(self, requests: Requests, defaults: Mapping[str, Any]) -> None:
        self._requests = requests
        self._defaults = defaults

    async def are_kept(self) -> bool:
        answer = await self._requests.call("get_bucket_versioning", "versions_kept", None)
        return bool(answer.get("Status") == "Enabled")

    async def head(self, key: str, version: str) -> ObjectInfo:
        try:
            answer = await self._requests.call("head_object", "head_version", key, VersionId=version)
        except Unsupported as error:
            raise self._is_marker(error) from error
        with s3_errors.translated("head_version", f"{self._requests.bucket}/{key}"):
            return described(key, answer)

    async def get_range(self, key: str, version: str, start: int, size: int) -> bytes:
        answer = await self._get(key, version, size, Range=f"bytes={start}-{start + size - 1}")
        if "ContentRange" in answer:
            path = f"{self._requests.bucket}/{key}"
            s3_errors.check_range(answer, start, "get_version", path)
            return bytes(answer["Body"])
        # Of a server that gives versions whole.
        answer = await self._get(key, version, start + size)
        return bytes(answer["Body"])[start:]

    async def _get(self, key: str, version: str, size_max: int, **how: Any) -> Any:
        try:
            return await self._requests.call(
                "get_object", "get_version", key, size_max=size_max, VersionId=version, **how
            )
        except Unsupported as error:
            raise self._is_marker(error) from error

    async def copy_part(
        self, key: str, upload_id: str, number: int, source: tuple[str, str], start: int, size: int
    ) -> Part:
        requests = self._requests
        copied_from = {"Bucket": requests.bucket, "Key": source[0]}
        copied_from |= {"VersionId": source[1]} if source[1] else {}
        try:
            return await copy.copied_part(
                requests,
                "copy_part",
                key,
                number,
                UploadId=upload_id,
                CopySource=copied_from,
                CopySourceRange=f"bytes={start}-{start + size - 1}",
                **copy.encryption_of_source(self._defaults),
            )
        except StoreError as error:
            if s3_errors.code_of(error) == "InvalidRequest":  # of a source that is a marker
                raise self._is_marker(error) from error
            raise

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        if not versions:
            return
        bucket, keys = self._requests.bucket, [key for key, _ in versions]
        check_number("delete_versions", bucket, keys, self._requests.capabilities.bulk_delete_max)
        listed = [{"Key": key, "VersionId": version} for key, version in versions]
        how = {"Delete": {"Objects": listed, "Quiet": True}}
        answer = await self._requests.call("delete_objects", "delete_versions", None, keys[0], **how)
        errors = [one for one in answer.get("Errors", ()) if one.get("Code") not in _GONE]
        if errors:
            raise s3_errors.of_some(errors, "delete_versions", bucket, keys)

    def list(self, prefix: str) -> AsyncIterator[Version]:
        async def page(position: dict[str, Any]) -> Page[Version]:
            answer = await self._requests.call(
                "list_object_versions", "list_versions", None, prefix, Prefix=prefix, **position
            )
            found = _in_order([*answer.get("Versions", ()), *answer.get("DeleteMarkers", ())])
            if not answer.get("IsTruncated"):
                return Page(found, None, not found)
            if not answer.get("NextKeyMarker"):
                path = f"{self._requests.bucket}/{prefix}"
                raise Unavailable("list_versions", path, "a page is cut short, and the next one is not named")
            following = {"KeyMarker": answer["NextKeyMarker"]}
            if answer.get("NextVersionIdMarker"):
                following["VersionIdMarker"] = answer["NextVersionIdMarker"]
            return Page(found, following, not found)

        return Pages(
            Listing("list_versions", self._requests.bucket, prefix), page, operator.attrgetter("key")
        )

    def _is_marker(self, error: StoreError) -> ObjectNotFound:
        return ObjectNotFound(error.operation, error.key, "that version is a marker of a deletion")


def _in_order(entries: Sequence[Mapping[str, Any]]) -> Sequence[Version]:
    """The versions of a page as they lie: objects and markers come apart."""

    def place(entry: Mapping[str, Any]) -> tuple[str, bool, float]:
        return entry["Key"], not entry.get("IsLatest"), -(seconds(entry.get("LastModified")) or 0.0)

    return [
        Version(
            entry["Key"],
            entry.get("VersionId") or UNVERSIONED,
            entry.get("Size", 0),
            entry.get("ETag", ""),
            is_marker="ETag" not in entry,
            is_latest=bool(entry.get("IsLatest")),
        )
        for entry in sorted(entries, key=place)
    ]


def described(key: str, answer: Mapping[str, Any]) -> ObjectInfo:
    """What a HEAD has answered."""
    return ObjectInfo(
        key,
        answer["ContentLength"],
        answer.get("ETag", ""),
        seconds(answer.get("LastModified")),
        {name.lower(): value for name, value in answer.get("Metadata", {}).items()},
        {name: answer[name] for name in DESCRIPTION if name in answer},
        version_in(answer),
    )


def version_in(answer: Mapping[str, Any]) -> str:
    """The version that an answer names; empty where nothing keeps it."""
    version = str(answer.get("VersionId") or "")
    return "" if version == UNVERSIONED else version


def seconds(moment: dt.datetime | None) -> float | None:
    """A moment by the clock of Unix; ``Malformed`` for one that no calendar has."""
    if moment is None:
        return None
    found = moment.timestamp()
    if not is_moment(found):
        raise Malformed(f"the answer has the time {found:.0f}")
    return found


_NO_RULES: Final = frozenset({"NoSuchLifecycleConfiguration", "NoSuchLifecycle"})
_PAGES_MAX: Final = 100


class S3Upkeep:
    """See ``magicfs.stores.port.Upkeep`` for the contract."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def clock(self) -> float:
        answer = await self._requests.call("list_multipart_uploads", "clock", None, MaxUploads=1)
        headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        with s3_errors.translated("clock", self._requests.bucket):
            found = seconds(moment(answer.get("Date") or headers.get("date", "")))
            if found is None:
                raise Malformed("the answer has no date")
            return found

    async def written(self, key: str, upload_id: str) -> Written:
        size, last, position = 0, None, 0
        for _ in range(_PAGES_MAX):
            answer = await self._requests.call(
                "list_parts", "written", key, UploadId=upload_id, PartNumberMarker=position
            )
            with s3_errors.translated("written", f"{self._requests.bucket}/{key}"):
                for part in answer.get("Parts", ()):
                    size += number(str(part["Size"]), "size")
                    last = max(last or 0.0, seconds(part["LastModified"]) or 0.0)
                following = int(answer.get("NextPartNumberMarker") or 0)
                if not answer.get("IsTruncated"):
                    return Written(size, last)
                if following <= position:
                    raise Malformed("a page of the listing repeats an earlier one")
            position = following
        raise StoreError("written", f"{self._requests.bucket}/{key}", "its parts have no end")

    async def rules(self) -> tuple[Rule, ...]:
        try:
            answer = await self._requests.call("get_bucket_lifecycle_configuration", "rules", None)
        except StoreError as error:
            if s3_errors.code_of(error) in _NO_RULES:
                return ()
            raise
        with s3_errors.translated("rules", self._requests.bucket):
            return tuple(filter(None, map(_rule, answer.get("Rules", ()))))


def _rule(rule: Mapping[str, Any]) -> Rule | None:
    """A rule that ends uploads by their age and prefix alone; None for any other."""
    ends = rule.get("AbortIncompleteMultipartUpload") or {}
    asked = rule.get("Filter") or {}
    asked = asked.get("And") or asked
    if {*asked} - {"Prefix"} or rule.get("Status") != "Enabled" or "DaysAfterInitiation" not in ends:
        return None
    prefix = asked.get("Prefix") or rule.get("Prefix") or ""
    return Rule(number(str(ends["DaysAfterInitiation"]), "days"), str(prefix))
