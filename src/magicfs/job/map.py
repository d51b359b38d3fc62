"""Running a function once for each task on an executor, with retries."""

from __future__ import annotations

import secrets
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast
from weakref import WeakKeyDictionary

from magicfs.errors import CommitFailed, ProtocolViolation, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.commit import NoBar
from magicfs.job.spec import JobSpec
from magicfs.job.task import Task, not_repeatable
from magicfs.protocol import ids
from magicfs.protocol.ids import TaskId
from magicfs.runtime.interrupt import awaitable, result_of, run_on


class Submits(Protocol):
    """What runs calls elsewhere: a process pool, a client of Dask, and whatever else has ``submit``."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Run a call; what is returned has ``result()`` and ``cancel()``, as a ``Future`` has."""


class Pools:
    """An executor of the caller, or executors that this makes and shuts down.

    Args:
        executor: One, which stays the caller's; or what makes one.
    """

    def __init__(self, executor: Submits | Callable[[], Submits]) -> None:
        self._make = None if hasattr(executor, "submit") else executor
        self._current = None if self._make is not None else cast("Submits", executor)
        self._made_by: WeakKeyDictionary[Future[Any], Submits] = WeakKeyDictionary()
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.__exit__(kind, error, trace)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a call on the executor that is in use."""
        if self._make is None:
            assert self._current is not None
            future: Future[Any] = self._current.submit(function, *arguments)
            return future
        executor = self._current or self._made(self._make)
        try:
            future = executor.submit(function, *arguments)
        except BrokenExecutor:  # by another call, which has not been looked at yet
            executor = self._made(self._make)
            future = executor.submit(function, *arguments)
        self._made_by[future] = executor
        return future

    def _made(self, make: Callable[[], Submits]) -> Submits:
        made = make()
        # One that holds processes or connections is a context manager.
        self._current = self._ends.enter_context(cast("Any", made)) if hasattr(made, "__exit__") else made
        return self._current

    def replace_broken(self, future: Future[Any]) -> bool:
        """Whether a call may be made again after its executor broke: on a new one, if this may make one.

        All calls of one that is broken come here; the first has it replaced.
        """
        if self._make is None:
            return False
        if self._made_by.get(future) is self._current:
            self._current = None
        return True


class _Job(Protocol):
    """What ``Maps`` needs of the job that it is a part of."""

    spec: JobSpec
    _bar: NoBar

    def add(self, commit: TaskCommit) -> None: ...
    def _require_open(self, call: str) -> None: ...


class Maps:
    """The methods of ``Job`` that run tasks elsewhere and collect their commits."""

    def recover_tasks(self: _Job) -> list[TaskCommit]:
        """Find task commits of earlier attempts of this job, and add them to it.

        Call it once, after ``setup``: a second call adds the same commits again, which ``commit`` refuses.

        Raises:
            ProtocolViolation: The job is not set up, or has ended.
            UsageError: The committer cannot recover tasks, or this is attempt 0; run the tasks again.
            FormatError: A commit is malformed; nothing was changed.
        """
        self._require_open("recover_tasks")
        found: list[TaskCommit] = run_on(self.spec.loop, self.spec.make_committer().recover_tasks)
        for commit in found:
            self.add(commit)
        return found

    def map(
        self: _Job,
        function: Callable[[Task], Any],
        tasks: Iterable[int | str],
        *,
        executor: Submits | Callable[[], Submits],
        retries: int = 3,
    ) -> list[TaskCommit]:
        """Run a function once per task on an executor, with retries, and return the winning commits.

        The end of the ``with`` block publishes them; without one, pass them to ``commit``. If you cancel
        ``amap``, it starts no more tasks, and the end of the block aborts the job.

        Args:
            function: Writes through the task that it gets; for process pools it has to pickle.
            tasks: Numbers or names, each once.
            executor: Anything with ``submit``, such as a process pool or Dask's client; or a function that
                creates a pool, and is called again if a dead process has broken the last one.
            retries: How often to retry a failed task, each time in a new attempt.

        Raises:
            UsageError: A task is named twice, or ``retries`` is negative.
            Exception: The last error of a task, after all others have ended.
        """
        self._require_open("map")
        commits = run_tasks(self.spec, function, tasks, executor=executor, retries=retries, bar=self._bar)
        for commit in commits:
            self.add(commit)
        return commits

    amap: Final = awaitable(map)  # noqa: A003 - it is the method


@dataclass(frozen=True, slots=True)
class _Failed:
    """An attempt that failed and returned its error."""

    error: Exception
    committing: bool  # whether it failed in its commit


_Future = Future[TaskCommit | _Failed]


def run_tasks(
    spec: JobSpec,
    function: Callable[[Task], Any],
    tasks: Iterable[int | str],
    *,
    executor: Submits | Callable[[], Submits],
    retries: int,
    bar: NoBar,
) -> list[TaskCommit]:
    """Run every task, each failed one again in a new attempt, and return the winners' commits, by task.

    Where the committer cannot repeat a task commit, a task is run again only if its attempt reports that it
    failed before it began to commit. Tasks are numbers or names, each once. ``executor`` is anything with
    ``submit``, or what makes one: then a new one takes the place of one that is broken. ``retries`` says how
    often a failed task is tried again.

    Raises UsageError if a task is named twice; CommitFailed if a task commit failed, or its process was lost
    and may have been committing, and the committer cannot repeat it; else what a task raised in its last
    attempt. The other tasks are waited for first.
    """
    names = [ids.task_id(task) for task in tasks]
    if len(set(names)) < len(names) or retries < 0:
        raise UsageError("name each task only once, and give retries of 0 or more")
    repeatable = spec.make_committer().is_task_commit_repeatable
    run = _run_attempt if repeatable else _run_and_tell
    with Pools(executor) as pools:

        def submit(name: TaskId) -> _Future:
            # Not job.task(name): in threads it would hand its commit over by itself, and the caller again.
            # The last argument is there for executors that take equal calls for one, as Dask's does: they
            # would answer the second attempt with the first one's error.
            future = pools.submit(run, Task(spec, name), function, secrets.token_hex(6))
            future.add_done_callback(partial(_show, bar))
            return future

        bar.tasks_total = len(names)

        waiting: deque[tuple[TaskId, _Future, int]] = deque()
        try:
            waiting.extend((name, submit(name), retries) for name in names)
            commits, failures = _gathered(spec, waiting, submit, pools, repeatable=repeatable)
        except BaseException:  # an interruption: nothing is begun any more
            for _, future, _ in waiting:
                future.cancel()
            raise
    if failures:
        raise _summary(failures, repeatable=repeatable)
    return [commits[name] for name in names]


def _show(bar: NoBar, future: _Future) -> None:
    if not future.cancelled() and future.exception() is None and isinstance(future.result(), TaskCommit):
        bar.committed(future.result())  # type: ignore[arg-type]


def _gathered(
    spec: JobSpec,
    waiting: deque[tuple[TaskId, _Future, int]],
    submit: Callable[[TaskId], _Future],
    pools: Pools,
    *,
    repeatable: bool,
) -> tuple[dict[TaskId, TaskCommit], list[Exception]]:
    """Wait for all tasks, running failed ones again; returns the winners' commits, and why others failed.

    A task that is run again goes to the end of those that are waited for: where a process pool breaks, all
    its tasks fail at once, and must not run one after the other.
    """
    commits: dict[TaskId, TaskCommit] = {}
    failures: list[Exception] = []
    while waiting:
        name, future, left = waiting[0]
        outcome = _outcome(future, spec, name, repeatable=repeatable)
        waiting.popleft()
        if isinstance(outcome, TaskCommit):
            commits[name] = outcome
            continue
        error, again = outcome
        if isinstance(error, BrokenExecutor):
            again = again and pools.replace_broken(future)
        if left and again:
            waiting.append((name, submit(name), left - 1))
        else:
            failures.append(error)
    return commits, failures


def _outcome(
    future: _Future, spec: JobSpec, name: TaskId, *, repeatable: bool
) -> TaskCommit | tuple[Exception, bool]:
    """What became of an attempt: its commit, or its error and whether the task may be run again."""
    try:
        result = result_of(future)
    except Exception as error:  # noqa: BLE001 - any failure of a task is retried
        if repeatable:
            return error, True
        # The attempt would have reported; so nobody knows how far it came.
        failure = not_repeatable(spec.options.committer, name, f"its process died ({error!r})")
        failure.__cause__ = error
        return failure, False
    if isinstance(result, TaskCommit):
        return result
    if not result.committing or repeatable:
        return result.error, True
    if isinstance(result.error, CommitFailed):
        return result.error, False
    failure = not_repeatable(spec.options.committer, name, str(result.error))
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


def _run_attempt(task: Task, function: Callable[[Task], Any], _attempt: str) -> TaskCommit:
    with task.lent():
        function(task)
    commit = task.committed
    if commit is None:
        raise ProtocolViolation(f"task {task.id} was aborted by its own function; raise an error instead")
    return commit


def _run_and_tell(task: Task, function: Callable[[Task], Any], attempt: str) -> TaskCommit | _Failed:
    """The same, but what fails is returned: what the executor raises then is not the attempt's."""
    try:
        return _run_attempt(task, function, attempt)
    except Exception as error:  # noqa: BLE001 - told to the driver
        error.add_note(traceback.format_exc())
        return _Failed(error, task.began_commit)
