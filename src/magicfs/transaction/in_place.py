"""Replacing files of equal names: what must be there before the first one goes, and the way back until then.

A file is replaced by completing its upload in its place, which cannot be undone. So a job says first that it
can only go forward, and looks before that whether it can. If uploads go in spite of that, before any file was
replaced, the job is taken back.
"""

from __future__ import annotations

from collections.abc import Collection

from magicfs.engine import BatchResult, Engine, Failure
from magicfs.errors import PermissionDenied, UploadNotFound
from magicfs.filesystem.tracking import shown_of, write_id_of
from magicfs.formats.job_object import JobObject
from magicfs.formats.pending import Pending
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Abort, Batch
from magicfs.runtime.parallel import gathered, raise_first
from magicfs.stores.register import found_at
from magicfs.transaction import revert
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.prepare import listed
from magicfs.transaction.visible import comes_last

__all__ = ["looked_at", "no_way_back"]


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
    reason = revert.no_way_back(job, output)
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
