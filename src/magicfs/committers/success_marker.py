"""``_SUCCESS`` as the only record of a classic job: whether it is published, and writing it."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress

from magicfs.engine import Engine
from magicfs.errors import CommitOutcomeUnknown, FormatError, ObjectNotFound, ProtocolViolation, Unavailable
from magicfs.formats.success import SUCCESS_SIZE_LIMIT, SuccessData
from magicfs.transaction.context import JobContext

__all__ = ["decided", "is_published", "read_success", "refuse_published"]


async def read_success(engine: Engine, context: JobContext) -> SuccessData | None:
    """The ``_SUCCESS`` that is there; None for none, or one that is not JSON, as Hadoop's empty one.

    Raises:
        StoreError: It cannot be read.
    """
    key = context.layout.success_key
    with suppress(ObjectNotFound, FormatError):
        raw = await engine.store.get(key, size_max=SUCCESS_SIZE_LIMIT + 1)
        return SuccessData.from_bytes(f"{engine.store.bucket}/{key}", raw)
    return None


async def is_published(engine: Engine, context: JobContext) -> bool:
    """Whether ``_SUCCESS`` names the job. A later job's takes its place, and then nothing tells."""
    success = await read_success(engine, context)
    return success is not None and success.job_id == context.job


def refuse_published(context: JobContext) -> ProtocolViolation:
    """The error for aborting a job that is published."""
    return ProtocolViolation(
        f"job {context.job} is published, as _SUCCESS of {context.url} says; nothing was removed; delete its "
        "files by hand if they are not wanted"
    )


async def decided(context: JobContext, write: Awaitable[object]) -> None:
    """Write ``_SUCCESS``; silence of the store means that nobody knows whether it was written.

    Raises:
        CommitOutcomeUnknown: The store did not answer; nothing is to be removed.
    """
    try:
        await write
    except Unavailable as error:
        raise CommitOutcomeUnknown(
            f"the files of job {context.job} are at {context.url}, and it is not known whether _SUCCESS was "
            f"written; nothing was removed; commit the job again: {error}"
        ) from error
