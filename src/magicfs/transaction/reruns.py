"""A job that is run again under the name of its run finds what the earlier one left.

It looks only after its own job object is set: of two that start at once at least one sees the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from magicfs.engine import Engine
from magicfs.errors import CommitDenied
from magicfs.manifests.chain import read_pointer
from magicfs.protocol.job_state import Decision, JobState, Wish, decide
from magicfs.stores.conditions import Conditions
from magicfs.transaction.context import JobContext
from magicfs.transaction.execute import Executor
from magicfs.transaction.executed import JobEnd
from magicfs.transaction.others import OtherJob
from magicfs.transaction.record import JobRecord

__all__ = ["finish_earlier_jobs_of_run"]


async def finish_earlier_jobs_of_run(
    engine: Engine,
    cleaner: Engine,
    context: JobContext,
    conditions: Conditions,
    others: Sequence[OtherJob],
) -> str | None:
    """Finish or abort earlier jobs of the same run.

    One that had reached its commit point is finished; one that had not is aborted, whether or not its driver
    is alive: the newer run counts.

    Returns:
        The job that has published the run already; None if none has.
    """
    if context.run_id is None:
        return None
    published = None
    for other in others:
        if other.job is None or other.job_id == context.job or other.job.run_id != context.run_id:
            continue
        record = JobRecord(engine.store, other.layout, conditions)
        held = await record.read()
        if held is None:
            continue
        if decide(held.job.state, Wish.FINISH) is Decision.LEAVE:
            held = await record.move(held, JobState.ABORTING, reason=f"run again by job {context.job}")
        executed = await Executor(engine, cleaner, context.of(held.job), record).run(held)
        if executed.ending is JobEnd.PUBLISHED:
            published = other.job_id
        elif executed.ending is JobEnd.ELSEWHERE:
            raise CommitDenied(
                f"job {other.job_id} of the same run {context.run_id!r} was ended by another process just "
                "now; nothing was published here; run again"
            )
    return published or await _published(engine, context, conditions)


async def _published(engine: Engine, context: JobContext, conditions: Conditions) -> str | None:
    seen = await read_pointer(engine.store, context.layout.destination, conditions)
    if seen is None:
        return None
    return next((job for run, job in seen[0].runs if run == context.run_id), None)
