"""What every file of ours that is open for writing answers alike.

``write`` is C: it is that of ``io.BufferedWriter``, which a file must not override. Threads of Arrow's own,
which have no state of Python, pay much for every Python function that they call, and little for C. So the
Python is in the file's ``Sink``, which gets many small writes as one, and a large one uncopied.
"""

from __future__ import annotations

import io
import os
import sys
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from magicfs.errors import UsageError
from magicfs.runtime import process_end

# Enough that a page of Parquet is one call; tasks have hundreds of files open, and each has a buffer.
_BUFFER_BYTES = 128 * 2**10
_FRAMES = 20
_SINKS: weakref.WeakSet[Sink] = weakref.WeakSet()


class Sink(io.RawIOBase):
    """Takes the bytes of one file in their order.

    It knows its file weakly only: a file that nobody holds is discarded at once, not by the next search for
    cycles. ``state`` is ``"open"`` until the file ends; what is written to one that is ``"abandoned"``, or
    ended in the middle of a write, is dropped.
    """

    def __init__(self, path: str, mode: str = "wb") -> None:
        super().__init__()
        self.path = path
        self.mode = mode
        self.state: str = "open"
        self.opened_during: BaseException | None = sys.exception()  # what was handled when it was opened
        self._position = 0
        self._pid = os.getpid()
        self._file: Callable[[], WriteOnlyFile | None] = lambda: None
        _SINKS.add(self)

    def __del__(self) -> None:
        """Nothing: wrappers that are collected with it would find it closed, and complain."""

    def belong_to(self, file: WriteOnlyFile) -> None:
        """Learn whose bytes these are."""
        self._file = weakref.ref(file)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        """Take all the data in, whose memory is its owner's again afterwards."""
        view = memoryview(data)
        if self.state == "open":
            self.take(view)
        self._position += view.nbytes
        return view.nbytes

    @abstractmethod
    def take(self, data: memoryview) -> None:
        """Add data at the end. Whatever is raised has ended the file."""

    def end(self, state: str) -> None:
        """The file takes no more data, for a reason that is told to whoever writes all the same."""
        self.state = state
        self._refuse_writes(f"{self.path} is {state}; open it again to write")
        self.close()

    def refuse_after_fork(self) -> None:
        """Let the child's writes fail at once, and not when its copy of the buffer is full."""
        if self.state == "open":
            self._refuse_writes(f"{self.path} was opened in another process; open it here to write")

    def _refuse_writes(self, problem: str) -> None:
        if (file := self._file()) is not None:
            vars(file)["write"] = partial(_refuse, problem)


def _refuse(problem: str, data: object) -> NoReturn:  # noqa: ARG001 - in the place of ``write``
    raise UsageError(problem)


def _refuse_after_fork() -> None:
    for sink in list(_SINKS):
        sink.refuse_after_fork()


process_end.after_fork_in_child(_refuse_after_fork)


class WriteOnlyFile(io.BufferedWriter):
    """A file that is written from its begin to its end, and discarded if its ``with`` body raises."""

    def __init__(self, sink: Sink, buffer_max: int = _BUFFER_BYTES) -> None:
        super().__init__(sink, min(buffer_max, _BUFFER_BYTES))
        sink.belong_to(self)
        self.path: str = sink.path

    @property
    def raw(self) -> NoReturn:  # type: ignore[override]
        """Not there: what is written past the buffer would come before what is in it."""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute 'raw'")

    def detach(self) -> NoReturn:
        """Refused: what is behind the buffer is of no use without it."""
        raise io.UnsupportedOperation("detach")

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self.path} is being written and cannot be pickled; open it where it is written")

    def readable(self) -> bool:
        """False: what was written cannot be read back here."""
        return False

    def writable(self) -> bool:
        return not self.closed

    def flush(self, force: bool = False) -> None:  # noqa: ARG002 - as files of fsspec
        """Empty the buffer. Nobody sees the file before it is closed (Hadoop's ``hflush`` likewise)."""
        if not self.closed:
            super().flush()

    @abstractmethod
    def abort(self) -> None:
        """Discard the file; OSError if what was sent of it could not be discarded. A second call does
        nothing.
        """

    def discard(self) -> None:
        """What fsspec's transactions call ``abort``."""
        self.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is None:
            self.close()
        else:
            self.abort_after(exc)

    def abort_after(self, first: BaseException) -> None:
        """Discard the file because of an error, which must not be hidden."""
        try:
            self.abort()
        except Exception as error:  # noqa: BLE001 - told in the first one
            first.add_note(f"and the upload of {self.path} could not be aborted: {error}")


def raised_in_body(before: BaseException | None) -> BaseException | None:
    """The exception because of which a file is being closed, if the body of somebody's ``with`` block raised.

    Many wrappers (``fsspec.open``, ``pyarrow.parquet.ParquetWriter``, handles of pandas) leave their block by
    calling ``close()`` only, whatever has happened in it. So the frames that called are asked: one of them is
    an ``__exit__`` that was given the exception in flight. A ``finally`` cannot be told from an ``except``
    that has repaired things; ``before`` is what was in flight already when the file was opened.
    """
    raised = sys.exception()
    if raised is None or raised is before:
        return None
    frame = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame.f_code.co_name == "__exit__" and _holds(frame.f_locals.values(), raised):
            return raised
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def _holds(values: Iterable[object], error: BaseException) -> bool:
    return any(
        one is error or (isinstance(one, tuple) and any(inner is error for inner in one)) for one in values
    )
