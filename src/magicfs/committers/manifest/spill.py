"""The files of all tasks in a local temporary file, so that a driver's memory does not grow with them.

Any format would do; SQLite's can also be asked which key occurs twice, in bounded memory. The file has no
name once it is open, so a driver that is killed leaves none behind.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from magicfs.errors import ProtocolViolation, StoreError, UsageError

__all__ = ["LIST_LENGTH", "Spill", "SpilledFile"]

LIST_LENGTH: Final = 100
"""Most entries that are handed over at once."""

_READ_AT_ONCE: Final = 500
_TABLES: Final = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA temp_store = FILE;
    PRAGMA cache_size = -4096;
    CREATE TABLE files
        (number INTEGER PRIMARY KEY, key TEXT, source TEXT, size INTEGER, etag TEXT, task TEXT);
    CREATE TABLE directories (key TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE old (number INTEGER PRIMARY KEY, key TEXT);
    BEGIN;
"""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class SpilledFile:
    """One file of the job."""

    key: str  # final
    source: str  # where it lies until it is renamed
    size: int
    etag: str  # empty where the manifest has none
    task: str
    number: int = 0  # its place in the spill, from 1; 0 as long as it is not there


class Spill:
    """A temporary file of ``SpilledFile``; leaving its ``async with`` block removes it.

    Producers ``put`` lists into a bounded queue, which one writer empties into the file; ``finish`` waits for
    it. When the writer fails, every producer that waits or comes later gets its error. At most ``capacity``
    lists of at most ``LIST_LENGTH`` wait in the queue.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise UsageError(f"writer_queue_capacity={capacity} must be at least 1")
        self._queue: asyncio.Queue[Sequence[SpilledFile] | None] = asyncio.Queue(capacity)
        self._turn = asyncio.Lock()
        self._error: Exception | None = None
        self._writer: asyncio.Task[None] | None = None
        self._path = ""
        self._database: sqlite3.Connection | None = None
        self._deepest = 0

    @property
    def deepest_queue(self) -> int:
        """Most lists that have waited at once."""
        return self._deepest

    async def __aenter__(self) -> Self:
        await self._do(self._open)
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            await self._stop_writer()
        async with self._turn:
            await asyncio.to_thread(self._close)

    def _open(self) -> None:
        descriptor, self._path = tempfile.mkstemp(prefix="magicfs-manifests-", suffix=".sqlite")
        os.close(descriptor)
        self._database = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        self._database.executescript(_TABLES)
        # Windows keeps the name of an open file.
        with suppress(OSError):
            Path(self._path).unlink()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
        with suppress(OSError):
            Path(self._path).unlink()

    # -- writing ---------------------------------------------------------------------------------------

    async def put(self, files: Sequence[SpilledFile]) -> None:
        """Hand files over; waits while the queue is full. Raises ProtocolViolation after ``finish``."""
        if self._writer is None:
            raise ProtocolViolation("the spill file is finished; nothing can be added any more")
        if self._error is not None:
            raise self._error
        await self._queue.put(files)
        self._deepest = max(self._deepest, self._queue.qsize())
        if self._error is not None:
            raise self._error

    async def finish(self, directories: Iterable[str] = ()) -> None:
        """Wait until everything is written, and make it possible to ask."""
        await self._stop_writer()
        if self._error is not None:
            raise self._error
        keys = [(key,) for key in directories]
        await self._do(
            lambda: self._run_many("INSERT OR IGNORE INTO directories VALUES (?)", keys),
            lambda: self._run("CREATE INDEX by_key ON files (key, task)"),
        )

    async def _stop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await self._queue.put(None)
            await writer

    async def _write(self) -> None:
        while (files := await self._queue.get()) is not None:
            if self._error is not None:
                continue  # and so no producer waits for a place in the queue for ever
            rows = [(one.key, one.source, one.size, one.etag, one.task) for one in files]
            try:
                await self._do(lambda rows=rows: self._insert(rows))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 - raised by put and finish
                self._error = error

    def _insert(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._run_many("INSERT INTO files (key, source, size, etag, task) VALUES (?, ?, ?, ?, ?)", rows)

    # -- asking ----------------------------------------------------------------------------------------

    async def files(self) -> AsyncIterator[SpilledFile]:
        """Every file, in the order in which they came, a few at a time."""
        sql = (
            "SELECT key, source, size, etag, task, number FROM files WHERE number > ? ORDER BY number LIMIT ?"
        )
        last = 0
        while rows := await self._ask(sql, (last, _READ_AT_ONCE)):
            for row in rows:
                yield SpilledFile(*row)
            last = rows[-1][-1]

    async def written_twice(self) -> tuple[str, str, str] | None:
        """A key that two files have, and the tasks of two of them; None if there is none."""
        rows = await self._ask(
            "SELECT key, min(task), max(task) FROM files GROUP BY key HAVING count(*) > 1 LIMIT 1"
        )
        return tuple(rows[0]) if rows else None

    async def file_and_directory(self) -> tuple[str, str] | None:
        """A key that is a file of one task and a directory of another, and the former; None if none is."""
        rows = await self._ask(
            "SELECT files.key, task FROM directories CROSS JOIN files ON files.key = directories.key LIMIT 1"
        )
        return tuple(rows[0]) if rows else None

    async def foreign(self, keys: Collection[str]) -> list[str]:
        """Those of some keys, at most ``LIST_LENGTH``, that no file of the job has."""
        marks = ",".join("?" * len(keys))
        sql = f"SELECT key FROM files WHERE key IN ({marks})"  # noqa: S608 - only question marks
        known = {key for (key,) in await self._ask(sql, tuple(keys))}
        return [key for key in keys if key not in known]

    async def add_old(self, keys: Iterable[str]) -> None:
        """Note keys of old data."""
        rows = [(key,) for key in keys]
        await self._do(lambda: self._run_many("INSERT INTO old (key) VALUES (?)", rows))

    async def old(self) -> AsyncIterator[str]:
        """The keys of old data."""
        last = 0
        while rows := await self._ask(
            "SELECT key, number FROM old WHERE number > ? ORDER BY number LIMIT ?", (last, _READ_AT_ONCE)
        ):
            for key, _ in rows:
                yield key
            last = rows[-1][-1]

    # -- the database, one thread at a time -------------------------------------------------------------

    async def _ask(self, sql: str, arguments: tuple[Any, ...] = ()) -> list[Any]:
        return await self._do(lambda: self._run(sql, arguments))

    async def _do(self, *steps: Callable[[], _Result]) -> _Result:
        async with self._turn:
            try:
                for step in steps:
                    result = await asyncio.to_thread(step)
                return result
            except (sqlite3.Error, OSError) as error:
                raise StoreError(
                    "write",
                    self._path or tempfile.gettempdir(),
                    f"the local file for the job's manifests cannot be used: {error}",
                    hint=f"make room in {tempfile.gettempdir()}, or let TMPDIR name another directory",
                ) from error

    def _run(self, sql: str, arguments: tuple[Any, ...] = ()) -> list[Any]:
        assert self._database is not None
        return self._database.execute(sql, arguments).fetchall()

    def _run_many(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        assert self._database is not None
        return self._database.executemany(sql, rows).fetchall()
