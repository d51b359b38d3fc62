"""The chain of manifests: how a published job joins it.

::

    DEST/_magicfs/current.json   the pointer: names the newest published job
    DEST/_magicfs/<job>.json     a manifest: names the job published before it

A job is published for readers of manifests when the pointer is moved to it: they see exactly the old files
before, and exactly the new ones after. ``View`` says what they see.

Where the store does not honour If-Match, pointer and manifests are numbered (``magicfs.stores.register``).
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal
from uuid import uuid4

from magicfs.errors import (
    FormatError,
    MagicError,
    ObjectExists,
    PreconditionFailed,
    Unavailable,
    UsageError,
)
from magicfs.formats.gate import admit
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.formats.pointer import Pointer
from magicfs.formats.rows import Place
from magicfs.manifests.parts import with_files
from magicfs.protocol import ids, paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store
from magicfs.stores.register import Entry, Register

POINTER: Final = "current"
"""The name of the pointer, where a manifest has the id of its job."""

READING: Final = Conditions(put_if_match=False)
"""For readers, who need not know what the store honours: finds pointer and manifests, numbered or not."""


Seen = tuple[Pointer, Entry]
"""The pointer, and the version of it that was read."""

_BROKEN: Final = (
    "restore it from a backup, because only this file lists what that job published; or run magicfs adopt, "
    "which publishes the files that are there and lists what is lost; or publish all of the data again by "
    "one job with mode='overwrite'"
)
_NUMBERED: Final = re.compile(r"\.[0-9]{5,9}\Z")
_FILE: Final = re.compile(r"(?P<job>[^/.][^/]*?)(?:\.[0-9]{5,9})?\.json")
_TRIES: Final = 100
_PAUSE_S = 0.05
_PAUSE_MAX_S: Final = 2.0


def pointer_key(destination: str) -> str:
    """The key of a destination's pointer."""
    return paths.join(destination, MANIFESTS, f"{POINTER}.json")


def manifest_key(destination: str, job: str) -> str:
    """The key of a job's manifest.

    Raises UsageError if the id is empty, or its manifest could be taken for another file of the chain.
    """
    ids.job_id(job)
    if job == POINTER or job.startswith(f"{POINTER}.") or _NUMBERED.search(job):
        raise UsageError(
            f"{job!r} cannot be the id of a job with a manifest: {POINTER!r} is the pointer's name, and "
            "numbers after a dot are versions; use another id, such as a UUID"
        )
    return paths.join(destination, MANIFESTS, f"{job}.json")


async def read_pointer(
    store: Store, destination: str, conditions: Conditions, *, expected: bool = False
) -> Seen | None:
    """The pointer and its version; None before the first job was published.

    ``expected``: whether there most likely is one, as for ``Register.read``.

    Raises FormatError if it is malformed or inconsistent.
    """
    entry = await Register(store, pointer_key(destination), conditions, lasting=True).read(expected=expected)
    if entry is None:
        return None
    try:
        return pointer_of(store, destination, entry), entry
    except FormatError as error:
        if "newer magicfs" in error.problem:
            raise
        raise FormatError(
            error.path,
            error.field,
            f"{error.problem}; run magicfs adopt with the dataset's URL, which rebuilds the pointer from the "
            "manifests, then magicfs recover",
        ) from error


async def read(
    store: Store,
    destination: str,
    job: str,
    conditions: Conditions,
    *,
    files: bool = True,
    expected: bool = False,
) -> Manifest | None:
    """A job's manifest; None if there is none. One that is not linked yet may still change its ``previous``.

    Without ``files``, those that are listed in parts are not read. ``expected`` is as for ``read_pointer``.

    Raises FormatError if it is malformed or inconsistent, or a part of it is, or is gone.
    Raises UsageError if there is no job id.
    """
    own = Register(store, manifest_key(destination, job), conditions, lasting=True)
    entry = await own.read(expected=expected)
    if entry is None:
        return None
    manifest = _manifest(store, destination, job, entry)
    return await with_files(store, destination, manifest) if files and manifest.parts else manifest


async def jobs_with_manifests(store: Store, destination: str) -> dict[str, float]:
    """All jobs that have a manifest, be it malformed or not linked, and when it was written last."""
    prefix = paths.prefix_of(paths.join(destination, MANIFESTS))
    jobs: dict[str, float] = {}
    async for info in store.list(prefix):
        if (match := _FILE.fullmatch(info.key.removeprefix(prefix))) and match["job"] != POINTER:
            jobs[match["job"]] = max(jobs.get(match["job"], 0.0), info.modified or 0.0)
    return jobs


async def readable(store: Store, destination: str, job: str, *, files: bool = True) -> Manifest | None:
    """A job's manifest; None if there is none that can be read: anything may lie where manifests do.

    Raises FormatError if a newer magicfs wrote it.
    """
    try:
        return await read(store, destination, job, READING, files=files)
    except (FormatError, UsageError) as error:
        if isinstance(error, FormatError) and "newer magicfs" in error.problem:
            raise
        return None


async def first_readable(store: Store, destination: str, jobs: Iterable[str]) -> str | None:
    """The first of these jobs, by name, whose manifest is ``readable``."""
    for job in sorted(jobs):
        if await readable(store, destination, job, files=False) is not None:
            return job
    return None


async def newest_job(store: Store, destination: str, conditions: Conditions) -> str | None:
    """The job that was published last; None before the first. A sum of older manifests is none.

    Raises FormatError if pointer or manifest is malformed or inconsistent.
    """
    seen = await read_pointer(store, destination, conditions)
    job = seen[0].job_id if seen else None
    while job is not None and job.startswith(f"{COMPACT}-"):
        manifest = await read(store, destination, job, conditions, files=False)
        if manifest is None or manifest.mode != COMPACT:
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
    hidden: Literal["all", "readable", "none"] = "all",
    files: bool = True,
) -> AsyncGenerator[Manifest]:
    """All published jobs, the newest first. Nothing if there is no pointer.

    ``start``: the job to begin with, known to be published; by default the one that the pointer names.
    ``known``: manifests of published jobs by job, which are not read again.
    ``hidden``: what of the jobs whose files all were replaced, and of those before them: all; as many as can
    be read, for a broken manifest there is no loss to readers; or none, then they are not read at all.
    ``files``: as for ``read``.

    Raises FormatError if the chain is broken: a manifest is missing, malformed or inconsistent, or leads in a
    circle.
    """
    job = start
    if job is None:
        seen = await read_pointer(store, destination, conditions)
        job = seen[0].job_id if seen else None
    after, met, replaced, is_hidden = pointer_key(destination), set[str](), set[str](), False
    while job is not None:
        is_hidden = is_hidden or job in replaced
        if is_hidden and hidden == "none":
            return
        if job in met:
            raise FormatError(
                f"{store.bucket}/{after}",
                "previous",
                f"{job}, which forms a cycle; stop the program that wrote it, and restore the file from a "
                "backup",
            )
        met.add(job)
        try:
            manifest = (
                known[job]
                if known and job in known
                else await _linked(store, destination, job, conditions, after, files=files)
            )
        except FormatError:
            if is_hidden and hidden == "readable":
                return
            raise
        if manifest.replaced is not None and manifest.mode != COMPACT:
            replaced.add(manifest.replaced)
        yield manifest
        after, job = manifest_key(destination, job), manifest.previous


async def _linked(
    store: Store, destination: str, job: str, conditions: Conditions, after: str, *, files: bool
) -> Manifest:
    try:
        manifest = await read(store, destination, job, conditions, files=files)
    except FormatError as error:
        if "newer magicfs" in error.problem or type(error) is not FormatError:
            raise
        raise FormatError(error.path, error.field, f"{error.problem}; {_BROKEN}") from error
    if manifest is None:
        path = f"{store.bucket}/{manifest_key(destination, job)}"
        raise FormatError(path, "", f"missing, although {after} names it; {_BROKEN}")
    return manifest


async def view(store: Store, destination: str, conditions: Conditions) -> View | None:
    """What the chain shows now; None if nothing was published.

    Raises FormatError if the chain is broken.
    """
    return await view_of(chain(store, destination, conditions, hidden="none"))


async def publish(
    store: Store,
    conditions: Conditions,
    destination: str,
    manifest: Manifest,
    *,
    looked: tuple[Seen | None] | None = None,
) -> Pointer:
    """Write a job's manifest and link it at the head of the chain.

    Calling it again, from any process, changes nothing. Any number of executors of one job and of others may
    publish at once. ``previous`` is set here. A process changes it only if it has read the manifest first and
    the pointer afterwards, has not found the job in the chain between the pointer and that ``previous``, and
    replaces exactly the version that it read: so a manifest that is linked never changes. The ``previous``
    that is given counts only where there is no pointer: the job that it named when this one looked.
    ``looked`` has what the pointer was shortly before, so that the first try need not read it.

    Returns the pointer as this call moved it, or as it was read if the job was linked before.

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
        if attempt or looked is None:
            seen = await read_pointer(store, destination, conditions)
        else:
            (seen,) = looked
        if seen is not None and seen[0].job_id == job:
            return seen[0]
        try:
            linked = await _placed(store, destination, conditions, manifest, seen)
            if there is None:
                await own.create(linked.to_bytes())
            else:
                found = _manifest(store, destination, job, there)
                if found.previous != linked.previous:
                    if seen and await _is_linked(store, destination, conditions, seen[0].job_id, found):
                        return seen[0]
                    again = replace(found, previous=linked.previous, older_files=linked.older_files)
                    await own.swap(there, again.to_bytes())
            return await _move(head, seen, manifest)
        except (ObjectExists, PreconditionFailed):
            # Another process was faster, with this job or with another.
            await asyncio.sleep(random.uniform(0, min(_PAUSE_S * 2**attempt, _PAUSE_MAX_S)))  # noqa: S311
    raise Unavailable(
        "publish",
        f"{store.bucket}/{head.key}",
        f"others changed it each time, {_TRIES} times in a row",
    )


async def _placed(
    store: Store,
    destination: str,
    conditions: Conditions,
    manifest: Manifest,
    seen: Seen | None,
) -> Manifest:
    """A manifest right above the job that the pointer names, or above none.

    If somebody removed the pointer since the job looked, it goes above the job that the pointer named then.
    Others may have been published in between, so readers are told of files that no manifest knows.
    """
    if seen is not None:
        return replace(manifest, previous=seen[0].job_id)
    before = manifest.previous
    if before is None:
        return manifest
    is_there = await read(store, destination, before, conditions, files=False) is not None
    return replace(manifest, previous=before if is_there else None, older_files=True)


async def link(
    store: Store, conditions: Conditions, destination: str, manifests: Sequence[Manifest], seen: Seen | None
) -> bool:
    """Write manifests and link them right above the job that the pointer named, in this order, or not at all.

    ``manifests``: of job ids that no other process has or can make, so that nobody else can link them.
    ``previous`` is set here. ``seen`` is None where there was no pointer.

    Returns True if they are linked; False if another job was linked there, and then they are removed again.

    Raises Unavailable if the store did not say whether they were linked; either is sound.
    """
    below = seen[0].job_id if seen else None
    written: list[tuple[Register, Entry]] = []
    linked: list[Manifest] = []
    for one in manifests:
        linked.append(replace(one, previous=below))
        own = Register(store, manifest_key(destination, one.job_id), conditions, lasting=True)
        written.append((own, await own.create(linked[-1].to_bytes())))
        below = one.job_id
    head = Register(store, pointer_key(destination), conditions, lasting=True)
    try:
        await _move(head, seen, *linked)
    except (ObjectExists, PreconditionFailed):
        # Perhaps by its own request, whose reply was lost, and others have joined above it since.
        pointer = await read_pointer(store, destination, conditions)
        newest = pointer[0].job_id if pointer else None
        if await _is_linked(store, destination, conditions, newest, linked[-1]):
            return True
        # The pointer never returns to a job, and nobody else names these: they never will be linked.
        for own, entry in reversed(written):
            with suppress(MagicError):
                await own.remove(entry)
        return False
    return True


async def link_again(
    store: Store, conditions: Conditions, destination: str, manifests: Iterable[Manifest], seen: Seen
) -> Pointer:
    """Move the pointer to manifests that lie there, each above the one before it, in one write.

    Raises PreconditionFailed if it was changed since it was read.
    """
    head = Register(store, pointer_key(destination), conditions, lasting=True)
    return await _move(head, seen, *manifests)


async def _move(head: Register, seen: Seen | None, *manifests: Manifest) -> Pointer:
    first = manifests[0]
    pointer, entry = seen or (Pointer(job_id=first.job_id, nonce="", changed_ms=0), None)
    if seen is None and first.previous is not None:
        pointer = pointer.unsure()  # somebody removed it, and with it the runs that it named
    for one in manifests:
        pointer = pointer.moved(one.job_id, one.run_id, uuid4().hex, int(time.time() * 1000))
        pointer = replace(pointer, follows=tuple(sorted({*pointer.follows, *one.follows})))
        if one.log is not None:
            pointer = pointer.logged(one.log)
        if one.kept is not None:
            lists = [each.sha256 for each in one.kept.lists]
            pointer = pointer.keeping_also(one.job_id, one.kept.until_ms, lists)
    body = pointer.to_bytes()
    await (head.create(body) if entry is None else head.swap(entry, body))
    return pointer


async def _is_linked(
    store: Store, destination: str, conditions: Conditions, newest: str | None, found: Manifest
) -> bool:
    """Whether a job is in the chain: if so, above the one that its manifest names."""
    if (job := newest) is None:
        return False
    try:
        async for manifest in chain(store, destination, conditions, start=job):
            if manifest.job_id == found.job_id:
                return True
            if manifest.job_id == found.previous:
                return False
            job = manifest.previous
    except FormatError:
        # What takes the place of a lost manifest lies right above that.
        if job != found.previous:
            raise
    return False


def _manifest(store: Store, destination: str, job: str, entry: Entry) -> Manifest:
    path = f"{store.bucket}/{entry.key}"
    return admit(
        "manifest", Manifest.from_bytes(path, entry.body), Place(path, store.bucket, destination, job)
    )


def pointer_of(store: Store, destination: str, entry: Entry) -> Pointer:
    """What the object of a pointer says. Raises FormatError if it is malformed or inconsistent."""
    path = f"{store.bucket}/{entry.key}"
    return admit("pointer", Pointer.from_bytes(path, entry.body), Place(path, store.bucket, destination))


ADOPT: Final = "adopt"
"""The mode in manifests of files that are older than the chain."""

COMPACT: Final = "compact"
"""The mode in manifests that sum older ones up; their job ids begin with it, too."""


@dataclass(frozen=True, slots=True)
class View:
    """What a reader of the chain sees.

    Walking back from the pointer, a reader takes every file that it meets, except that

    * ``hides="all"`` hides the job that ``replaced`` names, and all before it. Jobs that joined the chain
      after the replacing job had looked, and before it joined itself, stay visible. Files older than the
      chain are hidden.
    * ``hides="keys"`` hides the keys in ``deleted`` from all older manifests.
    * of two files with one key the newer counts.
    * ``mode="compact"`` is a compaction manifest: it lists what the chain right below it shows, and hides all
      of that. A reader takes its files and stops. A reader skips it only if a newer job replaced files older
      than one of the jobs in it; then it reads the manifests below one by one.
    """

    head: Manifest
    files: Mapping[str, ManifestFile]
    """Every file by its key, relative to the destination, the newest job's first."""
    older_files: bool  # whether there may be files beside these that no manifest knows

    @property
    def newest_job(self) -> str:
        """The job that was published last; a sum of older manifests is none."""
        head = self.head
        return head.previous if head.mode == COMPACT and head.previous is not None else head.job_id


async def view_of(manifests: AsyncIterable[Manifest]) -> View | None:
    """What a chain shows, given the newest manifest first; those that it hides are not asked for.

    Raises FormatError if the chain is broken.
    """
    head: Manifest | None = None
    files: dict[str, ManifestFile] = {}
    hidden: set[str] = set()
    ends: set[str] = set()
    settled = older_files = False
    async for manifest in manifests:
        if manifest.job_id in ends:
            break
        head = head or manifest
        is_sum = manifest.mode == COMPACT
        if is_sum and ends:
            continue
        for file in manifest.files:
            if file.key not in hidden:
                files.setdefault(file.key, file)
        settled = settled or (manifest.hides == "all" and not is_sum) or manifest.mode == ADOPT
        older_files = older_files or (manifest.older_files and not settled)
        if is_sum:
            break
        hidden.update(manifest.deleted)
        if manifest.replaced is not None:
            ends.add(manifest.replaced)
    return None if head is None else View(head, files, older_files)
