"""What a job is to publish and to delete, written down once, before the commit point.

Commit and recovery read nothing else: no task that is still alive can change it. Each chunk lies under a name
that only one driver uses, and the job object bears its SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound
from magicfs.formats import deletions, plain_set
from magicfs.formats.deletions import OldObject
from magicfs.formats.gate import admit
from magicfs.formats.job_object import Chunk, JobObject, OldSuccess
from magicfs.formats.limits import (
    DELETIONS_SIZE_LIMIT,
    MANIFEST_SIZE_LIMIT,
    PENDINGSET_SIZE_LIMIT,
    SUCCESS_SIZE_LIMIT,
)
from magicfs.formats.manifest import FILES_IN_PART, ManifestFile, ManifestFiles
from magicfs.formats.rows import Place
from magicfs.formats.statistics import Statistics
from magicfs.protocol import paths
from magicfs.protocol.steps import Complete, Publication
from magicfs.runtime.parallel import drained
from magicfs.stores.port import RIGHTS_OF
from magicfs.transaction import output as job_output
from magicfs.transaction.attempt_output import READ_AHEAD, read_some_ahead
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

CHUNK_LENGTH = 1000
"""Most files of one chunk."""

_PARTS_MAX = 400_000
"""Most parts of all files of one chunk: so many with checksums fit into a pending set that can be read."""

_Item = TypeVar("_Item")
_Written = tuple[Chunk, bytes]


@dataclass(frozen=True, slots=True)
class Written:
    """What this process has written down."""

    chunks: tuple[Chunk, ...]
    output: JobOutput  # the files in them


async def write_output(
    engine: Engine, context: JobContext, nonce: str, output: JobOutput
) -> tuple[Chunk, ...]:
    """Write down the files that a job publishes."""

    def written() -> Iterator[_Written]:
        statistics = output.statistics
        files = zip(output.texts(), output.steps(), strict=True)
        for number, group in enumerate(_grouped(files, CHUNK_LENGTH, _parts_of)):
            raw = plain_set.joined(context.job, [text for text, _ in group], statistics)
            statistics = Statistics()  # of the whole job, so the first chunk has them
            size = sum([step.length for _, step in group])
            yield _chunk(context, nonce, f"{number:05d}.json", raw, len(group), size)

    return await _write(engine, written())


async def write_deletions(
    engine: Engine, context: JobContext, nonce: str, objects: Sequence[OldObject], kind: str = "deletions"
) -> tuple[Chunk, ...]:
    """Write down the old objects that a job deletes; with ``kind="hidden"`` those that it only hides."""

    def written() -> Iterator[_Written]:
        for number, start in enumerate(range(0, len(objects), deletions.CHUNK_LENGTH)):
            group = objects[start : start + deletions.CHUNK_LENGTH]
            name, size = f"{kind}-{number:05d}.json", sum([one.size for one in group])
            yield _chunk(context, nonce, name, deletions.write(group), len(group), size)

    return await _write(engine, written())


async def write_restored(
    engine: Engine, context: JobContext, nonce: str, files: Iterable[ManifestFile]
) -> tuple[Chunk, ...]:
    """Write down the files of the past that a rollback shows again."""

    def written() -> Iterator[_Written]:
        for number, group in enumerate(_grouped(files, FILES_IN_PART)):
            raw = ManifestFiles(job_id=context.job, files=tuple(group)).to_bytes()
            size = sum(one.size for one in group)
            yield _chunk(context, nonce, f"restored-{number:05d}.json", raw, len(group), size)

    return await _write(engine, written())


async def copy_success(engine: Engine, context: JobContext, nonce: str) -> OldSuccess | None:
    """Keep the ``_SUCCESS`` that is there, so that undoing the job can put it back; None if there is none."""
    store, key = engine.store, context.layout.success_key
    try:
        etag = (await store.head(key)).etag
        raw = await store.get(key, size_max=SUCCESS_SIZE_LIMIT)
        copy, _ = _chunk(context, nonce, "_SUCCESS", raw, 1, len(raw))
        # A local store looks at the marker once more, for its rights.
        await store.put(copy.key, raw, metadata=rights_of(engine, key))
    except ObjectNotFound:
        return None
    return OldSuccess(copy.key, copy.sha256, etag)


def rights_of(engine: Engine, key: str) -> dict[str, str] | None:
    """What ``put`` takes so that a copy of an object is readable by nobody who may not read the object."""
    return None if engine.store.capabilities.metadata else {RIGHTS_OF: key}


async def read_output(
    engine: Engine, context: JobContext, job: JobObject, written: Written | None = None
) -> JobOutput:
    """Read back the files that a job publishes. Every chunk is checked before anything is done with one.

    ``written`` is what this process itself has written down: chunks whose SHA-256 is that of its own bytes
    are read back all the same, but not taken apart again, for that gives what they were made of. Only who has
    not written them, such as a recovery, parses them.
    """
    is_own = written is not None and written.chunks == job.chunks
    taking = job_output.Taking(engine, context)
    async with aclosing(_read(engine, context, job.chunks, PENDINGSET_SIZE_LIMIT)) as read:
        async for chunk, raw in read:
            if not is_own:
                taking.take(chunk.key, raw)
    if written is not None and is_own:
        return written.output
    output = taking.finish()
    output.tasks = job.tasks
    return output


async def read_deletions(engine: Engine, context: JobContext, job: JobObject) -> list[OldObject]:
    """Read back the old objects that a job deletes; each key must lie under the destination."""
    return await read_old(engine, context, job.deletions, context.layout.destination)


async def read_restored(engine: Engine, context: JobContext, job: JobObject) -> dict[str, ManifestFile]:
    """Read back the files of the past that a rollback shows again, by keys relative to the destination."""
    found: dict[str, ManifestFile] = {}
    async with aclosing(_read(engine, context, job.restored, MANIFEST_SIZE_LIMIT)) as read:
        async for chunk, raw in read:
            path = f"{engine.store.bucket}/{chunk.key}"
            place = Place(path, engine.store.bucket, context.layout.destination, context.job)
            listed = admit("manifest files", ManifestFiles.from_bytes(path, raw), place)
            found |= {one.key: one for one in listed.files}
    return found


async def read_old(
    engine: Engine, context: JobContext, chunks: Sequence[Chunk], destination: str
) -> list[OldObject]:
    """Read back lists of old objects; each key must lie under the destination that is given."""
    found: list[OldObject] = []
    async with aclosing(_read(engine, context, chunks, DELETIONS_SIZE_LIMIT)) as read:
        async for chunk, raw in read:
            path = f"{engine.store.bucket}/{chunk.key}"
            place = Place(
                path, engine.store.bucket, destination, also_overwrite=context.options.places.also_overwrite
            )
            found += admit("deletions", deletions.read(path, raw), place)
    return found


async def read_success(engine: Engine, context: JobContext, job: JobObject) -> bytes | None:
    """Read back the ``_SUCCESS`` that was there before the job; None if there was none."""
    old = job.old_success
    if old is None:
        return None
    chunk = Chunk(old.key, old.sha256, 1, 0)
    return _unaltered(engine, context, chunk, await _get(engine, context, chunk, SUCCESS_SIZE_LIMIT + 1))


def _chunk(context: JobContext, nonce: str, name: str, raw: bytes, files: int, size: int) -> _Written:
    key = f"{context.layout.facts_directory(nonce)}/{name}"
    return Chunk(key, hashlib.sha256(raw).hexdigest(), files, size), raw


async def _write(engine: Engine, written: Iterator[_Written]) -> tuple[Chunk, ...]:
    chunks: list[Chunk] = []

    async def put(one: _Written) -> None:
        chunk, raw = one
        await engine.store.put(chunk.key, raw)
        chunks.append(chunk)

    await drained(written, put, min(engine.concurrency, READ_AHEAD))
    return tuple(sorted(chunks, key=lambda chunk: chunk.key))


async def _read(
    engine: Engine, context: JobContext, chunks: Sequence[Chunk], size_limit: int
) -> AsyncGenerator[tuple[Chunk, bytes]]:
    """The chunks in their order, each checked; a few are read ahead."""
    get = partial(_get, engine, context)
    async with aclosing(read_some_ahead(engine, chunks, get, size_limit)) as read:
        async for chunk, raw in read:
            yield chunk, _unaltered(engine, context, chunk, raw)


async def _get(engine: Engine, context: JobContext, chunk: Chunk, size_max: int) -> bytes:
    path = f"{engine.store.bucket}/{chunk.key}"
    if not paths.is_under(chunk.key, context.layout.job_directory):
        raise FormatError(path, "", f"is named by job {context.job}, but is outside its directory")
    return await engine.store.get(chunk.key, size_max=size_max)


def _unaltered(engine: Engine, context: JobContext, chunk: Chunk, raw: bytes) -> bytes:
    path = f"{engine.store.bucket}/{chunk.key}"
    if hashlib.sha256(raw).hexdigest() != chunk.sha256:
        raise FormatError(
            path,
            "",
            f"was altered since job {context.job} wrote it (its SHA-256 differs); nothing was done; find "
            "out who wrote it, then restore it or remove the job by hand",
        )
    return raw


def _parts_of(file: tuple[str, Publication]) -> int:
    step = file[1]
    return len(step.etags) if isinstance(step, Complete) else 0


def _grouped(
    items: Iterable[_Item], length: int, parts_of: Callable[[_Item], int] = lambda _: 0
) -> Iterator[list[_Item]]:
    """Groups of at most so many items, and unless one alone has more, of at most ``_PARTS_MAX`` parts."""
    group: list[_Item] = []
    parts = 0
    for item in items:
        more = parts_of(item)
        if len(group) == length or (group and parts + more > _PARTS_MAX):
            yield group
            group, parts = [], 0
        group.append(item)
        parts += more
    if group:
        yield group
