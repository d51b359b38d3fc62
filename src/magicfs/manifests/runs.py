"""Which runs a destination's jobs have published."""

from __future__ import annotations

from contextlib import aclosing

from magicfs.formats.manifest import Manifest, PublishedRun
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain, log
from magicfs.manifests.chain import COMPACT
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store

__all__ = ["job_of_run", "job_of_run_by", "published_runs"]


def published_runs(manifest: Manifest) -> tuple[PublishedRun, ...]:
    """The runs that a manifest names: its own, or in a sum of an older magicfs those of all that it stands
    for.
    """
    if manifest.run_id is None:
        return manifest.runs
    own = PublishedRun(
        run_id=manifest.run_id,
        job_id=manifest.job_id,
        files=manifest.count,
        size=manifest.size,
        committed_ms=manifest.committed_ms,
    )
    return (own, *manifest.runs)


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
                for run in published_runs(manifest):
                    if run.run_id == run_id:
                        return run.job_id
                if manifest.conflict == COMPACT and manifest.log is None:
                    break  # it names all older ones
    return await log.job_of_run(store, destination, conditions, past, run_id)
