"""Which runs a destination's jobs have published."""

from __future__ import annotations

from magicfs.formats.manifest import Manifest, PublishedRun
from magicfs.manifests import chain
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store

__all__ = ["job_of_run", "published_runs"]


def published_runs(manifest: Manifest) -> tuple[PublishedRun, ...]:
    """The runs that a manifest names: its own, or in a sum those of all that it stands for."""
    if manifest.run_id is None:
        return manifest.runs
    own = PublishedRun(
        run_id=manifest.run_id,
        job_id=manifest.job_id,
        files=len(manifest.files),
        size=manifest.size,
        committed_ms=manifest.committed_ms,
    )
    return (own, *manifest.runs)


async def job_of_run(store: Store, destination: str, conditions: Conditions, run_id: str) -> str | None:
    """The job that published a run; None if none has.

    The pointer names the last ones. Only if it may have forgotten this one, the manifests are read, down to
    the last sum.

    Raises FormatError if the chain is broken.
    """
    seen = await chain.read_pointer(store, destination, conditions)
    if seen is None:
        return None
    pointer = seen[0]
    job = pointer.job_of_run(run_id)
    if job is not None or not pointer.may_have_forgotten(run_id):
        return job
    async for manifest in chain.chain(
        store, destination, conditions, start=pointer.job_id, hidden="readable"
    ):
        for run in published_runs(manifest):
            if run.run_id == run_id:
                return run.job_id
        if manifest.conflict == chain.COMPACT:
            break
    return None
