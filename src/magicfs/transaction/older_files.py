"""Data from before the first job: what a listing shows, and neither a manifest nor a job at work knows."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from magicfs.engine import Engine
from magicfs.errors import CommitFailed, FormatError, ObjectNotFound, UsageError
from magicfs.formats.job_object import JobObject
from magicfs.manifests.chain import read_pointer
from magicfs.protocol import conflict, paths
from magicfs.protocol.job_state import SHOWS_NOTHING
from magicfs.stores.conditions import Conditions
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.transaction.task_manifests import TaskManifests

__all__ = ["are_there"]


async def are_there(
    engine: Engine, context: JobContext, conditions: Conditions, directory: str, own: Iterable[str] = ()
) -> bool:
    """Whether files lie in a directory that no job has brought, when no pointer was there just now. ``own``
    are keys of files that the asking job has made visible already.

    Listed first: the job of a file that is seen is at work afterwards, or has been published, or was undone.
    """
    store = engine.store
    listed = store.list(paths.prefix_of(directory))
    data = {info.key async for info in listed if conflict.is_data(info.key, directory)}
    data.difference_update(own)
    if not data:
        return False
    for other in await find_unfinished_jobs(engine, directory):
        if other.job is None:
            continue
        # Only compared with the listing, so what the job names need not be confirmed.
        theirs = replace(context.of(other.job), layout=other.layout)
        theirs = theirs.with_extra(other.job.options.places.extra)
        if other.job.state in SHOWS_NOTHING:
            data -= await _published_by_tasks(engine, theirs)
        else:
            data -= await _keys_of(engine, theirs, other.job)
    # Once a job is published, its manifest tells whether files were there before it.
    return bool(data) and await read_pointer(store, directory, conditions) is None


async def _keys_of(engine: Engine, theirs: JobContext, job: JobObject) -> set[str]:
    try:
        output = await facts.read_output(engine, theirs, job)
    except (ObjectNotFound, FormatError, CommitFailed):
        return set()  # it has ended since, or somebody altered its facts: then nothing is known of its files
    return set(output.final_keys())


async def _published_by_tasks(engine: Engine, theirs: JobContext) -> set[str]:
    """What tasks have made visible whose job has not begun to commit."""
    sets, found = TaskManifests(engine, theirs), set[str]()
    with suppress(
        CommitFailed, FormatError, UsageError
    ):  # somebody altered them: then nothing is known of their files
        for one in await sets.claims():
            claim = await sets.claimed(one.task)
            found |= (
                set() if claim is None else {sets.places.destination_key(f.destination) for f in claim.files}
            )
    return found
