"""The chain of manifests: how a published job joins it.

::

    DEST/_magicfs/current.json   the pointer: names the newest published job
    DEST/_magicfs/<job>.json     a manifest: names the job published before it

A job is published for readers of manifests when the pointer is moved to it: they see exactly the old files
before, and exactly the new ones after. ``magicfs.manifests.view`` says what they see.

Where the store does not honour If-Match, pointer and manifests are numbered (``magicfs.stores.register``).
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final
from uuid import uuid4

from magicfs.errors import (
    FormatError,
    MagicError,
    ObjectExists,
    PreconditionFailed,
    Unavailable,
    UsageError,
)
from magicfs.formats.manifest import Manifest
from magicfs.formats.pointer import Pointer
from magicfs.manifests.view import ADOPT, COMPACT, View, view_of
from magicfs.protocol import ids, paths
from magicfs.protocol.conflict import MANIFESTS
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store
from magicfs.stores.register import Entry, Register

__all__ = [
    "ADOPT",
    "COMPACT",
    "READING",
    "View",
    "chain",
    "link",
    "manifest_key",
    "newest_job",
    "pointer_key",
    "publish",
    "read",
    "read_pointer",
    "view",
    "view_of",
]

READING: Final = Conditions(put_if_match=False)
"""For readers, who need not know what the store honours: finds pointer and manifests, numbered or not."""


_POINTER: Final = "current"
_NUMBERED: Final = re.compile(r"\.[0-9]{5,9}\Z")
_TRIES: Final = 100
_PAUSE_S = 0.05
_PAUSE_MAX_S: Final = 2.0


def pointer_key(destination: str) -> str:
    """The key of a destination's pointer."""
    return paths.join(destination, MANIFESTS, f"{_POINTER}.json")


def manifest_key(destination: str, job: str) -> str:
    """The key of a job's manifest.

    Raises UsageError if the id is empty, or its manifest could be taken for another file of the chain.
    """
    ids.job_id(job)
    if job == _POINTER or job.startswith(f"{_POINTER}.") or _NUMBERED.search(job):
        raise UsageError(
            f"{job!r} cannot be the id of a job with a manifest: {_POINTER!r} is the pointer's name, "
            "and numbers after a dot are versions; choose another id, such as a UUID"
        )
    return paths.join(destination, MANIFESTS, f"{job}.json")


async def read_pointer(
    store: Store, destination: str, conditions: Conditions
) -> tuple[Pointer, Entry] | None:
    """The pointer and its version; None before the first job was published.

    Raises FormatError if it is malformed or inconsistent.
    """
    entry = await Register(store, pointer_key(destination), conditions, lasting=True).read()
    if entry is None:
        return None
    return Pointer.from_bytes(f"{store.bucket}/{entry.key}", entry.body), entry


async def read(store: Store, destination: str, job: str, conditions: Conditions) -> Manifest | None:
    """A job's manifest; None if there is none. One that is not linked yet may still change its ``previous``.

    Raises FormatError if it is malformed or inconsistent.
    Raises UsageError if there is no job id.
    """
    entry = await Register(store, manifest_key(destination, job), conditions, lasting=True).read()
    return None if entry is None else _manifest(store, job, entry)


async def newest_job(store: Store, destination: str, conditions: Conditions) -> str | None:
    """The job that was published last; None before the first. A sum of older manifests is none.

    Raises FormatError if pointer or manifest is malformed or inconsistent.
    """
    seen = await read_pointer(store, destination, conditions)
    job = seen[0].job_id if seen else None
    while job is not None and job.startswith(f"{COMPACT}-"):
        manifest = await read(store, destination, job, conditions)
        if manifest is None or manifest.conflict != COMPACT:
            return job
        job = manifest.previous
    return job


async def chain(
    store: Store,
    destination: str,
    conditions: Conditions,
    *,
    start: str | None = None,
    known: Mapping[str, Manifest] | None = None,
) -> AsyncIterator[Manifest]:
    """All published jobs, the newest first, the hidden ones included. Nothing if there is no pointer.

    ``start``: the job to begin with, known to be published; by default the one that the pointer names.
    ``known``: manifests of published jobs by job, which are not read again.

    Raises FormatError if the chain is broken: a manifest is missing, malformed or inconsistent, or leads in a
    circle.
    """
    job = start
    if job is None:
        seen = await read_pointer(store, destination, conditions)
        job = seen[0].job_id if seen else None
    after, met = pointer_key(destination), set[str]()
    while job is not None:
        if job in met:
            raise FormatError(
                f"{store.bucket}/{after}",
                "previous",
                f"{job}, which leads in a circle; remove what wrote it, and restore the file from a backup",
            )
        met.add(job)
        manifest = known[job] if known and job in known else await read(store, destination, job, conditions)
        if manifest is None:
            raise FormatError(
                f"{store.bucket}/{manifest_key(destination, job)}",
                "",
                f"missing, although {after} names it; restore it from a backup: only it says which files "
                "that job published",
            )
        yield manifest
        after, job = manifest_key(destination, job), manifest.previous


async def view(store: Store, destination: str, conditions: Conditions) -> View | None:
    """What the chain shows now; None if nothing was published.

    Raises FormatError if the chain is broken.
    """
    return await view_of(chain(store, destination, conditions))


async def publish(store: Store, conditions: Conditions, destination: str, manifest: Manifest) -> bool:
    """Write a job's manifest and link it at the head of the chain.

    Calling it again, from any process, changes nothing. Any number of executors of one job and of others may
    publish at once. ``previous`` is set here. A process changes it only if it has read the manifest first and
    the pointer afterwards, has not found the job in the chain between the pointer and that ``previous``, and
    replaces exactly the version that it read: so a manifest that is linked never changes.

    Returns True if this call moved the pointer, False if the job was linked before.

    Raises FormatError if what is there is malformed or inconsistent.
    Raises Unavailable if the store did not answer, or others moved the pointer all the time: call again.
    Raises UsageError if the job's id can have no manifest.
    """
    job = manifest.job_id
    own = Register(store, manifest_key(destination, job), conditions, lasting=True)
    head = Register(store, pointer_key(destination), conditions, lasting=True)
    for attempt in range(_TRIES):
        # The first try takes it for new: a write that fails says so, and costs no more than a read.
        there = await own.read() if attempt else None
        seen = await read_pointer(store, destination, conditions)
        newest = seen[0].job_id if seen else None
        if newest == job:
            return False
        try:
            if there is None:
                await own.create(replace(manifest, previous=newest).to_bytes())
            else:
                found = _manifest(store, job, there)
                if found.previous != newest:
                    if await _is_linked(store, destination, conditions, newest, found):
                        return False
                    await own.swap(there, replace(found, previous=newest).to_bytes())
            await _move(head, seen, manifest)
        except (ObjectExists, PreconditionFailed):
            # Another process was faster, with this job or with another.
            await asyncio.sleep(random.uniform(0, min(_PAUSE_S * 2**attempt, _PAUSE_MAX_S)))  # noqa: S311
        else:
            return True
    raise Unavailable(
        "publish", f"{store.bucket}/{head.key}", f"others moved it each time, {_TRIES} times in a row"
    )


async def link(
    store: Store, conditions: Conditions, destination: str, manifest: Manifest, seen: tuple[Pointer, Entry]
) -> bool:
    """Write a manifest and link it right above the job that the pointer named, or not at all.

    ``manifest``: of a job id that no other process has or can make, so that nobody else can link it;
    ``previous`` is the job that the pointer named.

    Returns True if it is linked; False if another job was linked there, and then the manifest is removed
    again.

    Raises Unavailable if the store did not say whether it was linked; either is sound.
    """
    assert manifest.previous == seen[0].job_id
    own = Register(store, manifest_key(destination, manifest.job_id), conditions, lasting=True)
    head = Register(store, pointer_key(destination), conditions, lasting=True)
    entry = await own.create(manifest.to_bytes())
    try:
        await _move(head, seen, manifest)
    except (ObjectExists, PreconditionFailed):
        # Perhaps by its own request, whose reply was lost, and others have joined above it since.
        pointer = await read_pointer(store, destination, conditions)
        newest = pointer[0].job_id if pointer else None
        if await _is_linked(store, destination, conditions, newest, manifest):
            return True
        # The pointer never returns to a job, and nobody else names this manifest: it never will be linked.
        with suppress(MagicError):
            await own.remove(entry)
        return False
    return True


async def _move(head: Register, seen: tuple[Pointer, Entry] | None, manifest: Manifest) -> None:
    nonce, now_ms = uuid4().hex, int(time.time() * 1000)
    pointer, entry = seen or (Pointer(job_id=manifest.job_id, nonce=nonce, changed_ms=now_ms), None)
    body = pointer.moved(manifest.job_id, manifest.run_id, nonce, now_ms).to_bytes()
    await (head.create(body) if entry is None else head.swap(entry, body))


async def _is_linked(
    store: Store, destination: str, conditions: Conditions, newest: str | None, found: Manifest
) -> bool:
    """Whether a job is in the chain: if so, above the one that its manifest names."""
    if newest is None:
        return False
    async for manifest in chain(store, destination, conditions, start=newest):
        if manifest.job_id == found.job_id:
            return True
        if manifest.job_id == found.previous:
            return False
    return False


def _manifest(store: Store, job: str, entry: Entry) -> Manifest:
    path = f"{store.bucket}/{entry.key}"
    manifest = Manifest.from_bytes(path, entry.body)
    if manifest.job_id != job:
        raise FormatError(path, "jobId", f"{manifest.job_id}, another job's; restore the file from a backup")
    return manifest
