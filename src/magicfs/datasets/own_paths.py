"""Publishing or discarding what was written below a user's own magic path, ``DEST/__magic/…``, without a job.

What a path means is Hadoop's rule (``protocol.magic``). A job is set up first, and what is recorded is looked
at under it: so callers take turns, publishing has a commit point, and ``recover`` finishes a call that died
after it.

Each call that changes a path sets a job up that names it, and looks only then: for others, and for what is
recorded. Of two at once at least one sees the other. A call that publishes ends one that has not reached its
commit point, whose next step then fails, and gives way to one that discards. A call that discards ends all
that have not reached their commit point, and gives way to one that has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Unpack
from uuid import uuid4

from magicfs.datasets.commit import commit_or_abort
from magicfs.datasets.connection import Way, open_destination
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, MagicError, ObjectNotFound, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.filesystem.tracking import name_in, shown_of, tracker, write_id_of
from magicfs.formats.job_object import JobObject
from magicfs.formats.job_options import JobOptions, Places
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT
from magicfs.protocol import ids, paths
from magicfs.protocol.job_state import BEFORE_COMMIT, Wish
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import PENDING, PENDING_SET, MagicPath, locate
from magicfs.protocol.modes import WRITE_MODES, Mode, WriteMode
from magicfs.protocol.paths import Location
from magicfs.protocol.readback import etag_of_parts
from magicfs.report import JobReport, PathAction, PathReport
from magicfs.runtime.interrupt import run_on
from magicfs.runtime.parallel import drained, raise_first
from magicfs.stores import resolve
from magicfs.stores.register import found_at
from magicfs.transaction import attempt_output, setup, sweep
from magicfs.transaction import output as job_output
from magicfs.transaction.attempt_output import TaskOutput
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobMoved, JobRecord

_JOB = "job-"
_LOOKS = 3


@dataclass(slots=True)
class PathRecords:
    """What is recorded below a path."""

    keys: list[str] = field(default_factory=list)  # records and markers
    output: TaskOutput = field(default_factory=TaskOutput)
    remembered: list[tuple[str, Pending]] = field(default_factory=list)
    """Files that only this process knows, by path."""

    @property
    def pendings(self) -> list[Pending]:
        return [*self.output.pendings, *(pending for _, pending in self.remembered)]


async def find_records(engine: Engine, magic: MagicPath) -> PathRecords:
    """Look below a path. UsageError: it is a job's, or a file is open. FormatError: a record is wrong.

    Looks again if a record goes while it is read: another call publishes or discards the path.
    """
    found = await _look(engine, magic)
    for _ in range(_LOOKS):
        if not any(isinstance(one, ObjectNotFound) for one in found.output.problems):
            break
        found = await _look(engine, magic)
    raise_first(found.output.problems)
    opened = [((p.filename or "").removesuffix(PENDING), p) for p in found.output.pendings]
    for path, pending in (*opened, *found.remembered):
        _check_name(magic.below(path.partition("/")[2]), pending)
    return found


async def _look(engine: Engine, magic: MagicPath) -> PathRecords:
    store, found = engine.store, PathRecords()
    async for info in store.list(magic.key):
        if info.key in {magic.key, magic.pending_key} or paths.is_under(info.key, magic.key):
            found.keys.append(info.key)
            _refuse_job(magic, magic.below(info.key))
    known = tracker().snapshot(name_in(store, magic.scope))
    for path in sorted(known.open):
        if is_of(path, magic):
            raise UsageError(f"{path} is still open; nothing was changed; close it first, or discard it")
    found.remembered = [
        (path, pending)
        for path, pending in sorted(known.finished.items())
        if is_of(path, magic) and f"{path}{PENDING}".partition("/")[2] not in found.keys
    ]
    await attempt_output.read_pending(engine, found.keys, store.bucket, [magic.destination], found.output)
    return found


def is_of(path: str, magic: MagicPath) -> bool:
    """Whether a path is the asked one, or lies below it."""
    return path == magic.path or paths.is_under(path, magic.path)


def _refuse_job(asked: MagicPath, found: MagicPath) -> None:
    """Refuse a path in which a job keeps its work."""
    first = found.children[0] if found.children else ""
    is_work = found.key.endswith(PENDING_SET) or found.children[1:] == ("job.json",)
    if found.owner is None and not (first.startswith(_JOB) and is_work):
        return
    job, destination = first.removeprefix(_JOB), f"{found.bucket}/{'/'.join(found.parents)}".rstrip("/")
    raise UsageError(
        f"{asked.path} holds work of job {job}, as {found.path} shows; nothing was changed; end the job "
        f"with magicfs recover, the URL of {destination}, --job {job} and --commit or --abort"
    )


def _check_name(path: MagicPath, pending: Pending) -> None:
    if pending.destination_key != path.final_key:
        raise FormatError(
            f"{path.path}{PENDING}",
            "destinationKey",
            f"is {pending.destination_key!a}, and the path means {path.final_key!a}; nothing was changed; "
            "somebody has moved or copied the record",
        )


def forget(engine: Engine, magic: MagicPath, found: PathRecords) -> None:
    """Have this process no longer remember files that are published or discarded."""
    for path, pending in found.remembered:
        tracker().withdraw(name_in(engine.store, magic.scope), path, pending.upload_id)


async def visible_uploads(engine: Engine, pendings: Sequence[Pending]) -> set[str]:
    """Ids of uploads whose files are visible already."""
    found: set[str] = set()

    async def look(pending: Pending) -> bool:
        if (info := await found_at(engine.store, pending.destination_key)) is None:
            return True
        write_id = write_id_of(pending)
        if write_id is None:
            shown, own = info.etag, etag_of_parts(part.etag for part in pending.parts)
        else:
            shown, own = shown_of(info, pending) or "", write_id
        if shown == own:
            found.add(pending.upload_id)
        return True

    await drained(pendings, look, engine.concurrency)
    return found


def check_closed(magic: MagicPath, found: PathRecords) -> None:
    """Raise UsageError for a file whose close has failed."""
    described = {key.removesuffix(PENDING) for key in found.keys if key.endswith(PENDING)}
    for key in found.keys:
        if not key.endswith((PENDING, "/")) and key not in described:
            raise UsageError(
                f"{magic.bucket}/{key} has no record of its upload, because closing the file failed; "
                "nothing was changed; write it again, or discard it"
            )


def check_twice(pendings: Sequence[Pending]) -> None:
    """Raise UsageError if two files have one final name."""
    seen: dict[str, Pending] = {}
    for pending in pendings:
        other = seen.setdefault(pending.destination_key, pending)
        if other is not pending:
            raise UsageError(
                f"{other.uri} and {pending.uri} have the same final name, {pending.destination_key}; "
                "nothing was changed; publish one of the directories and discard the other"
            )


_DISCARDS: Final = "drop"
"""The mode of a job that discards a path: it publishes nothing."""


def destination_of(location: Location, magic: MagicPath) -> Location:
    """The directory above a path's magic element."""
    return Location(location.scheme, location.bucket, magic.destination)


def context_of(location: Location, magic: MagicPath, mode: Mode) -> JobContext:
    """A new job of a path."""
    return JobContext(
        url=destination_of(location, magic).url,
        layout=WorkLayout(magic.destination, ids.job_id(uuid4())),
        options=JobOptions(
            committer="magic", mode=mode, unique_names=False, places=Places(own_path=magic.key)
        ),
    )


async def jobs_of(engine: Engine, magic: MagicPath) -> list[JobObject]:
    """The jobs that have not ended of a path, of one above it, and of those below."""
    found = [one.job for one in await find_unfinished_jobs(engine, magic.destination)]
    return [
        job
        for job in found
        if job is not None
        and job.options.places.own_path is not None
        and (
            is_of(f"{magic.bucket}/{job.options.places.own_path}", magic)
            or paths.is_under(magic.key, job.options.places.own_path)
        )
    ]


async def finish_published(engine: Engine, location: Location, magic: MagicPath) -> None:
    """Finish what earlier calls have begun to publish."""
    for job in await jobs_of(engine, magic):
        if job.state not in BEFORE_COMMIT:
            await _end(engine, location, magic, job, Wish.FINISH)


async def end_others(engine: Engine, location: Location, magic: MagicPath, own: JobContext) -> None:
    """End every other job of a path whose own job is set up. Raises CommitDenied if that gives way to one."""
    for job in await jobs_of(engine, magic):
        if job.job_id == own.job:
            continue
        is_open = job.state in BEFORE_COMMIT
        if own.options.mode == _DISCARDS:
            if job.options.mode == _DISCARDS:
                continue  # once what it was about to discard is discarded
            if not is_open:
                raise CommitDenied(
                    f"{magic.path} is being published by job {job.job_id} on {job.host}; nothing was "
                    f"changed; run magicfs recover {destination_of(location, magic).url}"
                )
        elif is_open and job.options.mode == _DISCARDS:
            url = Location(location.scheme, location.bucket, job.options.places.own_path or "").url
            raise CommitDenied(
                f"{magic.path} is being discarded by job {job.job_id} on {job.host}; nothing was published; "
                f"wait for it, or if its process is dead, run magicfs job discard {url}"
            )
        await _end(engine, location, magic, job, Wish.ABORT if is_open else Wish.FINISH)


async def _end(engine: Engine, location: Location, magic: MagicPath, job: JobObject, wish: Wish) -> None:
    context = context_of(location, magic, "append").of(job)
    reason = "another call is publishing or discarding the same path"
    await JobTransaction(engine, context).finish(wish, reason=reason)


@dataclass(frozen=True, slots=True)
class Turn:
    """Of a call that discards."""

    record: JobRecord
    magic: MagicPath

    async def confirm(self) -> None:
        """Raise CommitDenied if another process has ended the call's job. What was found before may be
        discarded now: who publishes later sees the job, or finds that again.
        """
        version = await self.record.read()
        if version is None or version.job.state not in BEFORE_COMMIT:
            raise CommitDenied(
                f"another process has discarded {self.magic.path}, or ended the job of this call; nothing "
                "was changed here; call again"
            )


@asynccontextmanager
async def discarding(engine: Engine, location: Location, magic: MagicPath) -> AsyncIterator[Turn]:
    """Hold a path while it is discarded: nobody publishes it meanwhile.

    Raises CommitDenied if it is being published, beyond the commit point; then nothing was changed.
    """
    context = context_of(location, magic, _DISCARDS)
    record, _, _ = await setup.claim(engine, context)
    own = JobTransaction(engine, context)
    try:
        await end_others(engine, location, magic, context)
        yield Turn(record, magic)
        for job in await jobs_of(engine, magic):
            if job.options.mode == _DISCARDS and job.job_id != context.job:
                await _end(engine, location, magic, job, Wish.ABORT)
    except (MagicError, asyncio.CancelledError):
        with suppress(MagicError):
            await own.finish(Wish.ABORT)
        raise
    with suppress(JobMoved):  # all is discarded, and another process has ended the job
        await own.finish(Wish.ABORT, reason="discarded")


_SET_FILES = 1000


def publish(
    path: str, *, mode: WriteMode = "append", dry_run: bool = False, **way: Unpack[Way]
) -> PathReport:
    """See ``magicfs.MagicFileSystem.publish``. ``path`` may begin with ``magic+`` or ``magic::``."""
    if mode not in WRITE_MODES:
        raise UsageError(f"mode={mode!r} is unknown; choose one of {', '.join(WRITE_MODES)}")
    return _on_path(publish_found, path, way, mode=mode, dry_run=dry_run)


def discard(path: str, *, dry_run: bool = False, **way: Unpack[Way]) -> PathReport:
    """See ``magicfs.MagicFileSystem.discard``."""
    return _on_path(discard_found, path, way, dry_run=dry_run)


def _on_path(work: Any, path: str, way: Way, **how: Any) -> PathReport:
    url = path.removeprefix("magic::").removeprefix("magic+")
    filesystem = way.get("filesystem")
    if isinstance(filesystem, MagicFileSystem):
        filesystem = filesystem.fs
    if filesystem is not None and "://" not in url:
        url = filesystem.unstrip_protocol(url)
    place = open_destination(url, way.get("storage_options"), filesystem)
    magic = locate(place.location.path.removesuffix(PENDING))
    if magic is None:
        raise UsageError(
            f"{place.location.url} is not a magic path: it has no element __magic or __magic_job-<id>; "
            "nothing was changed; to publish a job, use job.commit or magicfs recover --commit"
        )
    loop = resolve.loop_of(place.filesystem)
    report: PathReport = run_on(loop, work, place.engine, place.location, magic, **how)
    place.filesystem.invalidate_cache()
    return report


def _report(
    location: Location,
    magic: MagicPath,
    action: PathAction,
    pendings: Sequence[Pending],
    job: JobReport | None = None,
) -> PathReport:
    names = sorted(pending.destination_key for pending in pendings)[:SUCCESS_MARKER_FILE_LIMIT]
    return PathReport(
        path=Location(location.scheme, location.bucket, magic.key).url,
        destination=destination_of(location, magic).url,
        action=action,
        files=len(pendings),
        bytes=sum(pending.length for pending in pendings),
        filenames=tuple(Location(location.scheme, location.bucket, name).url for name in names),
        manifest=job.manifest if job else "",
        warnings=job.warnings if job else (),
    )


# -- publishing ----------------------------------------------------------------------------------------------


class _PublishedBeforeError(UsageError):
    """All files of a path are visible already."""

    def __init__(self, pendings: Sequence[Pending]) -> None:
        super().__init__("all files of the path are already published")
        self.pendings = pendings


async def publish_found(
    engine: Engine, location: Location, magic: MagicPath, *, mode: WriteMode = "append", dry_run: bool = False
) -> PathReport:
    """``publish``, on the store's loop."""
    seen = await find_records(engine, magic)
    check_closed(magic, seen)
    if not seen.pendings:
        if not dry_run:
            await finish_published(engine, location, magic)
        raise _nothing(magic)
    context = context_of(location, magic, mode)
    if dry_run:
        return _report(location, magic, "would publish", (await _due(engine, context, seen))[0])
    transaction = JobTransaction(engine, context)
    found, before = PathRecords(), list[Pending]()

    async def load() -> JobOutput:
        nonlocal found, before
        await end_others(engine, location, magic, context)
        found = await find_records(engine, magic)
        check_closed(magic, found)
        due, before = await _due(engine, context, found)
        if due:
            return _packed(engine, context, due)
        if not found.pendings and (await _due(engine, context, seen))[0]:
            raise _nothing(magic)
        raise _PublishedBeforeError(found.pendings or seen.pendings)

    setup = await transaction.set_up()
    try:
        # If it fails, the uploads stay: they are the path's, not the job's.
        report = await commit_or_abort(transaction, load, setup.driver)
        done = _report(location, magic, "published", found.pendings, report)
    except _PublishedBeforeError as one:
        done = _report(location, magic, "published before", one.pendings)
    forget(engine, magic, found)
    # Left by a call that died when all but this was done.
    raise_first(await sweep.delete_records(engine, context, _packed(engine, context, before)))
    return done


async def _due(
    engine: Engine, context: JobContext, found: PathRecords
) -> tuple[list[Pending], list[Pending]]:
    """What a job has to publish, and what is visible already, with a record that is left of it.

    If only a part is visible, a job that replaces publishes all: so that part is its own, and not replaced.
    """
    published = await visible_uploads(engine, found.pendings)
    due, before = list[Pending](), list[Pending]()
    for one in found.pendings:
        (before if one.upload_id in published else due).append(one)
    check_twice(due)
    if due and context.is_replacing:
        written_over = {one.destination_key for one in due}
        due += [one for one in before if one.destination_key not in written_over]
    return due, [one for one in found.output.pendings if one.upload_id in published]


def _nothing(magic: MagicPath) -> UsageError:
    return UsageError(
        f"no files are recorded under {magic.path}; nothing was changed; give the path below which you "
        "wrote and closed files, or a path that magicfs uploads lists"
    )


def _packed(engine: Engine, context: JobContext, pendings: Sequence[Pending]) -> JobOutput:
    now_ms = int(time.time() * 1000)
    named = [replace(one.touched(now_ms), filename=one.filename, job_id=context.job) for one in pendings]
    parts = [named[start : start + _SET_FILES] for start in range(0, len(named), _SET_FILES)]
    sets = [PendingSet.merge(context.job, part).to_bytes() for part in parts]
    numbered = [(f"{context.options.places.own_path}, part {number}", raw) for number, raw in enumerate(sets)]
    return job_output.checked(engine, context, numbered)


# -- discarding ----------------------------------------------------------------------------------------------


async def discard_found(
    engine: Engine, location: Location, magic: MagicPath, *, dry_run: bool = False
) -> PathReport:
    """``discard``, on the store's loop."""
    found = await find_records(engine, magic)
    if dry_run:
        return _report(location, magic, "would discard", found.pendings)
    if found.keys or found.remembered or await jobs_of(engine, magic):
        async with discarding(engine, location, magic) as turn:
            found = await find_records(engine, magic)
            await turn.confirm()
            cleaner = engine.for_cleanup()
            raise_first(await attempt_output.abort_uploads(cleaner, found.pendings))
            forget(engine, magic, found)
            raise_first(await attempt_output.delete_keys(cleaner, found.keys))
    return _report(location, magic, "discarded", found.pendings)
