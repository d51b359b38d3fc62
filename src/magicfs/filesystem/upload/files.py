"""The files that writers hold: pyarrow, pandas, ``open`` in a ``with`` block; and coroutines on the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self

from magicfs.errors import MagicError, StoreError, UsageError
from magicfs.filesystem.upload.memory import Buffer, PlacedBuffer
from magicfs.filesystem.upload.stream import Upload
from magicfs.filesystem.write_only_file import Sink, WriteOnlyFile, raised_in_body
from magicfs.runtime.interrupt import Call, run_on
from magicfs.stores.port import Body


class DelayedFile(WriteOnlyFile):
    """A file under a magic path, open for writing from any one thread.

    ``close()`` finishes the upload and records it, that of a task in the background; nothing becomes visible.
    Leaving a ``with`` block by an exception aborts, also through a wrapper that only calls ``close()`` then.
    So does garbage collection, also through a text or buffering wrapper; the task of such a file cannot
    commit. After an abort ``close()`` does nothing. Any error in writing or closing aborts the upload and is
    raised: by the write during which it shows, or by a later one, ``flush`` or ``close``. After its close, it
    is raised by the next write or close of another file of the task, and by the task commit.

    ``upload`` is not created yet; ``loop`` is that of its store. Without ``autocommit`` only ``commit``
    records the upload, as fsspec's transactions ask. ``fs``, ``path`` and ``mode`` are what it was opened
    with; like ``blocksize`` and ``loc`` they are here for those who know files of fsspec.
    """

    def __init__(
        self,
        upload: Upload,
        loop: asyncio.AbstractEventLoop,
        *,
        autocommit: bool = True,
        fs: Any = None,
        path: str = "",
        mode: str = "wb",
    ) -> None:
        self.autocommit = autocommit
        self.fs = fs
        self.blocksize: int = upload.next_part_size
        self._sink = _UploadSink(upload, loop, path or upload.path, mode)
        super().__init__(self._sink, buffer_max=self.blocksize)

    @property
    def loc(self) -> int:
        """As ``tell()``."""
        return self.tell()

    @property
    def full_name(self) -> str:
        """The URL of the path that was opened."""
        return str(self.fs.unstrip_protocol(self.path)) if self.fs is not None else self.path

    def info(self) -> dict[str, Any]:
        """Refused, as by every file of fsspec that is being written."""
        raise UsageError(f"{self.path} is being written; ask its filesystem after you close it")

    def close(self) -> None:
        """Finish the upload and record it; a second call, or one after an abort, does nothing.

        After a StoreError the upload is aborted and nothing is recorded.
        """
        if self._sink.state != "open":
            return
        if (raised := raised_in_body(self._sink.opened_during)) is not None:
            self.abort_after(raised)
            return
        super().close()  # hands over what is buffered, in a lock of its own
        self._sink.seal(record=self.autocommit)

    def commit(self) -> None:
        """Record the upload; ``close`` does so by itself outside transactions. A second call does nothing.

        Raises UsageError if the file was aborted.
        """
        if self._sink.state == "open":
            super().close()
            self._sink.seal(record=False)
        self._sink.record()

    def abort(self) -> None:
        """Discard the upload and what was recorded of it. A second call does nothing.

        After a StoreError the upload may be pending until it is swept.
        """
        self._sink.abort()

    def __del__(self) -> None:
        sink = getattr(self, "_sink", None)
        if sink is not None and (sink.state == "open" or (sink.state == "closed" and not self.autocommit)):
            sink.abandon("aborted")

    def _dealloc_warn(self, source: object) -> None:  # noqa: ARG002
        # io.TextIOWrapper and io.BufferedWriter announce themselves here when they are collected unclosed,
        # and then call close(): without this, garbage collection would record the upload.
        # What they flush on their way is not wanted, and an error would only be printed.
        if self._sink.state == "open":
            self._sink.abandon("abandoned")


class _UploadSink(Sink):
    """Brings the bytes of one file to its upload.

    Its lock is taken within that of the file's buffer, never around it: nothing here calls the file.
    """

    def __init__(self, upload: Upload, loop: asyncio.AbstractEventLoop, path: str, mode: str) -> None:
        super().__init__(path, mode)
        self._upload = upload
        self._loop = loop
        self._lock = threading.RLock()
        self._buffer: Buffer | PlacedBuffer | None = None  # none of one that has ended
        with self._abort_on_error():
            self._run(upload.create)
            self._buffer = upload.placed_buffer() or upload.buffer()

    def take(self, data: memoryview) -> None:
        with self._abort_on_error(), self._lock:
            buffer = self._buffer
            if buffer is None:
                return
            self._upload.check()
            if self._upload.must_wait:
                self._run(self._upload.room)
            for body in buffer.add(data):
                self._run(self._upload.send, body)

    def seal(self, *, record: bool) -> None:
        """Send the last part, then record the upload if that is wanted.

        Does nothing if that was done before, or the file was aborted.
        """
        with self._lock:
            if self.state != "open":
                return
            buffer, self._buffer = self._buffer, None
            assert buffer is not None
            self.end("closed")
            with self._abort_on_error():
                self._run(self._upload.finish if record else self._upload.seal, buffer.finish())
            if record:
                self.end("committed")

    def record(self) -> None:
        """Make the sealed upload known. UsageError if it was aborted; a second call does nothing."""
        with self._lock:
            if self.state == "committed":
                return
            if self.state in {"aborted", "abandoned"}:
                raise UsageError(f"{self.path} was aborted; write it again")
            with self._abort_on_error():
                self._run(self._upload.record)
            self.end("committed")

    def abort(self) -> None:
        """Discard the upload. A second call does nothing."""
        with self._lock:
            if self.state in {"aborted", "abandoned"}:
                return
            self._give_up("aborted")
            self._run(self._upload.abort)

    def abandon(self, state: str) -> None:
        """Discard the upload of a file that was collected: not in this thread, and without an error."""
        if state == "abandoned":  # what is about to be written is dropped, and must not fail
            self.state, self._buffer = state, None
        else:
            self._give_up(state)
        if os.getpid() != self._pid:
            return
        with contextlib.suppress(RuntimeError):  # the loop may be gone at interpreter exit
            asyncio.run_coroutine_threadsafe(_quietly(self._upload.drop()), self._loop)

    def _give_up(self, state: str) -> None:
        self._buffer = None
        self.end(state)

    @contextlib.contextmanager
    def _abort_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._give_up("aborted")
            if isinstance(error, Exception):
                try:
                    self._run(self._upload.abort)
                except MagicError as second:
                    error.add_note(f"and the upload could not be aborted: {second}")
            else:  # Ctrl-C
                Call(self._loop, self._upload.abort, whole=True).run()
            raise

    def _run(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        if os.getpid() != self._pid:  # after a fork nobody runs the loop, and the upload is the parent's
            raise UsageError(f"{self.path} was opened in another process; open it here to write")
        return run_on(self._loop, work, *args)


async def _quietly(coroutine: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(StoreError):
        await coroutine


class AsyncDelayedFile:
    """As ``DelayedFile``, in coroutines. Nothing is recorded or aborted by garbage collection."""

    def __init__(
        self, upload: Upload, *, autocommit: bool = True, fs: Any = None, path: str = "", mode: str = "wb"
    ) -> None:
        self._upload = upload
        self.autocommit = autocommit
        self.fs = fs
        self.path: str = path or upload.path
        self.mode = mode
        self.blocksize: int = upload.next_part_size
        self._buffer: Buffer | None = None
        self._position = 0
        self.closed: bool = False

    async def open(self) -> Self:
        """Create the upload."""
        await self._upload.create()
        self._buffer = self._upload.buffer()
        return self

    async def write(self, data: Body) -> int:
        if self.closed or self._buffer is None:
            raise UsageError(f"{self.path} is closed; open it again to write")
        try:
            self._upload.check()
            await self._upload.room()
            for body in self._buffer.add(data):
                await self._upload.send(body)
        except (Exception, asyncio.CancelledError) as error:
            await self._abort_after(error)
            raise
        self._position += memoryview(data).nbytes
        return memoryview(data).nbytes

    async def write_all(self, data: Body) -> None:
        """Write what the file shall hold; it must stay as it is meanwhile."""
        try:
            await self._upload.send_all(data)
        except (Exception, asyncio.CancelledError) as error:
            await self._abort_after(error)
            raise
        self._position = memoryview(data).nbytes

    async def write_from(self, read: Callable[[int], Awaitable[bytes]]) -> int:
        """Read the next part of what the file shall hold, and write it; returns its size, 0 at the end.

        ``read`` is given a number of bytes. The file must be written so from its begin on.
        """
        try:
            size = await self._upload.send_read(read)
        except (Exception, asyncio.CancelledError) as error:
            await self._abort_after(error)
            raise
        self._position += size
        return size

    @property
    def loc(self) -> int:
        """As ``tell()``."""
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        """False: what was written cannot be read back here."""
        return False

    def writable(self) -> bool:
        return not self.closed

    def seekable(self) -> bool:
        """False: parts that were sent cannot be changed."""
        return False

    async def flush(self, force: bool = False) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        if self.closed or self._buffer is None:
            return
        self.closed = True
        try:
            finish = self._upload.finish if self.autocommit else self._upload.seal
            await finish(self._buffer.take())
        except (Exception, asyncio.CancelledError) as error:
            await self._abort_after(error)
            raise

    async def commit(self) -> None:
        await self.close()
        await self._upload.record()

    async def discard(self) -> None:
        """What fsspec's transactions call ``abort``."""
        await self.abort()

    async def abort(self) -> None:
        self.closed = True
        await self._upload.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is None:
            await self.close()
        else:
            await self._abort_after(exc)

    async def _abort_after(self, first: BaseException) -> None:
        self.closed = True
        try:
            await self._upload.abort()
        except MagicError as error:
            first.add_note(f"and the upload of {self.path} could not be aborted: {error}")
