"""A published file, read as its manifest names it, and without a look at its size."""

from __future__ import annotations

import io
from typing import Any

from fsspec.spec import AbstractFileSystem

from magicfs.manifests.comparison import Named
from magicfs.reading.named_reads import NamedReads
from magicfs.runtime.process_end import begun, shared_with_threads

_BLOCK = 2**20
"""Smaller reads, such as those of CSV and Arrow's own formats, are made so large."""
_BLOCK_MAX = 2**24
"""How large reads become that follow one another."""


class PublishedFile(io.RawIOBase):
    """A file that a manifest names. For one thread at a time.

    Large reads are made as requested: their caller knows what is needed. Small ones are made
    larger, and further ones served from what has come; the more follow one another, the larger.
    """

    def __init__(self, reads: NamedReads, path: str, file: Named) -> None:
        self._reads = reads
        self._path = path
        self._file = file
        self._size = file.size
        self._position = 0
        self._kept, self._start = b"", 0  # the last bytes that came, and where they begin
        self._block = _BLOCK
        shared_with_threads(self)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """As of every file: fewer bytes only at its end."""
        start = min(self._position, self._size)
        end = self._size if size is None or size < 0 else min(start + size, self._size)
        body = self._between(start, end) if start < end else b""
        self._position += len(body)
        return body

    def readinto(self, buffer: Any) -> int:
        body = self.read(len(buffer))
        buffer[: len(body)] = body
        return len(body)

    def _between(self, start: int, end: int) -> bytes:
        kept_end = self._start + len(self._kept)
        if self._start <= start and end <= kept_end:
            return self._kept[start - self._start : end - self._start]
        follows = self._start <= start <= kept_end
        self._block = min(2 * self._block, _BLOCK_MAX) if follows else _BLOCK
        head = self._kept[start - self._start :] if follows else b""
        first = start + len(head)
        last = end if end == self._size else min(max(end, first + self._block), self._size)
        with begun():
            body = self._reads.read(self._path, self._file, first, last)
        # What was asked for alone is not kept: the caller has it.
        self._kept, self._start = (body, first) if last > end else (b"", last)
        asked = body[: end - first]
        return head + asked if head else asked


def open_published(
    filesystem: AbstractFileSystem, path: str, file: Named, reads: NamedReads | None = None
) -> Any:
    """Open a file for reads anywhere in it. ``path`` is where it lies now. ``reads``: of its dataset."""
    reads = reads or NamedReads(filesystem)
    # Files of this machine are best opened as such.
    if filesystem.async_impl or file.version:
        return PublishedFile(reads, path, file)
    return reads.open_local(path, file, lambda at: filesystem.open(at, "rb"))
