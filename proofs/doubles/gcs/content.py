"""What the double holds: buckets and their objects, each write an atomic step with its preconditions.

Nothing here waits, and the server has one thread: so nothing comes between a condition and what it guards.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import google_crc32c

from proofs.doubles.gcs.wire import Refusal

__all__ = [
    "DESCRIBING",
    "Bucket",
    "Content",
    "SoftDeleted",
    "StoredObject",
    "Upload",
    "check_conditions",
    "checked",
    "crc32c_of",
    "md5_of",
    "timestamp",
]

_NAME_BYTES_MAX = 1024
DESCRIBING = (
    *("contentType", "contentEncoding", "contentDisposition", "contentLanguage", "cacheControl"),
    *("customTime", "storageClass"),
)
"""What a writer may say of an object beside its user metadata."""
_HOLDS = ("temporaryHold", "eventBasedHold")


@dataclass(slots=True)
class StoredObject:
    """One live object."""

    name: str
    body: bytes
    generation: int
    created: float
    resource: dict[str, Any]  # DESCRIBING, metadata, holds
    metageneration: int = 1
    updated: float = 0.0
    md5: str | None = None
    components: int | None = None

    def described(self, bucket: str, base_url: str) -> dict[str, Any]:
        """The object resource."""
        path = f"{base_url}/storage/v1/b/{bucket}/o"
        entry: dict[str, Any] = {
            "kind": "storage#object",
            "id": f"{bucket}/{self.name}/{self.generation}",
            "selfLink": path,
            "name": self.name,
            "bucket": bucket,
            "generation": str(self.generation),
            "metageneration": str(self.metageneration),
            "storageClass": "STANDARD",
            "size": str(len(self.body)),
            "crc32c": crc32c_of(self.body),
            "etag": base64.b64encode(f"{self.generation}/{self.metageneration}".encode()).decode(),
            "timeCreated": timestamp(self.created),
            "updated": timestamp(self.updated or self.created),
        }
        if self.md5 is not None:
            entry["md5Hash"] = self.md5
        if self.components is not None:
            entry["componentCount"] = self.components
        return entry | self.resource


@dataclass(slots=True)
class Upload:
    """A multipart upload of the XML API that is pending."""

    name: str
    initiated: float
    resource: dict[str, Any]
    parts: dict[int, tuple[bytes, str, float]] = field(default_factory=dict)  # body, ETag, when


@dataclass(frozen=True, slots=True)
class SoftDeleted:
    """An object that was deleted or written over at ``gone``, and is kept until ``until``."""

    held: StoredObject
    gone: float
    until: float


@dataclass(slots=True)
class Bucket:
    """One bucket."""

    name: str
    resource: dict[str, Any]
    created: float
    objects: dict[str, StoredObject] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    folders: dict[str, float] = field(default_factory=dict)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)  # that have renamed folders
    deleted: list[SoftDeleted] = field(default_factory=list)

    @property
    def is_hierarchical(self) -> bool:
        """Whether it has folders."""
        return bool(self.resource.get("hierarchicalNamespace", {}).get("enabled"))

    @property
    def is_zonal(self) -> bool:
        """Whether it is a Rapid bucket."""
        return str(self.resource.get("storageClass")) == "RAPID"

    @property
    def bills_who_asks(self) -> bool:
        """Whether whoever asks pays for requests."""
        return bool(self.resource.get("billing", {}).get("requesterPays"))

    @property
    def is_private(self) -> bool:
        """Whether nobody reaches it without credentials."""
        configuration = self.resource.get("iamConfiguration", {})
        return bool(configuration.get("publicAccessPrevention") == "enforced")

    def found(self, name: str, generation: str | None = None) -> StoredObject:
        """A live object."""
        held = self.objects.get(name)
        if held is None or generation not in {None, str(held.generation)}:
            raise Refusal(404, "notFound", f"No such object: {self.name}/{name}", "NoSuchKey")
        return held

    def operation(self, number: str) -> dict[str, Any]:
        """A long-running operation."""
        if number not in self.operations:
            raise Refusal(404, "notFound", f"The operation {number} does not exist.")
        return self.operations[number]

    def add_parents(self, name: str, now: float) -> None:
        """Make the folders above a name."""
        if self.is_hierarchical:
            for end in (index + 1 for index, letter in enumerate(name) if letter == "/"):
                self.folders.setdefault(name[:end], now)


class Content:
    """All buckets."""

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self._generations = itertools.count(int(time.time() * 1_000_000))
        self.now = time.time

    def bucket(self, name: str) -> Bucket:
        """A bucket that is there."""
        if name not in self.buckets:
            raise Refusal(404, "notFound", "The specified bucket does not exist.", "NoSuchBucket")
        return self.buckets[name]

    def add_bucket(self, name: str, resource: Mapping[str, Any]) -> Bucket:
        """Make a bucket."""
        if not name:
            raise Refusal(400, "required", "Required")
        if name in self.buckets:
            raise Refusal(409, "mode", "Your previous request to create the named bucket succeeded.")
        made = {"storageClass": "STANDARD", "location": "US", "locationType": "region", **resource}
        if made["storageClass"] == "RAPID":
            made["locationType"] = "zone"
        self.buckets[name] = Bucket(name, made, self.now())
        return self.buckets[name]

    def remove_bucket(self, name: str) -> None:
        """Delete an empty bucket."""
        bucket = self.bucket(name)
        if bucket.objects or bucket.uploads:
            raise Refusal(409, "mode", "The bucket you tried to delete is not empty.", "BucketNotEmpty")
        del self.buckets[name]

    def write(
        self,
        bucket: Bucket,
        name: str,
        body: bytes,
        resource: Mapping[str, Any],
        conditions: Mapping[str, str] | None = None,
        *,
        has_md5: bool = True,
        components: int | None = None,
    ) -> StoredObject:
        """Put a new generation in the place of what is there, if the conditions hold."""
        _check_name(name)
        held = bucket.objects.get(name)
        check_conditions(conditions or {}, held)
        self.check_may_go(bucket, held)
        now = self.now()
        kept = {key: resource[key] for key in DESCRIBING if resource.get(key)}
        if metadata := resource.get("metadata"):
            kept["metadata"] = {key: str(value) for key, value in metadata.items()}
        kept |= {key: True for key in _HOLDS if resource.get(key)}
        if bucket.resource.get("defaultEventBasedHold"):
            kept["eventBasedHold"] = True
        kept.setdefault("contentType", "application/octet-stream")
        md5 = md5_of(body) if has_md5 else None
        made = StoredObject(name, body, self.next_generation(), now, kept, md5=md5, components=components)
        if held is not None:
            self._let_go(bucket, held)
        bucket.objects[name] = made
        bucket.add_parents(name, now)
        return made

    def next_generation(self) -> int:
        """A number that is larger than all before."""
        return next(self._generations)

    def remove(self, bucket: Bucket, name: str, query: Mapping[str, str]) -> None:
        """Delete an object, if the conditions hold."""
        held = bucket.found(name, query.get("generation"))
        check_conditions(query, held)
        self.check_may_go(bucket, held)
        self._let_go(bucket, held)
        del bucket.objects[name]

    def _let_go(self, bucket: Bucket, held: StoredObject) -> None:
        """Keep what goes for as long as the bucket's soft-delete policy says."""
        period = int(bucket.resource.get("softDeletePolicy", {}).get("retentionDurationSeconds", 0))
        if period:
            now = self.now()
            bucket.deleted.append(SoftDeleted(held, now, now + period))

    def move(self, bucket: Bucket, source: str, name: str, query: Mapping[str, str]) -> StoredObject:
        """Give an object another name in one step."""
        held = bucket.found(source, query.get("sourceGeneration"))
        check_conditions(query, held, "ifSource")
        if source == name:
            raise Refusal(400, "invalid", "Source and destination object names must be different.")
        self.check_may_go(bucket, held)
        made = self.write(
            bucket, name, held.body, held.resource, query, has_md5=bool(held.md5), components=held.components
        )
        del bucket.objects[source]
        return made

    def check_may_go(self, bucket: Bucket, held: StoredObject | None) -> None:
        """Refuse to replace or delete what is held or retained."""
        if held is None:
            return
        if any(held.resource.get(hold) for hold in _HOLDS):
            problem = f"Object '{bucket.name}/{held.name}' is under active hold and cannot be deleted."
            raise Refusal(403, "objectUnderActiveHold", problem)
        period = int(bucket.resource.get("retentionPolicy", {}).get("retentionPeriod", 0))
        if self.now() < held.created + period:
            problem = f"Object '{bucket.name}/{held.name}' is subject to bucket's retention policy."
            raise Refusal(403, "retentionPolicyNotMet", problem)


def check_conditions(query: Mapping[str, str], held: StoredObject | None, prefix: str = "if") -> None:
    """Raise 412, or 304 for what was asked not to match, if a precondition does not hold."""
    for what, number in _numbers(held):
        wanted = query.get(f"{prefix}{what}Match")
        if wanted is not None and wanted != number:
            raise Refusal(
                412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold."
            )
        if query.get(f"{prefix}{what}NotMatch") == number:
            raise Refusal(304, "notModified", "Not Modified")


def checked(resource: Mapping[str, Any], body: bytes) -> None:
    """Raise 400 if a checksum that was sent is not that of the body."""
    for name, value in (("crc32c", crc32c_of(body)), ("md5Hash", md5_of(body))):
        if resource.get(name) not in {None, value}:
            problem = f'Provided {name} hash "{resource[name]}" doesn\'t match calculated hash "{value}".'
            raise Refusal(400, "invalid", problem, "BadDigest")


def crc32c_of(body: bytes) -> str:
    """As Google writes it: big-endian, base64."""
    return base64.b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()


def md5_of(body: bytes) -> str:
    """In base64."""
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def timestamp(seconds: float) -> str:
    """RFC 3339, with milliseconds."""
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _numbers(held: StoredObject | None) -> Iterator[tuple[str, str]]:
    yield "Generation", "0" if held is None else str(held.generation)
    yield "Metageneration", "0" if held is None else str(held.metageneration)


def _check_name(name: str) -> None:
    bad = not name or name in {".", ".."} or "\r" in name or "\n" in name
    if bad or name.startswith(".well-known/acme-challenge/"):
        raise Refusal(400, "invalid", f"Invalid object name: '{name}'", "InvalidObjectName")
    if len(name.encode()) > _NAME_BYTES_MAX:
        raise Refusal(400, "invalid", "The maximum object length is 1024 bytes.", "KeyTooLong")
