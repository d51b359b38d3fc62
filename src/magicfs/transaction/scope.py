"""Listing what lies where a job publishes, for the decision what it replaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from magicfs.engine import Engine
from magicfs.errors import CommitFailed, FormatError, ObjectNotFound, OutputExists, UsageError
from magicfs.formats.job_object import JobObject
from magicfs.manifests.chain import read_pointer
from magicfs.protocol import conflict, paths
from magicfs.protocol.job_state import SHOWS_NOTHING
from magicfs.protocol.replacement import OldFile, Replacement
from magicfs.protocol.temporary import RENAMING
from magicfs.runtime.parallel import drained
from magicfs.stores.conditions import Conditions
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.transaction.task_manifests import TaskManifests

__all__ = ["older_files_are_there", "partitions", "refuse_any", "refuse_data", "refuse_equal", "whole"]


def _output_exists(context: JobContext, key: str) -> OutputExists:
    """The error for ``conflict="fail"`` where a key is data already."""
    if context.is_partition_scoped:
        return OutputExists(
            f"a partition of {context.url} that job {context.job} writes to holds data already, such as "
            f"{key}, and conflict='fail' of committer={context.options.committer!r} publishes only into "
            "partitions "
            "without any, and files at the root only where there is none at all; nothing was changed; "
            "choose another destination, or conflict='append' or 'replace_partitions'"
        )
    return OutputExists(
        f"{context.url} holds data already, such as {key}, and conflict='fail' publishes only where there is "
        "none; nothing was changed; choose another destination, or conflict='append' or 'replace'"
    )


async def refuse_data(engine: Engine, context: JobContext, partitions: tuple[str, ...] | None) -> None:
    """Raise OutputExists if data is there in any of the partitions; None looks at all of the destination."""
    destination = context.layout.destination

    async def look(partition: str) -> bool:
        async for info in engine.store.list(paths.prefix_of(paths.join(destination, partition))):
            if conflict.is_data(info.key, destination):
                raise _output_exists(context, info.key)
        return True

    await drained([""] if partitions is None else partitions, look, engine.concurrency)


def refuse_any(context: JobContext, old: Iterable[OldFile]) -> None:
    """Raise OutputExists if some listed objects are data."""
    destination = context.layout.destination
    there = next((one.key for one in old if conflict.is_data(one.key, destination)), None)
    if there is not None:
        raise _output_exists(context, there)


def refuse_equal(context: JobContext, equal_keys: Sequence[str]) -> None:
    """Raise OutputExists if names of an appending job are taken."""
    if equal_keys and not context.renames.overwrites:
        raise OutputExists(
            f"{len(equal_keys)} files of job {context.job} have names that are taken, such as "
            f"{equal_keys[0]}, and conflict='append' replaces nothing; nothing was changed; use "
            "unique_names=True, other names, or conflict='replace'"
        )


async def older_files_are_there(
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


async def whole(engine: Engine, context: JobContext, found: Replacement) -> None:
    """List the destination, until nobody needs more. Work files of the job itself are left out.

    Raises CommitFailed if a directory is in the place of a file that the job renames; nothing was changed.
    """
    directory, work = context.layout.destination, None
    if context.options.committer in RENAMING:
        work = paths.prefix_of(context.temporary.job_directory)
    async for info in engine.store.list(paths.prefix_of(directory)):
        if work is not None:
            if info.key.startswith(work):
                continue
            _refuse_directory(info.key, found)
        if not found.add(OldFile(info.key, info.etag, info.size, info.modified)):
            return


def _refuse_directory(key: str, found: Replacement) -> None:
    place = next((one for one in paths.parents(key) if one in found.ours), None) if found.ours else None
    if place is not None:
        raise CommitFailed(
            f"{place} is a directory that was there before, and the job has a file of that name; nothing was "
            "published; move it away and commit again, or use other names",
            failed=[place],
        )


async def partitions(engine: Engine, destination: str, chosen: Sequence[str], found: Replacement) -> None:
    """List partitions beside each other, and take what they hold in by their order."""
    listed: dict[str, list[OldFile]] = {}

    async def look(partition: str) -> bool:
        objects = engine.store.list(paths.prefix_of(paths.join(destination, partition)))
        listed[partition] = [OldFile(one.key, one.etag, one.size, one.modified) async for one in objects]
        return True

    await drained(chosen, look, engine.concurrency)
    for partition in chosen:
        for one in listed[partition]:
            found.add(one)
