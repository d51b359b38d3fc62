"""The replaced files that jobs have left where they are, for a time.

::

    DEST/_magicfs/<job>.json                           the manifest, which names the lists with their SHA-256
    DEST/_magicfs/<job>/kept-<number>-<sha256>.json    a list
    DEST/_magicfs/current.json                         the pointer, which names these jobs and their lists

The pointer names them as long as their files are there, so that a later job which replaces what a listing
shows knows what is none of its business, without walking the chain, and reads the lists at once. The keys in
the lists are relative to the destination, as those in manifests: so a dataset can be moved, copied, or
reached by another path.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Final
from uuid import uuid4

from magicfs.errors import FormatError, ObjectExists, ObjectNotFound, PreconditionFailed, Unavailable
from magicfs.formats import deletions
from magicfs.formats.deletions import CHUNK_LENGTH, DELETIONS_SIZE_LIMIT, OldObject
from magicfs.formats.gate import Place, admit
from magicfs.formats.manifest import FilesPart, Manifest
from magicfs.formats.pointer import Keeping, Pointer
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.manifests.parts import named_part, part_of, read_lists, write_lists
from magicfs.runtime.parallel import at_once, gathered
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store
from magicfs.stores.register import Register

__all__ = ["change_keeping", "kept_by", "kept_of", "now_by_store", "over_by_store", "write"]

_AT_ONCE: Final = 32
_PREFIX: Final = "kept-"
_TICK_MS: Final = 999
"""A store names whole seconds, so it may be as much later."""
_TRIES: Final = 100
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0


async def write(store: Store, destination: str, job: str, old: Sequence[OldObject]) -> tuple[FilesPart, ...]:
    """Write down what a job leaves where it is. A second call, from any process, writes the same again."""
    groups = [old[start : start + CHUNK_LENGTH] for start in range(0, len(old), CHUNK_LENGTH)]
    return await write_lists(store, destination, job, map(partial(_list, destination), count(), groups))


async def kept_of(store: Store, destination: str, manifest: Manifest) -> list[OldObject]:
    """What a job has left where it is; empty if it kept nothing.

    Raises FormatError if a list is gone, malformed or altered, or names what lies elsewhere.
    """
    if manifest.kept is None:
        return []
    return await _listed(
        store, destination, manifest.job_id, manifest.kept.lists, written_at=manifest.destination
    )


async def kept_by(
    store: Store, destination: str, conditions: Conditions, keeping: Iterable[Keeping]
) -> dict[str, list[OldObject]]:
    """What each of the jobs that the pointer names has left where it is.

    Raises FormatError if a manifest or a list is gone, malformed or altered.
    """

    async def look(one: Keeping) -> list[OldObject]:
        job = one.job_id
        if one.lists:
            named = [part_of(number, sha256, _PREFIX) for number, sha256 in enumerate(one.lists)]
            with suppress(FormatError):  # then the manifest decides
                return await _listed(store, destination, job, named, written_at=None)
        manifest = await chain.read(store, destination, job, conditions, files=False, expected=True)
        if manifest is None:
            path = f"{store.bucket}/{chain.manifest_key(destination, job)}"
            raise FormatError(path, "", "missing, although the pointer names it; restore it from a backup")
        return await kept_of(store, destination, manifest)

    jobs = list(keeping)
    found = await gathered(jobs, look, _AT_ONCE)
    return {one.job_id: objects for one, objects in zip(jobs, found, strict=True)}


async def change_keeping(
    store: Store, destination: str, conditions: Conditions, change: Callable[[Keeping], Keeping | None]
) -> Pointer | None:
    """Change what the pointer says of the jobs that keep files; None of ``change`` takes a job out.

    Returns the pointer as it stands then; None if there is none. A second call changes nothing.

    Raises Unavailable if the store did not answer, or others moved the pointer all the time: call again.
    """
    head = Register(store, chain.pointer_key(destination), conditions, lasting=True)
    for attempt in range(_TRIES):
        seen = await chain.read_pointer(store, destination, conditions)
        if seen is None:
            return None
        pointer, entry = seen
        changed = tuple(one for one in map(change, pointer.keeping) if one is not None)
        if changed == pointer.keeping:
            return pointer
        news = replace(pointer, keeping=changed, nonce=uuid4().hex)
        try:
            await head.swap(entry, news.to_bytes())
        except (ObjectExists, PreconditionFailed):
            await _pause(attempt)
        else:
            return news
    raise Unavailable("expire", f"{store.bucket}/{head.key}", f"others moved it each time, {_TRIES} times")


async def now_by_store(store: Store, destination: str, conditions: Conditions) -> int | None:
    """Milliseconds since the epoch by the clock of the store, or a second later: the pointer is written again
    as it is.

    None if there is no pointer, or the store has no clock.

    Raises Unavailable if the store did not answer, or others moved the pointer all the time: call again.
    """
    head = Register(store, chain.pointer_key(destination), conditions, lasting=True)
    for attempt in range(_TRIES):
        seen = await chain.read_pointer(store, destination, conditions)
        if seen is None:
            return None
        pointer, entry = seen
        try:
            written = await head.swap(entry, replace(pointer, nonce=uuid4().hex).to_bytes())
            modified = (await store.head(written.key)).modified
        except (ObjectExists, ObjectNotFound, PreconditionFailed):
            await _pause(attempt)
        else:
            return None if modified is None else int(modified * 1000) + _TICK_MS
    raise Unavailable("expire", f"{store.bucket}/{head.key}", f"others moved it each time, {_TRIES} times")


async def over_by_store(store: Store, destination: str, keeping: Sequence[Keeping], now_ms: int) -> set[str]:
    """Which of these jobs have kept their files for the time that they promised, by the clock of the store.

    A driver whose clock is behind promises a moment that comes too early. When its manifest was written the
    store knows.
    """

    async def look(one: Keeping) -> bool:
        key = chain.manifest_key(destination, one.job_id)
        try:
            info, manifest = await at_once(
                store.head(key), chain.read(store, destination, one.job_id, READING, files=False)
            )
        except ObjectNotFound:
            return True  # the reader of the lists says what is lost
        if manifest is None or manifest.kept is None or info.modified is None:
            return True
        period_ms = manifest.kept.until_ms - manifest.committed_ms
        over: bool = int(info.modified * 1000) + period_ms <= now_ms
        return over

    found = await gathered(keeping, look, _AT_ONCE)
    return {one.job_id for one, is_over in zip(keeping, found, strict=True) if is_over}


async def _pause(attempt: int) -> None:
    """Let others move the pointer first."""
    await asyncio.sleep(random.uniform(0, min(_PAUSE_S * 2**attempt, _PAUSE_MAX_S)))  # noqa: S311


async def _listed(
    store: Store, destination: str, job: str, lists: Iterable[FilesPart], *, written_at: str | None
) -> list[OldObject]:
    """What the lists of a job name. Older ones have whole keys below ``written_at``."""
    found: list[OldObject] = []
    parts = read_lists(store, destination, job, lists, size_limit=DELETIONS_SIZE_LIMIT)
    async with aclosing(parts) as read:
        async for path, raw in read:
            # Which datasets below the job could replace is not known any more.
            place = Place(path, store.bucket, destination, also_replace=None)
            found += admit("deletions", deletions.read_below(path, raw, destination, written_at), place)
    return found


def _list(destination: str, number: int, group: Sequence[OldObject]) -> tuple[FilesPart, bytes]:
    raw = deletions.write(group, destination=destination)
    return named_part(number, raw, [one.size for one in group], _PREFIX), raw
