"""Removing what a job leaves: uploads of attempts that lost, and work objects.

An upload is the job's own if a document of the job records its id, if the last element of its key names the
job in the place where unique names do, by a random id, or if the key lies among the job's work objects.
Nothing else is ever aborted: other jobs may be writing beside us, and files rewritten under their own names
hold the ids of the jobs that wrote them before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from magicfs.engine import Engine
from magicfs.errors import FormatError, MagicError, ObjectNotFound, PermissionDenied, StoreError, Unsupported
from magicfs.formats.limits import PENDING_SIZE_LIMIT, PENDINGSET_SIZE_LIMIT
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.protocol import ids, paths
from magicfs.protocol.final_names import is_named_by
from magicfs.protocol.layout import FACTS
from magicfs.protocol.magic import PENDING, PENDING_SET
from magicfs.protocol.steps import Abort, Batch, Complete, Delete, Rename
from magicfs.protocol.temporary import RENAMING
from magicfs.runtime.parallel import drained
from magicfs.stores.conditions import is_probe, remove_matching
from magicfs.stores.register import body_at
from magicfs.stores.tree_port import Tree
from magicfs.stores.trees import tree_of
from magicfs.transaction import facts
from magicfs.transaction.attempt_output import (
    TaskOutput,
    delete_keys,
    problems_of,
    read_pending,
    read_some_ahead,
)
from magicfs.transaction.context import JobContext
from magicfs.transaction.outcome import JobEnd, JobOutcome
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobRecord, JobVersion, location_keys
from magicfs.transaction.task_manifests import TaskManifests


async def delete_sources(engine: Engine, steps: Iterable[object]) -> list[MagicError]:
    """Delete what is still to be renamed: afterwards no rename that is on its way can make a file visible.

    A second call does nothing. Returns what could not be deleted.
    """
    sources = (step.source for step in steps if isinstance(step, Rename))
    size = engine.store.capabilities.bulk_delete_max

    def deletes() -> Iterator[Delete]:
        while keys := tuple(islice(sources, size)):
            yield Delete(keys)

    return problems_of(await engine.run(Batch("delete", deletes()), stop_on_failure=False))


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
            f"{min(stray)!a} is neither a file of the job nor a directory above one; nothing was deleted; "
            "find out who wrote it, then remove the job by hand",
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


async def end_work(engine: Engine, context: JobContext, done: JobOutcome) -> list[MagicError]:
    """Remove the work files of a job that ends; returns what keeps it from its end."""
    published = done.end is JobEnd.PUBLISHED
    if published and (trouble := await keep_manifests(engine, context)) is not None:
        done.warnings.append(trouble)
    problems = await remove_work(engine, context)
    if not published or context.renames.must_remove_work:
        return problems
    done.warnings += [f"the work of the job could not be removed: {one}" for one in problems]
    return []


async def remove_work(engine: Engine, context: JobContext) -> list[MagicError]:
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
        return "the manifests could not be kept: the directory is in another store; use one in this store"
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


async def _delete(tree: Tree, directory: str) -> None:
    with suppress(StoreError):  # it is tried again with all that is there
        await tree.delete_tree(directory)


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


async def delete_records(engine: Engine, context: JobContext, output: JobOutput) -> list[MagicError]:
    """Delete records and markers of uploads that are completed or aborted; returns what could not be done.

    One that has been written anew meanwhile describes another upload, and stays.
    """
    if context.options.places.own_path is None:
        return []
    bucket, ended, problems = engine.store.bucket, list[str](), list[MagicError]()

    async def look(known: Pending) -> None:
        key = (known.filename or "").removeprefix(f"{bucket}/")
        if not key.endswith(PENDING) or not _is_of(
            key.removesuffix(PENDING), context.options.places.own_path or ""
        ):
            return
        try:
            raw = await engine.store.get(key, size_max=PENDING_SIZE_LIMIT + 1)
            if Pending.from_bytes(f"{bucket}/{key}", raw).upload_id == known.upload_id:
                ended.extend((key, key.removesuffix(PENDING)))
        except (ObjectNotFound, FormatError):
            pass
        except StoreError as error:
            problems.append(error)

    await drained(output.pendings(), look, engine.concurrency)
    return [*problems, *await delete_keys(engine, sorted(ended))]


def _is_of(key: str, own_path: str) -> bool:
    return key == own_path or paths.is_under(key, own_path)


_ROUNDS = 3


_Upload = tuple[str, str]
"""Its key and its id."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a job leaves, as of before its last steps: what the first round of its sweep works on."""

    keys: list[str]  # of work objects
    uploads: dict[str, tuple[int, set[_Upload]]]  # by where they were listed: how many, and the job's own


async def look(engine: Engine, context: JobContext) -> Looked | None:
    """Look at what a sweep will remove, beside the last steps of a job; None if that cannot be seen.

    Work objects are listed first, as in a sweep: an upload whose record is among them is pending before.
    """
    try:
        keys, _ = await _work(engine, context)
        prefixes = [paths.prefix_of(destination) for destination in context.destinations]
        return Looked(keys, {prefix: await _listed(engine, context, prefix) for prefix in prefixes})
    except MagicError:
        return None


@dataclass(slots=True)
class Swept:
    """What a sweep did."""

    aborted: int = 0  # uploads that were discarded
    unlisted: MagicError | None = None
    """Why uploads that nothing records could not be looked for; None if they were."""
    problems: list[MagicError] = field(default_factory=list)
    """What could not be done; the sweep can be repeated."""
    ended: bool = False  # whether the job object was gone already
    check: Callable[[], Awaitable[None]] | None = None
    published: JobOutput | None = None  # whose uploads are completed
    settled: set[str] = field(default_factory=set)  # ids of uploads that are completed or aborted
    looked: Looked | None = None  # what the first round works on
    reads_documents: bool = False  # whether the job's own files are read for the ids of uploads

    async def may_go_on(self) -> None:
        """Awaited before anything goes: raises if it is not the job's any more."""
        if self.check is not None:
            await self.check()


async def sweep(
    engine: Engine,
    context: JobContext,
    *,
    settled: Collection[str] = (),
    published: JobOutput | None = None,
    read_documents: bool = False,
    check: Callable[[], Awaitable[None]] | None = None,
    looked: Looked | None = None,
) -> Swept:
    """Abort every upload of the job that is still pending, then delete its work objects but the job object.

    Afterwards the work is listed once more: a task that was still alive may have left something meanwhile.
    Work objects stay as long as an upload could not be aborted, so that a repetition finds it. Uploads in
    ``settled``, and those of the files in ``published``, are completed or aborted already. With
    ``read_documents`` the job's own files are read for upload ids even where final names carry the job's id:
    some servers list only one page of uploads. ``check`` is awaited before anything goes, and stops the sweep
    by raising: who stood still may find a job of this id that was set up once the old one had ended. With
    ``looked`` the first round removes what was seen then. Whether the job has ended is always looked at now.
    """
    swept = Swept(check=check, published=published, settled=set(settled), looked=looked)
    swept.reads_documents = read_documents
    apart, was_probe = engine.store.capabilities.uploads.apart, False
    for number in range(_ROUNDS):
        if swept.looked is not None:
            keys = swept.looked.keys
        else:
            keys, ended = await _work(engine, context)
            swept.ended |= ended
        if number and not keys and (apart or not was_probe):
            break
        # Where uploads are not apart, that of a probe shows only when the probe's object is gone.
        was_probe = any(map(is_probe, keys))
        await _abort_all(engine, context, keys, swept)
        if swept.problems:
            if swept.looked is not None:
                _, swept.ended = await _work(engine, context)
            break
        await swept.may_go_on()
        swept.problems += await delete_keys(engine, [*keys, *_marker(context, keys)])
        swept.looked = None
    if not swept.problems:
        await swept.may_go_on()
        swept.problems += await delete_keys(engine, location_keys(context))
    return swept


def _marker(context: JobContext, keys: Sequence[str]) -> list[str]:
    """The directory marker that S3A's ``mkdirs`` has made, in a job in which Hadoop has worked."""
    if context.layout.name != "__magic_job" or not any(map(context.layout.is_hadoops, keys)):
        return []
    return [paths.prefix_of(context.layout.magic_directory)]


async def _work(engine: Engine, context: JobContext) -> tuple[list[str], bool]:
    """Keys of the job's work objects, and whether the job object is not among them."""
    prefix = paths.prefix_of(context.layout.job_directory)
    listed = [info.key async for info in engine.store.list(prefix)]
    keys = [key for key in listed if not context.layout.is_job_object(key)]
    return keys, len(keys) == len(listed)


async def _abort_all(engine: Engine, context: JobContext, keys: list[str], swept: Swept) -> None:
    """Abort the uploads that a listing shows, and those that the job's own files record."""
    try:
        if swept.unlisted is None:
            await _abort_listed(engine, context, swept)
    except (PermissionDenied, Unsupported) as error:
        # Not everybody may list uploads (HADOOP-17547); what is on record can be aborted all the same.
        swept.unlisted = error
    # Tasks of Hadoop's in a job of ours: the names of their files do not tell whose they are.
    hadoops = [key for key in keys if context.layout.is_hadoops(key)]
    read_all = swept.reads_documents or swept.unlisted or not context.uploads_found_by_name
    if records := keys if read_all else hadoops:
        await _abort(engine, await _recorded(engine, context, records), swept)


async def _abort_listed(engine: Engine, context: JobContext, swept: Swept) -> None:
    for destination in context.destinations:
        prefix = paths.prefix_of(destination)
        seen = None if swept.looked is None else swept.looked.uploads[prefix]
        while True:
            listed, ours = seen or await _listed(engine, context, prefix)
            aborted, seen = await _abort(engine, ours, swept), None
            # One page may be all that a server lists, whatever it holds.
            if not aborted or listed < engine.store.capabilities.list_page_max:
                break


async def _listed(engine: Engine, context: JobContext, prefix: str) -> tuple[int, set[_Upload]]:
    """How many uploads a listing shows, and which of them are the job's own."""
    listed, ours = 0, set()
    async for upload in engine.store.list_uploads(prefix):
        listed += 1
        if _is_own(context, upload.key):
            ours.add((upload.key, upload.upload_id))
    return listed, ours


def _is_own(context: JobContext, key: str) -> bool:
    """Whether an upload's key tells whose it is: by the job's random id, or by lying among the job's work."""
    if paths.is_under(key, context.layout.job_directory):
        return True
    return ids.is_random(context.job) and is_named_by(key.rpartition("/")[2], context.job)


async def _abort(engine: Engine, uploads: set[_Upload], swept: Swept) -> int:
    settled = swept.settled
    if swept.published is not None and (found := {upload_id for _, upload_id in uploads} - settled):
        uploads_done = (step.upload_id for step in swept.published.steps() if isinstance(step, Complete))
        settled.update(found.intersection(uploads_done))
    steps = [Abort(key, upload_id) for key, upload_id in sorted(uploads) if upload_id not in settled]
    if steps:
        await swept.may_go_on()
    result = await engine.run(Batch("sweep", steps), stop_on_failure=False)
    settled.update(step.upload_id for step in steps)
    swept.aborted += result.done
    swept.problems += problems_of(result)
    return result.done


async def _recorded(engine: Engine, context: JobContext, keys: list[str]) -> set[_Upload]:
    """Key and id of every upload that the job's own files name; a malformed one names none.

    A job that publishes a user's own path has no uploads of its own.
    """
    if context.options.places.own_path is not None:
        return set()
    bucket, output = engine.store.bucket, TaskOutput()
    await read_pending(engine, keys, bucket, ("",), output)
    found = list(output.pendings)

    async def get(key: str, size_max: int) -> bytes:
        return await body_at(engine.store, key, size_max) or b""

    facts = f"{context.layout.job_directory}/{FACTS}/"
    sets = [key for key in keys if key.endswith(PENDING_SET) or key.startswith(facts)]
    async with aclosing(read_some_ahead(engine, sets, get, PENDINGSET_SIZE_LIMIT)) as read:
        async for key, raw in read:
            with suppress(FormatError):
                stored = PendingSet.from_bytes(f"{bucket}/{key}", raw)
                found += stored.commits if stored.job_id in {"", context.job} else ()
    return {(one.destination_key, one.upload_id) for one in found if _may_be_of(context, bucket, one)}


def _may_be_of(context: JobContext, bucket: str, upload: Pending) -> bool:
    """Whether what a record names is an upload in the places of the job, and of no other job."""
    return (
        upload.bucket == bucket
        and upload.is_upload
        and upload.job_id in {"", context.job}
        and paths.which_holds(upload.destination_key, context.destinations) is not None
    )


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """What a sweep of a job would remove."""

    context: JobContext
    uploads: set[_Upload]  # keys and ids of those that are pending at the job's destination
    recorded: set[_Upload]  # of those that the job's files name, wherever, and perhaps gone
    keys: list[str]  # of work objects

    async def carry_out(self, engine: Engine) -> list[MagicError]:
        """Remove exactly this, and where the job was located; return what went wrong. May be repeated."""
        swept = Swept()
        await _abort(engine, self.uploads | self.recorded, swept)
        if not swept.problems:
            swept.problems += await delete_keys(engine, self.keys)
        if not swept.problems:
            swept.problems += await delete_keys(engine, location_keys(self.context))
        return swept.problems


async def plan_sweep(engine: Engine, context: JobContext) -> SweepPlan:
    """What a sweep would abort and delete now. Nothing is changed."""
    # With the directory marker that S3A makes first, and deletes last: it may be all that there is.
    layout = context.layout
    whole = layout.magic_directory if layout.name == "__magic_job" else layout.job_directory
    listed = [info.key async for info in engine.store.list(paths.prefix_of(whole))]
    keys = [key for key in listed if not layout.is_job_object(key)]
    recorded = await _recorded(engine, context, keys)
    uploads = set()
    for destination in context.destinations:
        async for upload in engine.store.list_uploads(paths.prefix_of(destination)):
            if _is_own(context, upload.key) or (upload.key, upload.upload_id) in recorded:
                uploads.add((upload.key, upload.upload_id))
    return SweepPlan(context, uploads, recorded, keys)
