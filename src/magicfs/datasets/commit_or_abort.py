"""A job that one call sets up and commits: if it cannot be published it does not stay open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from magicfs.errors import CommitOutcomeUnknown, CommitUnfinished, MagicError
from magicfs.protocol.job_state import BEFORE_COMMIT, Wish
from magicfs.report import JobReport
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.output import JobOutput

__all__ = ["commit_or_abort"]


async def commit_or_abort(
    transaction: JobTransaction, load: Callable[[], Awaitable[JobOutput]], driver: str | None
) -> JobReport:
    """Commit a job that was set up; abort it if that raises before its commit point, then raise.

    Uploads that are not the job's own stay. If it is not known what became of the commit, nothing is aborted.
    """
    try:
        return await transaction.commit(load, driver)
    except (CommitOutcomeUnknown, CommitUnfinished):
        raise
    except (MagicError, asyncio.CancelledError) as error:
        try:
            if await transaction.state() in BEFORE_COMMIT:
                await transaction.finish(Wish.ABORT, reason=str(error))
        except MagicError as second:
            context = transaction.context
            error.add_note(
                f"and job {context.job} could not be ended: {second}; run magicfs recover {context.url}"
            )
        raise
