"""What keeps a job from flipping, or from being set up beside a flip; what a flip takes along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, ObjectNotFound, Unsupported, UsageError
from magicfs.manifests import chain
from magicfs.parallel import drained
from magicfs.protocol import paths
from magicfs.protocol.conflict import WORK
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState
from magicfs.protocol.replacement import OldFile
from magicfs.stores.object_tree import tree_of
from magicfs.stores.tree_port import Exchange
from magicfs.transaction.context import JobContext
from magicfs.transaction.flip import new_dataset
from magicfs.transaction.flip_remains import find_beside
from magicfs.transaction.others import OtherJob
from magicfs.transaction.record import JobMoved

__all__ = ["carry", "denied_at_setup", "how_exchanged", "rivals", "work_in_the_way"]


async def how_exchanged(engine: Engine, context: JobContext) -> Exchange:
    """How the destination will be exchanged; raises UsageError where it cannot be."""
    destination = context.layout.destination
    try:
        return await tree_of(engine.store).how_exchanged(destination)
    except Unsupported as error:
        raise UsageError(
            f"publish='flip' cannot publish {context.url}: {error.problem}; nothing was changed; use "
            "publish='files', whose readers see all or nothing by the manifest"
        ) from error


async def denied_at_setup(
    engine: Engine, context: JobContext, others: Sequence[OtherJob]
) -> CommitDenied | None:
    """The error for a job whose destination is just being exchanged, or was since its job object was set.

    ``others``: all unfinished jobs there, read after this job's object was set.
    """
    if not await tree_of(engine.store).is_atomic():
        return None
    if all(one.job_id != context.job for one in others):
        return CommitDenied(
            f"the object of job {context.job} is gone: another process has ended the job, or another job has "
            f"just published {context.url} as a whole; nothing was changed; set up another job"
        )
    for one in others:
        job = one.job
        if job is None or job.new is None or one.job_id == context.job or job.state is JobState.OPEN:
            continue
        return _is_flipping(context, f"job {one.job_id} on {job.host or 'an unknown host'}")
    for job_id in await _between(engine, context.layout.destination):
        return _is_flipping(context, f"job {job_id}")
    return None


def _is_flipping(context: JobContext, who: str) -> CommitDenied:
    return CommitDenied(
        f"{who} is just publishing {context.url} as a whole; nothing was changed; wait for it, or if its "
        f"driver is dead run magicfs recover {context.url}, then set up another job"
    )


async def _between(engine: Engine, destination: str) -> list[JobId]:
    """Jobs that have set the old dataset aside, and not put the new one in its place."""
    found = []
    for beside in await find_beside(engine, destination):
        if beside.stage == "old":
            try:
                await engine.store.head(chain.manifest_key(destination, beside.job))
            except ObjectNotFound:
                found.append(beside.job)
    return found


def rivals(context: JobContext, others: Sequence[OtherJob]) -> list[OtherJob]:
    """Unfinished jobs that keep a job from flipping, among all that are at the destination.

    An open one that flips as well does not: it sets itself up again.

    Raises JobMoved if this job's own object is not among them: another job has flipped meanwhile.
    """
    if all(one.job_id != context.job for one in others):
        raise JobMoved(
            f"the object of job {context.job} is gone: another process has ended the job, or another job has "
            f"just published {context.url} as a whole; nothing was published; commit again"
        )
    return [one for one in others if one.job_id != context.job and not _is_open_flip(one)]


def _is_open_flip(one: OtherJob) -> bool:
    return one.job is not None and one.job.new is not None and one.job.state is JobState.OPEN


async def work_in_the_way(engine: Engine, context: JobContext, others: Sequence[OtherJob]) -> list[str]:
    """The work of others at the destination, in words: a flip would take it away from under them."""
    prefix = paths.prefix_of(context.layout.destination)
    known = {one.layout.magic_directory for one in others}
    found = []
    for start in WORK:
        async for directory in engine.store.list_directories(prefix + start):
            place = directory.rstrip("/")
            if place not in known and place != context.layout.magic_directory:
                found.append(
                    f"{place} is where a job works that has no job object, or has left it; end the job, or "
                    "remove that directory"
                )
    return found


async def carry(engine: Engine, context: JobContext, hidden: Iterable[OldFile], gone: Iterable[str]) -> None:
    """Copy what no mode deletes into the new dataset: hidden files that no job has published.

    What the new dataset has itself stays. A second call does the same again.
    """
    destination, new, deleted = context.layout.destination, new_dataset(context), set(gone)

    async def copy(one: OldFile) -> bool:
        there = paths.join(new, paths.relative_to(one.key, destination))
        try:
            await engine.store.head(there)
        except ObjectNotFound:
            await engine.store.copy(one.key, there)
        return True

    await drained((one for one in hidden if one.key not in deleted), copy, engine.concurrency)
