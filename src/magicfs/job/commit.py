"""The commit of a job, as a call that an interruption stops before the commit point only."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from magicfs.errors import (
    AuditFailed,
    CommitDenied,
    CommitOutcomeUnknown,
    CommitUnfinished,
    MagicError,
    ProtocolViolation,
)
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.checks import check_footers, check_known
from magicfs.job.progress import Meter
from magicfs.job.spec import JobSpec
from magicfs.report import JobReport, ProgressCallback, TaskFigures, html_table, human_bytes
from magicfs.runtime import registered
from magicfs.runtime.interrupt import Call, run_on
from magicfs.transaction.context import JobSetup
from magicfs.transaction.extension import EXTENSIONS
from magicfs.transaction.file_checks import ContentCheck

if TYPE_CHECKING:
    from magicfs.committers.base import Committer
    from magicfs.formats.audit import OnFailure
    from magicfs.transaction.record import IsCurrentDriver

__all__ = [
    "NOT_PICKLED",
    "NO_REPORT",
    "GivenRule",
    "JobState",
    "commit_call",
    "content_checks",
    "html_of_job",
    "names_of",
    "out_of_order",
    "report_of",
    "require_complete",
    "state_after",
    "tell",
    "tell_interruption",
]

_LOGGER = logging.getLogger("magicfs")


class _Rule(Protocol):
    def judge(self, seen: Any) -> tuple[bool, str]: ...


GivenRule = _Rule | Callable[[Any], object]
"""A rule of ``magicfs.audit``, or a function."""

_AUDIT: Final = "audit"

JobState = Literal[
    "new",
    "open",
    "committing",
    "undecided",
    "unfinished",
    "committed",
    "aborted",
    "ended",
    "quarantined",
]
"""What a ``Job`` knows of itself. ``committing``: a commit runs, or goes on after an interruption;
``undecided``: the store did not say what became of it; ``unfinished``: every file is visible, and readers of
manifests may not see them; ``ended``: another process published less;
``quarantined``: its audit failed."""

NO_REPORT = {
    "new": "it was not committed",
    "open": "it was not committed",
    "aborted": "it was aborted",
    "committing": "it is still being committed",
    "ended": "another process has ended it, and published less than was committed",
    "quarantined": "its audit failed, and it waits for magicfs commit --accept or magicfs abort",
    "undecided": "the store did not say whether it is published; commit again, or run magicfs recover",
}
"""Why a job has no report, by its state."""

NOT_PICKLED = frozenset(
    {
        *("_lock", "_progress", "_bar", "_is_current_driver", "_attempts"),
        *("_call", "_process", "_catalogs"),
    }
)
"""What a ``Job`` leaves to the process that made it."""


@dataclass(frozen=True)
class _Order:
    """What to commit, and how."""

    spec: JobSpec
    found: JobSetup
    commits: list[TaskCommit] | None
    tasks: int | None
    is_current_driver: IsCurrentDriver | None
    meter: Meter | None
    warnings: Callable[[], tuple[str, ...]]

    async def run(self, committer: Committer) -> JobReport:
        spec, meter = self.spec, self.meter
        if (before := self.found.published) is not None:
            await committer.abort_job((), self.found.driver)
            return JobReport.before(before, spec.location.url, spec.options.committer, spec.options.conflict)
        try:
            report = await committer.commit_job(
                self.commits, self.found.driver, self.tasks, is_current_driver=self.is_current_driver
            )
        except CommitUnfinished as error:
            error.report = self._told(error.report)
            raise
        except MagicError as error:
            if meter is not None and (trouble := meter.trouble):
                error.add_note(trouble)
            raise
        return self._told(report)

    def _told(self, report: JobReport) -> JobReport:
        spec, meter = self.spec, self.meter
        troubles = (meter.trouble,) if meter is not None and meter.trouble else ()
        text = "%s: job %s is published: %d files, %d bytes, in %.2f s"
        done = report.files, report.bytes, report.seconds
        _LOGGER.info(text, spec.location.url, spec.job, *done)
        figures = () if report.published_before else _figures(self.commits)
        warnings = (*report.warnings, *troubles, *self.warnings())
        return replace(report, warnings=warnings, task_figures=figures)


def commit_call(
    spec: JobSpec,
    found: JobSetup,
    commits: list[TaskCommit] | None,
    tasks: int | None,
    *,
    progress: ProgressCallback | None,
    is_current_driver: IsCurrentDriver | None,
    warnings: Callable[[], tuple[str, ...]],
    audit: tuple[tuple[GivenRule, ...], OnFailure] = ((), "quarantine"),
) -> Call[JobReport]:
    """The call that commits a job. ``warnings`` are asked for once it is published."""
    from magicfs.committers.driven import DrivenCommitter

    meter = Meter(progress, commits) if progress is not None else None
    committer = spec.make_committer(meter)
    if audit[0]:
        check_footers(True, spec.options.committer)
        check_known(audit[0], spec.file_checks)
        assert isinstance(committer, DrivenCommitter)
        committer.given = (registered.load(EXTENSIONS, _AUDIT)(*audit),)
    order = _Order(spec, found, commits, tasks, is_current_driver, meter, warnings)
    # Only a job object has a commit point, before which nothing is visible.
    return Call(
        spec.loop,
        partial(order.run, committer),
        whole=not isinstance(committer, DrivenCommitter),
        waiting=f"job {spec.job} cannot be stopped any more and is waited for; interrupt again to leave it",
    )


def names_of(rules: Sequence[GivenRule]) -> tuple[str, ...]:
    """What rules are called in documents."""
    return tuple(map(registered.load(EXTENSIONS, _AUDIT).named, rules)) if rules else ()


def content_checks(rules: Iterable[object]) -> tuple[ContentCheck, ...]:
    """Those of the rules that look at the content of files, which tasks do."""
    return tuple(one for one in rules if isinstance(one, ContentCheck))


def state_after(call: Call[JobReport]) -> JobState:
    """What a job is after its commit, or during it."""
    if not call.ended:
        return "committing"
    if call.succeeded:
        return "committed"
    if isinstance(call.error, CommitUnfinished):
        return "unfinished"
    if isinstance(call.error, CommitDenied) and call.error.failed:
        return "ended"
    if isinstance(call.error, AuditFailed):
        return "quarantined" if call.error.quarantined else "aborted"
    return "undecided" if isinstance(call.error, CommitOutcomeUnknown) else "open"


def report_of(call: Call[JobReport]) -> JobReport | None:
    """What a commit has published, as far as it has ended."""
    if isinstance(call.error, CommitUnfinished):
        report: JobReport = call.error.report
        return report
    return call.result() if call.succeeded else None


def tell(interruption: BaseException, spec: JobSpec, state: JobState) -> None:
    """Say in an interruption what has become of the job."""
    if (note := _described(spec, state)) is not None:
        interruption.add_note(note)


def _described(spec: JobSpec, state: JobState) -> str | None:
    match state:
        case "new":
            return f"job {spec.job} is not set up; nothing was changed"
        case "committed" | "unfinished":
            return f"job {spec.job} is published all the same; job.report tells what"
        case "committing":
            return (
                f"job {spec.job} is still being committed by this process; job.report tells when it is "
                f"published; if the process ends before, run magicfs recover {spec.location.url}"
            )
        case "aborted":
            return f"job {spec.job} is aborted; nothing of it is published"
        case _:
            return None


def html_of_job(
    spec: JobSpec, state: JobState, commits: Sequence[TaskCommit], report: JobReport | None
) -> str:
    """A job in a notebook: what is known of it, and its report once there is one."""
    asked = spec.options
    files, size = sum(one.files for one in commits), sum(one.bytes for one in commits)
    rows = [("job", spec.job), ("destination", spec.location.url), ("state", state)]
    rows.append(
        (
            "how",
            f"committer {asked.committer}, conflict {asked.conflict}, tracking {asked.tracking}",
        )
    )
    rows.append(("tasks", f"{len(commits)} committed, with {files} files ({human_bytes(size)})"))
    rows += [("warning", one) for one in (report.warnings if report is not None else ())]
    return html_table(rows)


def out_of_order(job: str, state: JobState, call: str) -> ProtocolViolation:
    """What to raise for a call that needs an open job, where it is not."""
    if state == "new":
        advice = f"early for {call}(); call setup() first, or use a with block"
    else:
        advice = f"late for {call}(); make a new Job"
    return ProtocolViolation(f"job {job} is {state}, too {advice}")


def require_complete(spec: JobSpec, commits: Sequence[TaskCommit]) -> None:
    """Refuse to forget tasks that committed elsewhere and were not handed over."""
    if spec.options.tracking == "memory":
        return
    listed = run_on(spec.loop, spec.make_committer().committed_tasks)
    if missing := sorted(set(listed) - {one.task_id for one in commits}):
        raise ProtocolViolation(
            f"tasks {', '.join(missing)} of job {spec.job} were committed and nobody handed their commits "
            "over; pass each task's commit to job.add, or call job.commit() to publish all that are found"
        )


def tell_interruption(call: Call[Any], spec: JobSpec, state: JobState) -> None:
    """Say in the interruption of a setup or an abort, which is on its way, what has become of the job."""
    error = sys.exception()
    if error is None or not call.interrupted:
        return
    if call.ended:
        tell(error, spec, state)
        return
    doing = "set up" if state == "new" else "aborted"
    error.add_note(
        f"job {spec.job} is still being {doing} by this process; nothing of it is published; "
        f"magicfs abort {spec.location.url} --job {spec.job} discards what is left of it"
    )


def _figures(commits: Sequence[TaskCommit] | None) -> tuple[TaskFigures, ...]:
    found = sorted(commits or (), key=lambda one: one.task_id)
    return tuple(TaskFigures(one.task_id, one.files, one.bytes, one.rows) for one in found)
