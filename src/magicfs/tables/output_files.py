"""The files of a task: how they are called, and how they are finished in the background."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from magicfs.tables.formats import FileWriter


class OutputFile(Protocol):
    """What the writer writes to: binary, sequential."""

    closed: bool

    def write(self, data: Any) -> int:
        """Take data in."""

    def close(self) -> None:
        """Finish the file."""

    def abort(self) -> None:
        """Discard the file."""


@dataclass(frozen=True, slots=True)
class FileName:
    """How files are called: the same in every partition, with a number where one has several."""

    stem: str  # such as ``part-00003``
    extension: str  # such as ``.zstd.parquet``

    def of(self, number: int) -> str:
        """The name of a partition's file, counted from 0."""
        return f"{self.stem}-c{number:03d}{self.extension}" if number else f"{self.stem}{self.extension}"


@dataclass(slots=True)
class OpenFile:
    """A file that is being written, and what encodes rows into it."""

    file: OutputFile
    writer: FileWriter
    rest: pa.Table | None = None  # rows that are encoded when the file is finished

    def finish(self) -> int:
        """End the file and hand it over, or discard it if that fails. Returns its bytes."""
        try:
            if self.rest is not None:
                self.writer.write(self.rest)
                self.rest = None
            self.writer.close()
            self.file.close()
        except BaseException:
            with suppress(Exception):  # the first error must not be hidden
                self.abort()
            raise
        return self.writer.bytes

    def abort(self) -> None:
        """Discard the file."""
        try:
            self.file.abort()
        finally:
            self.writer.abort()


class Finishers:
    """Finishes files in the background, which is mostly waiting for the store. For one thread.

    ``bytes``: of all the files that are known to be finished.
    """

    def __init__(self, threads: int) -> None:
        self.bytes: int = 0
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._futures: deque[Future[int]] = deque()

    def unfinished(self) -> int:
        """How many files are not finished yet. Raises StoreError if one could not be; it is discarded."""
        while self._futures and self._futures[0].done():
            self.wait()
        return len(self._futures)

    def take(self, opened: OpenFile) -> None:
        """Finish a file soon."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="magicfs-finisher")
        self._futures.append(self._pool.submit(opened.finish))

    def finish(self, opened: OpenFile) -> None:
        """Finish a file now, in the calling thread: no thread is started for a task's only file. Raises
        StoreError if it could not be finished; it is discarded.
        """
        self.bytes += opened.finish()

    def wait(self) -> None:
        """Wait for the file that was taken first. StoreError: it could not be finished, and is discarded."""
        self.bytes += self._futures.popleft().result()

    def close(self) -> None:
        """Wait for all files, and raise what went wrong with the first that failed. May be called again."""
        errors: list[BaseException] = []
        while self._futures:
            try:
                self.wait()
            except BaseException as error:  # noqa: BLE001 - every file is waited for
                errors.append(error)
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        if errors:
            raise errors[0]
