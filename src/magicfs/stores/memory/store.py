"""The memory store: the definition of the port, in one process.

Where the port's docstrings leave room, this module decides; the other stores are tested against it.
"""

from __future__ import annotations

import bisect
import builtins
import hashlib
import io
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unsupported,
    UploadNotFound,
)
from magicfs.protocol import file_options
from magicfs.protocol.file_options import DESCRIPTION, METADATA
from magicfs.protocol.parts import PartLimits, check_number, check_order
from magicfs.stores import checksums, port
from magicfs.stores.port import (
    UNVERSIONED,
    Body,
    Capabilities,
    ObjectInfo,
    Part,
    PartBody,
    PutMode,
    Rule,
    Update,
    UploadInfo,
    Version,
    Written,
)

Versioning = Literal["Enabled", "Suspended"] | None
"""Whether a bucket keeps versions, has kept some before, or never has."""

_STALE_MAX = 1000


@dataclass(frozen=True, slots=True)
class Held:
    """An object."""

    info: ObjectInfo
    body: bytes


@dataclass(slots=True)
class HeldUpload:
    """A pending upload."""

    key: str
    initiated: float
    metadata: dict[str, str]
    description: dict[str, Any]
    parts: dict[int, bytes] = field(default_factory=dict)
    written: float | None = None  # when the last part was


class Objects(dict[str, Held]):
    """Objects by their keys, which it can tell in order: a listing looks at no more than what it shows.

    Sorting waits for the next listing. Keys that are gone stay in the order until they are many.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sorted: list[str] = []
        self._fresh: list[str] = []

    def __setitem__(self, key: str, value: Held) -> None:
        if key not in self:
            self._fresh.append(key)
        super().__setitem__(key, value)

    def update(self, other: Mapping[str, Held]) -> None:  # type: ignore[override]
        """Take in the objects of another bucket."""
        for key, value in other.items():
            self[key] = value

    def below(self, prefix: str) -> Iterator[str]:
        """The keys that start with the prefix, in order. Text sorts as its UTF-8 does."""
        if len(self._sorted) + len(self._fresh) > 2 * len(self) + _STALE_MAX:
            self._sorted = sorted(self)
        elif self._fresh:
            self._sorted += self._fresh
            self._sorted.sort()
        self._fresh, keys, last = [], self._sorted, None
        for place in range(bisect.bisect_left(keys, prefix), len(keys)):
            key = keys[place]
            if not key.startswith(prefix):
                return
            if key != last and key in self:
                yield key
            last = key


@dataclass(frozen=True, slots=True)
class _Kept:
    version: str
    held: Held | None  # None of a marker


@dataclass(slots=True)
class Bucket:
    """All that is in a bucket."""

    objects: Objects = field(default_factory=Objects)
    uploads: dict[str, HeldUpload] = field(default_factory=dict)
    keeping: Versioning = None
    versions: dict[str, list[_Kept]] = field(default_factory=dict)  # of a key, the oldest first
    rules: tuple[Rule, ...] | None = None  # of its lifecycle; None if it knows none
    added: int = 0  # how many versions there have been

    def put(self, key: str, held: Held) -> ObjectInfo:
        """Write an object; the one that it replaces stays as a version where the bucket keeps any."""
        if self.keeping is not None:
            version = self._added(key)
            if version != UNVERSIONED:
                held = replace(held, info=replace(held.info, version=version))
            self.versions[key].append(_Kept(version, held))
        self.objects[key] = held
        return held.info

    def remove(self, key: str) -> None:
        """Delete what is at a key; where the bucket keeps versions, by a marker."""
        if self.keeping is not None:
            version = self._added(key)
            self.versions[key].append(_Kept(version, None))
        self.objects.pop(key, None)

    def forget(self, key: str, version: str) -> None:
        """Delete a version for good; what lies below it comes up again."""
        line = self._line(key)
        left = [one for one in line if one.version != version]
        if len(left) == len(line):
            return
        self.versions[key] = left
        if left and left[-1].held is not None:
            self.objects[key] = left[-1].held
        else:
            self.objects.pop(key, None)
        if not left:
            del self.versions[key]

    def version(self, key: str, version: str) -> Held | None:
        """What a version holds; None if there is none, or it is a marker."""
        return next((one.held for one in self._line(key) if one.version == version), None)

    def shown(self, key: str) -> Iterator[Version]:
        """The versions of a key as a listing shows them."""
        line = self._line(key)
        for number, one in enumerate(reversed(line)):
            info = one.held.info if one.held is not None else None
            size, etag = (info.size, info.etag) if info is not None else (0, "")
            yield Version(key, one.version, size, etag, is_marker=info is None, is_latest=not number)

    def _added(self, key: str) -> str:
        """The id of one version more; one without an id takes the place of another one without."""
        line = self._line(key)
        if self.keeping == "Enabled":
            self.added += 1
            return f"version-{self.added}"
        line[:] = [one for one in line if one.version != UNVERSIONED]
        return UNVERSIONED

    def _line(self, key: str) -> list[_Kept]:
        held = self.objects.get(key)
        if key in self.versions or (held is None and self.keeping is None):
            return self.versions.get(key, [])
        line = [] if held is None else [_Kept(UNVERSIONED, held)]
        if self.keeping is not None:
            self.versions[key] = line
        return line


_numbers = itertools.count(1)

_NOTHING: Mapping[str, str] = {}


class World:
    """The buckets of one memory store.

    With ``create_buckets`` a bucket is made when it is first named, as fsspec's own memory filesystem makes
    directories; otherwise an unknown one is an error, as on real stores. ``ignores`` names fields of
    ``stores.conditions.Conditions``: conditions that are silently ignored, as by stores that do not know
    them.
    """

    def __init__(
        self,
        *,
        create_buckets: bool = False,
        capabilities: Capabilities | None = None,
        clock: Callable[[], float] = time.time,
        ignores: frozenset[str] = frozenset(),
    ) -> None:
        self.capabilities: Capabilities = capabilities or Capabilities(
            parts=PartLimits(size_min=1),
            uploads=port.Uploads(options=frozenset({METADATA, *DESCRIPTION})),
            versions=True,
        )
        self.clock = clock
        self.ignores = ignores
        self.number: int = next(_numbers)
        self._create_buckets = create_buckets
        self._buckets: dict[str, Bucket] = {}
        self._uploads_opened = 0
        self._lock = threading.RLock()

    def create_bucket(self, name: str) -> None:
        """Create a bucket; one that exists already stays as it is."""
        with self._lock:
            self._buckets.setdefault(name, Bucket())

    def keep_versions(self, name: str, keeping: Versioning = "Enabled") -> None:
        """Let a bucket keep versions of what is deleted or written over, or not any more."""
        with self._lock:
            self.create_bucket(name)
            self._buckets[name].keeping = keeping

    def delete_bucket(self, name: str) -> None:
        """Forget a bucket and everything in it; an unknown one counts as forgotten."""
        with self._lock:
            self._buckets.pop(name, None)

    def buckets(self) -> builtins.list[str]:
        """Names of all buckets, sorted."""
        with self._lock:
            return sorted(self._buckets)

    def clear(self) -> None:
        """Forget all buckets."""
        with self._lock:
            self._buckets.clear()

    def store(self, bucket: str) -> MemoryStore:
        """The store of one bucket."""
        return MemoryStore(bucket, self)

    def next_upload_id(self) -> str:
        """An id that no other upload of this world has."""
        with self._lock:
            self._uploads_opened += 1
            return f"upload-{self._uploads_opened}"

    def find(self, name: str) -> Bucket | None:
        """A bucket's contents, for ``MemoryStore``."""
        with self._lock:
            if self._create_buckets and name:
                self.create_bucket(name)
            return self._buckets.get(name)


_DEFAULT = World(create_buckets=True)


def default_world() -> World:
    """The world behind ``memory://`` in this process."""
    return _DEFAULT


class MemoryStore:
    """One bucket of a ``World``; see ``magicfs.stores.port.Store`` for the contract."""

    name = "memory"

    def __init__(self, bucket: str, world: World | None = None) -> None:
        self.bucket = bucket
        self.world: World = world or default_world()

    @property
    def identity(self) -> str:
        return f"memory:{self.world.number}/{self.bucket}"

    @property
    def capabilities(self) -> Capabilities:
        return self.world.capabilities

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        given = dict(options or {})
        file_options.check(given, self.capabilities.uploads.options, self.path(key), self.name)
        contents = self.contents("create_upload", key)
        upload_id = self.world.next_upload_id()
        joined = file_options.joined_metadata(given.pop(METADATA, None), metadata)
        contents.uploads[upload_id] = HeldUpload(key, self.world.clock(), _lower(joined), given)
        return upload_id

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        upload = self.upload("put_part", key, upload_id)
        limits = self.capabilities.parts
        if not 1 <= number <= limits.count_max:
            raise StoreError("put_part", self.path(key), f"part {number} is not in 1..{limits.count_max}")
        data = body.getvalue() if isinstance(body, io.BytesIO) else bytes(body)
        if len(data) > limits.size_max:
            raise StoreError("put_part", self.path(key), f"part of {len(data)} bytes is too large")
        upload.parts[number], upload.written = data, self.world.clock()
        return Part(number, _etag(upload.parts[number]))

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        upload = self.upload("complete_upload", key, upload_id)
        self._check_parts(key, upload, parts)
        if (
            self._looks("complete_if_absent", if_absent)
            and key in self.contents("complete_upload", key).objects
        ):
            raise ObjectExists("complete_upload", self.path(key), "an object is there")
        body = b"".join(upload.parts[part.number] for part in parts)
        digests = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
        etag = f'"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"'
        contents = self.contents("complete_upload", key)
        info = self._store(contents, key, body, etag, upload.metadata, upload.description)
        del contents.uploads[upload_id]
        return info

    async def abort_upload(self, key: str, upload_id: str) -> None:
        contents = self.contents("abort_upload", key)
        upload = contents.uploads.get(upload_id)
        if upload is not None and upload.key == key:
            del contents.uploads[upload_id]

    async def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        uploads = self.contents("list_uploads", prefix).uploads
        found = [UploadInfo(u.key, i, u.initiated) for i, u in uploads.items() if u.key.startswith(prefix)]
        for info in sorted(found, key=lambda info: (info.key, info.initiated)):
            yield info

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        contents = self._allowing("put", key, mode)
        data = bytes(body)
        return self._store(contents, key, data, _etag(data), _lower(metadata or {}))

    async def copy(
        self, source: str, destination: str, *, etag: str = "", mode: PutMode | Update = PutMode.OVERWRITE
    ) -> int:
        held = self._object("copy", source)
        if etag and held.info.etag != etag:
            raise PreconditionFailed("copy", self.path(source), f"no object of ETag {etag} is there")
        if source != destination:
            contents = self._allowing("copy", destination, mode)
            kept = dict(held.info.metadata), held.info.description
            self._store(contents, destination, held.body, _etag(held.body), *kept)
        return len(held.body)

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        return self._object("get", key).body[:size_max]

    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        held = self._object("get_range", key)
        if held.info.etag != etag:
            raise PreconditionFailed("get_range", self.path(key), f"no object of ETag {etag} is there")
        return held.body[start : start + size]

    async def head(self, key: str) -> ObjectInfo:
        return self._object("head", key).info

    def versions(self) -> MemoryVersions:
        return MemoryVersions(self)

    def upkeep(self) -> MemoryUpkeep:
        return MemoryUpkeep(self)

    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        held = self._object("checksums", key)
        if held.info.etag != etag:
            raise PreconditionFailed("checksums", self.path(key), f"no object of ETag {etag} is there")
        known = self.capabilities.checksums.of_uploads
        return {name: checksums.of_bytes(name, held.body) for name in known}

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        contents = self.contents("list", prefix)
        keys = itertools.islice(contents.objects.below(prefix), limit)
        for info in [_listed(contents.objects[key].info) for key in keys]:
            yield info

    async def list_directories(self, prefix: str) -> AsyncIterator[str]:
        keys = self.contents("list_directories", prefix).objects.below(prefix)
        ends = ((key, key.find("/", len(prefix)) + 1) for key in keys)
        for directory in list(dict.fromkeys(key[:end] for key, end in ends if end)):
            yield directory

    async def delete(self, keys: Sequence[str]) -> None:
        check_number("delete", self.bucket, keys, self.capabilities.bulk_delete_max)
        contents = self.contents("delete", keys[0] if keys else "")
        for key in keys:
            contents.remove(key)

    async def delete_matching(self, key: str, etag: str) -> None:
        contents = self.contents("delete_matching", key)
        if self._looks("delete") and key in contents.objects and not self._holds(contents, key, etag):
            raise PreconditionFailed("delete_matching", self.path(key), "another object is there")
        contents.remove(key)

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> builtins.list[str]:
        keys = [key for key, _ in objects]
        check_number("delete_all_matching", self.bucket, keys, self.capabilities.bulk_delete_max)
        contents = self.contents("delete_all_matching", objects[0][0] if objects else "")
        looked_at = objects if self._looks("bulk_delete") else ()
        left = [
            key for key, etag in looked_at if key in contents.objects and not self._holds(contents, key, etag)
        ]
        for key in set(keys) - set(left):
            contents.remove(key)
        return left

    def _allowing(self, operation: str, key: str, mode: PutMode | Update) -> Bucket:
        contents = self.contents(operation, key)
        match mode:
            case PutMode.CREATE:
                if self._looks("put_if_absent") and key in contents.objects:
                    raise ObjectExists(operation, self.path(key), "an object is there")
            case Update(etag):
                if self._looks("put_if_match") and not self._holds(contents, key, etag):
                    raise PreconditionFailed(operation, self.path(key), f"no object of ETag {etag} is there")
        return contents

    def _looks(self, condition: str, asked: bool = True) -> bool:
        return asked and condition not in self.world.ignores

    def _holds(self, contents: Bucket, key: str, etag: str) -> bool:
        held = contents.objects.get(key)
        return held is not None and held.info.etag == etag

    def path(self, key: str) -> str:
        """What errors call a key."""
        return f"{self.bucket}/{key}"

    def contents(self, operation: str, key: str) -> Bucket:
        """The contents of the bucket, for ``MemoryVersions``."""
        contents = self.world.find(self.bucket)
        if contents is None:
            raise ObjectNotFound(
                operation, self.path(key), f"no bucket {self.bucket!r}", hint="create the bucket first"
            )
        return contents

    def _object(self, operation: str, key: str) -> Held:
        found = self.contents(operation, key).objects.get(key)
        if found is None:
            raise ObjectNotFound(operation, self.path(key), "no such object")
        return found

    def upload(self, operation: str, key: str, upload_id: str) -> HeldUpload:
        upload = self.contents(operation, key).uploads.get(upload_id)
        if upload is None or upload.key != key:
            raise UploadNotFound(operation, self.path(key), f"no upload {upload_id!r} of this key")
        return upload

    def _check_parts(self, key: str, upload: HeldUpload, parts: Sequence[Part]) -> None:
        check_order([part.number for part in parts], self.path(key))
        for part in parts:
            body = upload.parts.get(part.number)
            if body is None or _etag(body) != part.etag:
                raise StoreError(
                    "complete_upload", self.path(key), f"part {part.number} is unknown or its ETag differs"
                )
            if len(body) < self.capabilities.parts.size_min and part is not parts[-1]:
                raise StoreError("complete_upload", self.path(key), f"part {part.number} is too small")

    def _store(
        self,
        contents: Bucket,
        key: str,
        body: bytes,
        etag: str,
        metadata: dict[str, str],
        description: Mapping[str, Any] | None = None,
    ) -> ObjectInfo:
        info = ObjectInfo(key, len(body), etag, self.world.clock(), metadata, description or {})
        return contents.put(key, Held(info, body))


class MemoryVersions:
    """The versions of one bucket of a ``World``; see ``magicfs.stores.port.Versions``."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def are_kept(self) -> bool:
        return self._store.contents("versions_kept", "").keeping == "Enabled"

    async def head(self, key: str, version: str) -> ObjectInfo:
        return self._held("head_version", key, version).info

    async def get_range(self, key: str, version: str, start: int, size: int) -> bytes:
        return self._held("get_version", key, version).body[start : start + size]

    async def copy_part(
        self, key: str, upload_id: str, number: int, source: tuple[str, str], start: int, size: int
    ) -> Part:
        body = self._held("copy_part", *source).body[start : start + size]
        return await self._store.put_part(key, upload_id, number, body)

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        keys, most = [key for key, _ in versions], self._store.capabilities.bulk_delete_max
        check_number("delete_versions", self._store.bucket, keys, most)
        contents = self._store.contents("delete_versions", versions[0][0] if versions else "")
        for key, version in versions:
            contents.forget(key, version)

    async def list(self, prefix: str) -> AsyncIterator[Version]:
        contents = self._store.contents("list_versions", prefix)
        for key in sorted({*contents.versions, *contents.objects}):
            if key.startswith(prefix):
                for one in contents.shown(key):
                    yield one

    def _held(self, operation: str, key: str, version: str) -> Held:
        contents = self._store.contents(operation, key)
        found = contents.version(key, version) if version else contents.objects.get(key)
        if found is None:
            raise ObjectNotFound(operation, self._store.path(key), f"no such version: {version}")
        return found


class MemoryUpkeep:
    """The upkeep of one bucket; see ``magicfs.stores.port.Upkeep`` for the contract."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def clock(self) -> float:
        return self._store.world.clock()

    async def written(self, key: str, upload_id: str) -> Written:
        upload = self._store.upload("written", key, upload_id)
        return Written(sum(map(len, upload.parts.values())), upload.written)

    async def rules(self) -> tuple[Rule, ...]:
        rules = self._store.contents("rules", "").rules
        if rules is None:
            raise Unsupported("rules", self._store.bucket, "buckets in memory have no lifecycle")
        return rules


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _listed(info: ObjectInfo) -> ObjectInfo:
    """What a listing tells of an object: no metadata, and no version."""
    if info.metadata or info.description or info.version:
        return ObjectInfo(info.key, info.size, info.etag, info.modified, _NOTHING, _NOTHING)
    return info


def _lower(metadata: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in metadata.items()}
