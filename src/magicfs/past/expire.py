"""Deleting replaced files whose time is over.

What is going to be deleted is marked in the pointer first, and only then looked at: whether it is shown
again, by a rollback, or kept for longer by another job, a tag or a release. A rollback looks in the opposite
order, so of the two at least one sees the other (``magicfs.past.extension``). A mark stays until all is
deleted: who dies in between leaves a part of the files, and the next call deletes the rest. It stays, too, as
long as some of the files are shown: no job deletes what an earlier one has promised, so it is for a later
call to do. And it stays as long as a tag or a release keeps one that the job has moved aside: only the job
says where that lies.

Before each request that deletes, the marks are looked at again. A call that stood still may find that another
one has deleted the files, and that a job has published their names again; then it begins from the start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Final, Unpack
from uuid import uuid4

from magicfs.datasets.connection import Way, on_destination, told_as_newest
from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    Unavailable,
    UsageError,
)
from magicfs.formats.deletions import OldObject
from magicfs.formats.pointer import Keeping, Pointer
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.manifests.kept import identity, kept_by
from magicfs.past import aside, kept_versions
from magicfs.past.held import Staying, held, remove_lists, rule_of
from magicfs.past.keeping import TRIES, change_keeping, pause
from magicfs.past.kept_versions import has_version
from magicfs.past.retention import Keep
from magicfs.protocol import paths
from magicfs.protocol.job_state import CHANGES_FILES
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.report import Report
from magicfs.runtime.parallel import at_once, drained, gathered
from magicfs.stores.conditions import Conditions, conditions_of, remove_matching, sweep_probes
from magicfs.stores.port import Store
from magicfs.stores.register import Register
from magicfs.transaction.others import find_unfinished_jobs, refuse_lost_pointer
from magicfs.transaction.record import Silence

_LOOKS_AT_ONCE: Final = 32
_TICK_MS: Final = 999
"""A store names whole seconds, so it may be as much later."""


@dataclass(frozen=True, slots=True)
class ExpireReport(Report):
    """The result of ``expire``.

    Attributes:
        url: The destination.
        jobs: The jobs whose kept files have expired, in the order in which they were published.
        files: How many of their replaced files were deleted.
        bytes: Their size.
        altered: Keys that now have another object, which stays.
        keeping: How many jobs and tags keep files for longer.
        next_ms: When the first of these expires, in milliseconds since the epoch; None if there are none. A
            moment in the past: a tag or a rule holds the files.
    """

    url: str | PathLike[str]
    jobs: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    altered: tuple[str, ...] = ()
    keeping: int = 0
    next_ms: int | None = None


def expire(
    url: str | PathLike[str], *, keep: Keep | None = None, dry_run: bool = False, **way: Unpack[Way]
) -> ExpireReport:
    """See ``magicfs.Dataset.expire``."""
    keep = None if keep is None else Keep.of("keep", keep)
    return on_destination(expire_kept, url, **way, keep=keep, dry_run=dry_run)


async def expire_kept(
    engine: Engine,
    location: Location,
    *,
    keep: Keep | None = None,
    dry_run: bool = False,
    now_ms: int | None = None,
) -> ExpireReport:
    """``expire``, on the store's loop. ``now_ms``: the time, in milliseconds since the epoch."""
    store, destination = engine.store, location.key
    now = int(time.time() * 1000) if now_ms is None else now_ms
    if not dry_run:
        await sweep_probes(engine.for_cleanup().store, paths.join(destination, MANIFESTS))
    seen = await chain.read_pointer(store, destination, READING)
    if seen is None:
        await refuse_lost_pointer(engine, location)
        return _report(location, ())
    pointer, _ = seen
    if not any(_is_over(one, now) for one in pointer.keeping):
        return _report(location, pointer.keeping)
    if dry_run:
        return await _would_expire(engine, location, pointer, now, keep)
    store = (await told_as_newest(engine, location)).store
    conditions = await conditions_of(store, paths.join(destination, MANIFESTS))
    if not conditions.put_if_absent:
        raise UsageError(
            f"the store {store.name!r} ignores conditional writes, so a rollback at the same moment could "
            "lose files; nothing was deleted; use another store"
        )
    if now_ms is None and any(_is_over(one, now) and not one.expires for one in pointer.keeping):
        now = min(now, await _now_by_store(store, destination, conditions) or now)
    over = await _over(engine, location, pointer, now, keep)
    if not over:
        return _report(location, pointer.keeping)
    try:
        return await _expire(engine, location, store, conditions, pointer, over)
    except _EndedByOthers:
        return await expire_kept(engine, location, keep=keep, now_ms=now)


async def _would_expire(
    engine: Engine, location: Location, pointer: Pointer, now: int, keep: Keep | None
) -> ExpireReport:
    over = await _over(engine, location, pointer, now, keep)
    kept = await _kept(engine, location, pointer, over)
    gone = await _still_there(engine, location.key, kept, pointer.expiring)
    left = [one for one in pointer.keeping if one.job_id not in over]
    return _report(location, left, [one for one in pointer.keeping if one.job_id in over], gone)


async def _expire(
    engine: Engine,
    location: Location,
    store: Store,
    conditions: Conditions,
    seen: Pointer,
    over: Collection[str],
) -> ExpireReport:
    """Mark jobs, look, delete what they keep, and take those that are done out of the pointer."""
    destination = location.key

    async def mark(keeping: tuple[Keeping, ...]) -> list[Keeping]:
        return [replace(one, expires=True) if one.job_id in over else one for one in keeping]

    await change_keeping(store, destination, conditions, mark)
    await _refuse_rollbacks(engine, location)
    again = await chain.read_pointer(store, destination, conditions, expected=True)
    pointer = seen if again is None else again[0]
    ours = [one for one in pointer.keeping if one.expires and one.job_id in over]
    kept = await _kept(engine, location, pointer, pointer.expiring.intersection(over))
    gone = await _still_there(engine, destination, kept, seen.expiring)
    check = _Marks(store, destination, kept.over).confirm
    objects = [(one.key, one.etag) for one in gone if one.in_place]
    altered = await remove_matching(store, conditions, objects, engine.concurrency, check=check)
    await kept_versions.delete(engine, gone, check)
    await aside.delete(engine, gone, check)
    done = kept.over - kept.needed()
    over_now = kept.of(done)
    await kept_versions.delete_markers(engine, destination, over_now)

    async def unmark(keeping: tuple[Keeping, ...]) -> list[Keeping]:
        return [one for one in keeping if not (one.expires and one.job_id in done)]

    after = await change_keeping(store, destination, conditions, unmark)
    await remove_lists(store, destination, done)
    stay = set(altered)
    deleted = [one for one in gone if one.key not in stay]
    return _report(location, after.keeping if after else (), ours, deleted, altered)


@dataclass(frozen=True)
class _Kept:
    """What jobs keep, some of which are over."""

    by_job: Mapping[str, Sequence[OldObject]]
    over: frozenset[str]  # jobs
    shown: Collection[str]  # keys that the dataset shows
    stays: Staying

    def of(self, jobs: Collection[str]) -> list[OldObject]:
        return [one for job in jobs for one in self.by_job[job]]

    def due(self) -> dict[str, OldObject]:
        """What jobs keep that are over, by key, without what is shown or kept for longer."""
        ours = self.of([job for job in self.by_job if job in self.over])
        return {one.key: one for one in ours if one.key not in self.shown and not self.stays.has(one)}

    def needed(self) -> set[str]:
        """The jobs that are over and keep what is shown, or alone say where a file lies that stays aside."""
        return {
            job
            for job in self.over
            if any(one.key in self.shown or self.stays.has_aside(one) for one in self.by_job[job])
        }

    def moved(self, destination: str) -> set[str]:
        """The keys of files in place that others have moved aside since."""
        objects = self.of(self.by_job)
        aside = {identity(destination, one) for one in objects if one.aside}
        return {one.key for one in objects if one.in_place and identity(destination, one) in aside}


class _EndedByOthers(Exception):
    """Another call has deleted the files of these jobs. Their names may be published again since."""


class _Marks:
    """The marks of the jobs whose files are being deleted."""

    def __init__(self, store: Store, destination: str, jobs: Collection[str]) -> None:
        self._store, self._destination, self._jobs = store, destination, jobs
        self._silence, self._asking = Silence(), asyncio.Lock()

    async def confirm(self) -> None:
        """Raise _EndedByOthers if one is gone. Asks the pointer, unless it was asked some seconds ago."""
        async with self._asking:
            if self._silence.is_short():
                return
            moment = self._silence.moment()
            seen = await chain.read_pointer(self._store, self._destination, READING, expected=True)
            marked = set[str]() if seen is None else seen[0].expiring
            if not marked.issuperset(self._jobs):
                raise _EndedByOthers
            self._silence.heard(moment)


def _is_over(one: Keeping, now_ms: int) -> bool:
    return one.expires or one.until_ms <= now_ms


async def _over(
    engine: Engine, location: Location, pointer: Pointer, now_ms: int, keep: Keep | None
) -> set[str]:
    """The jobs whose time is over, by the clock of the store, and of which no rule and no tag holds a file;
    and those that an earlier call has marked.
    """
    over = [one for one in pointer.keeping if _is_over(one, now_ms)]
    begun = {one.job_id for one in over if one.expires}
    due = [one for one in over if not one.expires]
    rules = await _over_by_store(engine.store, location.key, due, now_ms)
    return (begun | rules.keys()) - await held(engine, location, pointer, rules, keep)


async def _refuse_rollbacks(engine: Engine, location: Location) -> None:
    """A rollback that has announced itself may not have seen the mark."""
    for one in await find_unfinished_jobs(engine, location.key):
        if one.job is None or (one.job.options.rollback.job is not None and one.job.state in CHANGES_FILES):
            raise CommitDenied(
                f"job {one.job_id} at {location.url} is unfinished, and may be restoring files that are due "
                f"to be deleted; nothing was deleted; wait for it, or run: magicfs recover {location.url}"
            )


async def _kept(engine: Engine, location: Location, pointer: Pointer, over: Collection[str]) -> _Kept:
    store, destination = engine.store, location.key
    by_job = await kept_by(store, destination, READING, pointer.keeping)
    manifests = chain.chain(store, destination, READING, start=pointer.job_id, hidden="none")
    view = await chain.view_of(manifests)
    shown = set() if view is None else {paths.join(destination, key) for key in view.files}
    longer = [one for job in by_job.keys() - set(over) for one in by_job[job]]
    return _Kept(by_job, frozenset(over), shown, Staying(destination, longer))


async def _still_there(engine: Engine, destination: str, kept: _Kept, begun: set[str]) -> list[OldObject]:
    """What is due, without what others have moved aside. Of jobs that an earlier call has ``begun`` with,
    without what that has deleted.
    """
    due = kept.due()
    deleted = {one.key for one in kept.of(begun & kept.by_job.keys())}
    doubtful = (deleted | kept.moved(destination)) & due.keys()
    gone = await _gone(engine, [due[key] for key in sorted(doubtful)])
    return [one for key, one in due.items() if key not in gone]


async def _gone(engine: Engine, objects: Sequence[OldObject]) -> set[str]:
    """The keys of those objects that are not there any more, neither they nor their versions."""
    gone: set[str] = set()

    async def look(one: OldObject) -> bool:
        try:
            if not one.version:
                await engine.store.head(one.key)
            elif not await has_version(engine.store, one.key, one.version):
                gone.add(one.key)
        except ObjectNotFound:
            gone.add(one.key)
        return True

    await drained(objects, look, engine.concurrency)
    return gone


def _report(
    location: Location,
    left: Sequence[Keeping],
    over: Sequence[Keeping] = (),
    deleted: Sequence[OldObject] = (),
    altered: Sequence[str] = (),
) -> ExpireReport:
    left = [one for one in left if not one.expires]
    return ExpireReport(
        location.url,
        jobs=tuple(one.job_id for one in over),
        files=len(deleted),
        bytes=sum(one.size for one in deleted),
        altered=tuple(altered),
        keeping=len(left),
        next_ms=min((one.until_ms for one in left), default=None),
    )


async def _now_by_store(store: Store, destination: str, conditions: Conditions) -> int | None:
    """Milliseconds since the epoch by the clock of the store, or a second later: the pointer is written again
    as it is.

    None if there is no pointer, or the store has no clock.

    Raises Unavailable if the store did not answer, or others moved the pointer all the time: call again.
    """
    head = Register(store, chain.pointer_key(destination), conditions, lasting=True)
    for attempt in range(TRIES):
        seen = await chain.read_pointer(store, destination, conditions)
        if seen is None:
            return None
        pointer, entry = seen
        try:
            written = await head.swap(entry, replace(pointer, nonce=uuid4().hex).to_bytes())
            modified = (await store.head(written.key)).modified
        except (ObjectExists, ObjectNotFound, PreconditionFailed):
            await pause(attempt)
        else:
            return None if modified is None else int(modified * 1000) + _TICK_MS
    raise Unavailable("expire", f"{store.bucket}/{head.key}", f"others changed it {TRIES} times in a row")


async def _over_by_store(
    store: Store, destination: str, keeping: Sequence[Keeping], now_ms: int
) -> dict[str, str]:
    """Which of these jobs have kept their files for the time that they promised, by the clock of the store,
    and by which rules they keep them for longer; of most by none.

    A driver whose clock is behind promises a moment that comes too early. When its manifest was written the
    store knows.
    """

    async def look(one: Keeping) -> str | None:
        key = chain.manifest_key(destination, one.job_id)
        try:
            info, manifest = await at_once(
                store.head(key), chain.read(store, destination, one.job_id, READING, files=False)
            )
        except ObjectNotFound:
            return ""  # a tag keeps them, or the reader of the lists says what is lost
        if manifest is None or manifest.kept is None:
            return ""
        period_ms = manifest.kept.until_ms - manifest.committed_ms
        if info.modified is not None and int(info.modified * 1000) + period_ms > now_ms:
            return None
        return rule_of(manifest.kept, f"{store.bucket}/{key}")

    found = await gathered(keeping, look, _LOOKS_AT_ONCE)
    return {one.job_id: rule for one, rule in zip(keeping, found, strict=True) if rule is not None}
