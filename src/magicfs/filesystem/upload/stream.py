"""One multipart upload while it is written, and how what is written is cut into its parts."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from magicfs.errors import UsageError
from magicfs.protocol.parts import part_size
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores.interrupt import held
from magicfs.stores.placing import PlacedPart, can_place
from magicfs.stores.port import Body, Part, Store

__all__ = ["PARTS_IN_FLIGHT", "Buffer", "PlacedBuffer", "Recorder", "Upload", "Uploaded"]

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


class Recorder(Protocol):
    """Remembers the uploads that are behind a path."""

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


class Upload:
    """One multipart upload while it is written. All methods run on the loop of its store.

    ``first_part_size``: bytes of the first part; later ones may be larger. ``recorder`` is called when the
    upload is finished. ``options``: what its object shall have, see ``Store.create_upload``.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        first_part_size: int,
        recorder: Recorder,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        limits = store.capabilities.parts
        limits.check(first_part_size)
        self.key = key
        self.path = f"{store.bucket}/{key}"
        self._store = store
        self._limits = limits
        self._first_part_size = first_part_size
        self._recorder = recorder
        self._options = options or {}
        self._write_id = uuid4().hex
        self._upload_id: str | None = None
        self._parts: list[Part] = []
        self._in_flight: set[asyncio.Task[None]] = set()
        self._spare: list[io.BytesIO] = []
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

    def empty_body(self) -> io.BytesIO:
        """A body to be filled from its start: one that was sent, whose memory is there already, or a new one.

        What it holds beyond what is written into it is of its last use.
        """
        with suppress(IndexError):
            body = self._spare.pop()
            body.seek(0)
            return body
        return io.BytesIO()

    def place(self) -> PlacedPart | None:
        """All of the file as one part, to be written where it will be; None where it goes part by part.

        Blocks for a moment: for files that write in a thread of their own.
        """
        if not can_place(self._store):
            return None
        assert self._upload_id is not None
        return self._store.place_part(self.key, self._upload_id)

    async def create(self) -> None:
        """Open the upload: one request, no look at what the key holds."""
        await self._recorder.began()
        self._open = True
        try:
            with held():  # an upload whose id nobody knows can be aborted by nobody
                self._upload_id = await self._store.create_upload(
                    self.key, metadata={WRITE_ID: self._write_id}, options=self._options
                )
        except BaseException:
            self._end()
            raise

    async def send(self, body: io.BytesIO | PlacedPart) -> None:
        """Hand a part over; waits while too many are in flight.

        Raises UsageError if the object would become too large for the store, and the error of an earlier
        part.
        """
        size = _size_of(body)
        await self._slots.acquire()
        if self._failure is not None:
            self._slots.release()
            raise self._failure
        if self._length + size > self._limits.object_max:
            self._slots.release()
            raise UsageError(f"{self.path} grows beyond {self._limits.object_max} bytes; write several files")
        self._sent += 1
        self._length += size
        task = asyncio.ensure_future(self._put_part(self._sent, body))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def seal(self, last: io.BytesIO | PlacedPart) -> None:
        """Send what is left and wait until the store has every part. A second call sends nothing.

        An empty file is one empty part: an upload without parts cannot be completed. After a StoreError the
        upload is still pending; abort it.
        """
        async with self._ending:
            if _size_of(last) or not self._sent:
                await self.send(last)
            await self._drain()
            if self._failure is not None:
                raise self._failure

    async def record(self) -> None:
        """Make the sealed upload known to the task commit. A second call records it again.

        After a StoreError the upload is still pending; abort it.
        """
        async with self._ending:
            if self._failure is not None:
                raise self._failure
            assert self._upload_id is not None
            self._recording = True
            parts = tuple(sorted(self._parts, key=lambda part: part.number))
            await self._recorder.record(
                Uploaded(self.key, self._upload_id, self._write_id, parts, self._length)
            )
            self._end()

    async def abort(self) -> None:
        """Discard the upload and whatever was recorded of it. A second call does the same again.

        Parts in flight are waited for, never cancelled: one that lands after the abort would be paid for.
        """
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

    async def _put_part(self, number: int, body: io.BytesIO | PlacedPart) -> None:
        try:
            assert self._upload_id is not None
            if isinstance(body, io.BytesIO):
                self._parts.append(await self._store.put_part(self.key, self._upload_id, number, body))
                self._spare_if_free(body)
            else:
                assert can_place(self._store)
                self._parts.append(await self._store.put_placed_part(self.key, self._upload_id, body))
        except Exception as error:  # noqa: BLE001 - raised again by the next send or by finish
            self._failure = self._failure or error
        except BaseException:
            self._failure = self._failure or UsageError(f"{self.path} was not written whole; write it again")
            raise
        finally:
            self._slots.release()

    def _spare_if_free(self, body: io.BytesIO) -> None:
        # Some clients close what they have sent, or hold on to it for a while.
        with suppress(BufferError, ValueError):
            body.truncate(body.seek(0, io.SEEK_END))
            self._spare.append(body)

    def _end(self) -> None:
        self._spare.clear()
        if self._open:
            self._open = False
            self._recorder.ended()

    async def _drain(self) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight)


def _size_of(body: io.BytesIO | PlacedPart) -> int:
    return body.getbuffer().nbytes if isinstance(body, io.BytesIO) else body.size


class PlacedBuffer:
    """As ``Buffer``, of a file that is written where it will be: nothing is held back but small writes."""

    def __init__(self, part: PlacedPart) -> None:
        self._part: PlacedPart | None = part

    def add(self, data: Body) -> Iterator[io.BytesIO]:
        """Take data in; there is nothing to be sent."""
        assert self._part is not None
        self._part.write(_bytes_of(data))
        yield from ()

    def take(self) -> PlacedPart:
        """All of the file, which is given up here: whoever holds it last closes it."""
        part, self._part = self._part, None
        assert part is not None
        return part


class Buffer:
    """Cuts what is written into bodies of the size that the upload asks for."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self._filling: io.BytesIO | None = None
        self._target = 0

    def add(self, data: Body) -> Iterator[io.BytesIO]:
        """Take data in; yields each body that became full."""
        view = _bytes_of(data)
        while len(view):
            if self._filling is None:  # only now: the last part that the store takes may be the last one
                self._filling, self._target = self._upload.empty_body(), self._upload.next_part_size
            room = self._target - self._filling.tell()
            self._filling.write(view[:room])
            view = view[room:]
            if self._filling.tell() == self._target:
                yield self.take()

    def take(self) -> io.BytesIO:
        """What has been filled so far, handed over without copying it."""
        body, self._filling = self._filling or io.BytesIO(), None
        body.truncate()
        return body


def _bytes_of(data: Body) -> memoryview:
    view = memoryview(data)
    # What has no bytes may have a shape that cannot be cast.
    return view.cast("B") if view.nbytes else memoryview(b"")
