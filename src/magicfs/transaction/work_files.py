"""Files that a job's tasks leave below ``_temporary`` until the job renames them: discarding them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice

from magicfs.engine import Engine
from magicfs.errors import FormatError, MagicError, ObjectNotFound, StoreError
from magicfs.protocol import paths
from magicfs.protocol.steps import Batch, Delete, Rename
from magicfs.protocol.temporary import RENAMING
from magicfs.runtime.parallel import drained
from magicfs.stores.conditions import remove_matching
from magicfs.stores.tree_port import Tree
from magicfs.stores.trees.objects import tree_of
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.outcome import JobEnd, JobOutcome
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobRecord, JobVersion
from magicfs.transaction.task_manifests import TaskManifests

__all__ = [
    "delete_obstacles",
    "delete_recorded_obstacles",
    "delete_sources",
    "end",
    "keep_manifests",
    "remove",
    "tell_of_visible",
]


async def delete_sources(engine: Engine, steps: Iterable[object]) -> list[MagicError]:
    """Delete what is still to be renamed: afterwards no rename that is on its way can make a file visible.

    A second call does nothing. Returns what could not be deleted.
    """
    sources = (step.source for step in steps if isinstance(step, Rename))
    size = engine.store.capabilities.bulk_delete_max

    def deletes() -> Iterator[Delete]:
        while keys := tuple(islice(sources, size)):
            yield Delete(keys)

    result = await engine.run(Batch("delete", deletes()), stop_on_failure=False)
    return [one.error for one in result.failures if isinstance(one.error, MagicError)]


async def delete_obstacles(engine: Engine, keys: Collection[str]) -> None:
    """Delete old files in the places of directories. A second call does nothing: directories stay."""
    tree = tree_of(engine.store)
    for key in sorted(keys):
        entry = await tree.look(key)
        if entry is not None and entry.kind == "file":
            await tree.delete(key)


async def delete_recorded_obstacles(
    engine: Engine, context: JobContext, record: JobRecord, version: JobVersion, output: JobOutput
) -> None:
    """Delete the old files that lie where a job needs directories, each only as it was when the job looked.

    A second call does nothing. Raises FormatError if the job names a key that is above none of its files.
    """
    obstacles = set(version.job.equal_keys).difference(output.final_keys())
    if not obstacles:
        return
    directories = {parent for key in output.final_keys() for parent in paths.parents(key)}
    if stray := obstacles - directories:
        raise FormatError(
            f"{engine.store.bucket}/{version.entry.key}",
            "equalKeys[]",
            f"{min(stray)!a} is neither one of the job's files nor above one; nothing was deleted; find "
            "out who wrote it, then remove the job by hand",
        )
    old = await facts.read_deletions(engine, context, version.job)
    there = [(one.key, one.etag) for one in old if one.key in obstacles]
    check = partial(record.confirm, version)
    await remove_matching(engine.store, record.conditions, there, engine.concurrency, check=check)


async def tell_of_visible(engine: Engine, context: JobContext) -> None:
    """Warn of what is visible of a job that is aborted, for tasks have published it."""
    sets, count = TaskManifests(engine, context), 0
    with suppress(MagicError):
        for one in await sets.claims():
            claim = await sets.claimed(one.task)
            count += 0 if claim is None else len(claim.files)
    if count:
        logging.getLogger("magicfs").warning(
            "%s: job %s is aborted, and up to %d files of its tasks stay visible; remove them by hand",
            context.url,
            context.job,
            count,
        )


async def end(engine: Engine, context: JobContext, done: JobOutcome) -> list[MagicError]:
    """Remove the work files of a job that ends; returns what keeps it from its end."""
    published = done.end is JobEnd.PUBLISHED
    if published and (trouble := await keep_manifests(engine, context)) is not None:
        done.warnings.append(trouble)
    problems = await remove(engine, context)
    if not published or context.renames.must_remove_work:
        return problems
    done.warnings += [f"the work of the job could not be removed: {one}" for one in problems]
    return []


async def remove(engine: Engine, context: JobContext) -> list[MagicError]:
    """Delete the directory of a job whose tasks write work files, of all its attempts; then ``_temporary``,
    if nothing is left in it. A second call does nothing. Returns what could not be done.
    """
    if context.options.committer not in RENAMING or not context.renames.removes_work:
        return []
    tree, directory = tree_of(engine.store), context.temporary.job_directory
    try:
        if await tree.is_atomic():
            # Beside each other; one that cannot be deleted does not keep the others.
            await drained(_attempts(tree, directory), lambda one: _delete(tree, one), engine.concurrency)
        was_there = await tree.delete_tree(directory)
        if await tree.is_atomic() and (was_there or await _is_directory(tree, context.temporary.temporary)):
            with suppress(StoreError):  # other jobs are at work here
                await tree.delete(context.temporary.temporary)
    except StoreError as error:
        return [error]
    return []


async def _is_directory(tree: Tree, path: str) -> bool:
    entry = await tree.look(path)
    return entry is not None and entry.kind == "directory"


async def keep_manifests(engine: Engine, context: JobContext) -> str | None:
    """Move the manifests of a published job where its settings want them, in place of an earlier job's of its
    id. A second call does nothing. Returns what went wrong; then they are where they were.
    """
    directory = context.renames.keeps_manifests_at
    if context.options.committer not in RENAMING or directory is None:
        return None
    if not directory:
        return "the manifests could not be kept: the directory lies in another store; name one of this one"
    tree, manifests = tree_of(engine.store), context.temporary.manifests_directory
    target = paths.join(directory, context.job)
    try:
        if await tree.look(manifests) is None:
            return None
        await tree.make_directory(directory)
        await tree.delete_tree(target)
        await tree.rename(manifests, target)
    except StoreError as error:
        return f"the manifests could not be kept: {error}"
    return None


async def _delete(tree: Tree, directory: str) -> bool:
    with suppress(StoreError):  # it is tried again with all that is there
        await tree.delete_tree(directory)
    return True


async def _attempts(tree: Tree, directory: str) -> AsyncIterator[str]:
    """The directories of task attempts, of all attempts of the job."""
    try:
        numbers = [entry.path async for entry in tree.entries(directory)]
    except ObjectNotFound:
        return
    for number in numbers:
        try:
            async for entry in tree.entries(f"{number}/tasks"):
                if entry.kind == "directory":
                    yield entry.path
        except ObjectNotFound:
            await asyncio.sleep(0)  # nobody of this attempt wrote anything
