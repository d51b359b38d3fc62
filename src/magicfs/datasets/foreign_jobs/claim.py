"""Taking the place of a dead driver in a JVM, under a job object of ours."""

from __future__ import annotations

from magicfs.datasets.foreign_jobs.fates import Fates, fates_of, open_uploads, refuse_gone
from magicfs.datasets.foreign_jobs.job import DeadJob
from magicfs.engine import Engine
from magicfs.errors import CommitFailed
from magicfs.protocol.paths import Location
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.record import read_record

__all__ = ["take_over"]


async def take_over(
    engine: Engine, location: Location, one: DeadJob, transaction: JobTransaction
) -> str | None:
    """Create the job object, and look once more, for another command may have ended the job meanwhile.

    Returns the driver's token. Raises CommitFailed if uploads are gone by now; the job object is removed.
    """
    driver = await transaction.take_over(may_create=True)
    try:
        refuse_gone(location.url, one.context.job, await _looked(engine, location, one))
    except CommitFailed:
        record, version = await read_record(engine.store, one.context.layout, probe=True)
        if version is not None and version.job.driver == driver:
            await record.remove(version)
        raise
    return driver


async def _looked(engine: Engine, location: Location, one: DeadJob) -> Fates:
    if one.look is not None:
        return await one.look()
    return await fates_of(engine, one.output.pendings(), await open_uploads(engine, location.key))
