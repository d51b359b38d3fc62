"""The reports of a job: of who has published it, and of a driver that comes when others have."""

from __future__ import annotations

from typing import Any

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitUnfinished
from magicfs.formats.success import SuccessData
from magicfs.manifests import chain
from magicfs.report import JobReport, job_report
from magicfs.transaction import jvm_commit, late_driver, outcome, publish
from magicfs.transaction.context import JobContext
from magicfs.transaction.late_driver import Committed
from magicfs.transaction.outcome import JobOutcome
from magicfs.transaction.record import JobRecord

__all__ = ["adopted", "ended_elsewhere", "published"]


def published(context: JobContext, done: JobOutcome, started: float) -> JobReport:
    """Of a job that this process has published. Raises CommitUnfinished if readers may not see that."""
    output = done.output
    report = _report(
        context,
        started=started,
        tasks=output.tasks,
        files=output.files + len(output.restored),
        size=output.bytes + sum(one.size for one in output.restored.values()),
        keys=output.shown_keys(context.layout.destination),
        warnings=done.warnings,
        statistics=publish.job_statistics(output),
        uploads_aborted=done.aborted,
        files_deleted=done.deleted,
    )
    if done.unsettled is not None:
        raise CommitUnfinished(outcome.unfinished(context, done.unsettled), report) from done.unsettled
    return report


async def ended_elsewhere(
    engine: Engine, context: JobContext, record: JobRecord, started: float, expected: Committed | None
) -> JobReport:
    """Of a job that another process has ended. Raises CommitDenied if it was not published, or not whole."""
    success = await jvm_commit.seen(engine, context.layout.destination, context.job)
    if success is not None:
        return await adopted(engine, context, success, expected, started)
    manifests = await late_driver.manifests_of(engine, context, record)
    if not manifests:
        raise CommitDenied(
            f"job {context.job} has ended without being published: another process aborted it or rolled it "
            "back; run the job again"
        )
    shown = late_driver.published_by_manifests(manifests)
    warnings = late_driver.compare(context, expected, shown)
    sizes = [one.size for each in manifests for one in each.files]
    return _report(
        context,
        started=started,
        tasks=0,
        files=len(sizes),
        size=sum(sizes),
        keys=shown,
        warnings=(outcome.ENDED_ELSEWHERE, *warnings),
    )


async def adopted(
    engine: Engine, context: JobContext, success: SuccessData, expected: Committed | None, started: float
) -> JobReport:
    """Of a job that a JVM has committed, once it has a manifest."""
    found = await jvm_commit.adopt(engine, context, success, expected)
    shown = late_driver.published_by_manifests([found.manifest])
    sizes = [one.size for one in found.manifest.files]
    return _report(
        context,
        started=started,
        tasks=0,
        files=len(sizes),
        size=sum(sizes),
        keys=shown,
        warnings=(*found.warnings, *late_driver.compare(context, expected, shown)),
    )


def _report(context: JobContext, **figures: Any) -> JobReport:
    key = chain.manifest_key(context.layout.destination, context.job)
    how = (context.options.committer, context.options.conflict)
    return job_report(context.job, context.url, *how, manifest_key=key, **figures)
