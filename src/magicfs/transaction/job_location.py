"""Job locations: the files in a job's extra destinations that tell where its object is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound
from magicfs.formats.gate import Place, admit
from magicfs.formats.job_location import JOB_LOCATION_SIZE_LIMIT, JobLocation
from magicfs.formats.job_object import JobObject
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import SHOWS_NOTHING, JobState
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.runtime.parallel import drained
from magicfs.transaction.context import JobContext

__all__ = ["believed", "keys_of", "put", "read", "read_at"]


def keys_of(context: JobContext) -> list[str]:
    """The keys of a job's locations, one in each extra destination."""
    return [context.layout.job_location_key(extra) for extra in context.options.places.extra]


async def put(engine: Engine, context: JobContext) -> None:
    """Write a job's location into all extra destinations. A second call writes the same again."""
    raw = JobLocation(context.job, context.layout.destination).to_bytes()

    async def one(key: str) -> bool:
        await engine.store.put(key, raw)
        return True

    await drained(keys_of(context), one, engine.concurrency)


async def believed(engine: Engine, context: JobContext, job: JobObject) -> JobContext:
    """The facts of a job at the same destination, as its object has them; one GET for each extra destination.

    An extra destination counts only if the job's location lies there and names this destination: the job's
    driver wrote it at setup, and who may not write there cannot forge it. Those that the caller was given
    itself, in ``context``, count as they are. Without a location, which goes with the last objects of a job,
    nothing is done there.

    Raises FormatError if the job would publish, or take back, where nothing confirms it; nothing was changed.
    """
    theirs, confirmed = context.of(job), set(context.options.places.extra)

    async def look(extra: str) -> bool:
        if await read_at(engine, replace(theirs.layout, destination=extra)) == theirs.layout.destination:
            confirmed.add(extra)
        return True

    named = job.options.places.extra
    await drained([one for one in named if one not in confirmed], look, engine.concurrency)
    unconfirmed = next((one for one in named if one not in confirmed), None)
    acts = job.state not in SHOWS_NOTHING and job.state is not JobState.COMPLETED
    if unconfirmed is not None and acts and job.chunks:
        raise FormatError(
            f"{engine.store.bucket}/{theirs.layout.job_object_key}",
            "options.places.extra[]",
            f"{unconfirmed!a} does not confirm job {job.job_id}: its driver left no "
            f"{theirs.layout.job_location_key(unconfirmed)} there; nothing was changed; find out who "
            "wrote the job object, then restore that file, or remove the job by hand",
        )
    return theirs.with_extra(one for one in named if one in confirmed)


async def read(engine: Engine, directory: str, job: JobId) -> str | None:
    """The destination of a job that has left its location in a directory; None if it has left none."""
    names: Sequence[LayoutName] = get_args(LayoutName)
    for name in names:
        if (found := await read_at(engine, WorkLayout(directory, job, 0, name))) is not None:
            return found
    return None


async def read_at(engine: Engine, layout: WorkLayout) -> str | None:
    """The destination of the job whose location lies where a layout has it; None if none does."""
    key = layout.job_location_key(layout.destination)
    try:
        raw = await engine.store.get(key, size_max=JOB_LOCATION_SIZE_LIMIT + 1)
    except ObjectNotFound:
        return None
    path = f"{engine.store.bucket}/{key}"
    place = Place(path, engine.store.bucket, layout.destination, layout.job, layout)
    return admit("job location", JobLocation.from_bytes(path, raw), place).destination
