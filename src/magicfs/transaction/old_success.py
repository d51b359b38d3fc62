"""The ``_SUCCESS`` that was there before a job: hidden from readers while the job's files become visible."""

from __future__ import annotations

from typing import Final

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound
from magicfs.protocol.job_state import JobState
from magicfs.stores.conditions import remove_matching
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.record import JobRecord, JobVersion, new_token

__all__ = ["hide", "seen"]

_LOOKS: Final = 3


async def seen(engine: Engine, context: JobContext) -> str | None:
    """The ETag of the ``_SUCCESS`` that is there; None if there is none."""
    try:
        return (await engine.store.head(context.layout.success_key)).etag
    except ObjectNotFound:
        return None


async def hide(
    engine: Engine, context: JobContext, record: JobRecord, version: JobVersion, etag: str | None
) -> JobVersion:
    """Delete the ``_SUCCESS`` that is there: its readers wait until the job has ended.

    One that another job has written since this one looked is written down first, so that taking the job back
    can restore it. ``etag`` is what ``seen`` told just now.
    """
    key = context.layout.success_key
    for left in reversed(range(_LOOKS)):
        if etag is None:
            break
        if version.job.old_success is None or version.job.old_success.etag != etag:
            kept = await facts.copy_success(engine, context, new_token())
            if kept is None:
                break
            version = await record.move(version, JobState.COMMITTING, old_success=kept)
            etag = kept.etag
        if not await remove_matching(engine.store, record.conditions, [(key, etag)], 1):
            break
        etag = await seen(engine, context) if left else None
    return version
