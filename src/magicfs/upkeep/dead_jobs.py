"""Ending jobs whose drivers are dead: those past their commit point are finished, open ones are discarded."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from magicfs.datasets.finders import finders
from magicfs.datasets.recover import finish_job
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, MagicError
from magicfs.formats.job_object import JobObject
from magicfs.protocol.job_state import BEFORE_COMMIT, Wish
from magicfs.protocol.paths import Location
from magicfs.protocol.period import human_age
from magicfs.transaction.others import OtherJob, find_unfinished_jobs
from magicfs.upkeep.signs import Clock, clock_of, silence_of


@dataclass(frozen=True, slots=True)
class DeadJob:
    """What was done about one unfinished job.

    Attributes:
        job_id: The job.
        found: Its state, as ``magicfs recover`` names it.
        action: What was done, or with ``dry_run`` would be, as ``magicfs recover`` names it.
        silent_s: For how many seconds nothing was seen of it; None if nobody had to know.
        reason: Why it was left.
        decide: Whether somebody has to decide.
    """

    job_id: str
    found: str
    action: str = "left"
    silent_s: float | None = None
    reason: str = ""
    decide: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """For how long nothing must have been seen of a job."""

    finish_s: float  # of one past its commit point
    abort_s: float | None  # of an open one; None if none may be discarded


async def end_dead_jobs(
    engine: Engine, location: Location, *, limits: Limits, dry_run: bool = False
) -> list[DeadJob]:
    """End each job at a destination of which nothing was seen for so long.

    An open job whose audit has failed, or has not run, is left in any case.
    """
    found = await find_unfinished_jobs(engine, location.key)
    clock = await clock_of(engine, location.key, dry_run=dry_run) if found else Clock(0, 0)
    done = [await _end(engine, location, one, clock, limits, dry_run=dry_run) for one in found]
    known = {one.job_id for one in found}
    return done + [one async for one in _foreign(engine, location, limits) if one.job_id not in known]


async def _end(
    engine: Engine, location: Location, one: OtherJob, clock: Clock, limits: Limits, *, dry_run: bool
) -> DeadJob:
    job = one.job
    if job is None:
        return DeadJob(one.job_id, "malformed", reason=str(one.problem), decide=True)
    if job.state in BEFORE_COMMIT:
        return await _end_open(engine, location, one, job, clock, limits.abort_s, dry_run=dry_run)
    # Past its commit point anybody may finish it at any time.
    silent = clock.here - job.changed_ms / 1000
    seen = DeadJob(
        one.job_id, job.state.value, silent_s=silent, reason=f"it was seen {human_age(silent)} ago"
    )
    if silent < limits.finish_s:
        return seen
    return await _ended(engine, location, one, seen, Wish.FINISH, dry_run=dry_run)


async def _end_open(
    engine: Engine,
    location: Location,
    one: OtherJob,
    job: JobObject,
    clock: Clock,
    limit_s: float | None,
    *,
    dry_run: bool,
) -> DeadJob:
    seen = DeadJob(one.job_id, job.shown_state, reason="the policy has no abort_after")
    if job.is_quarantined:
        return replace(seen, reason="its audit waits for a decision", decide=True)
    if limit_s is None:
        return seen
    silent, doubt = await silence_of(engine, one, clock)
    if doubt:
        return replace(seen, reason=doubt, decide=True)
    seen = replace(seen, silent_s=silent, reason=f"it was seen {human_age(silent)} ago")
    if silent < limit_s:
        return seen
    if job.is_unjudged:
        return replace(seen, reason="its audit waits for a decision", decide=True)
    return await _ended(engine, location, one, seen, Wish.ABORT, dry_run=dry_run)


async def _ended(
    engine: Engine, location: Location, one: OtherJob, seen: DeadJob, wish: Wish, *, dry_run: bool
) -> DeadJob:
    try:
        done = await finish_job(engine, location, one, wish, dry_run=dry_run)
    except CommitDenied as error:  # its driver has moved it
        return replace(seen, reason=str(error))
    except MagicError as error:
        return replace(seen, reason=str(error), decide=True)
    unfinished = done.action == "not finished"
    return replace(seen, action=done.action, reason="; ".join(done.warnings), decide=unfinished)


async def _foreign(engine: Engine, location: Location, limits: Limits) -> AsyncIterator[DeadJob]:
    """Jobs of other programs, which nobody but a person may end."""
    for finder in finders().values():
        for one in await finder.find_all(engine, location, None):
            silent = max(0.0, time.time() - one.modified)
            late = limits.abort_s is not None and silent >= limits.abort_s
            reason = "only somebody who knows that its JVM is dead can end it"
            yield DeadJob(one.context.job, one.finder, silent_s=silent, reason=reason, decide=late)
