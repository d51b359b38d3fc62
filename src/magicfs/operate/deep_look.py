"""Files of a dataset, held against their checksums: by what the store says of them, else byte by byte.

A job with ``checksums=True`` has left the checksum of what its task wrote. Where the store reports the same
kind of checksum of the whole object, nothing is read. Else the file is read from the first byte to the last:
whether the store gives every byte, and whether these have the checksum that is known, of the task or of the
store. Of a Parquet file its ends are looked at in either case: whether it begins and ends as one and has its
columns inside.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, PermissionDenied, PreconditionFailed, StoreError, Unavailable
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests.comparison import is_file
from magicfs.protocol import paths
from magicfs.runtime.parallel import drained
from magicfs.stores import checksums
from magicfs.stores.checksums import RunningChecksum
from magicfs.stores.port import ObjectInfo

_AT_ONCE: Final = 8
_RANGE: Final = 8 * 2**20
_ETAG: Final = re.compile(r'"?([0-9a-f]{32})(-1)?"?')
_MAGIC: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_TAIL: Final = 8


@dataclass(slots=True)
class DeepLook:
    """What was seen.

    Attributes:
        damaged: What is wrong with files, by relative keys.
        by_store: How many the store has confirmed, unread.
        read: How many were read.
        confirmed: How many of these have a checksum that is known.
    """

    damaged: dict[str, str] = field(default_factory=dict)
    by_store: int = 0
    read: int = 0
    confirmed: int = 0


class _Seen(NamedTuple):
    problem: str  # empty for none
    how: Literal["store", "read", ""]  # empty if it could not be looked at
    is_confirmed: bool = False


async def look_into(engine: Engine, destination: str, files: Iterable[ManifestFile]) -> DeepLook:
    """Look at files.

    An ETag that looks like an MD5 and is another one proves nothing: with encryption it is none.

    Raises Unavailable if the store does not answer.
    """
    found = DeepLook()

    async def look(file: ManifestFile) -> bool:
        try:
            seen = await _look(engine, paths.join(destination, file.key), file)
        except Unavailable:
            raise
        except (ObjectNotFound, PreconditionFailed):
            seen = _Seen("deleted or overwritten while it was being checked", "")
        except StoreError as error:
            seen = _Seen(f"cannot be read: {error.problem}", "")
        found.by_store += seen.how == "store"
        found.read += seen.how == "read"
        found.confirmed += seen.is_confirmed
        if seen.problem:
            found.damaged[file.key] = seen.problem
        return True

    await drained(files, look, min(engine.concurrency, _AT_ONCE))
    found.damaged = dict(sorted(found.damaged.items()))
    return found


async def _look(engine: Engine, key: str, file: ManifestFile) -> _Seen:
    info = await engine.store.head(key)
    if not is_file(info, file):
        return _Seen("overwritten since it was published", "")
    stored = await _told(engine, info)
    written = checksums.split(file.checksum)
    if written is None or written[0] not in stored:
        return await _read(engine, info, stored, written)
    algorithm, value = written
    if stored[algorithm] != value:
        return _Seen(
            f"its {algorithm} is {stored[algorithm]} in the store, but was {value} when written", "store"
        )
    if not key.endswith(".parquet"):
        return _Seen("", "store", False)
    head = await _piece(engine, info, 0, len(_MAGIC))
    tail = await _piece(engine, info, max(0, info.size - _TAIL), _TAIL)
    return _Seen(await _parquet(engine, info, head, tail), "store")


async def _told(engine: Engine, info: ObjectInfo) -> Mapping[str, str]:
    """The checksums that the store reports for an object."""
    try:
        return await engine.store.checksums(info.key, etag=info.etag)
    except PermissionDenied:  # who may read an object may not always ask for its checksum
        return {}


async def _read(
    engine: Engine, info: ObjectInfo, stored: Mapping[str, str], written: tuple[str, str] | None
) -> _Seen:
    known = dict(stored) | ({} if written is None else dict([written]))
    sums = {name: checksums.running(name) for name in {"MD5", *known} if checksums.can_make(name)}
    size, head, tail = 0, b"", b""
    while size < info.size:
        body = await engine.store.get_range(info.key, size, min(_RANGE, info.size - size), etag=info.etag)
        if not body:
            break
        await asyncio.to_thread(_update, sums, body)
        head = (head + body)[: len(_MAGIC)]
        tail = (tail + body)[-_TAIL:]
        size += len(body)
    if size != info.size:
        return _Seen(f"has {info.size} bytes, but the store returned {size} of them", "read")
    found = {name: one.value() for name, one in sums.items()}
    if problem := _difference(found, stored, written):
        return _Seen(problem, "read")
    is_confirmed = bool(known.keys() & found.keys()) or _is_etag(info.etag, found["MD5"])
    if not info.key.endswith(".parquet"):
        return _Seen("", "read", is_confirmed)
    return _Seen(await _parquet(engine, info, head, tail), "read", is_confirmed)


def _difference(found: Mapping[str, str], stored: Mapping[str, str], written: tuple[str, str] | None) -> str:
    """How the checksums of what was read differ from that which was written, or else from the store's."""
    known = stored.items() if written is None else [written]
    other = [(name, value) for name, value in known if found.get(name, value) != value]
    if not other:
        return ""
    name, value = min(other)
    and_what = f"the store says {value}" if written is None else f"was {value} when written"
    return f"its {name} is {found[name]}, and {and_what}"


def _update(sums: Mapping[str, RunningChecksum], body: bytes) -> None:
    for one in sums.values():
        one.update(memoryview(body))


def _is_etag(etag: str, md5: str) -> bool:
    """Whether an ETag is made of the MD5 of the content: of an object, or of an upload of one part."""
    found = _ETAG.fullmatch(etag)
    if found is None:
        return False
    digest = base64.b64decode(md5)
    if found[2]:
        digest = hashlib.md5(digest, usedforsecurity=False).digest()
    return found[1] == digest.hex()


async def _piece(engine: Engine, info: ObjectInfo, start: int, size: int) -> bytes:
    if not info.size:
        return b""
    return await engine.store.get_range(info.key, start, min(size, info.size), etag=info.etag)


async def _parquet(engine: Engine, info: ObjectInfo, head: bytes, tail: bytes) -> str:
    """What is wrong with a Parquet file; empty if nothing is."""
    if head == _ENCRYPTED and tail.endswith(_ENCRYPTED):
        return ""
    if head != _MAGIC or not tail.endswith(_MAGIC) or len(tail) < _TAIL:
        return "does not begin and end as a Parquet file"
    length = int.from_bytes(tail[:4], "little")
    end = info.size - _TAIL - length
    if end < len(_MAGIC) or not length:
        return f"declares a footer of {length} bytes, which does not fit into the file"
    footer = await engine.store.get_range(info.key, end, length, etag=info.etag)
    return _footer_problem(_MAGIC + footer + tail, end)


def _footer_problem(ends: bytes, end: int) -> str:
    """What is wrong with the footer of a Parquet file whose columns end at ``end``."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return ""
    try:
        metadata = pq.read_metadata(pa.BufferReader(ends))
    except (pa.ArrowException, OSError) as error:
        return f"has a footer that cannot be read: {str(error).partition(chr(10))[0]}"
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for group in groups:
        for column in (group.column(number) for number in range(metadata.num_columns)):
            start = column.dictionary_page_offset or column.data_page_offset
            if start + column.total_compressed_size > end:
                return "has a footer that names columns beyond its end"
    return ""
