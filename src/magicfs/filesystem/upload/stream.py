"""One multipart upload while it is written.

What a job keeps of the bytes of a file, taken as they pass: its footer and its checksum.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

from magicfs.errors import MagicError, UsageError
from magicfs.filesystem.upload.footers import FooterTaker, footer_of, take, taker_of
from magicfs.filesystem.upload.memory import (
    Buffer,
    Copy,
    PlacedBuffer,
    Share,
    Spares,
    bytes_of,
    content_of,
    copy_size_max,
    make_room,
    size_of,
)
from magicfs.formats.footer import Footer
from magicfs.formats.job_options import Collected
from magicfs.protocol.parts import part_size, part_size_early, part_size_min
from magicfs.protocol.readback import WRITE_ID
from magicfs.runtime.interrupt import held
from magicfs.stores import checksums
from magicfs.stores.checksums import RunningChecksum
from magicfs.stores.object_settings import PlacedPart, can_place
from magicfs.stores.port import Body, Part, PartBody, Store


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken of one file.

    Attributes:
        footer: What it says of itself; None if nobody wants to know, or it is not certain.
        checksum: That of all its bytes, as ``algorithm:base64``; None if nobody wants to know.
    """

    footer: Footer | None = None
    checksum: str | None = None


NOTHING_TAKEN = Taken()


class Taker:
    """Is handed all bytes of a file, in their order, and tells in the end what is kept of them."""

    def __init__(self, footer: FooterTaker | None, algorithm: str | None) -> None:
        self._footer = footer
        self._algorithm = algorithm
        self._checksum: RunningChecksum | None = None if algorithm is None else checksums.running(algorithm)
        self._size = 0  # of what was looked at

    @property
    def is_slow(self) -> bool:
        """Whether all bytes are looked through, and not only the last ones."""
        return self._checksum is not None or (self._footer is not None and self._footer.is_slow)

    def take(self, data: memoryview) -> None:
        """Look at more bytes; none of them is held afterwards."""
        if self._footer is not None:
            self._footer.take(data)
        if self._checksum is not None:
            self._checksum.update(data)
            self._size += len(data)

    async def taken(self, length: int) -> Taken:
        """What is kept of a file of this length."""
        footer = None if self._footer is None else await footer_of(self._footer)
        return Taken(footer, self._told(length))

    def taken_now(self, length: int) -> Taken:
        """The same, in a thread that may wait."""
        return Taken(None if self._footer is None else self._footer.footer(), self._told(length))

    def _told(self, length: int) -> str | None:
        # What the store has copied by itself was not seen here.
        if self._checksum is None or self._size != length:
            return None
        return f"{self._algorithm}:{self._checksum.value()}"


def taker_for(store: Store, key: str, wanted: Collected, *, is_put: bool = False) -> Taker | None:
    """What takes what a job wants to keep of a file; None if that is nothing.

    ``is_put``: whether the file will be put in one request, and not uploaded.
    """
    if not (wanted.footers or wanted.checksums or wanted.sealed):
        return None
    known = ("SHA256",) if wanted.sealed else store.capabilities.checksums.of_object(is_put=is_put)
    footer = taker_of(key) if wanted.footers else None
    return Taker(footer, checksums.best(*known) if wanted.checksums or wanted.sealed else None)


# Enough to fill a fast link from one file; more would only cost memory when many files are open.
PARTS_IN_FLIGHT = 4


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A finished upload that is not visible yet."""

    key: str  # the key that it will have
    upload_id: str
    write_id: str  # what identifies it in the object's metadata
    parts: tuple[Part, ...]
    length: int  # size in bytes
    copy: Copy | None = None  # the bytes, if the recorder wants them and they are few
    taken: Taken = NOTHING_TAKEN  # what the job keeps of its bytes


class Recorder(Protocol):
    """Remembers the uploads that are behind a path."""

    @property
    def wants_copies(self) -> bool:
        """Whether the bytes of small files are wanted."""

    async def began(self) -> None:
        """A file is open. ObjectExists if it shall be the only one of its path, and is not."""

    async def record(self, uploaded: Uploaded) -> None:
        """Make a finished upload known to the task commit."""

    async def withdraw(self, upload_id: str) -> None:
        """Undo what ``record`` may have left, before the upload is aborted."""

    def dropped(self) -> None:
        """The file was collected unclosed; its upload is being aborted."""

    def ended(self) -> None:
        """The file is no longer open, recorded or not; called once for each ``began``."""


class Background(Protocol):
    """Where a file of a task goes on once its writer has closed it. The task commit waits for it there."""

    def check(self) -> None:
        """Raise why another file of the task has failed, once."""

    async def begin(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Start what finishes the file, once fewer files of the task go on there than it may have."""

    async def turn(self) -> None:
        """Wait for the end of what was closed under the same path before."""


class Upload:
    """One multipart upload while it is written. All methods run on the loop of its store.

    ``first_part_size``: bytes of the first part; later ones may be larger. ``recorder`` is called when the
    upload is finished. ``options``: what its object shall have, see ``Store.create_upload``. ``taker`` takes
    what the job keeps of the bytes, if it wants any. With a ``background`` nobody waits for the create, and
    ``finish`` waits for other files only.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        first_part_size: int,
        recorder: Recorder,
        options: Mapping[str, Any] | None = None,
        taker: Taker | None = None,
        background: Background | None = None,
    ) -> None:
        limits = store.capabilities.parts
        limits.check(first_part_size)
        self.key = key
        self.path: str = f"{store.bucket}/{key}"
        self._store = store
        self._limits = limits
        self._first_part_size = first_part_size
        self._recorder = recorder
        self._options = options or {}
        self._taker = taker
        self._background = background
        self._creating: asyncio.Task[None] | None = None
        self._given_up = False  # whether its writer has aborted it
        self._write_id = uuid4().hex
        self._upload_id: str | None = None
        self._parts: list[Part] = []
        self._in_flight: set[asyncio.Task[None]] = set()
        self._landed: asyncio.Future[None] | None = None
        self._first: PartBody | PlacedPart | None = None  # the only part so far, if a copy may be wanted
        self._copy: Copy | None = None
        self._spares = Spares()
        self._share = Share()
        self._slots = asyncio.Semaphore(PARTS_IN_FLIGHT)
        self._sent = 0
        self._length = 0
        self._failure: Exception | None = None
        self._ending = asyncio.Lock()
        self._recording = False
        self._open = False

    @property
    def next_part_size(self) -> int:
        """How many bytes the next part should have."""
        return part_size(self._sent + 1, self._first_part_size, self._limits)

    @property
    def next_part_size_early(self) -> int:
        """From how many bytes on it sets out, although it may have more."""
        return part_size_early(self._sent + 1, self._first_part_size, self._limits)

    @property
    def next_part_size_min(self) -> int:
        """From how many bytes on it may be sent where memory is short, although more is to come."""
        return part_size_min(self._sent + 1, self._first_part_size, self._limits)

    @property
    def must_wait(self) -> bool:
        """Whether a writer should wait for ``room`` before it writes: all files hold too much memory."""
        if self._share.memory.is_short:
            make_room()
        return self._share.memory.must_wait

    async def room(self) -> None:
        """Wait until a writer may take more memory."""
        make_room()
        await self._share.memory.room()

    def buffer(self) -> Buffer:
        """What cuts into parts that which is written bit by bit. An upload has one."""
        return Buffer(self, self._share, self._spares)

    def placed_buffer(self) -> PlacedBuffer | None:
        """All of the file as one part, to be written where it will be; None where it goes part by part.

        Blocks for a moment: for files that write in a thread of their own.
        """
        if not can_place(self._store):
            return None
        assert self._upload_id is not None
        part = self._store.place_part(self.key, self._upload_id)
        return None if part is None else PlacedBuffer(part, self._taker)

    async def create(self) -> None:
        """Open the upload: one request, no look at what the key holds."""
        await self._recorder.began()
        self._open = True
        try:
            await self._begin_upload()
        except BaseException:
            self._end()
            raise

    async def _begin_upload(self) -> None:
        with held():  # an upload whose id nobody knows can be aborted by nobody
            if self._background is None or can_place(self._store):
                await self._create_upload()
            else:  # as a part that the others wait for
                await self._slots.acquire()
                self._creating = self._fly(self._create_upload(), b"", 0)

    async def _create_upload(self) -> None:
        self._upload_id = await self._store.create_upload(
            self.key, metadata={WRITE_ID: self._write_id}, options=self._options
        )

    def check(self) -> None:
        """Raise what has failed so far: this upload, or another file of its task."""
        if self._failure is not None:
            raise self._failure
        if self._background is not None:
            self._background.check()

    async def send(self, body: PartBody | PlacedPart) -> None:
        """Hand a part over that others follow; waits while too many are in flight, or memory is short.

        Raises UsageError if the object would become too large for the store, and the error of an earlier
        part. What is no ``BytesIO`` must stay as it is until the upload is sealed.
        """
        await self._launch(body)
        await self.room()

    async def send_read(self, read: Callable[[int], Awaitable[bytes]]) -> int:
        """As ``send``, of what is read only now; returns its size, 0 where there is nothing more to read.

        ``read`` is given a number of bytes, and returns so many but at the end.
        """
        size = self.next_part_size
        make_room()
        await self.room()
        self._share.hold(size)
        self._share.fly(size)  # reading comes to its end without any writer's doing, too
        try:
            body = await read(size)
        except BaseException:
            self._share.land(size, kept=False)
            raise
        if body:
            await self._launch(body, size)
        else:
            self._share.land(size, kept=False)
        return len(body)

    async def send_all(self, data: Body) -> None:
        """Send a whole file. Nothing else is sent, and its owner may change it afterwards.

        Without a copy, until the store has every part; in the background a copy of one part.
        """
        view = bytes_of(data)
        if self._background is not None and len(view) <= self.next_part_size:
            data = bytes(data)
        goes_on = self._background is not None and isinstance(data, bytes)
        while len(view) > (size := self.next_part_size):
            await (self._hand_over if goes_on else self.send)(view[:size])
            view = view[size:]
        last = view if self._sent else data if isinstance(data, bytes) else view
        await (self._hand_over if goes_on else self.seal)(last)

    async def _hand_over(self, body: PartBody) -> None:
        """As ``send``, of what its owner may let go of."""
        size = size_of(body)
        self._share.hold(size)
        self._share.fly(size)
        await self._launch(body, size)
        await self.room()

    async def _launch(self, body: PartBody | PlacedPart, flying: int = 0) -> None:
        """Begin to send a part of which so many bytes fly already."""
        size = size_of(body)
        held = flying or (size if isinstance(body, io.BytesIO) else 0)
        try:
            await self._slots.acquire()
            try:
                if self._failure is not None:
                    raise self._failure
                if self._length + size > (most := self._limits.object_max):
                    raise UsageError(f"{self.path} would exceed {most} bytes; write several files")
            except BaseException:
                self._slots.release()
                raise
        except BaseException:
            if flying:
                self._share.land(flying, kept=False)
            raise
        if not flying:
            self._share.fly(held)
        if self._taker is not None and isinstance(body, io.BytesIO | bytes | bytearray | memoryview):
            await take(self._taker, body)
        self._first = body if not self._sent and self._recorder.wants_copies else None
        self._sent += 1
        self._length += size
        self._fly(self._put_part(self._sent, body), body, held)

    def _fly(
        self, work: Coroutine[object, object, None], body: PartBody | PlacedPart, held: int
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._in_flight.add(task)
        task.add_done_callback(partial(self._part_ended, body, held))
        return task

    async def seal(self, last: PartBody | PlacedPart) -> None:
        """Send what is left and wait until the store has every part. A second call sends nothing.

        An empty file is one empty part: an upload without parts cannot be completed. After a StoreError the
        upload is still pending; abort it.
        """
        async with self._ending:
            if not self._sent or size_of(last):
                await self._launch(last)
            await self._drain()
            if self._failure is not None:
                raise self._failure
            first, self._first = self._first, None
            if first is not None and size_of(first) <= copy_size_max():
                self._copy = Copy(content_of(first), self._options)

    async def record(self) -> None:
        """Make the sealed upload known to the task commit. A second call records it again.

        After a StoreError the upload is still pending; abort it.
        """
        if self._background is not None:
            await self._background.turn()
        async with self._ending:
            if self._failure is not None:
                raise self._failure
            assert self._upload_id is not None
            self._recording = True
            parts = tuple(sorted(self._parts, key=lambda part: part.number))
            taken = NOTHING_TAKEN if self._taker is None else await self._taker.taken(self._length)
            await self._recorder.record(
                Uploaded(self.key, self._upload_id, self._write_id, parts, self._length, self._copy, taken)
            )
            self._end()

    async def finish(self, last: PartBody | PlacedPart) -> None:
        """As ``seal``, then ``record``; both in the background, if there is one."""
        if self._background is None:
            await self.seal(last)
            await self.record()
            return
        self.check()
        await self._background.begin(partial(self._finish, self._background, last))

    async def _finish(self, background: Background, last: PartBody | PlacedPart) -> None:
        try:
            await self.seal(last)
            await self.record()
        except BaseException as error:
            given_up = self._given_up
            try:
                await self.abort()
            except MagicError as second:
                error.add_note(f"and the upload could not be aborted: {second}")
            if not given_up:
                raise
        finally:
            await background.turn()

    async def abort(self) -> None:
        """Discard the upload and whatever was recorded of it. A second call does the same again.

        Parts in flight are waited for, never cancelled: one that lands after the abort would be paid for.
        """
        self._given_up = True
        self._failure = self._failure or UsageError(f"{self.path} was aborted; open it again to write")
        async with self._ending:
            await self._drain()
            try:
                if self._recording and self._upload_id is not None:
                    await self._recorder.withdraw(self._upload_id)
            finally:
                self._end()
                if self._upload_id is not None:
                    await self._store.abort_upload(self.key, self._upload_id)

    async def drop(self) -> None:
        """Discard the upload of a file that was collected unclosed."""
        self._recorder.dropped()
        await self.abort()

    async def _put_part(self, number: int, body: PartBody | PlacedPart) -> None:
        if self._creating is not None:
            await self._creating
        assert self._upload_id is not None
        if isinstance(body, io.BytesIO | bytes | bytearray | memoryview):
            part = await self._store.put_part(self.key, self._upload_id, number, body)
        else:
            assert can_place(self._store)
            part = await self._store.put_placed_part(self.key, self._upload_id, body)
        self._parts.append(part)

    def _part_ended(self, body: PartBody | PlacedPart, held: int, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or (error is not None and not isinstance(error, Exception)):
            error = UsageError(f"{self.path} was not written completely; write it again")
        # Raised again by the next send, or by seal.
        self._failure = self._failure or error
        kept = False
        if isinstance(body, io.BytesIO) and error is None and not self._share.memory.is_short:
            kept = self._spares.keep(body)
        self._share.land(held, kept=kept)
        self._slots.release()
        self._in_flight.discard(task)
        if not self._in_flight and self._landed is not None and not self._landed.done():
            self._landed.set_result(None)

    def _end(self) -> None:
        self._first = self._copy = None
        self._spares.clear()
        self._share.end()
        if self._open:
            self._open = False
            self._recorder.ended()

    async def _drain(self) -> None:
        while self._in_flight:
            self._landed = asyncio.get_running_loop().create_future()
            await self._landed
