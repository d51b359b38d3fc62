"""What processes do at a destination with a past: a job of one task, and a rewrite of all that is shown."""

from __future__ import annotations

from functools import partial

from magicfs.committers import registry
from magicfs.committers.base import Committer
from magicfs.datasets.read import current_view, shown_files
from magicfs.formats.job_options import JobOptions, Keep
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import WriteMode
from magicfs.report import JobReport
from magicfs.tables.rewrite import begun, committed, the_same
from magicfs.transaction.context import JobContext
from proofs.crash.past_deeds import DAY_MS, PLACE
from proofs.crash.processes import Process
from proofs.crash.writing import DESTINATION, write_attempt

__all__ = ["publish", "rewrite"]


async def publish(
    process: Process,
    job: JobId,
    mode: WriteMode,
    files: tuple[str, ...],
    *,
    keep_days: int = 0,
    in_place: bool = False,
    success_marker: bool = True,
) -> JobReport:
    """A job of one task, in one process."""
    keep = Keep(ms=keep_days * DAY_MS or None, in_place=in_place and keep_days > 0)
    context = _context(job, mode).asked(keep=keep, success_marker=success_marker)
    committer = registry.make("magic", context, process.engine)
    setup = await committer.setup_job()
    return await committer.commit_job([await _task(process, context, committer, files)], setup.driver)


async def rewrite(process: Process, job: JobId, keep_ms: int | None) -> JobReport:
    """What is shown becomes one file, as ``Dataset.rewrite`` does it."""
    old = shown_files(PLACE, await current_view(process.engine, PLACE))
    context = _context(job, "append").asked(mode="rewrite", keep=Keep(ms=keep_ms))
    transaction, setup = await begun(process.engine, PLACE, context)
    committer = registry.make("magic", context, process.engine)
    commit = await _task(process, context, committer, ("p=0/x.bin",))
    return await committed(transaction, setup.driver, commit, partial(the_same, PLACE, old))


async def _task(
    process: Process, context: JobContext, committer: Committer, files: tuple[str, ...]
) -> TaskCommit:
    task = ids.task_id(0)
    attempt = ids.attempt_id(task, "1")
    await write_attempt(process, context, attempt, files)
    return await committer.commit_task(task, attempt)


def _context(job: JobId, mode: WriteMode) -> JobContext:
    return JobContext(
        url=PLACE.url,
        layout=WorkLayout(DESTINATION, job),
        options=JobOptions(committer="magic", mode=mode),
    )
