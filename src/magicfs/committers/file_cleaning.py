"""Removing the work of a job of the file committer, and nothing else."""

from __future__ import annotations

from contextlib import suppress

from magicfs.engine import Engine, drained
from magicfs.errors import ObjectNotFound, PermissionDenied, StoreError, Unavailable
from magicfs.protocol.temporary import TemporaryLayout
from magicfs.stores.tree import Entry, Tree

__all__ = ["clean", "prune"]


async def clean(tree: Tree, engine: Engine, layout: TemporaryLayout, job_key: str, last: str) -> None:
    """Remove a job's directory. A second call does the rest.

    The job's file goes first, so that attempts that nobody waits for do not commit any more; the marker that
    tells how the job has ended goes last.

    Args:
        tree: The tree of the bucket.
        engine: Bound to it.
        layout: Where the work lies.
        job_key: The job's file.
        last: The marker.

    Raises:
        StoreError: Something could not be removed.
    """

    async def remove(entry: Entry) -> bool:
        await tree.delete_tree(entry.path)
        return True

    await tree.delete(job_key)
    with suppress(ObjectNotFound):
        found = [one async for one in tree.entries(layout.job_directory) if one.path != last]
        await drained(found, remove, engine.concurrency)
    await tree.delete(last)
    # What has been written meanwhile.
    await tree.delete_tree(layout.job_directory)
    await prune(tree, layout)


async def prune(tree: Tree, layout: TemporaryLayout) -> None:
    """Remove the directories above a job's work that are empty; those of other jobs stay.

    Raises:
        StoreError: The store refused, or failed.
    """
    above = [layout.tasks_directory, layout.attempt_directory(), layout.job_directory, layout.temporary]
    for directory in above:
        try:
            await tree.delete(directory)
        except (PermissionDenied, Unavailable):
            raise
        except StoreError:
            return  # it is not empty
