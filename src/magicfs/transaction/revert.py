"""Taking back what a job had made visible, until nothing of it is left."""

from __future__ import annotations

from contextlib import suppress

from magicfs.engine import Engine
from magicfs.errors import (
    CommitFailed,
    MagicError,
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unavailable,
)
from magicfs.filesystem.tracking import shown_of, write_id_of
from magicfs.formats.job_object import JobObject, OldSuccess
from magicfs.formats.pending import Pending
from magicfs.protocol import job_state
from magicfs.protocol.identity import Purpose, may_delete
from magicfs.protocol.readback import is_renamed
from magicfs.protocol.steps import Batch
from magicfs.runtime.parallel import drained
from magicfs.stores.conditions import Conditions, remove_matching
from magicfs.stores.trees import tree_of
from magicfs.transaction import facts, sweep
from magicfs.transaction import output as job_output
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

__all__ = ["no_way_back", "remove_files", "revert_files"]

_LOOKS = 3


def no_way_back(job: JobObject, output: JobOutput) -> str | None:
    """Why a job can only go forward; None if it can be taken back."""
    return job_state.no_way_back(
        irreversible=job.irreversible, write_ids=not output.without_write_id, equal_keys=bool(job.equal_keys)
    )


async def revert_files(
    engine: Engine, context: JobContext, conditions: Conditions, job: JobObject, output: JobOutput
) -> list[MagicError]:
    """Abort every upload of a job that is ``reverting``, remove its files, put the old ``_SUCCESS`` back.

    Uploads, and files that are still to be renamed, go first: afterwards no request that is still on its way
    can make a file visible. A second call does the same again. Returns what could not be done.
    """
    old_success = await facts.read_success(engine, context, job)
    result = await engine.run(Batch("abort", job_output.aborts(output)), stop_on_failure=False)
    problems: list[MagicError] = [f.error for f in result.failures if isinstance(f.error, MagicError)]
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
        try:
            there = await store.head(key)
        except ObjectNotFound:
            with suppress(ObjectExists):
                await store.put(key, fenced, metadata=rights, mode=conditions.create)
                return
            continue
        if there.etag != old.etag:
            return  # put back by somebody else, or a later job's
        with suppress(PreconditionFailed):
            await store.put(key, fenced, metadata=rights, mode=conditions.update(old.etag))
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

    async def look(pending: Pending) -> bool:
        own = {pending.destination_key: write_id_of(pending)}
        try:
            info = await engine.store.head(pending.destination_key)
            shown = shown_of(info, pending) or await _shown_by_tree(engine, pending)
        except ObjectNotFound:
            return True
        except StoreError as error:
            problems.append(error)
            return True
        if may_delete(Purpose.TAKE_BACK, info.key, shown, own):
            found.append((info.key, info.etag))
        return True

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
