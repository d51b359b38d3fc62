"""The commit of a job, as a call that an interruption stops before the commit point only."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import ModuleType
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
from magicfs.protocol.paths import is_hidden
from magicfs.report import JobReport, ProgressCallback, TaskFigures, html_table, human_bytes
from magicfs.runtime import registered, watchers
from magicfs.runtime.interrupt import Call, run_on
from magicfs.transaction.context import MANY_JOBS, ContentCheck, FoundJob, FoundUpload, JobSetup, crowded
from magicfs.transaction.extension import EXTENSIONS

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from magicfs.formats.audit import OnFailure
    from magicfs.transaction.record import IsCurrentDriver


class ShowsDatasets(Protocol):
    """A table of a catalog, as ``magicfs.catalogs`` has them.

    One that has a method ``registration``, as those have, is noted at the destination until it shows the job.
    """

    def register(self, url: str, *, filesystem: AbstractFileSystem | None = None) -> object:
        """Let the table show what is published at a destination."""


def shows() -> ModuleType:
    """The guest that lets catalogs show a job, and notifies of it."""
    module: ModuleType = registered.load(
        EXTENSIONS, "catalogs", "check_catalogs", "forget", "note", "shown_by"
    )
    return module


def shown_in(
    catalogs: Sequence[ShowsDatasets], after: Sequence[object], spec: JobSpec
) -> tuple[ShowsDatasets, ...]:
    """What is to show a job, and to hear of it; see ``magicfs.catalogs.in_jobs``."""
    return tuple(shows().check_catalogs(catalogs, after, spec) if catalogs or after else ())


LISTED_MAX = 20
"""Most uploads that are logged one by one, the oldest first."""


_AWAY = (
    "%s: job %s keeps replaced files where no listing shows them: as object versions if the bucket has them, "
    "else aside, below _magicfs/kept, until magicfs maintain deletes them"
)
_IN_PLACE = (
    "%s: job %s keeps replaced files in place: tools that list the directory (pandas, Polars and DuckDB "
    "globs) read old and new files until magicfs maintain; magicfs.Dataset and spark.read.format('magic') "
    "read only the new ones"
)


def log_found(url: str, job: str, found: JobSetup, spec: JobSpec) -> None:
    """Log unfinished jobs and pending uploads, one line each, at INFO; as a warning that nothing will be
    published, because the run is, that readers who read a directory above skip the destination, and what
    readers who list will see of files that the job keeps, as its ``spec`` says.
    """
    name = url.rpartition("/")[2]
    if is_hidden(name):
        _LOGGER.warning(
            "%s: readers of a parent directory skip %a, as every name that begins with _ or a dot; choose "
            "another name if you do not want that",
            url,
            name,
        )
    if found.published is not None:
        _LOGGER.warning(
            "%s: the run was already published by job %s: nothing that job %s writes will be published; "
            "use another run_id for other data",
            url,
            found.published,
            job,
        )
    if many := crowded(url, len(found.jobs)):
        _LOGGER.warning("%s", many)
    keep = spec.options.keep
    if keep.ms is not None and keep.in_place:
        _LOGGER.warning(_IN_PLACE, url, job)
    elif keep.ms is not None:
        _LOGGER.info(_AWAY, url, job)
    watchers.happened("set up", url=url, job=job, run=spec.options.run_id, mode=spec.options.mode)
    if not _LOGGER.isEnabledFor(logging.INFO):
        return
    for other in found.jobs[:MANY_JOBS]:
        _LOGGER.info("%s: %s; found by job %s", url, _job(other), job)
    if found.uploads is None:
        _LOGGER.info("%s: these credentials cannot list pending uploads; found by job %s", url, job)
        return
    uploads = sorted(found.uploads, key=lambda one: (one.initiated, one.key))
    for upload in uploads[:LISTED_MAX]:
        _LOGGER.info("%s: %s; found by job %s", url, _upload(upload), job)
    if len(uploads) > LISTED_MAX:
        rest = len(uploads) - LISTED_MAX
        _LOGGER.info(
            "%s: %d more uploads are pending; magicfs uploads lists them; found by job %s", url, rest, job
        )


def _job(one: FoundJob) -> str:
    if one.state is None:
        return f"the job object of job {one.job_id!a} cannot be read: {one.problem!a}"
    run = f" of run {one.run_id!a}" if one.run_id is not None else ""
    return (
        f"job {one.job_id}{run} is unfinished: {one.state} since {_moment(one.changed)} on {one.host!a}, set "
        f"up {_moment(one.created)}"
    )


def _upload(one: FoundUpload) -> str:
    return f"an upload of {one.key!a} is pending since {_moment(one.initiated)} (id {one.upload_id!a})"


def _moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s after the epoch"


_LOGGER = logging.getLogger("magicfs")


BARS: Final = "magicfs.bars"
"""Entry points of what shows a job on a screen."""


class NoBar:
    """Shows nothing of a job."""

    tasks_total: int | None = None  # how many there will be, if that is known

    def committed(self, commit: TaskCommit) -> None:
        """A task has committed."""

    def close(self) -> None:
        """The job has ended, or its commit was given up."""


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
    "committing": "the commit is still running",
    "ended": "another process ended it, and published only a part of its commits",
    "quarantined": "its audit failed, and it waits for magicfs recover --commit --accept, or --abort",
    "undecided": "the store did not report whether it is published; commit again, or run magicfs recover",
}
"""Why a job has no report, by its state."""

NOT_PICKLED = frozenset(
    ("_lock", "_progress", "_bar", "_is_current_driver", "_attempts", "_call", "_process", "_catalogs")
)
"""What a ``Job`` leaves to the process that made it."""


def commit_call(
    spec: JobSpec,
    found: JobSetup,
    commits: list[TaskCommit] | None,
    tasks: int | None,
    *,
    progress: ProgressCallback | None,
    is_current_driver: IsCurrentDriver | None,
    warnings: Callable[[], tuple[str, ...]],
    audit: tuple[tuple[GivenRule, ...], OnFailure],
) -> Call[JobReport]:
    """The call that commits a job. ``warnings`` are asked for once it is published."""
    from magicfs.committers.driven import DrivenCommitter

    meter = Meter(progress, commits) if progress is not None else None
    committer = spec.make_committer(meter)
    asked = spec.options
    if audit[0]:
        check_footers(True, asked.committer)
        check_known(audit[0], spec.file_checks)
        assert isinstance(committer, DrivenCommitter)
        committer.given = (registered.load(EXTENSIONS, _AUDIT)(*audit),)

    async def run() -> JobReport:
        if (before := found.published) is not None:
            await committer.abort_job((), found.driver)
            return JobReport.before(before, spec.location.url, asked.committer, asked.mode)
        try:
            report = await committer.commit_job(
                commits, found.driver, tasks, is_current_driver=is_current_driver
            )
        except CommitUnfinished as error:
            error.report = told(error.report)
            raise
        except MagicError as error:
            if meter is not None and (trouble := meter.trouble):
                error.add_note(trouble)
            raise
        return told(report)

    def told(report: JobReport) -> JobReport:
        troubles = (meter.trouble,) if meter is not None and meter.trouble else ()
        figures = () if report.published_before else _figures(commits)
        full = replace(report, warnings=(*report.warnings, *troubles, *warnings()), task_figures=figures)
        done = {name: getattr(full, name) for name in ("rows", "files", "bytes", "seconds")}
        job = {"url": spec.location.url, "job": spec.job, "run": asked.run_id, "mode": asked.mode}
        watchers.happened("published", **job, **done)
        return full

    # Only a job object has a commit point, before which nothing is visible.
    return Call(
        spec.loop,
        run,
        whole=not isinstance(committer, DrivenCommitter),
        waiting=f"job {spec.job} can no longer be stopped, waiting for it to finish; interrupt again to stop "
        "waiting",
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
            return f"job {spec.job} is published anyway; see job.report"
        case "committing":
            return (
                f"job {spec.job} is still being committed by this process; job.report is there once it is "
                f"published; if the process ends before, run magicfs recover {spec.location.url}"
            )
        case "aborted":
            return f"job {spec.job} is aborted; none of its files is published"
        case _:
            return None


def html_of_job(
    spec: JobSpec, state: JobState, commits: Sequence[TaskCommit], report: JobReport | None
) -> str:
    """A job in a notebook: what is known of it, and its report once there is one."""
    asked = spec.options
    files, size = sum(one.files for one in commits), sum(one.bytes for one in commits)
    rows = [("job", spec.job), ("destination", spec.location.url), ("state", state)]
    rows.append(("how", f"committer {asked.committer}, mode {asked.mode}, tracking {asked.tracking}"))
    rows.append(("tasks", f"{len(commits)} committed, with {files} files ({human_bytes(size)})"))
    rows += [("warning", one) for one in (report.warnings if report is not None else ())]
    return html_table(rows)


def out_of_order(job: str, state: JobState, call: str) -> ProtocolViolation:
    """What to raise for a call that needs an open job, where it is not."""
    if state == "new":
        advice = f"early to call {call}(); call setup() first, or use a with block"
    else:
        advice = f"late to call {call}(); create a new Job"
    return ProtocolViolation(f"job {job} is {state}, too {advice}")


def require_complete(spec: JobSpec, commits: Sequence[TaskCommit]) -> None:
    """Refuse to forget tasks that committed elsewhere and were not handed over."""
    if spec.options.tracking == "memory":
        return
    listed = run_on(spec.loop, spec.make_committer().committed_tasks)
    if missing := sorted(set(listed) - {one.task_id for one in commits}):
        raise ProtocolViolation(
            f"tasks {', '.join(missing)} of job {spec.job} were committed, but their commits were not passed "
            "to this job; pass each task's commit to job.add, or call job.commit() to publish all that are "
            "found"
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
        f"job {spec.job} is still being {doing} by this process; none of its files is published; magicfs "
        f"recover {spec.location.url} --job {spec.job} --abort discards the rest of it"
    )


def _figures(commits: Sequence[TaskCommit] | None) -> tuple[TaskFigures, ...]:
    found = sorted(commits or (), key=lambda one: one.task_id)
    return tuple(TaskFigures(one.task_id, one.files, one.bytes, one.rows) for one in found)
