"""Which runs a destination's jobs have published."""

from __future__ import annotations

from contextlib import aclosing

from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain, log
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store

__all__ = ["job_of_run", "job_of_run_by"]


async def job_of_run(store: Store, destination: str, conditions: Conditions, run_id: str) -> str | None:
    """The job that published a run; None if none has.

    Raises FormatError if the chain, as far as it is read, or the log is broken.
    """
    seen = await chain.read_pointer(store, destination, conditions)
    return None if seen is None else await job_of_run_by(store, destination, conditions, seen[0], run_id)


async def job_of_run_by(
    store: Store, destination: str, conditions: Conditions, pointer: Pointer, run_id: str
) -> str | None:
    """The same, by a pointer that was just read.

    It names the last runs. Of those before the last sum the log tells. Only if it may have forgotten one
    since, the manifests down to that sum are read.
    """
    job = pointer.job_of_run(run_id)
    forgotten = pointer.may_have_forgotten(run_id)
    if job is not None or not (forgotten or pointer.log):
        return job
    past = await log.past_of(store, destination, conditions, pointer)
    if forgotten:
        async with aclosing(log.above(store, destination, conditions, past)) as manifests:
            async for manifest in manifests:
                if manifest.run_id == run_id:
                    return manifest.job_id
    return await log.job_of_run(store, destination, conditions, past, run_id)
