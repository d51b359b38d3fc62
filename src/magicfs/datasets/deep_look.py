"""Files of a dataset, read from the first byte to the last: what of them is damaged.

Beside what a listing tells: whether the store still gives every byte, whether these have the MD5 that the
ETag is, where it is one, and whether a Parquet file begins and ends as one and has its columns inside.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, PreconditionFailed, StoreError, Unavailable
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests.comparison import is_file
from magicfs.parallel import drained
from magicfs.protocol import paths
from magicfs.stores.port import ObjectInfo

__all__ = ["look_into"]

_AT_ONCE: Final = 8
_RANGE: Final = 8 * 2**20
_MD5: Final = re.compile(r'"?([0-9a-f]{32})"?')
_MAGIC: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_TAIL: Final = 8


async def look_into(
    engine: Engine, destination: str, files: Iterable[ManifestFile]
) -> tuple[dict[str, str], int]:
    """Read files; returns what is wrong with them, by relative keys, and of how many the MD5 was confirmed.

    An ETag that looks like an MD5 and is another one proves nothing: with encryption it is none.

    Raises Unavailable if the store does not answer.
    """
    damaged: dict[str, str] = {}
    confirmed = 0

    async def look(file: ManifestFile) -> bool:
        nonlocal confirmed
        try:
            problem, is_confirmed = await _look(engine, paths.join(destination, file.key), file)
        except Unavailable:
            raise
        except (ObjectNotFound, PreconditionFailed):
            problem, is_confirmed = "deleted or written over while it was read", False
        except StoreError as error:
            problem, is_confirmed = f"cannot be read: {error.problem}", False
        confirmed += is_confirmed
        if problem:
            damaged[file.key] = problem
        return True

    await drained(files, look, min(engine.concurrency, _AT_ONCE))
    return dict(sorted(damaged.items())), confirmed


async def _look(engine: Engine, key: str, file: ManifestFile) -> tuple[str, bool]:
    info = await engine.store.head(key)
    if not is_file(info, file):
        return "written over since it was published", False
    digest, size, head, tail = hashlib.md5(usedforsecurity=False), 0, b"", b""
    while size < info.size:
        body = await engine.store.get_range(key, size, min(_RANGE, info.size - size), etag=info.etag)
        if not body:
            break
        digest.update(body)
        head = (head + body)[: len(_MAGIC)]
        tail = (tail + body)[-_TAIL:]
        size += len(body)
    if size != info.size:
        return f"has {info.size} bytes, and the store gives {size} of them", False
    found = _MD5.fullmatch(info.etag)
    is_confirmed = found is not None and found[1] == digest.hexdigest()
    if not key.endswith(".parquet"):
        return "", is_confirmed
    return await _parquet(engine, info, head, tail), is_confirmed


async def _parquet(engine: Engine, info: ObjectInfo, head: bytes, tail: bytes) -> str:
    """What is wrong with a Parquet file; empty if nothing is."""
    if head == _ENCRYPTED and tail.endswith(_ENCRYPTED):
        return ""
    if head != _MAGIC or not tail.endswith(_MAGIC) or len(tail) < _TAIL:
        return "does not begin and end as a Parquet file"
    length = int.from_bytes(tail[:4], "little")
    end = info.size - _TAIL - length
    if end < len(_MAGIC) or not length:
        return f"names a footer of {length} bytes, which is not in it"
    footer = await engine.store.get_range(info.key, end, length, etag=info.etag)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return ""
    try:
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + footer + tail))
    except (pa.ArrowException, OSError) as error:
        return f"has a footer that cannot be read: {str(error).partition(chr(10))[0]}"
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for group in groups:
        for column in (group.column(number) for number in range(metadata.num_columns)):
            start = column.dictionary_page_offset or column.data_page_offset
            if start + column.total_compressed_size > end:
                return "has a footer that names columns beyond its end"
    return ""
