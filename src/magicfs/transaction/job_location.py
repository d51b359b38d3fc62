"""Job locations: the files in a job's extra destinations that tell where its object is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound
from magicfs.formats.job_location import JOB_LOCATION_SIZE_LIMIT, JobLocation
from magicfs.parallel import drained
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.transaction.context import JobContext

__all__ = ["keys_of", "put", "read", "read_at"]


def keys_of(context: JobContext) -> list[str]:
    """The keys of a job's locations, one in each extra destination."""
    return [context.layout.job_location_key(extra) for extra in context.extra_destinations]


async def put(engine: Engine, context: JobContext) -> None:
    """Write a job's location into all extra destinations. A second call writes the same again."""
    raw = JobLocation(context.job, context.layout.destination).to_bytes()

    async def one(key: str) -> bool:
        await engine.store.put(key, raw)
        return True

    await drained(keys_of(context), one, engine.concurrency)


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
    return JobLocation.from_bytes(f"{engine.store.bucket}/{key}", raw, layout.job).destination
