"""The way back: whether a job can be taken back, and taking back what it had made visible.

A file of an equal name is replaced by completing its upload in its place, which cannot be undone. So a job
says first that it can only go forward, and looks before that whether it can. If uploads go in spite of that,
before any file was replaced, the job is taken back.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from magicfs.engine import BatchResult, Engine, Failure
from magicfs.errors import (
    CommitFailed,
    MagicError,
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
    UploadNotFound,
)
from magicfs.filesystem.tracking import shown_of, write_id_of
from magicfs.formats.job_object import JobObject, OldSuccess
from magicfs.formats.pending import Pending
from magicfs.protocol import job_state
from magicfs.protocol.identity import Purpose, may_delete
from magicfs.protocol.readback import Outcome, is_renamed
from magicfs.protocol.steps import Abort, Batch
from magicfs.runtime.parallel import drained, gathered, raise_first
from magicfs.stores.conditions import Conditions, remove_matching
from magicfs.stores.register import found_at
from magicfs.stores.trees import tree_of
from magicfs.transaction import facts, sweep
from magicfs.transaction import output as job_output
from magicfs.transaction.attempt_output import problems_of
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.prepare import listed
from magicfs.transaction.visible import comes_last


async def looked_at(
    engine: Engine, context: JobContext, output: JobOutput, equal: Collection[str]
) -> BatchResult:
    """A failure if an upload that is to replace a file is gone. One listing, if uploads may be listed."""
    gone = await _first_gone(engine, context, _replacing(output, equal))
    if gone is None:
        return BatchResult()
    problem = "it is missing, and the file that it should replace is unchanged"
    error = UploadNotFound("complete_upload", f"{engine.store.bucket}/{gone.destination_key}", problem)
    step = next(one for one in output.steps() if one.key == gone.destination_key)
    return BatchResult(failures=[Failure(step, Outcome.FAILED, error)])


async def no_way_back(
    engine: Engine, context: JobContext, job: JobObject, output: JobOutput, *, dry_run: bool = False
) -> str | None:
    """Why a job can only go forward; None if it can be taken back.

    It can be, too, if it was to go forward, cannot, and has replaced no file. Then its uploads are aborted
    first, unless ``dry_run``, so that none of them can replace a file any more.
    """
    reason = job_state.no_way_back(
        irreversible=job.irreversible, write_ids=not output.without_write_id, equal_keys=bool(job.equal_keys)
    )
    if reason is None or not job.irreversible:
        return reason
    return None if await _has_replaced_none(engine, context, job, output, dry_run=dry_run) else reason


async def _has_replaced_none(
    engine: Engine, context: JobContext, job: JobObject, output: JobOutput, *, dry_run: bool
) -> bool:
    if output.bundles or output.renames or output.without_write_id:
        return False
    uploads = _replacing(output, job.equal_keys)
    if await _first_gone(engine, context, uploads) is None or any(await _are_visible(engine, uploads)):
        return False
    if dry_run:
        return True
    steps = (Abort(one.destination_key, one.upload_id) for one in uploads)
    result = await engine.run(Batch("abort", steps), stop_on_failure=False)
    raise_first([failure.error for failure in result.failures])
    return not any(await _are_visible(engine, uploads))


def _replacing(output: JobOutput, equal: Collection[str]) -> list[Pending]:
    names = frozenset(equal)
    return [one for one in output.pendings() if one.is_upload and comes_last(one.destination_key, names)]


async def _first_gone(engine: Engine, context: JobContext, uploads: list[Pending]) -> Pending | None:
    store = engine.store
    # Where uploads lie at their keys, none is listed of a key that holds an object.
    if not uploads or not store.capabilities.uploads.apart:
        return None
    try:
        there, is_whole = await listed(engine, context)
        missing = [one for one in uploads if write_id_of(one) and one.upload_id not in there]
        if not missing or not is_whole:
            return None
        # Those that are in place have ended as they should.
        seen = await _are_visible(engine, missing)
        first = next((one for one, is_there in zip(missing, seen, strict=True) if not is_there), None)
        if first is None:
            return None
        # Some servers list uploads by whole keys alone.
        async for upload in store.list_uploads(first.destination_key):
            if upload.upload_id == first.upload_id:
                return None
    except PermissionDenied:
        return None
    return first


async def _are_visible(engine: Engine, uploads: list[Pending]) -> list[bool]:
    async def look(one: Pending) -> bool:
        info = await found_at(engine.store, one.destination_key)
        return info is not None and shown_of(info, one) == write_id_of(one)

    return await gathered(uploads, look, engine.concurrency)


_LOOKS = 3


async def revert_files(
    engine: Engine, context: JobContext, conditions: Conditions, job: JobObject, output: JobOutput
) -> list[MagicError]:
    """Abort every upload of a job that is ``reverting``, remove its files, put the old ``_SUCCESS`` back.

    Uploads, and files that are still to be renamed, go first: afterwards no request that is still on its way
    can make a file visible. A second call does the same again. Returns what could not be done.
    """
    old_success = await facts.read_success(engine, context, job)
    aborts = Batch("abort", job_output.aborts(output))
    problems = problems_of(await engine.run(aborts, stop_on_failure=False))
    if output.renames:
        problems += await sweep.delete_sources(engine, output.steps())
    problems += await remove_files(engine, conditions, output)
    if job.old_success is not None and old_success is not None and not problems:
        try:
            await _restore_success(engine, context, conditions, job.old_success, old_success)
        except StoreError as error:
            problems.append(error)
    return problems


async def _restore_success(
    engine: Engine, context: JobContext, conditions: Conditions, old: OldSuccess, raw: bytes
) -> None:
    """Put the old ``_SUCCESS`` back, one newline longer: with another ETag than the one that was there.

    A slow driver's request to delete the old one may still be on its way, and names the old ETag.
    """
    store, key, fenced = engine.store, context.layout.success_key, raw + b"\n"
    rights = facts.rights_of(engine, old.key)
    for _ in range(_LOOKS):
        there = await found_at(store, key)
        if there is not None and there.etag != old.etag:
            return  # put back by somebody else, or a later job's
        with suppress(ObjectExists, PreconditionFailed):
            mode = conditions.create if there is None else conditions.update(old.etag)
            await store.put(key, fenced, metadata=rights, mode=mode)
            return
    raise Unavailable("put", f"{store.bucket}/{key}", "other processes changed it each time")


async def remove_files(engine: Engine, conditions: Conditions, output: JobOutput) -> list[MagicError]:
    """Delete those of a job's files that are visible and bear the write id of their upload.

    A complete that was on its way when its upload was aborted may still win on some stores, so it looks until
    a whole round finds nothing. Returns what could not be done.
    """
    for _ in range(_LOOKS):
        ours, problems = await _visible(engine, output)
        if problems or not ours:
            return problems
        await remove_matching(engine.store, conditions, ours, engine.concurrency)
    return [
        CommitFailed(
            f"{ours[0][0]} reappears each time it is removed: a process is still publishing the job; stop "
            "that process, then run magicfs recover --rollback"
        )
    ]


async def _visible(engine: Engine, output: JobOutput) -> tuple[list[tuple[str, str]], list[MagicError]]:
    found: list[tuple[str, str]] = []
    problems: list[MagicError] = []

    async def look(pending: Pending) -> None:
        own = {pending.destination_key: write_id_of(pending)}
        try:
            info = await engine.store.head(pending.destination_key)
            shown = shown_of(info, pending) or await _shown_by_tree(engine, pending)
        except ObjectNotFound:
            return
        except StoreError as error:
            problems.append(error)
            return
        if may_delete(Purpose.TAKE_BACK, info.key, shown, own):
            found.append((info.key, info.etag))

    await drained(output.pendings(), look, engine.concurrency)
    return sorted(found), problems


async def _shown_by_tree(engine: Engine, pending: Pending) -> str | None:
    """The same of a file that was renamed where a rename gives it another ETag, and the tree knows one that
    stays.
    """
    tree = tree_of(engine.store)
    if pending.source is None or not await tree.is_atomic():
        return None
    there = await tree.look(pending.destination_key)
    kept = there is not None and there.kind == "file" and is_renamed(there.etag, pending.source.etag)
    return pending.source.etag if kept else None
