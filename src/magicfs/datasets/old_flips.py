"""Finding jobs of which only directories next to a destination are left (``protocol.old_flips``)."""

from __future__ import annotations

from magicfs.engine import Engine
from magicfs.errors import FormatError
from magicfs.protocol import old_flips
from magicfs.protocol.layout import WorkLayout
from magicfs.transaction.others import OtherJob

__all__ = ["with_old_flips"]


async def with_old_flips(engine: Engine, destination: str, found: list[OtherJob]) -> list[OtherJob]:
    """The unfinished jobs of a destination, and before them those that left their directories next to it.

    The latter cannot be acted on, and their problem says why.
    """
    if engine.store.capabilities.rename == "copy" or not destination:
        return found
    bucket, known = engine.store.bucket, {one.job_id for one in found}
    listed = engine.store.list_directories(old_flips.listing_prefix(destination))
    places = sorted([one.rstrip("/") async for one in listed])
    there = {job: place for place in places if (job := old_flips.job_of(destination, place)) is not None}
    left: list[OtherJob] = []
    for job, place in there.items():
        if job not in known:
            aside = place.endswith(old_flips.ASIDE)
            why = old_flips.refusal_of_rest(bucket, destination, job, aside=aside)
            problem = FormatError(f"{bucket}/{place}", "", why)
            left.append(OtherJob(WorkLayout(destination, job), None, problem))
    return [*left, *found]
