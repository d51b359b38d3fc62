"""What keeps the files of a dataset for as long as a release shows them.

A hold is an entry in the dataset's own pointer, as of a job that keeps what it has replaced, with lists of
files below ``_magicfs/``. So every job, drop, rewrite and expiry leaves these files as it leaves kept ones,
whichever process runs it. A hold has no end: ``let_go`` says that its time is over, and then the dataset's
own expiry deletes what is not shown and what nobody else keeps.

A hold is written first, and then looked around, as an announcement of a job: a job that replaces files has
either seen the hold, or it is seen here, and waited for.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from magicfs.datasets.connection import told_as_newest
from magicfs.datasets.read import shown_files
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, ObjectNotFound, UsageError
from magicfs.formats.deletions import CHUNK_LENGTH, OldObject
from magicfs.formats.manifest import ManifestFile
from magicfs.formats.pointer import Keeping
from magicfs.formats.rows import MOMENT_MAX_MS
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.manifests.comparison import compare
from magicfs.manifests.kept import kept_by, places_aside, write
from magicfs.past.as_of import view_at
from magicfs.past.held import going
from magicfs.past.keeping import change_keeping
from magicfs.protocol import paths
from magicfs.protocol.job_state import CHANGES_FILES
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.releases.record import HOLD
from magicfs.stores.conditions import Conditions, conditions_of
from magicfs.stores.register import Register
from magicfs.transaction.others import find_unfinished_jobs

_LISTS_OF_ONE: Final = 16
"""Lists of one entry of a pointer, which names no more of them: what has more is several entries."""
_LISTS_MAX: Final = 10_000
"""Lists of all holds of a dataset: half of what a pointer names."""
_LEAVES: Final = frozenset({"append", "error"})
"""Modes of jobs that delete nothing."""
_LOOKS: Final = 12
_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Held:
    """A publication whose files are kept."""

    hold: str
    manifest: str  # the SHA-256 of its manifest


async def hold(engine: Engine, location: Location, *, job: str, release: Location) -> Held:
    """Keep the files that a dataset showed when a published job had been published.

    Raises ObjectNotFound if some are gone, or being deleted; CommitDenied if a job is replacing files now and
    does not end; UsageError if they cannot be kept. Then nothing is kept.
    """
    store = (await told_as_newest(engine, location)).store
    conditions = await conditions_of(store, paths.join(location.key, MANIFESTS))
    if not conditions.put_if_absent:
        raise UsageError(
            f"the store {store.name!r} ignores conditional writes, so a job at the same moment could delete "
            "files of a release; nothing was released; use another store"
        )
    manifest = await manifest_digest(engine, location, job)
    files = shown_files(location, await view_at(engine, location, job))
    objects = await _listed(engine, location, job, files)
    name = f"{_prefix(release)}{int(time.time() * 1000):012x}-{secrets.token_hex(4)}"
    entries = []
    step = _LISTS_OF_ONE * CHUNK_LENGTH
    for number, start in enumerate(range(0, len(objects), step)):
        entry = f"{name}-{number}"
        lists = await write(store, location.key, entry, objects[start : start + step])
        shas = tuple(one.sha256 for one in lists)
        whose = {"release": release.url}
        entries.append(Keeping(job_id=entry, until_ms=MOMENT_MAX_MS, lists=shas, unknown=whose))

    async def added(keeping: tuple[Keeping, ...]) -> tuple[Keeping, ...]:
        held = sum(len(one.lists) for one in (*keeping, *entries) if _name_of(one) is not None)
        if held > _LISTS_MAX:
            raise UsageError(
                f"{location.url} would have {held:,} lists of files that releases keep, and at most "
                f"{_LISTS_MAX:,} are possible; nothing was released; expire older releases first"
            )
        # Before all others: they are named first, and those of jobs stand in their manifests, too.
        return (*entries, *keeping)

    if entries:
        await change_keeping(store, location.key, conditions, added)
    try:
        await _wait_for_others(engine, location)
        await _check(engine, location, conditions, job, name, files)
    except (CommitDenied, ObjectNotFound):
        await let_go(engine, location, names={name})
        raise
    return Held(name, manifest)


async def let_go(engine: Engine, location: Location, *, names: Collection[str]) -> int:
    """End holds; returns how many entries that were. A second call does nothing.

    An entry goes if another hold has all of its files. Otherwise it stays with the rest of them, as of a job
    whose time is over, for the dataset's own expiry.
    """
    store = (await told_as_newest(engine, location)).store
    conditions = await conditions_of(store, paths.join(location.key, MANIFESTS))
    ended: list[str] = []

    async def without(keeping: tuple[Keeping, ...]) -> list[Keeping]:
        ended[:] = [one.job_id for one in keeping if _name_of(one) in names and one.until_ms]
        rests = await _rests(engine, location, keeping, ended) if ended else {}
        left: list[Keeping] = []
        for one in keeping:
            if one.job_id not in ended:
                left.append(one)
            elif rest := rests[one.job_id]:
                parts = await write(store, location.key, one.job_id, rest)
                left.append(replace(one, until_ms=0, lists=tuple(each.sha256 for each in parts)))
        return left

    await change_keeping(store, location.key, conditions, without)
    return len(ended)


async def _rests(
    engine: Engine, location: Location, keeping: Sequence[Keeping], ended: Collection[str]
) -> dict[str, list[OldObject]]:
    """Of the files of entries that end those that no other hold has, by entry."""
    concerned = [one for one in keeping if _lasts(one) or one.job_id in ended]
    lists = await kept_by(engine.store, location.key, READING, concerned)
    covered = {one[:2] for job, objects in lists.items() if job not in ended for one in objects}
    return {job: [one for one in lists[job] if one[:2] not in covered] for job in ended}


async def holds_at(engine: Engine, location: Location, *, release: Location) -> set[str]:
    """The holds of a release at a dataset that have not ended."""
    seen = await chain.read_pointer(engine.store, location.key, READING)
    found = {_name_of(one) for one in seen[0].keeping if _lasts(one)} if seen else set()
    return {name for name in found if name is not None and name.startswith(_prefix(release))}


def begun_ms(name: str) -> int:
    """When a hold was written, by the clock of its writer."""
    return int(name.split("-")[2], 16)


async def manifest_digest(engine: Engine, location: Location, job: str) -> str:
    """The SHA-256 of a job's manifest. Raises FormatError if there is none."""
    key = chain.manifest_key(location.key, job)
    entry = await Register(engine.store, key, READING, lasting=True).read(expected=True)
    if entry is None:
        raise FormatError(f"{engine.store.bucket}/{key}", "", "missing; restore it from a backup")
    return hashlib.sha256(entry.body).hexdigest()


def _prefix(release: Location) -> str:
    """How the holds of a release begin: who finds them need not believe what a record says."""
    return f"release-{hashlib.sha256(release.path.encode()).hexdigest()[:16]}-"


def _name_of(one: Keeping) -> str | None:
    """The hold that an entry belongs to; None if it is of a job."""
    name, _, number = one.job_id.rpartition("-")
    return name if number.isdigit() and HOLD.fullmatch(name) else None


def _lasts(one: Keeping) -> bool:
    return _name_of(one) is not None and one.until_ms == MOMENT_MAX_MS and not one.expires


async def _listed(
    engine: Engine, location: Location, job: str, files: Mapping[str, ManifestFile]
) -> list[OldObject]:
    """The files with their ETags as listings show them, those that lie aside by the keys that they had.

    Raises ObjectNotFound if one is not there.
    """
    prefix, aside = paths.prefix_of(location.key), await _aside(engine, location, files)
    found = [OldObject(prefix + key, files[key].etag, files[key].size) for key in aside]
    left = files.keys() - aside.keys()
    async for info in engine.store.list(prefix):
        key = info.key[len(prefix) :]
        if key in left:
            left.remove(key)
            found.append(OldObject(info.key, info.etag, info.size))
    if left:
        raise _gone(engine, location, job, sorted(left))
    return found


async def _aside(engine: Engine, location: Location, files: Mapping[str, ManifestFile]) -> dict[str, str]:
    return await places_aside(engine.store, location.key, READING, files)


async def _wait_for_others(engine: Engine, location: Location) -> None:
    """Wait for jobs that may have planned to delete files before they could see the hold."""
    at_work = ""
    for attempt in range(_LOOKS):
        if attempt:
            await asyncio.sleep(min(_PAUSE_S * 2**attempt, _PAUSE_MAX_S))
        jobs = await find_unfinished_jobs(engine, location.key)
        rivals = [
            one.job_id
            for one in jobs
            if one.job is None or (one.job.state in CHANGES_FILES and one.job.options.mode not in _LEAVES)
        ]
        if not rivals:
            return
        at_work = rivals[0]
    raise CommitDenied(
        f"job {at_work} at {location.url} is unfinished, and may be deleting files of this release; nothing "
        f"was released; wait for it, or if its driver is dead, run magicfs recover {location.url}; then "
        "release again"
    )


async def _check(
    engine: Engine,
    location: Location,
    conditions: Conditions,
    job: str,
    name: str,
    files: Mapping[str, ManifestFile],
) -> None:
    """Raise ObjectNotFound if a file is gone, or an expiry that has not seen the hold may be deleting it."""
    aside = await _aside(engine, location, files)
    found = await compare(engine, location.key, {key: files[key] for key in files.keys() - aside.keys()})
    if gone := [*found.missing, *found.altered]:
        raise _gone(engine, location, job, gone)
    seen = await chain.read_pointer(engine.store, location.key, conditions, expected=True)
    keeping: Sequence[Keeping] = seen[0].keeping if seen else ()
    others = [one for one in keeping if _name_of(one) != name]
    if files and len(others) == len(keeping):
        raise CommitDenied(
            f"what keeps the files of {location.url} was removed right away, perhaps with its pointer; "
            "nothing was released; release again"
        )
    due = await going(engine, location, others)
    lying = {paths.join(location.key, aside.get(key, key)): key for key in files}
    if lost := lying.keys() & due:
        raise _gone(engine, location, job, sorted(map(lying.__getitem__, lost)))


def _gone(engine: Engine, location: Location, job: str, keys: Sequence[str]) -> ObjectNotFound:
    return ObjectNotFound(
        "release",
        f"{engine.store.bucket}/{paths.join(location.key, keys[0])}",
        f"{len(keys)} files that {location.url} had when job {job} was published were deleted or overwritten "
        "since, or are being deleted; nothing was released",
        hint="release a newer job, or publish with keep= to keep replaced files for a time",
    )
