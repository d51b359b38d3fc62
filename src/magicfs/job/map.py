"""Running a function once for each task on an executor, with retries."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from typing import Any

from magicfs.errors import CommitFailed, ProtocolViolation, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.spec import JobSpec
from magicfs.job.task import Task, not_repeatable
from magicfs.protocol import ids
from magicfs.protocol.ids import TaskId

__all__ = ["run_tasks"]


@dataclass(frozen=True, slots=True)
class _Failed:
    """An attempt that failed and returned its error."""

    error: Exception
    committing: bool  # whether it failed in its commit


def run_tasks(
    spec: JobSpec,
    function: Callable[[Task], Any],
    tasks: Iterable[int | str],
    *,
    executor: Executor,
    retries: int,
) -> list[TaskCommit]:
    """Run every task, each failed one again in a new attempt, and return the winners' commits.

    Where the committer cannot repeat a task commit, a task is run again only if its attempt reports that it
    failed before it began to commit. Tasks are numbers or names, each once. ``executor`` is anything with
    ``submit``. ``retries`` says how often a failed task is tried again.

    Raises UsageError if a task is named twice; CommitFailed if a task commit failed, or its process was lost
    and may have been committing, and the committer cannot repeat it; else what a task raised in its last
    attempt. The other tasks are waited for first.
    """
    names = [ids.task_id(task) for task in tasks]
    if len(set(names)) < len(names) or retries < 0:
        raise UsageError("name each task once, and give retries of 0 or more")
    repeatable = spec.make_committer().is_task_commit_repeatable
    run = _run_attempt if repeatable else _run_and_tell

    def submit(name: TaskId) -> Future[TaskCommit | _Failed]:
        # Not job.task(name): in threads it would hand its commit over by itself, and the caller again.
        return executor.submit(run, Task(spec, name), function)

    submitted = [(name, submit(name)) for name in names]
    try:
        commits, failures = _gathered(spec, submitted, submit, retries, repeatable=repeatable)
    except BaseException:  # an interruption: nothing is begun any more
        for _, future in submitted:
            future.cancel()
        raise
    if failures:
        raise _summary(failures, repeatable=repeatable)
    return commits


def _gathered(
    spec: JobSpec,
    submitted: Sequence[tuple[TaskId, Future[TaskCommit | _Failed]]],
    submit: Callable[[TaskId], Future[TaskCommit | _Failed]],
    retries: int,
    *,
    repeatable: bool,
) -> tuple[list[TaskCommit], list[Exception]]:
    """Wait for all tasks, running failed ones again; returns the winners' commits, and why others failed."""
    commits: list[TaskCommit] = []
    failures: list[Exception] = []
    for name, first in submitted:
        future = first
        for left in range(retries, -1, -1):
            outcome = _outcome(future, spec, name, repeatable=repeatable)
            if isinstance(outcome, TaskCommit):
                commits.append(outcome)
                break
            error, again = outcome
            if not left or not again:
                failures.append(error)
                break
            future = submit(name)
    return commits, failures


def _outcome(
    future: Future[TaskCommit | _Failed], spec: JobSpec, name: TaskId, *, repeatable: bool
) -> TaskCommit | tuple[Exception, bool]:
    """What became of an attempt: its commit, or its error and whether the task may be run again."""
    try:
        result = future.result()
    except Exception as error:  # noqa: BLE001 - any failure of a task is retried
        if repeatable:
            return error, not isinstance(error, BrokenExecutor)
        # The attempt would have reported; so nobody knows how far it came.
        failure = not_repeatable(spec.committer, name, f"its process was lost ({error!r})")
        failure.__cause__ = error
        return failure, False
    if isinstance(result, TaskCommit):
        return result
    if not result.committing or repeatable:
        return result.error, True
    if isinstance(result.error, CommitFailed):
        return result.error, False
    failure = not_repeatable(spec.committer, name, str(result.error))
    failure.__cause__ = result.error
    return failure, False


def _summary(failures: list[Exception], *, repeatable: bool) -> Exception:
    """The one error to raise. That the job has failed for good comes before all others."""
    fatal = next((one for one in failures if not repeatable and isinstance(one, CommitFailed)), None)
    if fatal is None:
        return failures[0] if len(failures) == 1 else ExceptionGroup("tasks failed", failures)
    for other in failures:
        if other is not fatal:
            fatal.add_note(f"and: {other}")
    return fatal


def _run_attempt(task: Task, function: Callable[[Task], Any]) -> TaskCommit:
    with task.lent():
        function(task)
    commit = task.committed
    if commit is None:
        raise ProtocolViolation(f"task {task.id} was aborted by its own function; raise an error instead")
    return commit


def _run_and_tell(task: Task, function: Callable[[Task], Any]) -> TaskCommit | _Failed:
    """The same, but what fails is returned: what the executor raises then is not the attempt's."""
    try:
        return _run_attempt(task, function)
    except Exception as error:  # noqa: BLE001 - told to the driver
        error.add_note(traceback.format_exc())
        return _Failed(error, task.began_commit)
