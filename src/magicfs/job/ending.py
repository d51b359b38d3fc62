"""How a job ends: the calls of its driver to the committer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fsspec.asyn import sync

from magicfs.committers.base import Committer
from magicfs.engine import Observer
from magicfs.errors import MagicError, ProtocolViolation
from magicfs.formats.task_commit import TaskCommit
from magicfs.job import workers
from magicfs.job.progress import Meter
from magicfs.job.spec import JobSpec
from magicfs.job.workers import Completer
from magicfs.report import JobReport, ProgressCallback, TaskFigures
from magicfs.transaction.context import JobSetup
from magicfs.transaction.still_wanted import Asking, require_current_driver

__all__ = ["IsCurrentDriver", "abort", "commit", "require_complete"]

IsCurrentDriver = Callable[[], bool]
"""Tells whether the engine still wants this driver to end the job."""


def commit(
    spec: JobSpec,
    found: JobSetup,
    commits: Iterable[TaskCommit] | None,
    tasks: int | None,
    progress: ProgressCallback | None,
    is_current_driver: IsCurrentDriver | None,
    completer: Completer | None = None,
) -> JobReport:
    """Commit a job, or discard it if its run, or itself, is published already.

    Raises:
        MagicError: See ``Job.commit``.
    """
    if (before := found.published) is not None:
        sync(spec.loop, spec.make_committer().abort_job, (), found.driver)
        return JobReport.before(before, spec.location.url, spec.committer, spec.conflict)
    chosen = None if commits is None else list(commits)
    meter = Meter(progress, chosen) if progress is not None else None
    committer = _committer(spec, is_current_driver, meter)
    if completer is not None:
        workers.use(completer, spec, committer)
    try:
        report: JobReport = sync(spec.loop, committer.commit_job, chosen, found.driver, tasks)
    except MagicError as error:
        if meter is not None and (trouble := meter.trouble):
            error.add_note(trouble)
        raise
    troubles = (meter.trouble,) if meter is not None and meter.trouble else ()
    figures = () if report.published_before else _figures(chosen)
    return replace(report, warnings=(*report.warnings, *troubles), task_figures=figures)


def _figures(commits: Sequence[TaskCommit] | None) -> tuple[TaskFigures, ...]:
    found = sorted(commits or (), key=lambda one: one.task_id)
    return tuple(TaskFigures(one.task_id, one.files, one.bytes, one.rows) for one in found)


def abort(
    spec: JobSpec,
    found: JobSetup | None,
    commits: Sequence[TaskCommit],
    is_current_driver: IsCurrentDriver | None,
) -> None:
    """Abort a job.

    Raises:
        MagicError: See ``Job.abort``.
    """
    driver = found.driver if found is not None else None
    sync(spec.loop, _committer(spec, is_current_driver).abort_job, commits, driver)


def require_complete(spec: JobSpec, commits: Sequence[TaskCommit]) -> None:
    """Refuse to forget tasks that committed elsewhere and were not handed over.

    Raises:
        ProtocolViolation: There are some.
    """
    if spec.tracking == "memory":
        return
    known = {one.task_id for one in commits}
    listed = sync(spec.loop, spec.make_committer().committed_tasks)
    if missing := sorted(set(listed) - known):
        raise ProtocolViolation(
            f"tasks {', '.join(missing)} of job {spec.job} were committed and nobody handed their commits "
            "over; pass each task's commit to job.add, or call job.commit() to publish all that are found"
        )


def _committer(
    spec: JobSpec, is_current_driver: IsCurrentDriver | None, observer: Observer | None = None
) -> Committer:
    """The committer, which asks at the last moment; for one that does not, the question is asked now."""
    committer = spec.make_committer(observer)
    if is_current_driver is not None:
        if isinstance(committer, Asking):
            committer.is_current_driver = is_current_driver
        else:
            sync(spec.loop, require_current_driver, is_current_driver, spec.job)
    return committer
