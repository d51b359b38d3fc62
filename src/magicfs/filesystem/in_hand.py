"""Files in hand: those whose bytes the task that wrote them can still read.

Until its task commits such a file is an ordinary one for the task: it is read, renamed and deleted. Small
ones of a job that asks for it have no upload: their bytes are in memory or in a bundle. Of others that were
uploaded as one part copies are kept, as long as there is memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike

from magicfs.errors import UsageError
from magicfs.filesystem.job_settings import WriteSettings
from magicfs.filesystem.tracking import PlaceName, described_body, name_in, tracker
from magicfs.filesystem.upload import Recorder, Upload
from magicfs.filesystem.upload.footers import take
from magicfs.filesystem.upload.memory import Copy, copy_size_max, copy_sizes_max, size_of
from magicfs.filesystem.upload.stream import NOTHING_TAKEN, Background, taker_for
from magicfs.formats.pending import Pending
from magicfs.formats.plain_pending import Body
from magicfs.protocol.layout import bundle_in
from magicfs.protocol.magic import MagicPath, PathOwner
from magicfs.stores.object_settings import PlacedPart
from magicfs.stores.port import PartBody, Store
from magicfs.stores.register import found_at


class Move(NamedTuple):
    """A file in hand, and the path that it gets."""

    old: MagicPath
    new: MagicPath
    small: Pending | None  # None for one that was uploaded


def may_stay(store: Store, path: MagicPath, settings: WriteSettings, options: Mapping[str, Any]) -> bool:
    """Whether a file stays in hand as long as it is small."""
    return bool(
        settings.options.small_files
        and settings.options.tracking == "memory"
        and path.owner is not None
        and path.owner.is_ours
        and not options
        and store.capabilities.puts_files
    )


class SmallFile(Upload):
    """A file that has an upload only once it has outgrown the limit."""

    def __init__(
        self,
        store: Store,
        path: MagicPath,
        settings: WriteSettings,
        recorder: Recorder,
        key: str,
        background: Background | None = None,
    ) -> None:
        taker = taker_for(store, key, settings.options.collect)
        size = settings.options.part_size
        super().__init__(store, key, size, recorder, taker=taker, background=background)
        self._settings = settings
        assert path.owner is not None
        self._magic_path = path
        self._owner = path.owner
        self._limit = settings.options.small_files or 0
        self._body: bytes | None = None
        self._kept = False

    async def create(self) -> None:
        """Begin the file: no request."""
        await self._recorder.began()
        self._open = True

    async def send_read(self, read: Callable[[int], Awaitable[bytes]]) -> int:
        if self._is_begun:
            return await super().send_read(read)
        if self._body is not None:  # it was small, so it was all
            return 0
        size = self.next_part_size
        body = await read(min(self._limit + 1, size))
        if len(body) <= self._limit:
            self._body = body
        else:
            await self.send(body + await read(size - len(body)) if len(body) < size else body)
        return self._length or len(body)

    async def seal(self, last: PartBody | PlacedPart) -> None:
        if not self._stays(last):
            await super().seal(last)
            return
        async with self._ending:
            if self._failure is not None:
                raise self._failure
            if self._body is None:
                assert isinstance(last, io.BytesIO | bytes | bytearray | memoryview)
                self._body = last.getvalue() if isinstance(last, io.BytesIO) else bytes(last)

    @property
    def _is_begun(self) -> bool:
        return self._upload_id is not None or self._creating is not None

    def _stays(self, last: PartBody | PlacedPart) -> bool:
        return not self._is_begun and size_of(last) <= self._limit

    async def _hand_over(self, body: PartBody) -> None:
        await (self.seal(body) if self._stays(body) else super()._hand_over(body))

    async def finish(self, last: PartBody | PlacedPart) -> None:
        if not self._stays(last):
            await super().finish(last)
            return
        await self.seal(last)
        await self.record()

    async def _launch(self, body: PartBody | PlacedPart, flying: int = 0) -> None:
        if not self._is_begun:
            await self._begin_upload()
        await super()._launch(body, flying)

    async def record(self) -> None:
        if self._body is None:
            await super().record()
            return
        async with self._ending:
            if self._failure is not None:
                raise self._failure
            scope, path = name_in(self._store, self._magic_path.scope), self._magic_path
            body = Body("", 0, hashlib.sha256(self._body).hexdigest())
            taken = NOTHING_TAKEN
            if (
                taker := taker_for(self._store, self.key, self._settings.options.collect, is_put=True)
            ) is not None:
                await take(taker, self._body)
                taken = await taker.taken(len(self._body))
            length = len(self._body)
            pending = described_body(self._store, path.path, self.key, self._write_id, body, length, taken)
            self._kept = True
            if tracker().keep(scope, path.path, pending, self._body):
                await _bundle(self._store, scope, self._owner)
            self._end()

    async def abort(self) -> None:
        if self._kept:
            await self._recorder.withdraw(self._write_id)
        await super().abort()


async def bundle_all(store: Store, scope: PlaceName, owner: PathOwner) -> None:
    """Put everything that a task attempt has in hand into bundles."""
    while await _bundle(store, scope, owner):
        pass


async def _bundle(store: Store, scope: PlaceName, owner: PathOwner) -> bool:
    """Put what a task attempt has in hand into one bundle; False if it has nothing."""
    number, taken = tracker().leave(scope)
    if not taken:
        return False
    key, offsets, offset = bundle_in(owner, number), dict[str, int](), 0
    try:
        for one, body in taken.items():
            offsets[one] = offset
            offset += len(body)
        put = await store.put(key, b"".join(taken.values()))
        etag = put.etag or (await store.head(key)).etag
    except BaseException:
        tracker().came_back(scope, taken)
        raise
    tracker().arrived(scope, offsets, key, etag)
    return True


async def read(store: Store, path: MagicPath, pending: Pending) -> bytes:
    """The bytes of a small file. ObjectNotFound if it is not there any more."""
    scope = name_in(store, path.scope)
    for _ in range(2):  # on its way into a bundle it may leave in between
        if (body := tracker().body(scope, pending)) is not None:
            return body
        pending = tracker().find(scope, path.path) or pending
        if pending.body is not None and pending.body.bundle:
            break
    assert pending.body is not None
    if not pending.length:
        return b""
    place = pending.body
    etag = tracker().bundle(scope, place.bundle)
    return await store.get_range(place.bundle, place.offset, pending.length, etag=etag)


async def copy_of(store: Store, path: MagicPath) -> Copy | None:
    """The copy of a file that was uploaded; None if there is none, or another process wrote the path anew.

    One HEAD where the store knows what lies at the path.
    """
    found = tracker().copy(name_in(store, path.scope), path.path)
    if found is None:
        return None
    copy, record = found
    if record is not None:
        now = await found_at(store, path.pending_key)
        if now is None or (now.size, now.etag) != (record.size, record.etag or now.etag):
            return None
    return copy


def is_copied(store: Store, path: MagicPath) -> bool:
    """Whether a copy of a file is kept now; no request."""
    found = tracker().copy(name_in(store, path.scope), path.path)
    return found is not None and found[0].is_there


def way_out() -> str:
    """What to do about a file that is not in hand."""
    one, all_ = (size / 2**20 for size in (copy_size_max(), copy_sizes_max()))
    return (
        "a task can read and rename only small files that it wrote itself: files of one part, up to "
        f"{one:g} MiB, {all_:g} MiB in total; write larger files directly under their final names, and keep "
        "data that you need to read again in files outside the job"
    )


def rename(store: Store, path: MagicPath, pending: Pending, target: MagicPath, key: str) -> None:
    """Give a small file another path of its task; a file that has that path is replaced.

    Raises UsageError if it was written or removed meanwhile; nothing was changed.
    """
    scope = name_in(store, path.scope)
    new = replace(pending, destination_key=key)
    if not tracker().rename(scope, path.path, target.path, new):
        raise UsageError(f"{path.path} was rewritten or removed meanwhile; nothing was renamed; try again")


async def save(held: bytes, target: Any, callback: Callback = DEFAULT_CALLBACK, **_: Any) -> None:
    """Write a small file to a local one: a path, or a file that is open."""
    callback.set_size(len(held))
    if isfilelike(target):
        target.write(held)
    else:
        await asyncio.to_thread(Path(target).write_bytes, held)
    callback.relative_update(len(held))


class Reader(io.BytesIO):
    """A small file in hand, open for reading, with what those ask for who know files of fsspec."""

    mode = "rb"

    def __init__(self, held: bytes, fs: AbstractFileSystem, path: str) -> None:
        super().__init__(held)
        self.fs = fs
        self.path = path
        self.size: int = len(held)

    @property
    def loc(self) -> int:
        """As ``tell()``."""
        return self.tell()

    @property
    def full_name(self) -> str:
        """The URL of the path."""
        return str(self.fs.unstrip_protocol(self.path))

    def info(self) -> dict[str, Any]:
        """What the filesystem says of the path now."""
        found: dict[str, Any] = self.fs.info(self.path)
        return found

    def writable(self) -> bool:
        return False

    def write(self, _: Any) -> int:
        raise io.UnsupportedOperation(f"{self.path} is open for reading")


class AsyncReader:
    """The same for coroutines."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.fs: AbstractFileSystem = reader.fs
        self.path: str = reader.path
        self.size: int = reader.size
        self.mode: str = reader.mode

    @property
    def loc(self) -> int:
        """How many bytes were read."""
        return self._reader.tell()

    @property
    def closed(self) -> bool:
        return self._reader.closed

    async def read(self, length: int | None = -1) -> bytes:
        return self._reader.read(length)

    async def close(self) -> None:
        self._reader.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reader.close()
