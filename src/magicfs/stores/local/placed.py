"""Local files that are written where they will be: no part of them is in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from magicfs.errors import UsageError
from magicfs.stores.local import errors
from magicfs.stores.port import Body

__all__ = ["PlacedFile", "open_max", "write_at"]

_SMALL_BYTES = 2**16  # what is held back, so that many small writes are one


class PlacedFile:
    """The file of an upload while it is written, from its start.

    The descriptor is closed with the last reference: never under a writer in another thread, which would then
    write to whatever file got its number.
    """

    opened: int = 0
    """How many of this process are open: each has a descriptor."""

    def __init__(self, descriptor: int, path: str, read_all: Callable[[], bytes]) -> None:
        PlacedFile.opened += 1
        self._descriptor = descriptor
        self._read_all = read_all
        self._path = path
        self._pid = os.getpid()
        self._small = bytearray()
        self._written = 0

    def __del__(self) -> None:
        PlacedFile.opened -= 1
        with contextlib.suppress(OSError):  # ``close`` has told
            os.close(self._descriptor)

    @property
    def size(self) -> int:
        return self._written + len(self._small)

    def write(self, data: memoryview) -> None:
        if os.getpid() != self._pid:
            raise UsageError(f"{self._path} was opened in another process; open it here to write")
        if data.nbytes + len(self._small) <= _SMALL_BYTES:
            self._small += data
        else:
            self.flush()
            with errors.translated("put_part", self._path):
                write_at(self._descriptor, data, self._written)
            self._written += data.nbytes

    def close(self) -> None:
        """Write what was held back, and hear what the filesystem has to say, as of a file that is closed.

        A filesystem of a network writes now, and tells whether it could. A second call does the same.
        """
        self.flush()
        with errors.translated("put_part", self._path):
            os.close(os.dup(self._descriptor))

    def read(self, start: int, size: int) -> bytes:
        """Bytes of it, once it is closed; fewer at its end."""
        with errors.translated("put_part", self._path):
            return os.pread(self._descriptor, size, start)

    def reader(self) -> Callable[[], bytes]:
        """What reads all of it back, until its upload ends."""
        return self._read_all

    def flush(self) -> None:
        """Write what was held back. A second call does nothing."""
        with errors.translated("put_part", self._path):
            write_at(self._descriptor, self._small, self._written)
        self._written += len(self._small)
        self._small = bytearray()


def open_max() -> int:
    """How many files may be kept open: half of what the system lets this process have."""
    import resource  # POSIX alone has it

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


def write_at(descriptor: int, body: Body, start: int) -> None:
    """Write all of a body to a file, from a place on."""
    left = memoryview(body).cast("B")
    while left:
        written = os.pwrite(descriptor, left, start)
        left, start = left[written:], start + written
