"""Running a function once for each task on an executor, with retries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from magicfs.errors import ProtocolViolation, UsageError
from magicfs.job_spec import JobSpec
from magicfs.protocol import ids
from magicfs.protocol.ids import TaskId
from magicfs.task import Task
from magicfs.task_commit import TaskCommit

__all__ = ["run_tasks"]


def run_tasks(
    spec: JobSpec,
    function: Callable[[Task], Any],
    tasks: Iterable[int | str],
    *,
    executor: Executor,
    retries: int,
) -> list[TaskCommit]:
    """Run every task, each failed one again in a new attempt, and return the winners' commits.

    Args:
        spec: The job.
        function: Writes through the task that it is given.
        tasks: Numbers or names, each once.
        executor: Anything with ``submit``.
        retries: How often a failed task is tried again.

    Raises:
        UsageError: A task is named twice, or ``retries`` is negative.
        Exception: What a task raised in its last attempt; the other tasks are waited for first.
    """
    names = [ids.task_id(task) for task in tasks]
    if len(set(names)) < len(names) or retries < 0:
        raise UsageError("name each task once, and give retries of 0 or more")

    def submit(name: TaskId) -> Future[TaskCommit]:
        # Not job.task(name): in threads it would hand its commit over by itself, and the caller again.
        return executor.submit(_run_attempt, Task(spec, name), function)

    commits, failures = [], []
    for name, first in [(name, submit(name)) for name in names]:
        future = first
        for left in range(retries, -1, -1):
            try:
                commits.append(future.result())
                break
            except Exception as error:  # noqa: BLE001 - any failure of a task is retried
                if not left or isinstance(error, BrokenExecutor):
                    failures.append(error)
                    break
                future = submit(name)
    if failures:
        raise failures[0] if len(failures) == 1 else ExceptionGroup("tasks failed", failures)
    return commits


def _run_attempt(task: Task, function: Callable[[Task], Any]) -> TaskCommit:
    with task:
        function(task)
    commit = task.committed
    if commit is None:
        raise ProtocolViolation(f"task {task.id} was aborted by its own function; raise an error instead")
    return commit
