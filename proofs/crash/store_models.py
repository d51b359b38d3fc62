"""Models of the stores that jobs are cut on: what each honours, and what it does otherwise than S3.

A model is the memory store with the rules that a service documents, or that a filesystem has: what lies
behind the requests. The adapters, which speak the services' languages, are examined on servers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from magicfs.errors import Unsupported, UploadNotFound
from magicfs.stores.conditions import Conditions
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import (
    Body,
    Capabilities,
    ObjectInfo,
    Part,
    PartBody,
    PutMode,
    Store,
    Update,
    UploadInfo,
    Uploads,
)
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.doubles.s3_wire import over_wire

__all__ = ["KINDS", "MODELS", "Model", "is_numbered", "plain_store", "store_of", "world_of"]

_numbers = itertools.count()
_UPLOAD_DAYS: Final = 7
_DAY_S: Final = 86_400.0


class _Plain(MemoryStore):
    world: SnapshotWorld

    def __init__(self, world: SnapshotWorld, bucket: str = BUCKET) -> None:
        super().__init__(bucket, world)


class _Versions(_Plain):
    """Every write has an ETag of its own, as generations are on Google Cloud Storage."""

    def _store(
        self,
        contents: Any,
        key: str,
        body: bytes,
        etag: str,
        metadata: dict[str, str],
        description: Mapping[str, Any] | None = None,
    ) -> ObjectInfo:
        etag = str(self.world.next_version())
        return super()._store(contents, key, body, etag, metadata, description)


class _Blocks(_Versions):
    """Azure's Blob service: a name has one list of blocks, whoever sent them (docs/design/008).

    Whatever is written to a name drops its other uploads; an upload is not listed while an object has its
    name; a part that comes late is taken, and belongs to nothing. Seven days after the last block was sent to
    a name, by the clock of the world, its uploads are gone. Left out is the window of one request in which an
    upload that is aborted can still be completed: here an abort is the end.
    """

    @property
    def capabilities(self) -> Capabilities:
        usual = super().capabilities
        return replace(usual, uploads=replace(usual.uploads, apart=False, days=_UPLOAD_DAYS))

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        info = await super().put(key, body, metadata=metadata, mode=mode)
        self._drop_uploads(key)
        return info

    async def copy(
        self, source: str, destination: str, *, etag: str = "", mode: PutMode | Update = PutMode.OVERWRITE
    ) -> int:
        size = await super().copy(source, destination, etag=etag, mode=mode)
        self._drop_uploads(destination)
        return size

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        info = await super().complete_upload(key, upload_id, parts, if_absent=if_absent)
        self._drop_uploads(key)
        return info

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        upload_id = await super().create_upload(key, metadata=metadata, options=options)
        self.world.touched[key] = self.world.clock()
        return upload_id

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        try:
            part = await super().put_part(key, upload_id, number, body)
        except UploadNotFound:
            part = Part(number, f'"{number:032x}"')
        self.world.touched[key] = self.world.clock()
        return part

    async def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        async for upload in super().list_uploads(prefix):
            if upload.key not in self.world.objects:
                yield upload

    def contents(self, operation: str, key: str) -> Any:
        """What every operation begins with: what is too old was gone before."""
        contents = super().contents(operation, key)
        oldest = self.world.clock() - _UPLOAD_DAYS * _DAY_S
        touched = self.world.touched
        old = [i for i, one in contents.uploads.items() if touched.get(one.key, one.initiated) < oldest]
        for upload_id in old:
            del contents.uploads[upload_id]
        self.world.expired.update(old)
        return contents

    def _drop_uploads(self, key: str) -> None:
        for upload_id in [one for one, upload in self.world.uploads.items() if upload.key == key]:
            del self.world.uploads[upload_id]


class _Files(_Versions):
    """Local files: no metadata; the id of an upload tells the ETag of its file (docs/design/009)."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, metadata=False, uploads=Uploads())

    def _store(
        self,
        contents: Any,
        key: str,
        body: bytes,
        etag: str,
        metadata: dict[str, str],  # noqa: ARG002 - forgotten, as files do
        description: Mapping[str, Any] | None = None,  # noqa: ARG002 - likewise
    ) -> ObjectInfo:
        return super()._store(contents, key, body, etag, {})

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        if isinstance(mode, Update):
            raise Unsupported("put", f"{BUCKET}/{key}", "no filesystem compares and swaps")
        return await super().put(key, body, metadata=metadata, mode=mode)

    async def create_upload(
        self, key: str, *, metadata: Mapping[str, str], options: Mapping[str, Any] | None = None
    ) -> str:
        made = await super().create_upload(key, metadata=metadata, options=options)
        number = self.world.next_version()
        upload_id = f"0.0.{number:x}-{number:x}.{number:016x}"
        self.world.uploads[upload_id] = self.world.uploads.pop(made)
        return upload_id

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        info = await super().complete_upload(key, upload_id, parts, if_absent=if_absent)
        inode_and_time = upload_id.split(".")[2]
        info = replace(info, etag=f'"{inode_and_time}-{info.size:x}"')
        self.world.objects[key] = replace(self.world.objects[key], info=info)
        return info


@dataclass(frozen=True, slots=True)
class Model:
    """A store as jobs meet it.

    Attributes:
        honoured: The conditions that it looks at; it ignores others, without a word.
        store: How it behaves.
        keeps_versions: Whether its bucket keeps what is deleted or written over.
        on_wire: Whether it is asked by the requests of an ``S3Store``, written, signed and read as always.
    """

    honoured: Conditions
    store: type[_Plain] = _Plain
    on_wire: bool = False
    keeps_versions: bool = False

    @property
    def hides_uploads(self) -> bool:
        """Whether it lists no upload whose key an object has."""
        return self.store is _Blocks

    @property
    def upload_days(self) -> int | None:
        """How many days it keeps uploads; None for ever."""
        return _UPLOAD_DAYS if self.store is _Blocks else None


MODELS: Final[Mapping[str, Model]] = MappingProxyType(
    {
        "full": Model(Conditions()),
        "write-once": Model(
            Conditions(put_if_match=False, delete=False, bulk_delete=False, complete_if_absent=False)
        ),
        "gcs": Model(Conditions(complete_if_absent=False), _Versions),
        "azure": Model(Conditions(), _Blocks),
        "local": Model(Conditions(put_if_match=False), _Files),
        "wire": Model(Conditions(), on_wire=True),
        "versions": Model(Conditions(), keeps_versions=True),
    }
)
"""By the name that reproductions give: S3 with everything, or only If-None-Match; other stores; S3 with
everything behind our own requests, which are answered in memory; and a bucket of S3 with versions."""

KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "s3": ("full", "write-once"),
        "gcs": ("gcs",),
        "azure": ("azure",),
        "local": ("local",),
        "wire": ("wire",),
    }
)
"""Names of models, by the kind of store that can be asked for."""


def is_numbered(model: str) -> bool:
    """Whether versions of a job object are keys of their own there."""
    return not MODELS[model].honoured.put_if_match


def world_of(kind: str) -> World:
    """A new world of a kind of store, for scenes of which nothing is cut: that of ``s3`` is plain memory."""
    return World() if kind == "s3" else _ModelWorld(MODELS[KINDS[kind][0]])


class _ModelWorld(SnapshotWorld):
    """Its bucket is a model of a store, with the conditions that this honours; its time is the machine's."""

    def __init__(self, model: Model) -> None:
        super().__init__(time.time)
        self.capabilities = replace(self.capabilities, uploads=World().capabilities.uploads)
        self.ignores = frozenset(name for name, honoured in asdict(model.honoured).items() if not honoured)
        self._store = model.store

    def store(self, bucket: str) -> MemoryStore:
        return self._store(self, bucket)


def plain_store(world: SnapshotWorld, model: str) -> MemoryStore:
    """The store of a world as it is, with all conditions."""
    return MODELS[model].store(world)


def store_of(world: SnapshotWorld, model: str) -> Store:
    """The store of a world as one process meets it."""
    plain: Store = plain_store(world, model)
    if MODELS[model].on_wire:
        plain = over_wire(plain, world.clock)
    return _Limited(plain, MODELS[model].honoured)


class _Limited(DelegatingStore):
    """Ignores, silently, the conditions that it does not honour."""

    def __init__(self, inner: Store, honoured: Conditions) -> None:
        super().__init__(inner)
        self._honoured = honoured
        # Each process finds out by itself what the store honours.
        self._identity = f"scene:{next(_numbers)}"

    @property
    def identity(self) -> str:
        """Another one for every process."""
        return self._identity

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        match mode:
            case PutMode.CREATE:
                mode = self._honoured.create
            case Update(etag):
                mode = self._honoured.update(etag)
        return await self.inner.put(key, body, metadata=metadata, mode=mode)

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        if_absent = if_absent and self._honoured.complete_if_absent
        return await self.inner.complete_upload(key, upload_id, parts, if_absent=if_absent)

    async def delete_matching(self, key: str, etag: str) -> None:
        if self._honoured.delete:
            await self.inner.delete_matching(key, etag)
        else:
            await self.inner.delete([key])

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> list[str]:
        if self._honoured.bulk_delete:
            return await self.inner.delete_all_matching(objects)
        await self.inner.delete([key for key, _ in objects])
        return []
