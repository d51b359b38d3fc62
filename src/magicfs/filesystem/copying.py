"""What a copy to below a magic path takes over from its source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magicfs.errors import ObjectNotFound
from magicfs.protocol.file_options import METADATA

if TYPE_CHECKING:
    from magicfs.filesystem.connection import Connection

__all__ = ["Source", "open_source", "options_of_copy"]

_DIRECTIVE = "MetadataDirective"
_REPLACE = "REPLACE"


@dataclass(frozen=True, slots=True)
class Source:
    """An object that is being copied."""

    size: int
    options: Mapping[str, Any]  # what an upload is opened with to become the same
    read: Callable[[int, int], Awaitable[bytes]]  # from where, and how many bytes


async def open_source(filesystem: Connection, path: str) -> Source | None:
    """Look at the object that shall be copied; None for a directory. ObjectNotFound if nothing is there."""
    bucket, _, key = path.partition("/")
    store = filesystem.store(bucket)
    try:
        head = await store.head(key)
    except ObjectNotFound:
        if await filesystem._isdir(path):
            return None
        raise

    async def read(start: int, size: int) -> bytes:
        body: bytes = await filesystem.fs._cat_file(path, start=start, end=start + size)
        return body

    found = {**head.description, METADATA: dict(head.metadata)}
    known = store.capabilities.upload_options
    return Source(head.size, {name: value for name, value in found.items() if name in known}, read)


def options_of_copy(of_source: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a copy: those of its source, unless they are given, or shall be replaced as in S3."""
    own = dict(given)
    kept = {} if own.pop(_DIRECTIVE, None) == _REPLACE else of_source
    return {**kept, **own}
