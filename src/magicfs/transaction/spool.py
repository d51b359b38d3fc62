"""Byte strings by number: in memory while they are few, then in a temporary file without a name.

So the memory of a driver does not grow with its job. The file is this process's own: what it holds was
checked before, and nobody else can open it.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from typing import Final

__all__ = ["Spool"]

_MEMORY_BYTES_MAX: Final = 16 * 1024**2


class Spool:
    """Takes byte strings, and gives them back by the number that each was given, from 0."""

    def __init__(self, memory_bytes_max: int = _MEMORY_BYTES_MAX) -> None:
        self._memory_bytes_max = memory_bytes_max
        self._ends = array("q", [0])
        self._memory: list[bytes] = []
        self._file: int | None = None  # its descriptor
        self._spilled = 0
        """How many of the first are in the file."""

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, raw: bytes) -> int:
        """Keep one more; returns its number."""
        self._memory.append(raw)
        self._ends.append(self._ends[-1] + len(raw))
        if self._ends[-1] - self._ends[self._spilled] > self._memory_bytes_max:
            self._spill()
        return len(self) - 1

    def read(self, number: int) -> bytes:
        """One of them."""
        if number >= self._spilled:
            return self._memory[number - self._spilled]
        assert self._file is not None
        start, end = self._ends[number], self._ends[number + 1]
        # Not by the file's own place: a fork shares that.
        raw = os.pread(self._file, end - start, start)
        if len(raw) != end - start:
            raise OSError(f"a temporary file of this process in {tempfile.gettempdir()} was cut short")
        return raw

    def _spill(self) -> None:
        try:
            if self._file is None:
                with tempfile.TemporaryFile() as file:
                    self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
            place = self._ends[self._spilled]
            for raw in self._memory:
                place += os.pwrite(self._file, raw, place)
        except OSError:
            return  # no room: memory is dearer than disk, but not than the job
        if place == self._ends[-1]:
            self._spilled, self._memory = len(self), []
