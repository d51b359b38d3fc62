"""What a copy to below a magic path takes over from its source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magicfs.errors import ObjectNotFound, PreconditionFailed
from magicfs.protocol.file_options import CONTENT_TYPE, METADATA, of_writer

if TYPE_CHECKING:
    from magicfs.filesystem.connection import Connection

__all__ = ["Source", "open_source", "options_of_copy"]

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
