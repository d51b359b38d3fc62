"""Discarding a job of Hadoop's of which nothing is published."""

from __future__ import annotations

import time

from magicfs.datasets.connection import was_published
from magicfs.datasets.foreign_jobs import magic, manifest
from magicfs.datasets.foreign_jobs.fates import open_uploads, refuse_published
from magicfs.datasets.foreign_jobs.job import FOUND, DeadJob, promise_missing
from magicfs.engine import Engine
from magicfs.protocol import paths
from magicfs.protocol.job_state import Wish
from magicfs.protocol.paths import Location
from magicfs.report import RecoveredJob
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.outcome import JobOutcome

__all__ = ["discard", "refuse_half_published"]


async def discard(
    engine: Engine, location: Location, one: DeadJob, *, driver_is_dead: bool, dry_run: bool
) -> RecoveredJob:
    """Abort a job's uploads and remove its work, under a job object, so that nobody commits it meanwhile.

    Raises UsageError without the promise, CommitDenied if files of it are published; nothing was changed.
    """
    if not driver_is_dead:
        raise promise_missing(one)
    refuse_published(location.url, one.context.job, one.fates)
    done, ended = JobOutcome(aborted=one.told.uploads), False
    if not dry_run:
        transaction = JobTransaction(engine, one.context)
        driver = await transaction.take_over(may_create=True)
        ended = await was_published(engine, location, one.context.job)  # by another command, just now
        done = await _discarded(engine, transaction, one, driver, ended=ended)
        if done.unlisted is not None:
            done.warnings.append(f"uploads that nothing records could not be looked for: {done.unlisted}")
    return RecoveredJob(
        job_id=one.context.job,
        found=FOUND,
        action="would abort" if dry_run else "ended elsewhere" if ended else "aborted",
        age_s=max(0.0, time.time() - one.modified),
        host="",
        uploads=done.aborted,
        reason="it is published, and its files stay" if ended else "",
        warnings=tuple(done.warnings),
        foreign=one.told,
    )


async def _discarded(
    engine: Engine, transaction: JobTransaction, one: DeadJob, driver: str | None, *, ended: bool
) -> JobOutcome:
    """End a job that has been taken over."""
    if one.cluster is None:
        done = await transaction.finish(Wish.ABORT, reason="its driver in a JVM is dead") or JobOutcome()
        done.warnings += [str(error) for error in await magic.remove_marker(engine, one.context.layout)]
        return done
    # Nothing in the store records its uploads.
    await transaction.abort([] if ended else list(one.output.pendings()), driver, given=False)
    await one.cluster.clear()
    return JobOutcome(aborted=one.told.uploads)


async def refuse_half_published(engine: Engine, location: Location, context: JobContext) -> None:
    """Raise CommitDenied if a JVM has begun to publish a job that has an object of ours, and is open.

    It may be one that a command has begun to finish, or one of ours whose tasks a JVM was to commit.
    """
    layout = context.layout
    prefix = paths.prefix_of(layout.job_directory)
    keys = [info.key async for info in engine.store.list(prefix)]
    if context.options.hadoop.begun_by == manifest.BEGUN_BY:
        refuse_published(location.url, context.job, (await manifest.examined(engine, context)).fates)
    if not any(magic.is_set(layout, key) for key in keys):
        return
    fates = await magic.fates_of_sets(engine, layout, keys, await open_uploads(engine, location.key))
    refuse_published(location.url, context.job, fates)
