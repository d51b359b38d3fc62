"""How long nothing was seen of a job, by clocks that agree."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import PermissionDenied
from magicfs.formats.job_object import JobObject
from magicfs.protocol import paths
from magicfs.protocol.final_names import is_named_by
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.temporary import TemporaryLayout
from magicfs.stores.conditions import now_of
from magicfs.transaction.others import OtherJob

_SKEW_MAX_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is."""

    by_store: float  # in seconds since the epoch
    here: float

    @property
    def is_sure(self) -> bool:
        """Whether both agree."""
        return abs(self.by_store - self.here) <= _SKEW_MAX_S


async def clock_of(engine: Engine, destination: str, *, dry_run: bool) -> Clock:
    """What time it is by the store, to which an object is written for that; by this process in a dry run."""
    if dry_run:
        return Clock(time.time(), time.time())
    return Clock(await now_of(engine.store, paths.join(destination, MANIFESTS)), time.time())


async def silence_of(engine: Engine, one: OtherJob, clock: Clock) -> tuple[float, str]:
    """For how many seconds nothing was seen of a job, and why that is not sure; empty if it is.

    Signs of life are what is written in its directories and the start of each of its uploads, by the clock of
    the store, and the last move in its job object, by the clock of its driver. The latest counts, so no wrong
    clock makes a job older than it is.
    """
    job = one.job
    assert job is not None
    moved = job.changed_ms / 1000
    if not clock.is_sure:
        return 0.0, f"the clock of the store differs from this one by {clock.by_store - clock.here:+.0f} s"
    if moved > clock.here + _SKEW_MAX_S:
        return 0.0, "its driver's clock was ahead"
    try:
        written = await _written(engine, one)
        begun = await _begun(engine, one, job)
    except PermissionDenied as error:
        return 0.0, f"these credentials may not look for signs of life: {error}"
    if None in written:
        return 0.0, "the store does not say when objects were written"
    return max(0.0, clock.by_store - max(moved, *filter(None, written), *begun)), ""


async def _written(engine: Engine, one: OtherJob) -> list[float | None]:
    """When objects in its directories were written."""
    layout = one.layout
    places = layout.job_directory, TemporaryLayout(layout.destination, one.job_id).job_directory
    return [info.modified for place in places async for info in engine.store.list(paths.prefix_of(place))]


async def _begun(engine: Engine, one: OtherJob, job: JobObject) -> list[float]:
    """When uploads began that may be its own."""
    return [
        upload.initiated
        for destination in job.destinations
        async for upload in engine.store.list_uploads(paths.prefix_of(destination))
        if not job.options.unique_names or is_named_by(upload.key.rpartition("/")[2], one.job_id)
    ]
