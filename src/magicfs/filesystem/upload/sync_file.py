"""The file that most writers hold: pyarrow, pandas, ``open`` in a ``with`` block."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from magicfs.errors import MagicError, StoreError, UsageError
from magicfs.filesystem.upload.stream import Buffer, PlacedBuffer, Upload
from magicfs.filesystem.write_only_file import WriteOnlyFile, raised_in_body
from magicfs.stores.interrupt import Call, run_on

__all__ = ["DelayedFile"]


class DelayedFile(WriteOnlyFile):
    """A file under a magic path, open for writing from any one thread.

    ``close()`` finishes the upload and records it; nothing becomes visible. Leaving a ``with`` block by an
    exception aborts, also through a wrapper that only calls ``close()`` then. So does garbage collection,
    also through a text or buffering wrapper; the task of such a file cannot commit. After an abort
    ``close()`` does nothing. Any error in writing or closing aborts the upload and is raised.

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
        super().__init__(path or upload.path)
        self._state = "opening"
        self._upload = upload
        self._loop = loop
        self.autocommit = autocommit
        self.fs = fs
        self.mode = mode
        self.blocksize = upload.next_part_size
        self._lock = threading.RLock()
        self._buffer: Buffer | PlacedBuffer | None = None  # none of one that is aborted
        with self._abort_on_error():
            self._run(upload.create)
            placed = upload.place()
        self._state = "open"
        self._buffer = Buffer(upload) if placed is None else PlacedBuffer(placed)

    @property
    def loc(self) -> int:
        """As ``tell()``."""
        return self._position

    @property
    def full_name(self) -> str:
        """The URL of the path that was opened."""
        return str(self.fs.unstrip_protocol(self.path)) if self.fs is not None else self.path

    def info(self) -> dict[str, Any]:
        """Refused, as by every file of fsspec that is being written."""
        raise UsageError(f"{self.path} is being written; ask its filesystem once it is closed")

    @property
    def closed(self) -> bool:
        return self._state in {"closed", "committed", "aborted"}

    def write(self, data: Any) -> int:
        """Take all the data in; full parts are sent in the background.

        Raises UsageError, a ValueError, if the file is closed or outgrows what the store takes.
        """
        with self._lock:
            if self.closed:
                raise UsageError(f"{self.path} is {self._state}; open it again to write")
            view = memoryview(data)
            if self._state == "abandoned":
                return view.nbytes
            buffer = self._buffer
            assert buffer is not None
            with self._abort_on_error():
                for body in buffer.add(view):
                    self._run(self._upload.send, body)
            self._position += view.nbytes
            return view.nbytes

    def close(self) -> None:
        """Finish the upload and record it; a second call, or one after an abort, does nothing.

        After a StoreError the upload is aborted and nothing is recorded.
        """
        with self._lock:
            if self._state != "open":
                return
            if (raised := raised_in_body(self.opened_during)) is not None:
                self.abort_after(raised)
                return
            self._state = "closed"
            assert self._buffer is not None
            with self._abort_on_error():
                self._run(self._upload.seal, self._buffer.take())
            if self.autocommit:
                self.commit()

    def commit(self) -> None:
        """Record the upload; ``close`` does so by itself outside transactions. A second call does nothing.

        Raises UsageError if the file was aborted.
        """
        with self._lock:
            if self._state == "committed":
                return
            if self._state in {"aborted", "abandoned"}:
                raise UsageError(f"{self.path} was aborted; write it again")
            self.close()
            with self._abort_on_error():
                self._run(self._upload.record)
            self._state = "committed"

    def abort(self) -> None:
        """Discard the upload and what was recorded of it. A second call does nothing.

        After a StoreError the upload may be pending until it is swept.
        """
        with self._lock:
            if self._state in {"aborted", "abandoned"}:
                return
            self._state, self._buffer = "aborted", None
            self._run(self._upload.abort)

    def __del__(self) -> None:
        if getattr(self, "_state", "aborted") == "open" or (self._state == "closed" and not self.autocommit):
            self._abandon(self._upload.drop)

    def _dealloc_warn(self, source: object) -> None:  # noqa: ARG002
        # io.TextIOWrapper and io.BufferedWriter announce themselves here when they are collected unclosed,
        # and then call close(): without this, garbage collection would record the upload.
        # What they flush on their way is not wanted, and an error would only be printed.
        if self._state == "open":
            self._abandon(self._upload.drop)
            self._state = "abandoned"

    def _abandon(self, how: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._state, self._buffer = "aborted", None
        if os.getpid() != self._pid:
            return
        with contextlib.suppress(RuntimeError):  # the loop may be gone at interpreter exit
            asyncio.run_coroutine_threadsafe(_quietly(how()), self._loop)

    @contextlib.contextmanager
    def _abort_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._state, self._buffer = "aborted", None
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
