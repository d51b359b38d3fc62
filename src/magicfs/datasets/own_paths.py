"""Publishing or discarding what was written below a user's own magic path, ``DEST/__magic/…``, without a job.

What a path means is Hadoop's rule (``protocol.magic``). A job is set up first, and what is recorded is looked
at under it: so callers take turns (``path_turns``), publishing has a commit point, and ``recover`` finishes a
call that died after it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from magicfs.datasets import path_records, path_turns
from magicfs.datasets.commit import commit_or_abort
from magicfs.datasets.connection import Way, open_destination
from magicfs.datasets.path_records import PathRecords
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT
from magicfs.protocol.magic import PENDING, MagicPath, locate
from magicfs.protocol.modes import WRITE_MODES, WriteMode
from magicfs.protocol.paths import Location
from magicfs.report import JobReport, PathReport
from magicfs.runtime.interrupt import run_on
from magicfs.runtime.parallel import raise_first
from magicfs.stores import resolve
from magicfs.transaction import attempt_output, sweep
from magicfs.transaction import output as job_output
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.output import JobOutput

__all__ = ["discard", "discard_found", "publish", "publish_found"]

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
    action: Any,
    pendings: Sequence[Pending],
    job: JobReport | None = None,
) -> PathReport:
    names = sorted(pending.destination_key for pending in pendings)[:SUCCESS_MARKER_FILE_LIMIT]
    return PathReport(
        path=Location(location.scheme, location.bucket, magic.key).url,
        destination=path_turns.destination_of(location, magic).url,
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
    seen = await path_records.find_records(engine, magic)
    path_records.check_closed(magic, seen)
    if not seen.pendings:
        if not dry_run:
            await path_turns.finish_published(engine, location, magic)
        raise _nothing(magic)
    context = path_turns.context_of(location, magic, mode)
    if dry_run:
        return _report(location, magic, "would publish", (await _due(engine, context, seen))[0])
    transaction = JobTransaction(engine, context)
    found, before = PathRecords(), list[Pending]()

    async def load() -> JobOutput:
        nonlocal found, before
        await path_turns.end_others(engine, location, magic, context)
        found = await path_records.find_records(engine, magic)
        path_records.check_closed(magic, found)
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
    path_records.forget(engine, magic, found)
    # Left by a call that died when all but this was done.
    raise_first(await sweep.delete_records(engine, context, _packed(engine, context, before)))
    return done


async def _due(
    engine: Engine, context: JobContext, found: PathRecords
) -> tuple[list[Pending], list[Pending]]:
    """What a job has to publish, and what is visible already, with a record that is left of it.

    If only a part is visible, a job that replaces publishes all: so that part is its own, and not replaced.
    """
    published = await path_records.visible_uploads(engine, found.pendings)
    due = [one for one in found.pendings if one.upload_id not in published]
    before = [one for one in found.pendings if one.upload_id in published]
    path_records.check_twice(due)
    if due and context.is_replacing:
        written_over = {one.destination_key for one in due}
        due += [one for one in before if one.destination_key not in written_over]
    recorded = {one.upload_id for one in found.output.pendings}
    return due, [one for one in before if one.upload_id in recorded]


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
    found = await path_records.find_records(engine, magic)
    if dry_run:
        return _report(location, magic, "would discard", found.pendings)
    if found.keys or found.remembered or await path_turns.jobs_of(engine, magic):
        async with path_turns.discarding(engine, location, magic) as turn:
            found = await path_records.find_records(engine, magic)
            await turn.confirm()
            cleaner = engine.for_cleanup()
            raise_first(await attempt_output.abort_uploads(cleaner, found.pendings))
            path_records.forget(engine, magic, found)
            raise_first(await attempt_output.delete_keys(cleaner, found.keys))
    return _report(location, magic, "discarded", found.pendings)
