"""What a flip leaves beside the destination: the old dataset, or the work of a job that has ended."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, get_args

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, PermissionDenied, Unsupported
from magicfs.formats.flip_record import FLIP_SIZE_LIMIT, FlipRecord
from magicfs.formats.job_object import Chunk, JobObject
from magicfs.manifests import chain
from magicfs.parallel import raise_first
from magicfs.protocol import flip, paths
from magicfs.protocol.conflict import MANIFESTS, is_work
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import SUCCESS, LayoutName, WorkLayout
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.steps import Abort, Batch
from magicfs.stores.conditions import Conditions, remove_matching
from magicfs.stores.exchange_by_renames import aside_of
from magicfs.stores.object_tree import tree_of
from magicfs.stores.port import UploadInfo
from magicfs.transaction import facts
from magicfs.transaction.attempt_output import delete_keys
from magicfs.transaction.context import JobContext
from magicfs.transaction.flip import (
    RECORD,
    delete_empty,
    exchange,
    forbid_exchange,
    new_dataset,
    record_key,
)
from magicfs.transaction.others import find_unfinished_jobs

__all__ = [
    "Beside",
    "Stage",
    "beside_of",
    "clear_beside",
    "clear_old",
    "discard",
    "find_beside",
    "inner_job",
    "is_made",
]

_SHOWN = 3


Stage = Literal["new", "between", "old"]
"""What lies beside a destination: what a job makes there that has not flipped, or has ended; both datasets,
while nothing is at the destination; or the old dataset."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What lies beside a destination of a job which flips, or did."""

    job: JobId
    directory: str  # where it makes the new dataset; a key, without a slash at its end
    stage: Stage
    layout: LayoutName  # of the job's work


async def find_beside(engine: Engine, destination: str) -> list[Beside]:
    """All that lies beside a destination."""
    if engine.store.capabilities.rename == "copy" or not destination:
        return []
    prefix = flip.listing_prefix(destination)
    listed = [flip.job_of(destination, one) async for one in engine.store.list_directories(prefix)]
    jobs = sorted({job for job in listed if job is not None})
    return [await beside_of(engine, destination, job) for job in jobs]


async def beside_of(engine: Engine, destination: str, job: JobId) -> Beside:
    """What lies beside a destination of one job, be there anything or not."""
    directory = flip.new_directory(destination, job)
    for layout in get_args(LayoutName):
        for place in (directory, aside_of(directory)):
            with suppress(ObjectNotFound):
                await engine.store.head(f"{WorkLayout(place, job, 0, layout).job_directory}/{RECORD}")
                half = place != directory and await _is_dataset(engine, directory, job)
                return Beside(job, directory, "between" if half else "old", layout)
    return Beside(job, directory, "new", "__magic_job")


async def _is_dataset(engine: Engine, directory: str, job: JobId) -> bool:
    """Whether a job's manifest is in a directory."""
    try:
        await engine.store.head(chain.manifest_key(directory, job))
    except ObjectNotFound:
        return False
    return True


async def inner_job(engine: Engine, beside: Beside) -> JobObject | None:
    """What the job object says of the job that makes a dataset beside a destination; None if it has none."""
    for one in await find_unfinished_jobs(engine, beside.directory):
        if one.job_id == beside.job:
            if one.problem is not None:
                raise one.problem
            return one.job
    return None


async def is_made(engine: Engine, beside: Beside) -> bool:
    """Whether the new dataset is whole: it has no job object any more, and its job is open all the same."""
    return await _is_dataset(engine, beside.directory, beside.job)


async def clear_beside(
    engine: Engine, context: JobContext, conditions: Conditions, beside: Beside
) -> tuple[bool, int, list[str]]:
    """Bring what lies beside a destination to its end, where its job has no object at the destination.

    Returns whether the job is published, and beside it what ``clear_old`` does.
    """
    context = replace(context, new=beside.directory)
    if beside.stage == "new" and await forbid_exchange(engine, context):
        await discard(engine, beside.directory)
        await delete_empty(engine, aside_of(beside.directory))
        return False, 0, []
    await exchange(engine, context, conditions)
    return True, *await clear_old(engine, context, conditions)


async def discard(engine: Engine, new: str) -> int:
    """Abort all uploads below the directory of an inner job and delete it; how many uploads there were.

    Raises PermissionDenied or Unsupported if uploads may not be listed; the directory is deleted anyhow.
    """
    try:
        prefix = paths.prefix_of(new)
        steps = [Abort(one.key, one.upload_id) async for one in engine.store.list_uploads(prefix)]
        result = await engine.run(Batch("abort", steps), stop_on_failure=False)
        raise_first([failure.error for failure in result.failures])
        return result.done
    finally:
        await tree_of(engine.store).delete_tree(new)


async def clear_old(engine: Engine, context: JobContext, conditions: Conditions) -> tuple[int, list[str]]:
    """Delete what the flip has left of the old dataset; how many visible files it deleted, and warnings.

    Files that nobody knew of when the new dataset was decided stay, and their directory with them. So does
    all of it where the new dataset is not at the destination. A second call does the rest, or nothing.
    """
    store = engine.store
    found = await _old(engine, context)
    if found is None:
        return 0, []
    place, record = found
    if not await _is_dataset(engine, record.destination, context.job):
        warning = (
            f"what job {context.job} published is not at {context.url} any more, so the dataset that it had "
            f"replaced is kept in {place}; move it where it belongs, or remove that directory"
        )
        return 0, [warning]
    try:
        old = await facts.read_old(engine, *_moved(context, record, place))
    except ObjectNotFound:
        old = []  # they go last but one
    objects = [(_place(one.key, record, place), one.etag) for one in old]
    left = await remove_matching(store, conditions, objects, engine.concurrency)
    data = [one for one, _ in objects if paths.is_visible(one, place)]  # the others were taken along
    deleted = len(data) - sum(paths.is_visible(one, place) for one in left)
    listed = [info.key async for info in store.list(paths.prefix_of(place))]
    kept = [one for one in listed if not _goes(one, place)]
    kept += [f"{one.key} (open)" for one in await _open_uploads(engine, place) if not _goes(one.key, place)]
    if kept:
        shown = ", ".join(kept[:_SHOWN]) + (f" and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else "")
        warning = (
            f"others wrote to {record.destination} while it was published as a whole, and what they wrote is "
            f"kept in {place}: {shown}; move it where it belongs, and remove that directory"
        )
        return deleted, [warning]
    key = record_key(context, place)
    raise_first(await delete_keys(engine, [one for one in listed if one != key]))
    raise_first(await delete_keys(engine, [key]))
    await _delete_work(engine, place)
    await delete_empty(engine, place)
    return deleted, []


async def _open_uploads(engine: Engine, place: str) -> list[UploadInfo]:
    try:
        return [one async for one in engine.store.list_uploads(paths.prefix_of(place))]
    except (PermissionDenied, Unsupported):
        return []


async def _delete_work(engine: Engine, place: str) -> None:
    """Delete jobs' work and the chain, with what no listing shows, such as files that are being written."""
    tree = tree_of(engine.store)
    with suppress(ObjectNotFound):
        for entry in [one async for one in tree.entries(place)]:
            if _goes(f"{entry.path}/", place):
                await tree.delete_tree(entry.path)


async def _old(engine: Engine, context: JobContext) -> tuple[str, FlipRecord] | None:
    """Where the old dataset lies beside the destination, and the record in it; None if it is gone."""
    new = new_dataset(context)
    for place in (new, aside_of(new)):
        key = record_key(context, place)
        with suppress(ObjectNotFound):
            raw = await engine.store.get(key, size_max=FLIP_SIZE_LIMIT + 1)
            return place, FlipRecord.from_bytes(f"{engine.store.bucket}/{key}", raw, context.job)
    return None


def _goes(key: str, new: str) -> bool:
    """Whether a key of the old dataset goes although no list names it: chain, ``_SUCCESS``, jobs' work.

    And what marks a directory. Work further down is of a job that has its destination there.
    """
    if key.endswith("/") and not key.startswith(f"{new}/"):
        return True
    first, slash, rest = key.removeprefix(f"{new}/").partition("/")
    if first == MANIFESTS or (first.startswith(MAGIC) and paths.is_hidden(first)):
        return True
    return (first == SUCCESS and not slash) or (key.endswith("/") and not is_work(f"{first}/{rest}"))


def _moved(context: JobContext, record: FlipRecord, place: str) -> tuple[JobContext, tuple[Chunk, ...], str]:
    layout = replace(context.layout, destination=place)
    chunks = tuple(replace(one, key=_place(one.key, record, place)) for one in record.old)
    return replace(context, layout=layout), chunks, record.destination


def _place(key: str, record: FlipRecord, place: str) -> str:
    """Where a file of the old dataset lies after the flip."""
    return paths.join(place, paths.relative_to(key, record.destination))
