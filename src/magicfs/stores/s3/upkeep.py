"""The upkeep of a bucket of S3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from magicfs.errors import StoreError
from magicfs.stores.answer_rules import Malformed, number
from magicfs.stores.port import Rule, Written
from magicfs.stores.s3 import errors as s3_errors
from magicfs.stores.s3.copy import Requests
from magicfs.stores.s3.requests.answer import moment
from magicfs.stores.s3.versions import seconds

__all__ = ["S3Upkeep"]

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
