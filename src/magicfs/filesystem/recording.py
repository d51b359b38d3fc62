"""How a finished upload is remembered until its task commits: in the store, or in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from magicfs.errors import ObjectExists, ObjectNotFound, Unsupported
from magicfs.filesystem.earlier_writes import abort_earlier, is_ones_own, recorded
from magicfs.filesystem.tracking import PlaceName, name_in, tracker
from magicfs.filesystem.upload import Uploaded
from magicfs.filesystem.upload.taker import NOTHING_TAKEN, Taken
from magicfs.formats import checksum, hadoop_uri
from magicfs.formats.document import java_text
from magicfs.formats.footer_texts import carried_by
from magicfs.formats.pending import Body, EtagFormat, Pending, UploadedPart
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.protocol.magic import MagicPath
from magicfs.protocol.readback import WRITE_ID, is_renamed, write_id_shown
from magicfs.stores.port import ObjectInfo, PutMode, Store

__all__ = [
    "MARKER_LENGTH",
    "MemoryRecorder",
    "StoreRecorder",
    "described",
    "described_body",
    "marker_length",
    "shown_of",
    "write_id_of",
]

MARKER_LENGTH = "x-hadoop-s3a-magic-data-length"
"""User metadata of the marker: the upload's length as decimal text (``X_HEADER_MAGIC_MARKER``)."""

# Hadoop names stores by its own connector's scheme; other stores keep theirs.
_HADOOP_SCHEMES = {"s3": "s3a"}


def write_id_of(pending: Pending) -> str | None:
    """The identity of a file: the write id of an upload, None for one that Hadoop opened; of a file that is
    renamed its ETag, which it keeps.
    """
    if pending.source is not None:
        return pending.source.etag or None
    return pending.extra_data.get(WRITE_ID)


def shown_of(found: ObjectInfo, pending: Pending) -> str | None:
    """The write id that an object shows to be borne by it: the upload's own one if it is its object."""
    if pending.source is not None:
        return pending.source.etag if is_renamed(found.etag, pending.source.etag) else None
    return write_id_shown(
        found.metadata,
        found.etag,
        own=write_id_of(pending),
        upload_id=pending.upload_id,
        length=pending.length,
    )


def marker_length(value: str | None) -> int | None:
    """Decode a marker's length; what is missing, garbled or negative counts as absent, as in Hadoop."""
    if value is None or not value.strip().isascii() or not value.strip().isdigit():
        return None
    return int(value)


@dataclass(frozen=True, slots=True)
class MemoryRecorder:
    """Records only in the tracker of this process (``InMemoryMagicCommitTracker``)."""

    store: Store
    path: MagicPath
    exclusive: bool = False  # whether nobody may have written the path yet

    @property
    def _scope(self) -> PlaceName:
        return name_in(self.store, self.path.scope)

    @property
    def wants_copies(self) -> bool:
        return _is_of_task(self.path)

    async def began(self) -> None:
        _open(self._scope, self.path, self.exclusive)

    async def record(self, uploaded: Uploaded) -> None:
        pending = _pending(self.store, self.path, uploaded)
        scope, path = self._scope, self.path.path
        if is_ones_own(self.path) and (earlier := tracker().find(scope, path)) is not None:
            await abort_earlier(self.store, self.path, earlier, pending)
            tracker().withdraw(scope, path, earlier.upload_id)
        tracker().finished(scope, path, pending, copy=uploaded.copy)

    async def withdraw(self, identity: str) -> None:
        tracker().withdraw(self._scope, self.path.path, identity)

    def dropped(self) -> None:
        if self.path.owner is not None:
            tracker().dropped(self._scope, self.path.path)

    def ended(self) -> None:
        tracker().closed(self._scope, self.path.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecorder(MemoryRecorder):
    """Leaves a marker that carries the size, and then a ``.pending`` file (``S3MagicCommitTracker``)."""

    etag_format: EtagFormat  # which generation of Hadoop is to read the file

    async def began(self) -> None:
        if self.exclusive:
            try:
                await self.store.head(self.path.key)
            except ObjectNotFound:
                pass
            else:
                raise _exists(self.path)
        _open(self._scope, self.path, self.exclusive)

    async def record(self, uploaded: Uploaded) -> None:
        pending = _pending(self.store, self.path, uploaded)
        await self._put_marker(pending)
        record = await self.store.put(self.path.pending_key, pending.to_bytes(self.etag_format))
        if self.path.owner is not None:
            tracker().finished(self._scope, self.path.path, pending, record, uploaded.copy)

    async def _put_marker(self, pending: Pending) -> None:
        metadata = {MARKER_LENGTH: str(pending.length)}
        if not is_ones_own(self.path):
            await self.store.put(self.path.key, b"", metadata=metadata)
            return
        # What the marker's first writer need not look for, a later one finds.
        try:
            await self.store.put(self.path.key, b"", metadata=metadata, mode=PutMode.CREATE)
        except (ObjectExists, Unsupported):
            await abort_earlier(self.store, self.path, await recorded(self.store, self.path), pending)
            await self.store.put(self.path.key, b"", metadata=metadata)

    async def withdraw(self, upload_id: str) -> None:
        tracker().withdraw(self._scope, self.path.path, upload_id)
        await self.store.delete([self.path.pending_key, self.path.key])


def _is_of_task(path: MagicPath) -> bool:
    # What nobody commits would never be forgotten.
    return path.owner is not None and path.owner.is_ours


def _open(scope: PlaceName, path: MagicPath, exclusive: bool) -> None:
    if not tracker().opened(scope, path.path, exclusive=exclusive):
        raise _exists(path)


def _exists(path: MagicPath) -> ObjectExists:
    hint = "choose another name, or open it with 'wb'"
    return ObjectExists("open", path.path, "it is being written, or was written and is pending", hint=hint)


def described(store: Store, path: str, uploaded: Uploaded, counters: Mapping[str, int]) -> Pending:
    """What a ``.pending`` file or a pending set says of a finished upload.

    ``path``: ``bucket/key`` that the writer opened, for readers only. ``counters``: what the committer counts
    of it, beside bytes and parts.
    """
    now_ms = int(time.time() * 1000)
    return Pending(
        created_ms=now_ms,
        saved_ms=now_ms,
        date=java_text(now_ms),
        upload_id=uploaded.upload_id,
        bucket=store.bucket,
        destination_key=uploaded.key,
        parts=tuple(UploadedPart(part.etag, *(part.checksum or ())) for part in uploaded.parts),
        length=uploaded.length,
        uri=_uri(store, path),
        extra_data={WRITE_ID: uploaded.write_id, **_kept(uploaded.taken)},
        statistics=Statistics(
            counters={
                **counters,
                "committer_bytes_uploaded": uploaded.length,
                "object_multipart_initiated": 1,
                "stream_write_bytes": uploaded.length,
                "stream_write_block_uploads": len(uploaded.parts),
            },
            meanstatistics={
                "stream_write_block_bytes.mean": MeanStatistic(len(uploaded.parts), uploaded.length)
            },
        ),
    )


def described_body(
    store: Store, path: str, key: str, write_id: str, body: Body, length: int, taken: Taken = NOTHING_TAKEN
) -> Pending:
    """What a pending set says of a small file that has no upload."""
    now_ms = int(time.time() * 1000)
    return Pending(
        created_ms=now_ms,
        saved_ms=now_ms,
        date=java_text(now_ms),
        bucket=store.bucket,
        destination_key=key,
        body=body,
        length=length,
        uri=_uri(store, path),
        extra_data={WRITE_ID: write_id, **_kept(taken)},
        statistics=Statistics(counters={"committer_magic_files_created": 1, "stream_write_bytes": length}),
    )


def _kept(taken: Taken) -> dict[str, str]:
    return {**carried_by(taken.footer), **checksum.carried_by(taken.checksum)}


def _uri(store: Store, path: str) -> str:
    return hadoop_uri.encode(f"{_HADOOP_SCHEMES.get(store.name, store.name)}://{path}")


def _pending(store: Store, path: MagicPath, uploaded: Uploaded) -> Pending:
    return described(store, path.path, uploaded, {"committer_magic_files_created": 1})
