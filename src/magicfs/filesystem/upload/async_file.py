"""The file for writers that are coroutines on the store's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from magicfs.errors import MagicError, UsageError
from magicfs.filesystem.upload.memory import Buffer
from magicfs.filesystem.upload.stream import Upload
from magicfs.stores.port import Body

__all__ = ["AsyncDelayedFile"]


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
