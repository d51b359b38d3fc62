"""What is put or copied below a magic path: files of this machine, and objects with what they bear.

A file is read off the loop, in few visits to a thread.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from io import FileIO
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from magicfs.errors import ObjectNotFound, PreconditionFailed
from magicfs.protocol.file_options import CONTENT_TYPE, METADATA, of_writer

if TYPE_CHECKING:
    from magicfs.filesystem.connection import Connection

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


_DIRECTIVE = "MetadataDirective"
_REPLACE = "REPLACE"


@dataclass(slots=True)
class Source:
    """An object that is being copied."""

    size: int
    options: Mapping[str, Any]  # what an upload is opened with to become the same
    read: Callable[[int, int], Awaitable[bytes]]  # from where, and how many bytes
    position: int = 0  # how many bytes were read

    async def read_next(self, size: int) -> bytes:
        """So many bytes more, fewer at the end, and none after it."""
        start, size = self.position, min(size, self.size - self.position)
        if not size:
            return b""
        self.position += size
        return await self.read(start, size)


async def open_source(filesystem: Connection, path: str) -> Source | None:
    """Look at the object that shall be copied; None for a directory. ObjectNotFound if nothing is there.

    Reading it raises PreconditionFailed once another object is there: a copy is of one object, or fails.
    """
    bucket, _, key = path.partition("/")
    if (split := getattr(filesystem.fs, "split_path", None)) is not None:
        bucket, key, version = split(path)  # s3fs knows more in a path
        if version is not None:
            return await _open_version(filesystem.fs, path)
    if not key:
        return None
    store = filesystem.store(bucket)
    try:
        head = await store.head(key)
    except ObjectNotFound:
        if await filesystem._isdir(path):
            return None
        raise

    async def read(start: int, size: int) -> bytes:
        try:
            return await store.get_range(key, start, size, etag=head.etag)
        # A recursive copy passes over what is not found; half a file is no such thing.
        except (PreconditionFailed, ObjectNotFound) as error:
            problem = "it was replaced or deleted during the copy, and nothing was recorded"
            raise PreconditionFailed("copy", path, problem, hint="copy it again") from error

    found = {**head.description, METADATA: dict(head.metadata)}
    known = store.capabilities.uploads.options
    return Source(head.size, {name: value for name, value in found.items() if name in known}, read)


async def _open_version(filesystem: Any, path: str) -> Source:
    """Look at one version of an object, which never changes."""
    info = await filesystem._info(path)

    async def read(start: int, size: int) -> bytes:
        body: bytes = await filesystem._cat_file(path, start=start, end=start + size)
        return body

    options = {METADATA: await filesystem._metadata(path), CONTENT_TYPE: info.get("ContentType")}
    return Source(info["size"], of_writer(options), read)


def options_of_copy(of_source: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a copy: those of its source, unless they are given, or shall be replaced as in S3."""
    own = dict(given)
    kept = {} if own.pop(_DIRECTIVE, None) == _REPLACE else of_source
    return {**kept, **own}
