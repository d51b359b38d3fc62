"""A file of this machine that is put below a magic path: read off the loop, in few visits to a thread."""

from __future__ import annotations

import asyncio
import os
import stat
from io import FileIO
from types import TracebackType
from typing import Self

__all__ = ["LocalSource", "opened"]

# What is read at once with the opening. Many files are put at once, and nobody waits for this memory.
_SMALL_BYTES = 2**18


class LocalSource:
    """An open file; closed by whoever leaves the ``with`` block."""

    def __init__(self, file: FileIO, size: int, begin: bytes | None) -> None:
        self.size = size
        self._file = file
        self._begin = begin  # all of a small file, which is closed already

    async def read(self, size: int) -> bytes:
        """So many bytes more, fewer at the end, and none after it."""
        if self._begin is None:
            return await asyncio.to_thread(_read, self._file, size)
        begin, self._begin = self._begin[:size], self._begin[size:]
        return begin

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def opened(path: str) -> LocalSource | None:
    """Open a file, and read it if it is small; None for a directory. Blocks."""
    try:
        file = FileIO(path)
    except IsADirectoryError:
        return None
    try:
        found = os.fstat(file.fileno())
        small = stat.S_ISREG(found.st_mode) and found.st_size <= _SMALL_BYTES
        begin = _read(file, _SMALL_BYTES + 1) if small else None
        if begin is not None and len(begin) <= _SMALL_BYTES:
            file.close()
            return LocalSource(file, found.st_size, begin)
        if small:  # it has grown meanwhile
            file.seek(0)
    except BaseException:
        file.close()
        raise
    return LocalSource(file, found.st_size, None)


def _read(file: FileIO, size: int) -> bytes:
    """So many bytes, fewer only at the end: an unbuffered file returns what it likes."""
    piece = file.read(size)
    if not piece or len(piece) == size:
        return piece
    pieces = [piece]
    while left := size - sum(map(len, pieces)):
        if not (piece := file.read(left)):
            break
        pieces.append(piece)
    return b"".join(pieces)
