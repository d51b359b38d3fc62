"""Removing what jobs that have ended have left: uploads and work of tasks that came too late."""

from __future__ import annotations

import math
from dataclasses import dataclass

from magicfs.datasets.abort import abort_job
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, UsageError
from magicfs.operate.open_uploads import OpenUpload, Owners
from magicfs.operate.status import is_empty
from magicfs.protocol import ids, paths
from magicfs.protocol.magic import MAGIC, MAGIC_JOB
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.stores.conditions import sweep_probes
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.upkeep.signs import clock_of

_JOB = "job-"


@dataclass(frozen=True, slots=True)
class Leftover:
    """What was done about the leftovers of one job.

    Attributes:
        job_id: The job, which has ended.
        action: ``swept``, ``would sweep`` or ``left``.
        uploads: How many uploads were aborted, or would be.
        reason: Why they were left.
    """

    job_id: str
    action: str
    uploads: int = 0
    reason: str = ""


async def sweep_leftovers(
    engine: Engine,
    location: Location,
    *,
    older_than_s: float,
    unrecorded_after_s: float | None = None,
    dry_run: bool = False,
) -> list[Leftover]:
    """Remove the leftovers of ended jobs to which nothing was added for so long, by the store's clock.

    ``unrecorded_after_s``: after how long uploads go, too, that only their names assign to a job, which may
    be one of Hadoop's.
    """
    seen = await _seen(engine, location)
    clock = await clock_of(engine, location.key, dry_run=dry_run) if seen else None
    done = []
    for job, last in sorted(seen.items()):
        assert clock is not None
        silent_s = min(clock.by_store, clock.here) - last
        if silent_s >= older_than_s:
            sure = unrecorded_after_s is not None and silent_s >= unrecorded_after_s
            done.append(await _sweep(engine, location, job, sure=sure, dry_run=dry_run))
    if not dry_run:
        await sweep_probes(engine.for_cleanup().store, paths.join(location.key, MANIFESTS))
    return [one for one in done if one is not None]


async def _sweep(
    engine: Engine, location: Location, job: str, *, sure: bool, dry_run: bool
) -> Leftover | None:
    try:
        try:
            report = await abort_job(engine, location, job=job, dry_run=dry_run)
        except UsageError:
            if not sure:
                raise
            report = await abort_job(engine, location, job=job, driver_is_dead=True, dry_run=dry_run)
    except (CommitDenied, UsageError) as error:
        return Leftover(job, "left", 0, str(error))
    found = [Leftover(one.job_id, one.action, one.uploads, "; ".join(one.warnings)) for one in report.jobs]
    return found[0] if found else None


async def _seen(engine: Engine, location: Location) -> dict[str, float]:
    """When something was added last to the leftovers of each job that has ended."""
    owners, prefix = Owners(engine, location.key), paths.prefix_of(location.key)
    seen = await _works(engine, prefix)
    async for batch in owners.batches(engine.store.list_uploads(prefix)):
        for one in batch:
            if one.job_id is not None and _is_here(one, location):
                seen[one.job_id] = max(seen.get(one.job_id, 0.0), one.initiated)
    # Last, for a job may have set itself up since.
    running = {one.job_id for one in await find_unfinished_jobs(engine, location.key, visitors=True)}
    return {job: last for job, last in seen.items() if job not in running and job not in owners.jobs}


def _is_here(one: OpenUpload, location: Location) -> bool:
    """Whether an upload may be left of a job of ours at this destination."""
    return one.own_path is None and not one.is_foreign and one.destination in {None, location.key}


async def _works(engine: Engine, prefix: str) -> dict[str, float]:
    """When something was written last in the directory of each job."""
    seen: dict[str, float] = {}
    for start in (f"{prefix}{MAGIC}/{_JOB}", prefix + MAGIC_JOB):
        async for directory in engine.store.list_directories(start):
            job = directory.removeprefix(start).rstrip("/")
            listed = [info.modified async for info in engine.store.list(directory)]
            if ids.is_job_id(job) and (listed or not await is_empty(engine, directory)):
                # An object without a moment may be new. A directory without objects is old.
                moments = (math.inf if one is None else one for one in listed)
                seen[job] = max(seen.get(job, 0.0), *moments, 0.0)
    return seen
