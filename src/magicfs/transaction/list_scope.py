"""Listing what lies where a job publishes, for the decision what it replaces."""

from __future__ import annotations

from collections.abc import Sequence

from magicfs.engine import Engine
from magicfs.errors import CommitFailed
from magicfs.protocol import paths
from magicfs.protocol.replacement import OldFile, Replacement
from magicfs.protocol.temporary import RENAMING
from magicfs.runtime.parallel import drained
from magicfs.transaction.context import JobContext

__all__ = ["partitions", "whole"]


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
