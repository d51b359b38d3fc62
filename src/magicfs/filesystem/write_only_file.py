"""What every file of ours that is open for writing answers alike."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["WriteOnlyFile"]


class WriteOnlyFile(io.BufferedIOBase):
    """A file that is written from its begin to its end, and discarded if its ``with`` body raises."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self._position = 0
        self._pid = os.getpid()

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

    def flush(self) -> None:
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
            return
        try:
            self.abort()
        except Exception as error:  # noqa: BLE001 - the error of the body must not be hidden
            exc.add_note(f"and the upload of {self.path} could not be aborted: {error}")
