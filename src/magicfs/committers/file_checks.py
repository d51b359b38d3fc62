"""Who may end a job of the file committer. Pure: the markers and the job's file say it."""

from __future__ import annotations

from collections.abc import Sequence

from magicfs.committers.base import JobContext
from magicfs.committers.commit_markers import Mark, Marks
from magicfs.committers.file_documents import JobFile
from magicfs.errors import CommitDenied, UsageError
from magicfs.task_commit import TaskCommit

__all__ = [
    "ended",
    "require_driver",
    "require_heir",
    "require_not_given_up",
    "require_not_over",
    "require_same_way",
    "same_tasks",
]


def ended(context: JobContext) -> CommitDenied:
    """What to raise when there is no job of that id."""
    return CommitDenied(
        f"job {context.job} has ended, or was never set up; nothing was changed; use another job id"
    )


def require_driver(job: JobFile, driver: str | None, attempt: int) -> None:
    """Refuse a driver whose job another one has taken over; None stands for whoever set the attempt up.

    Raises:
        CommitDenied: It is not the newest.
    """
    if job.attempt > attempt or driver not in (None, job.driver):
        raise CommitDenied(
            f"job {job.job} was taken over by attempt {job.attempt} on {job.host}; nothing was changed here; "
            "leave the job to it"
        )


def require_same_way(job: JobFile, context: JobContext, algorithm: int) -> None:
    """Refuse to go on with a job in another way than it was begun in.

    Raises:
        UsageError: The algorithm differs, or whether final names carry task and job.
    """
    if (job.algorithm, job.unique_names) != (algorithm, context.unique_names):
        raise UsageError(
            f"job {job.job} was begun with algorithm={job.algorithm} and unique_names={job.unique_names}; go "
            "on with these, or use another job id"
        )


def require_not_given_up(marks: Marks) -> None:
    """Refuse a job that was aborted, or can never be published.

    Raises:
        CommitDenied: It is one.
    """
    mark = marks.failed or marks.started
    if mark is not None and (marks.failed is not None or mark.action == "abort"):
        why = f" ({mark.reason})" if mark.reason else ""
        raise CommitDenied(
            f"job {mark.job} was given up on {mark.host}{why}; nothing was changed now; abort "
            "it, and run it again under another job id"
        )


def require_not_over(job: JobFile, marks: Marks, context: JobContext, algorithm: int) -> None:
    """Refuse to take a job over from a later attempt, or one whose commit somebody is about who may live.

    Raises:
        UsageError: It was begun in another way.
        CommitDenied: It may not be taken over.
    """
    attempt = context.layout.attempt
    require_same_way(job, context, algorithm)
    if job.attempt > attempt:
        raise CommitDenied(
            f"attempt {job.attempt} of job {job.job} has taken it over from attempt {attempt}; nothing was "
            "changed; leave the job to it"
        )
    require_not_given_up(marks)
    if marks.started is not None and marks.started.attempt >= attempt:
        raise CommitDenied(
            f"the commit of job {job.job} began in attempt {marks.started.attempt} on {marks.started.host}; "
            "nothing was changed; if that driver is dead, use a greater attempt"
        )


def require_heir(started: Mark, job: JobFile, driver: str | None, attempt: int) -> None:
    """Refuse to carry on a job commit that another driver began, unless the engine vouches that it is dead.

    A greater number of the job attempt does: the engine has started this driver in the other one's place.

    Raises:
        CommitDenied: The other driver may be alive.
    """
    if started.attempt < attempt:
        require_driver(job, driver, attempt)
    elif job.attempt > attempt or driver not in (None, started.driver):
        raise CommitDenied(
            f"the commit of job {job.job} was begun by another driver, on {started.host}; nothing was "
            "changed here; leave the job to it, or if it is dead use a greater attempt"
        )


def same_tasks(started: Mark, commits: Sequence[TaskCommit] | None) -> list[str]:
    """Compare what a job commit that began is publishing with what its heir was given.

    Returns:
        What to tell the caller, if other attempts of the same tasks are published.

    Raises:
        CommitDenied: Other tasks are.
    """
    if commits is None:
        return []
    given = {one.task_id: one.attempt_id for one in commits}
    begun = {one.task: one.attempt for one in started.tasks}
    if strange := sorted(set(given) ^ set(begun)):
        raise CommitDenied(
            f"the commit of job {started.job} began with other tasks ({len(begun)} of them; {strange[0]} is "
            "one that differs); nothing was changed now; commit what recover_tasks() returns"
        )
    others = sorted(task for task in given if given[task] != begun[task])
    if not others:
        return []
    told = (
        f"attempt {started.attempt} of the job had begun to commit other attempts of {len(others)} tasks, "
        f"such as {begun[others[0]]}, and these were published; the given ones were discarded"
    )
    return [told]
