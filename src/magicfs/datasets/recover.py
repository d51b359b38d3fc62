"""Bringing what is unfinished at a destination to an end, from any process.

``recover`` does what job objects say, any number of times, beside a driver that is still alive or another
recovery. It never commits an open job: only its driver knows which tasks count.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from typing import Final, Unpack

from magicfs.datasets.connection import Way, context_of, on_destination, was_published
from magicfs.datasets.finders import Cluster, finders
from magicfs.engine import Engine
from magicfs.errors import PermissionDenied, Unsupported, UsageError
from magicfs.formats.job_object import JobObject
from magicfs.protocol import paths
from magicfs.protocol.job_state import Decision, End, Wish, decide, end_of
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.protocol.period import human_time
from magicfs.report import Action, RecoveredJob, RecoverReport
from magicfs.runtime import watchers
from magicfs.stores.conditions import sweep_probes
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.others import OtherJob, find_unfinished_jobs
from magicfs.transaction.outcome import JobEnd, JobOutcome, refusal
from magicfs.transaction.sweep import plan_sweep

_LOOKED_AT: Final = 1000

_ASKED: Final = "asked for by recover"


def recover(
    url: str | PathLike[str],
    *,
    job: str | None = None,
    rollback: bool = False,
    abort: bool = False,
    dry_run: bool = False,
    reason: str | None = None,
    cluster: Cluster | str | None = None,
    **way: Unpack[Way],
) -> RecoverReport:
    """See ``magicfs.Dataset.recover``."""
    how = {"job": job, "rollback": rollback, "abort": abort, "dry_run": dry_run, "reason": reason}
    own = Cluster.of(cluster)
    return on_destination(recover_jobs, url, **way, verb="recover", cluster=own, **how)


async def recover_jobs(
    engine: Engine,
    location: Location,
    *,
    job: str | None = None,
    rollback: bool = False,
    abort: bool = False,
    dry_run: bool = False,
    reason: str | None = None,
    cluster: Cluster | None = None,
) -> RecoverReport:
    """``recover``, on the store's loop."""
    if rollback and abort:
        raise UsageError("give rollback or abort: rollback undoes a commit, abort discards an open job")
    found = await find_unfinished_jobs(engine, location.key)
    wish = Wish.ROLLBACK if rollback else Wish.ABORT if abort else Wish.FINISH
    acting = wish is not Wish.FINISH
    foreign = await _foreign(engine, location, found, job, cluster, acting=acting)
    if job is None:
        chosen = _all(found, location, acting=acting)
    else:
        chosen = [] if foreign else _named(found, location, job)
    why = reason or _ASKED
    done = [
        await _bring_to_an_end(engine, location, one, wish, dry_run=dry_run, reason=why) for one in chosen
    ]
    if job is None and not (acting or dry_run):
        await sweep_probes(engine.for_cleanup().store, paths.join(location.key, MANIFESTS))
    done += foreign
    below = () if done or job is not None else tuple(await destinations_below(engine, location))
    return RecoverReport(location.url, tuple(done), below)


async def _foreign(
    engine: Engine,
    location: Location,
    found: Sequence[OtherJob],
    job: str | None,
    cluster: Cluster | None,
    *,
    acting: bool,
) -> list[RecoveredJob]:
    """Jobs of other programs, which have no job object: they are listed, for only a promise can end them."""
    if any(one.job_id == job for one in found):
        return []
    dead = [one for finder in finders().values() for one in await finder.find_all(engine, location, cluster)]
    listed = [one for one in dead if job in {None, one.context.job}]
    # One that a command has begun to finish is listed as that job.
    listed = [one for one in listed if one.context.job not in {each.job_id for each in found}]
    if listed and acting and (job is not None or not found):
        raise listed[0].promise_missing(f"{location.url} --job {listed[0].context.job}")
    return [] if acting else [one.as_left() for one in listed]


async def destinations_below(engine: Engine, location: Location) -> list[str]:
    """URLs of directories below where work of jobs lies; of those that the first names show."""
    found: dict[str, None] = {}
    async for info in engine.store.list(paths.prefix_of(location.key), limit=_LOOKED_AT):
        names = paths.elements(info.key[len(paths.prefix_of(location.key)) :])
        at = next((n for n, name in enumerate(names) if name.startswith(MAGIC)), 0)
        if at:
            place = Location(location.scheme, location.bucket, paths.join(location.key, *names[:at]))
            found[place.url] = None
    return list(found)


async def finish_job(
    engine: Engine, location: Location, found: OtherJob, wish: Wish = Wish.FINISH, *, dry_run: bool = False
) -> RecoveredJob:
    """``recover``, of a job that was found already. If it has ended since, that is reported and no error."""
    return await _bring_to_an_end(engine, location, found, wish, dry_run=dry_run, reason=_ASKED)


def _named(found: list[OtherJob], location: Location, job: str) -> list[OtherJob]:
    chosen = [one for one in found if one.job_id == job]
    if not chosen:
        there = ", ".join(one.job_id for one in found) or "none"
        raise UsageError(
            f"no unfinished job {job!r} under {location.url}; unfinished are: {there}; nothing was changed"
        )
    return chosen


def _all(found: list[OtherJob], location: Location, *, acting: bool) -> list[OtherJob]:
    """All jobs, if they may be brought to an end together."""
    if not found and acting:
        raise UsageError(
            f"no unfinished job under {location.url}; nothing was changed; check the URL: it has to be the "
            "job's destination"
        )
    if len(found) > 1 and acting:
        listed = "; ".join(_described(one) for one in found)
        raise UsageError(
            f"{len(found)} jobs are unfinished under {location.url}; nothing was changed; name one with "
            f"job= (--job): {listed}"
        )
    return found


def _described(one: OtherJob) -> str:
    if one.job is None:
        return f"{one.job_id} (unreadable)"
    moved = human_time(one.job.changed_ms / 1000, time.time())
    return f"{one.job_id} is {one.job.state}, last moved {moved}"


async def _bring_to_an_end(
    engine: Engine, location: Location, one: OtherJob, wish: Wish, *, dry_run: bool, reason: str
) -> RecoveredJob:
    if one.job is None:
        assert one.problem is not None
        raise one.problem
    found = one.job
    decision = decide(found.state, wish)
    if decision is Decision.REFUSE:
        raise refusal(one.job_id, found.state)
    if decision is Decision.LEAVE and await was_published(engine, location, one.job_id):
        # A request to set the job up that came late: it has ended, and only has to be cleaned up after.
        decision, wish = Decision.MOVE_TO_ABORTING, Wish.ABORT
    if decision is Decision.LEAVE:
        return _as_recovered_job(found, "left")
    would = _WOULD[end_of(found.state, decision)]
    layout = WorkLayout(location.key, one.job_id, found.attempt, one.layout.name)
    context = context_of(location, layout)
    if decision is Decision.MOVE_TO_ABORTING:
        for finder in finders().values():
            await finder.refuse_abort(engine, context.of(found))
    if dry_run and decision is not Decision.MOVE_TO_REVERTING:
        return await _would(engine, context.of(found), found, would)
    job = JobTransaction(engine, context)
    asked = {"run": found.options.run_id, "mode": found.options.mode}
    named = {"url": location.url, "job": one.job_id, **asked}
    with watchers.work("recover", **named):
        done = await job.finish(wish, reason=reason, dry_run=dry_run)
    if done is None:
        return _as_recovered_job(found, "ended elsewhere")
    if dry_run:
        return _as_recovered_job(found, would)
    action: Action = "not finished" if done.is_unfinished else _DID[done.end]
    if action == "finished":  # the other ends are steps of their own
        facts = {"files": found.files, "bytes": found.size, "seconds": time.time() - found.created_ms / 1000}
        watchers.happened("recovered", action=action, **named, **facts)
    return _as_recovered_job(found, action, done)


async def _would(engine: Engine, context: JobContext, found: JobObject, would: Action) -> RecoveredJob:
    seen = _as_recovered_job(found, would)
    if would != "would abort":
        return seen
    with suppress(PermissionDenied, Unsupported):  # as the abort does, which only warns
        return replace(seen, uploads=len((await plan_sweep(engine, context)).uploads))
    return seen


def _as_recovered_job(found: JobObject, action: Action, done: JobOutcome | None = None) -> RecoveredJob:
    return RecoveredJob(
        job_id=found.job_id,
        found=found.shown_state,
        action=action,
        age_s=max(0.0, time.time() - found.changed_ms / 1000),
        host=found.host,
        files=found.files,
        deleted=done.deleted if done else sum(chunk.files for chunk in found.deletions),
        uploads=done.aborted if done else 0,
        run_id=found.options.run_id,
        reason=str(done.failure) if done and done.failure else found.reason or _why_left(found, action),
        warnings=_warnings(done) if done else (),
        label=found.options.label,
    )


def _why_left(job: JobObject, action: Action) -> str:
    if job.is_unjudged:
        return f"it has to pass {'; '.join(job.options.audit.rules)}, and the audit has not run"
    is_lost = action == "left" and job.options.tracking == "memory"
    return "tracking='memory': only its driver knows what its tasks committed" if is_lost else ""


def _warnings(done: JobOutcome) -> tuple[str, ...]:
    if done.unlisted is None or done.end is JobEnd.PUBLISHED:
        return tuple(done.warnings)
    return (
        *done.warnings,
        f"uploads of attempts that left no record could not be listed: {done.unlisted}",
    )


_WOULD: dict[End, Action] = {"finish": "would finish", "abort": "would abort", "revert": "would revert"}
_DID: dict[JobEnd, Action] = {
    JobEnd.PUBLISHED: "finished",
    JobEnd.REVERTED: "reverted",
    JobEnd.ABORTED: "aborted",
    JobEnd.LEFT: "left",
    JobEnd.ELSEWHERE: "ended elsewhere",
}
