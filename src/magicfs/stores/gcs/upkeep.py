"""The upkeep of a bucket of Google Cloud Storage."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote

from magicfs.errors import StoreError
from magicfs.stores.answer_rules import Malformed, number, root_of, seconds_of
from magicfs.stores.gcs import errors
from magicfs.stores.gcs.client import GcsClient
from magicfs.stores.upkeep_port import Rule, Written

__all__ = ["GcsUpkeep"]

_PAGES_MAX: Final = 100
_ASKED: Final = {"age", "matchesPrefix"}


class GcsUpkeep:
    """See ``magicfs.stores.upkeep_port.Upkeep`` for the contract."""

    def __init__(self, client: GcsClient, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    async def clock(self) -> float:
        wanted = {"uploads": "", "max-uploads": "1"}
        answer = await self._client.ask("clock", self._bucket, "GET", f"/{self._bucket}", params=wanted)
        with errors.reading("clock", self._bucket):
            return parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()

    async def written(self, key: str, upload_id: str) -> Written:
        path, target = f"{self._bucket}/{key}", f"/{self._bucket}/{quote(key, safe='')}"
        size, last, position = 0, None, ""
        for _ in range(_PAGES_MAX):
            wanted = {"uploadId": upload_id, **({"part-number-marker": position} if position else {})}
            answer = await self._client.ask("written", path, "GET", target, params=wanted)
            with errors.reading("written", path):
                root = root_of(answer.content, "ListPartsResult")
                for part in root.iterfind("{*}Part"):
                    size += number(part.findtext("{*}Size"), "size")
                    last = max(last or 0.0, seconds_of(part.findtext("{*}LastModified", "")))
                if root.findtext("{*}IsTruncated") != "true":
                    return Written(size, last)
                before, position = position, root.findtext("{*}NextPartNumberMarker", "")
                if position in {"", before}:
                    raise Malformed("a page of the listing repeats an earlier one")
        raise StoreError("written", path, "its parts have no end")

    async def rules(self) -> tuple[Rule, ...]:
        target = f"/storage/v1/b/{quote(self._bucket)}"
        answer = await self._client.ask("rules", self._bucket, "GET", target)
        answered = errors.document(answer, "rules", self._bucket, "storage#bucket")
        found = []
        with errors.reading("rules", self._bucket):
            for rule in (answered.get("lifecycle") or {}).get("rule", ()):
                action, asked = rule["action"]["type"], rule["condition"]
                if action == "AbortIncompleteMultipartUpload" and "age" in asked and not {*asked} - _ASKED:
                    days = number(str(asked["age"]), "age")
                    found += [Rule(days, str(one)) for one in asked.get("matchesPrefix") or [""]]
        return tuple(found)
