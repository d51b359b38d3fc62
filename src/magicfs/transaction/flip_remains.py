"""What a flip leaves beside the destination: the old dataset, or the work of a job that has ended."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, get_args

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound
from magicfs.formats.flip_record import FLIP_SIZE_LIMIT, FlipRecord
from magicfs.formats.job_object import Chunk
from magicfs.parallel import raise_first
from magicfs.protocol import flip, paths
from magicfs.protocol.conflict import MANIFESTS, is_work
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.steps import Abort, Batch
from magicfs.stores.conditions import Conditions, remove_matching
from magicfs.stores.exchange_by_renames import aside_of
from magicfs.stores.object_tree import tree_of
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

__all__ = ["Beside", "Stage", "beside_of", "clear_beside", "clear_old", "discard", "find_beside"]

_SHOWN = 3


Stage = Literal["new", "old"]
"""What a directory beside a destination holds: what a job makes there that has not flipped, or has ended; or
the old dataset."""


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
                return Beside(job, directory, "old", layout)
    return Beside(job, directory, "new", "__magic_job")


async def clear_beside(
    engine: Engine, context: JobContext, conditions: Conditions, beside: Beside
) -> tuple[int, list[str]]:
    """Bring what lies beside a destination to its end, where its job has no object at the destination.

    Returns and raises as ``clear_old``.
    """
    context = replace(context, new=beside.directory)
    if beside.stage == "new" and await forbid_exchange(engine, context):
        await discard(engine, beside.directory)
        await delete_empty(engine, aside_of(beside.directory))
        return 0, []
    await exchange(engine, context, conditions)
    return await clear_old(engine, context, conditions)


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

    Files that nobody knew of when the new dataset was decided stay, and their directory with them. A second
    call does the rest, or nothing.
    """
    store = engine.store
    found = await _old(engine, context)
    if found is None:
        return 0, []
    place, record = found
    try:
        old = await facts.read_old(engine, *_moved(context, record, place))
    except ObjectNotFound:
        old = []  # they go last but one
    objects = [(_place(one.key, record, place), one.etag) for one in old]
    left = await remove_matching(store, conditions, objects, engine.concurrency)
    data = [one for one, _ in objects if paths.is_visible(one, place)]  # the others were taken along
    deleted = len(data) - sum(paths.is_visible(one, place) for one in left)
    listed = [info.key async for info in store.list(paths.prefix_of(place))]
    if kept := [one for one in listed if not _goes(one, place)]:
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


async def _delete_work(engine: Engine, place: str) -> None:
    """Delete jobs' work and the chain, with what no listing shows, such as files that are being written."""
    tree = tree_of(engine.store)
    with suppress(ObjectNotFound):
        for entry in [one async for one in tree.entries(place)]:
            name = paths.relative_to(entry.path, place)
            if is_work(name) or name == MANIFESTS:
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
    """Whether a file of the old dataset goes although no list names it: chain, ``_SUCCESS``, jobs' work."""
    relative = paths.relative_to(key, new)
    return relative == "_SUCCESS" or is_work(relative) or relative.partition("/")[0] == MANIFESTS


def _moved(context: JobContext, record: FlipRecord, place: str) -> tuple[JobContext, tuple[Chunk, ...], str]:
    layout = replace(context.layout, destination=place)
    chunks = tuple(replace(one, key=_place(one.key, record, place)) for one in record.old)
    return replace(context, layout=layout), chunks, record.destination


def _place(key: str, record: FlipRecord, place: str) -> str:
    """Where a file of the old dataset lies after the flip."""
    return paths.join(place, paths.relative_to(key, record.destination))
