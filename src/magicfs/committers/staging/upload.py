"""Uploading the local files of a task attempt when it commits: part by part, in parallel, all or none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO
from uuid import uuid4

from magicfs.committers.staging.local_output import LocalFile
from magicfs.engine import Engine, Event, SentPart
from magicfs.errors import CommitFailed
from magicfs.filesystem.tracking import described
from magicfs.filesystem.upload import Uploaded
from magicfs.filesystem.upload.stream import NOTHING_TAKEN, Taken, taker_for
from magicfs.formats.parquet import MAGIC, TAIL_MAX
from magicfs.formats.pending import Pending
from magicfs.protocol.parts import even_part_size
from magicfs.protocol.readback import WRITE_ID, Outcome
from magicfs.protocol.steps import Abort
from magicfs.runtime.interrupt import held
from magicfs.runtime.parallel import drained
from magicfs.stores.port import Part, Store
from magicfs.transaction.context import JobContext

_Piece = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Source:
    """A file to upload."""

    file: LocalFile
    key: str  # where it will be


@dataclass
class Uploads:
    """The uploads of one task attempt; used once.

    At most ``engine.concurrency`` requests are made, and as many parts held in memory, whatever the number
    and the size of the files.
    """

    engine: Engine
    context: JobContext
    # Every upload that may be pending now, as the step that discards it.
    opened: list[Abort] = field(default_factory=list)
    _slots: asyncio.Semaphore = field(init=False, repr=False)
    _failed: bool = field(default=False, init=False, repr=False)
    _files: int = field(default=0, init=False, repr=False)
    _bytes: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.engine.concurrency)

    async def run(self, sources: Sequence[Source]) -> list[Pending]:
        """Upload files; nothing becomes visible. Returns the finished uploads, in the order of the files.

        The first failure ends it, once requests in flight have ended: abort what is in ``opened``. Raises
        CommitFailed if a file cannot be read or was changed meanwhile, UsageError if one is too large for the
        store.
        """
        self._files, self._bytes = len(sources), sum(one.file.size for one in sources)
        part_size = self.context.options.part_size  # of each file but its last part
        sizes = {
            one.key: even_part_size(one.file.size, part_size, self.engine.store.capabilities.parts)
            for one in sources
        }
        made: dict[str, Pending] = {}

        async def one(source: Source) -> bool:
            try:
                uploaded = await self._upload(source, sizes[source.key])
            except BaseException:
                self._failed = True  # the other files stop at their next part
                raise
            if uploaded is not None:
                path = f"{self.engine.store.bucket}/{source.key}"
                counters = {"committer_stage_file_upload": 1}
                made[source.key] = described(self.engine.store, path, uploaded, counters)
            return uploaded is not None

        await drained(sources, one, self.engine.concurrency)
        return [made[source.key] for source in sources]

    async def _upload(self, source: Source, part_size: int) -> Uploaded | None:
        """Upload one file; None if another one has failed."""
        descriptor = await asyncio.to_thread(_open, source)
        try:
            write_id = uuid4().hex
            upload_id = await self._create(source.key, write_id)
            if upload_id is None:
                return None
            parts: list[Part] = []
            left = max(1, -(-source.file.size // part_size))

            async def send(piece: _Piece) -> bool:
                nonlocal left
                part = await self._send(source, descriptor, upload_id, piece)
                if part is None:
                    return False
                left -= 1
                parts.append(part)
                self._tell(source, piece[2], last=not left)
                return True

            await drained(_cut(source.file.size, part_size), send, self.engine.concurrency)
            if left:
                return None
            store, context = self.engine.store, self.context
            taken = await asyncio.to_thread(_taken, store, context, source, descriptor)
            await asyncio.to_thread(_check_unchanged, source, descriptor)
        finally:
            os.close(descriptor)
        in_order = tuple(sorted(parts, key=lambda part: part.number))
        return Uploaded(source.key, upload_id, write_id, in_order, source.file.size, taken=taken)

    async def _create(self, key: str, write_id: str) -> str | None:
        async with self._slots:
            if self._failed:
                return None
            with held():  # an upload whose id nobody knows can be aborted by nobody
                upload_id = await self.engine.store.create_upload(key, metadata={WRITE_ID: write_id})
                self.opened.append(Abort(key, upload_id))
        return upload_id

    async def _send(self, source: Source, descriptor: int, upload_id: str, piece: _Piece) -> Part | None:
        number, start, size = piece
        async with self._slots:
            if self._failed:
                return None
            try:
                body = await asyncio.to_thread(_read, source, descriptor, start, size)
                return await self.engine.store.put_part(source.key, upload_id, number, body)
            except BaseException:
                self._failed = True
                raise

    def _tell(self, source: Source, size: int, *, last: bool) -> None:
        step = SentPart(source.key, size, last, self._files, self._bytes)
        self.engine.tell(Event("upload", step, Outcome.DONE))


def _cut(length: int, part_size: int) -> Iterator[_Piece]:
    """Number, start and size of each part; an empty file is one empty part."""
    for number, start in enumerate(range(0, max(length, 1), part_size), start=1):
        yield number, start, min(part_size, length - start)


def open_source(source: Source) -> BinaryIO:
    """The local file, to be read."""
    return os.fdopen(_open(source), "rb")


def _open(source: Source) -> int:
    # A pipe that was put in its place would keep a plain open waiting for ever; reading it fails.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(source.file.path, flags)
    except OSError as error:
        raise _unreadable(source, error.strerror or str(error)) from error


def _read(source: Source, descriptor: int, start: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size:
        try:
            piece = os.pread(descriptor, size, start)
        except OSError as error:
            raise _unreadable(source, error.strerror or str(error)) from error
        if not piece:
            raise _changed(source)
        pieces.append(piece)
        start, size = start + len(piece), size - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _taken(store: Store, context: JobContext, source: Source, descriptor: int) -> Taken:
    """What the job keeps of a local file."""
    taker, size = taker_for(store, source.key, context.options.collect), source.file.size
    if taker is None:
        return NOTHING_TAKEN
    if not taker.is_slow and size > TAIL_MAX:
        taker.take(memoryview(_read(source, descriptor, 0, len(MAGIC))))
        taker.take(memoryview(_read(source, descriptor, size - TAIL_MAX, TAIL_MAX)))
    else:
        for _, start, length in _cut(size, TAIL_MAX):
            taker.take(memoryview(_read(source, descriptor, start, length)))
    return taker.taken_now(size)


def _check_unchanged(source: Source, descriptor: int) -> None:
    now = os.fstat(descriptor)
    if (now.st_size, now.st_mtime_ns) != (source.file.size, source.file.modified_ns):
        raise _changed(source)


def _unreadable(source: Source, problem: str) -> CommitFailed:
    return CommitFailed(
        f"the local file {source.file.path} cannot be read: {problem}; its task was not committed; run the "
        "task again",
        failed=[source.key],
    )


def _changed(source: Source) -> CommitFailed:
    return CommitFailed(
        f"the local file {source.file.path} was changed while its task committed; nothing was committed; "
        "close every file before the task commits, and run the task again",
        failed=[source.key],
    )
