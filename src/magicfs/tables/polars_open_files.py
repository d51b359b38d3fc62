"""The files of a frame that Polars writes, which it asks for and lets go of from threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from magicfs.tables.output_files import FileName, OutputFile

__all__ = ["OpenFiles"]

_FINISHERS = 16  # which only wait for the store


class OpenFiles:
    """The files that Polars has asked for. ``open`` is called by threads of Polars.

    A file that Polars has let go of is finished beside those that it still writes. If the query fails, it is
    aborted like the others.
    """

    def __init__(self, open_file: Callable[[str], OutputFile], name: FileName, files_max: int) -> None:
        self.errors: list[BaseException] = []  # that the files raised, the first one first
        self.too_many = False
        self._open_file = open_file  # is given a relative name
        self._name = name
        self._files_max = files_max
        self._lock = threading.Lock()
        self.numbers: dict[str, int] = {}
        self._count = 0  # of the files that are open, or are being opened
        self._opening = 0  # of those that are being opened
        self._opened = threading.Condition(self._lock)
        self._open: list[_Sink] = []
        self._finishers: ThreadPoolExecutor | None = None
        self._ended = False

    def open(self, directory: str) -> Any:
        """Begin a file of a directory."""
        return self.open_for(lambda: directory)

    def open_for(self, directory: Callable[[], str]) -> Any:
        """Begin a file of a directory that is still to be named."""
        try:
            named = directory()
            name = self._take_name(named)
            try:
                # Without the lock: several are opened at once, each of which waits for the store.
                return self._handle(self._open_file(f"{named}/{name}" if named else name))
            finally:
                with self._opened:
                    self._opening -= 1
                    self._opened.notify_all()
        except BaseException as error:
            self.errors.append(error)
            raise

    def _take_name(self, directory: str) -> str:
        with self._lock:
            if self._ended:
                raise ValueError("the write has ended")
            if self._count >= self._files_max:
                self.too_many = True
                raise ValueError("more files than may be open")
            self._count += 1
            self._opening += 1
            number = self.numbers.get(directory, 0)
            self.numbers[directory] = number + 1
        return self._name.of(number)

    def _handle(self, file: OutputFile) -> _Handle:
        sink = _Sink(file, self.errors)
        with self._lock:
            if not self._ended:
                self._open.append(sink)
                if self._count > 1 and self._finishers is None:  # an only file needs none
                    self._finishers = ThreadPoolExecutor(_FINISHERS, thread_name_prefix="magicfs-finisher")
                return _Handle(sink, self._let_go)
        sink.abort()
        raise ValueError("the write has ended")

    def _let_go(self, sink: _Sink) -> None:
        """Finish a file soon, unless all are about to be finished, or discarded."""
        # Not the lock: this may come at any moment, also to a thread that holds it.
        if self._finishers is not None and not self._ended and not self.errors:
            with suppress(RuntimeError):  # they ended meanwhile
                sink.done = self._finishers.submit(sink.finish)

    def finish(self) -> None:
        """Finish every file, several at once; each is tried."""
        if self.errors:  # one whose write failed is not whole, whatever Polars made of it
            raise self.errors[0]
        with self._lock:
            self._ended = True
        if self._finishers is None:
            for file in self._open:
                file.finish()
            return
        with self._finishers:
            for done in [file.done or self._finishers.submit(file.finish) for file in self._open]:
                done.result()

    def abort(self) -> None:
        """Discard all files, those that Polars is just opening, too. A second call does nothing."""
        with self._opened:
            self._ended = True
            self._opened.wait_for(lambda: not self._opening)  # the same names may be written next
            waiting, self._open = self._open, []
        if self._finishers is not None:
            self._finishers.shutdown(cancel_futures=True)
        for file in waiting:
            with suppress(Exception):  # the first error must not be hidden; the task discards what it finds
                file.abort()


class _Sink:
    """One file. It keeps what went wrong, for Polars makes another error of it.

    Threads of Polars may still write when the query has failed, and the file is aborted.
    """

    def __init__(self, file: OutputFile, errors: list[BaseException]) -> None:
        self.done: Future[None] | None = None  # once it is being finished
        self._file = file
        self._errors = errors
        self._lock = threading.Lock()
        self._ended = False

    def write(self, data: Any) -> int:
        with self._lock:
            if self._ended:
                raise ValueError("the file has ended")
            try:
                self._file.write(data)
            except BaseException as error:
                self._errors.append(error)
                raise
        return len(data)

    def finish(self) -> None:
        with self._lock:
            self._ended = True
            self._file.close()

    def abort(self) -> None:
        with self._lock:
            self._ended = True
            self._file.abort()


class _Handle:
    """What Polars writes a file to, and lets go of as soon as the file is whole."""

    closed = False

    def __init__(self, sink: _Sink, let_go: Callable[[_Sink], None]) -> None:
        self._sink = sink
        self._let_go = let_go
        self.write = sink.write

    def flush(self) -> None:
        """Do nothing: what was written is written."""

    def close(self) -> None:
        """Do nothing: whoever opened the file finishes it."""

    def __del__(self) -> None:
        self._let_go(self._sink)
