"""One stream of rows for several tasks, each in its own thread: a free task takes the next piece."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from magicfs.tables.sources import Source

_START_TIMEOUT_S = 1.0


class Stopped(Exception):
    """Another task has failed, and this one is not needed any more."""


class SharedStream:
    """Hands out the pieces of a source. An error of the source is raised in the task that met it."""

    def __init__(self, source: Source, tasks: int) -> None:
        self._source = source
        # Or the first task has all the rows of a small table before the second thread has begun.
        self._start = threading.Barrier(tasks)
        self._lock = threading.Lock()
        self._pieces: Iterator[Any] | None = None
        self._stopped = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What one task writes. Raises Stopped after ``stop``, so that no task commits a part of its rows."""
        with suppress(threading.BrokenBarrierError):
            self._start.wait(_START_TIMEOUT_S)
        while True:
            with self._lock:  # generators are no friends of threads
                if self._stopped:
                    raise Stopped
                if self._pieces is None:
                    self._pieces = self._source.pieces()
                try:
                    piece = next(self._pieces, None)
                except BaseException:
                    self._stopped = True
                    raise
            if piece is None:
                return
            yield from self._source.batches(piece)

    def stop(self) -> None:
        """Hand out nothing any more."""
        self._stopped = True
        self._start.abort()
