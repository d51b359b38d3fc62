"""What every file of ours that is open for writing answers alike."""

from __future__ import annotations

import io
import os
import sys
from abc import abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Self

__all__ = ["WriteOnlyFile", "raised_in_body"]

_FRAMES = 20


class WriteOnlyFile(io.BufferedIOBase):
    """A file that is written from its begin to its end, and discarded if its ``with`` body raises."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self._position = 0
        self._pid = os.getpid()
        self.opened_during = sys.exception()  # what was being handled when the file was opened

    def readable(self) -> bool:
        """False: what was written cannot be read back here."""
        return False

    def writable(self) -> bool:
        return not self.closed

    def seekable(self) -> bool:
        """False: parts that were sent cannot be changed."""
        return False

    def tell(self) -> int:
        return self._position

    def flush(self, force: bool = False) -> None:
        """Nothing to do: nobody sees the file before it is closed (Hadoop's ``hflush`` likewise)."""

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
