"""What keeps a job from flipping, or from being set up beside a flip; what a flip takes along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, ObjectNotFound, Unsupported, UsageError
from magicfs.manifests import chain
from magicfs.parallel import drained, raise_first
from magicfs.protocol import paths
from magicfs.protocol.conflict import WORK, is_hidden_output
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState
from magicfs.protocol.replacement import OldFile
from magicfs.stores.object_tree import tree_of
from magicfs.stores.tree_port import Exchange
from magicfs.transaction.attempt_output import delete_keys
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
        f"driver is dead run magicfs recover {context.url}, with --abort if that leaves the job, then set up "
        "another one"
    )


async def _between(engine: Engine, destination: str) -> list[JobId]:
    """Jobs that have set the old dataset aside, and not put the new one in its place."""
    return [one.job for one in await find_beside(engine, destination) if one.stage == "between"]


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
            if not paths.is_hidden(place.rpartition("/")[2]):
                continue  # a partition, such as _temporary_id=1
            if place not in known and place != context.layout.magic_directory:
                found.append(
                    f"{place} is where a job works that has no job object, or has left it; end the job, or "
                    "remove that directory"
                )
    return found


async def carry(engine: Engine, context: JobContext, hidden: Iterable[OldFile], gone: Iterable[str]) -> None:
    """Copy what no mode deletes into the new dataset: hidden files that no job has published.

    What the job itself has published there stays. A second call takes what is there by then, and forgets what
    the first one brought and is not there any more.
    """
    destination, new, deleted = context.layout.destination, new_dataset(context), set(gone)
    made = await chain.read(engine.store, new, context.job, chain.READING)
    own = {file.key for file in made.files} if made is not None else set()
    wanted = {paths.relative_to(one.key, destination) for one in hidden if one.key not in deleted} - own

    async def copy(relative: str) -> bool:
        with suppress(ObjectNotFound):  # gone since it was listed
            await engine.store.copy(paths.join(destination, relative), paths.join(new, relative))
        return True

    await drained(sorted(wanted), copy, engine.concurrency)
    there = {
        paths.relative_to(info.key, new)
        async for info in engine.store.list(paths.prefix_of(new))
        if not info.key.endswith("/")
    }
    strange = [paths.join(new, one) for one in there - wanted - own]
    raise_first(await delete_keys(engine, [key for key in strange if is_hidden_output(key, new)]))
