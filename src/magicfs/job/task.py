"""``Task``: what an engine runs, possibly more than once, possibly elsewhere."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from magicfs.errors import CommitError, CommitFailed, CommitOutcomeUnknown, ProtocolViolation, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.job import late_tasks
from magicfs.job.progress import UploadMeter
from magicfs.job.spec import JobSpec
from magicfs.protocol import ids
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.report import ProgressCallback
from magicfs.runtime import watchers
from magicfs.runtime.interrupt import Call, Twins, awaitable, run_on

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem
    from pyarrow.fs import PyFileSystem

    from magicfs.committers.work_places import WorkPlace

_NAMED = 10
_State = Literal["open", "committed", "aborted", "failed"]
_PROBLEMS: Final[dict[_State, str]] = {
    "open": "set up but never committed: its files are not published; use with job.task(…) as task, or call "
    "task.commit()",
    "failed": "ended by an error, and no other attempt of it committed: its files are not published; see "
    "what it raised (threads keep that in futures); job.commit(tasks=…) refuses a job that lacks a task",
}


class OpenAttempts:
    """Those of one job, and failed ones. Nobody publishes what they wrote; their writer may believe it is."""

    def __init__(self) -> None:
        self._states: dict[AttemptId, _State] = {}
        self._lock = threading.Lock()

    def note(self, attempt: AttemptId, state: _State) -> None:
        """An attempt has got into another state."""
        with self._lock:
            self._states.pop(attempt, None)
            if state in _PROBLEMS:
                self._states[attempt] = state

    def forgotten(self, commits: Sequence[TaskCommit], state: _State = "open") -> list[str]:
        """Tasks that were set up, or have failed, and have no commit, by any attempt."""
        with self._lock:
            found = {ids.task_of_attempt(one) for one, now in self._states.items() if now == state}
        return sorted(found - {c.task_id for c in commits})

    def warnings(self, commits: Sequence[TaskCommit]) -> tuple[str, ...]:
        """Return, and log, warnings if a job publishes these commits and lacks tasks."""
        found: list[str] = []
        for state, problem in _PROBLEMS.items():
            if tasks := self.forgotten(commits, state):
                found.append(f"{_named(tasks)} {problem}")
                _LOGGER.warning("%s", found[-1])
        return tuple(found)

    def require_some(self, job: str, commits: Sequence[TaskCommit] | None, *, allow_empty: bool) -> None:
        """Refuse to publish nothing although tasks were set up."""
        if commits is None or commits or allow_empty or not (forgotten := self.forgotten(commits)):
            return
        raise ProtocolViolation(
            f"no task of job {job} was committed, but {_named(forgotten)} set up; nothing was published; "
            "commit each task (use with job.task(…) as task), or abort it; pass options={'allow_empty': "
            "True} to Job to publish nothing"
        )


def _named(tasks: Sequence[str]) -> str:
    noun, verb = ("task", "was") if len(tasks) == 1 else ("tasks", "were")
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    return f"{noun} {', '.join(tasks[:_NAMED])}{more} {verb}"


_LOGGER = logging.getLogger("magicfs")

OnState = Callable[[AttemptId, _State], None]
"""Called for each attempt that is set up, committed or aborted, and for one that an error has ended."""


class Task(Twins):
    """One task of a job. As a context manager it sets itself up, commits, and aborts if the body raises.

    You can pickle a task before you set it up, and run it more than once, even at the same time: each
    ``setup`` starts a separate attempt. A pickle contains the task, never an attempt. A task that was pickled
    reads the job's state from the store before it writes and after it has committed.

    Args:
        spec: The job.
        task: The task's id.
        on_commit: Called with each commit; not pickled.
        check: Called with the name of each call that needs its job open; not pickled.
        on_state: Called when an attempt is set up, committed or aborted; not pickled.
        is_elsewhere: Whether it has to read the job's state from the store, as a pickled task does.

    Attributes:
        id: The task's id: text, such as ``"000003"``.
    """

    def __init__(
        self,
        spec: JobSpec,
        task: TaskId,
        *,
        on_commit: Callable[[TaskCommit], None] | None = None,
        check: Callable[[str], None] | None = None,
        on_state: OnState | None = None,
        is_elsewhere: bool = False,
    ) -> None:
        self.id = task
        self._spec = spec
        self._on_commit = on_commit
        self._check = check
        self._on_state = on_state
        self._is_elsewhere = is_elsewhere
        self._is_lent = False  # set up for a function that may do so itself
        self._attempt: AttemptId | None = None
        self._work_place: WorkPlace | None = None
        self._process: int | None = None
        self._state: Literal["new", "open", "committing", "committed", "aborted"] = "new"
        self._commit: TaskCommit | None = None
        self._began_commit = False
        self._counters: dict[str, int] = {}

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._spec.job

    @property
    def attempt_id(self) -> AttemptId:
        """The attempt, once the task is set up."""
        return self._require_attempt()

    @property
    def path(self) -> str:
        """Where to write, without a scheme: ``bucket/…/__base``. Relative paths become the destination's.

        With ``committer="directory"`` or ``"partitioned"`` it is a directory of this machine.
        """
        return self._place().path

    def url(self, name: str = "") -> str:
        """A URL for a file of the given relative name, to go with ``storage_options``.

        Pass it to any library that writes through fsspec, such as pandas and Dask, or DuckDB once you
        have registered ``filesystem`` there. With Polars and pyarrow, open a file of ``filesystem``, or use
        ``committer="directory"``; for xarray replace ``magic+`` by ``magic::``. A local file has a plain
        path, and its directory is created.
        """
        return self._place().url(name)

    def path_to(self, directory: str) -> str:
        """Where to write, with ``filesystem``, for a directory in one of the job's extra destinations.

        Relative paths become that directory's. With ``committer="directory"`` or ``"partitioned"`` it is a
        local directory, and is created.

        Args:
            directory: A URL, such as ``s3://bucket/other/day=1``.

        Raises:
            UsageError: It is not in one of the job's ``extra_destinations``.
        """
        return self._place_in(directory).path

    def url_to(self, directory: str, name: str = "") -> str:
        """As ``path_to``, a URL for a file of the given relative name, to go with ``storage_options``."""
        return self._place_in(directory).url(name)

    @property
    def storage_options(self) -> dict[str, Any]:
        """Options to pass to pandas or fsspec together with ``url``. May contain secrets.

        Raises:
            UsageError: You gave the job a filesystem instance, whose options magicfs cannot know, or its
                committer writes to a place without a URL.
        """
        options = self._place().storage_options
        if options is None:
            raise UsageError("this task's directory has no URL; write through task.filesystem")
        return {name: dict(value) if isinstance(value, dict) else value for name, value in options.items()}

    @property
    def filesystem(self) -> AbstractFileSystem:
        """The filesystem to write through; most committers have one for all tasks of a process.

        Changes outside of ``path`` happen at once and are not part of the job; the log ``magicfs`` warns you.
        """
        from magicfs.filesystem import MagicFileSystem

        found = self._place().filesystem()
        if isinstance(found, MagicFileSystem):
            found.is_guarded = True
        return found

    @property
    def arrow_filesystem(self) -> PyFileSystem:
        """``filesystem`` for pyarrow: ``write_dataset(table, task.path, filesystem=task.arrow_filesystem)``.

        It writes faster than ``filesystem``. If Arrow fails and leaves a file open, the file is not recorded,
        and the task cannot commit. Each access returns a new object for the same files.

        Raises:
            UsageError: pyarrow is not installed.
        """
        try:
            from magicfs.job.arrow_streams import arrow_filesystem
        except ImportError as error:
            raise UsageError("arrow_filesystem needs pyarrow; pip install 'magicfs[arrow]'") from error
        return arrow_filesystem(self.filesystem)

    def setup(self, suffix: str | None = None) -> Self:
        """Start an attempt in this process. Sends no request, or one to read the job if the task was pickled.

        Creates the directory if the task writes local files. With ``committer="directory"`` or
        ``"partitioned"`` it is empty, and leftovers of dead attempts on this machine are removed.

        Args:
            suffix: A name that distinguishes this attempt of the task, in lower-case letters and digits, such
                as your engine's attempt number; by default random.

        Raises:
            ProtocolViolation: The task is already set up, or its job has ended, or the same attempt is
                already running on this machine.
            UsageError: The local directory cannot be created.
            StoreError: A directory in the destination cannot be created, or the job could not be read.
        """
        if self._is_lent and suffix is None and self._state == "open":
            self._is_lent = False
            return self
        if self._state != "new":
            raise ProtocolViolation(
                f"task {self.id} is {self._state}; use a new job.task({self.id!r}) for another attempt"
            )
        self._require_job("setup")
        if self._is_elsewhere:
            late_tasks.refuse_if_ended(self._spec, self.id)
        attempt = ids.attempt_id(self.id, suffix or secrets.token_hex(6))
        work_place = self._spec.work_place(self.id, attempt)
        work_place.prepare()
        self._spec.tell_filesystem(attempt)
        self._attempt = attempt
        self._work_place = work_place
        self._process = os.getpid()
        self._move("open")
        self._facts = {**self._spec.facts, "task": self.id, "attempt": attempt}
        watchers.happened("task set up", **self._facts)
        return self

    @contextlib.contextmanager
    def lent(self) -> Iterator[Self]:
        """As ``with task``, for a function that gets the task and may use a ``with`` block of its own."""
        with self:
            self._is_lent = True
            yield self

    def needs_commit(self) -> bool:
        """Whether the attempt wrote anything. If not, you can abort the task without loss."""
        attempt = self._require_attempt()
        found: bool = run_on(self._spec.loop, self._spec.make_committer().needs_task_commit, attempt)
        return found

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter of the attempt. The job's ``_SUCCESS`` and report contain the sums.

        Args:
            name: The counter, such as ``records_written`` for the number of rows.
            number: How many.

        Raises:
            ProtocolViolation: The task is not set up, or is already committed or aborted.
            UsageError: The number is negative.
        """
        self._require_attempt()
        if self._state != "open":
            raise ProtocolViolation(f"task {self.id} is already {self._state}; count before it commits")
        if number < 0:
            raise UsageError(f"{name} cannot go down by {-number}; count what is written")
        self._counters[name] = self._counters.get(name, 0) + number

    def commit(self, progress: ProgressCallback | None = None) -> TaskCommit:
        """Wait for the files of the attempt, and save them for the job commit. Nothing becomes visible yet.

        Args:
            progress: If the commit uploads local files (``directory``, ``partitioned``), called with a
                ``Progress`` after every part, on the I/O thread; it must be quick.

        Raises:
            ProtocolViolation: The task is already committed or aborted, or its job has ended; or with
                ``tracking="memory"`` another process set it up, and only that one knows its files.
            CommitFailed: A file failed, is unreadable or open; the attempt's uploads are aborted. If the
                committer's ``is_task_commit_repeatable`` is false, any failure: the job has failed.
            CommitOutcomeUnknown: The store did not answer; commit again, or run the task again.
            StoreError: The store refused or failed; the attempt's uploads are aborted as far as possible.
        """
        attempt = self._require_attempt()
        if self._state != "open":
            raise ProtocolViolation(
                f"task {self.id} is already {self._state}; use a new job.task({self.id!r}) to run it again"
            )
        self._require_job("commit")
        if self._spec.options.tracking == "memory" and self._process != os.getpid():
            raise ProtocolViolation(
                f"task {self.id} was set up in another process, and with tracking='memory' only that "
                "process knows its files; set it up and commit it where it writes, or use tracking='store'"
            )
        from magicfs.committers.driven import DrivenCommitter

        meter = UploadMeter(progress) if progress is not None else None
        committer = self._spec.make_committer(meter)
        self._began_commit = True
        work = partial(committer.commit_task, self.id, attempt, self._counters)
        driven = isinstance(committer, DrivenCommitter)
        waiting = (
            f"task {self.id} is being committed, waiting for it to finish; interrupt again to stop waiting"
        )
        call = Call(self._spec.loop, work, whole=not driven, waiting=waiting)
        try:
            with watchers.work("task commit", **self._facts):
                call.run()
        except CommitOutcomeUnknown:
            raise
        except BaseException as error:
            if call.interrupted:
                self._tell(call, error)
                raise
            self._move("aborted", "failed")  # a failed commit leaves nothing to commit again
            if isinstance(error, CommitError) or committer.is_task_commit_repeatable:
                raise
            raise not_repeatable(self._spec.options.committer, self.id, repr(error)) from error
        finally:
            if meter is not None and meter.trouble:
                _LOGGER.warning("task %s: %s", self.id, meter.trouble)
        if self._is_elsewhere:
            self._leave_nothing_behind(call.result())
        return self._committed(call.result())

    def _leave_nothing_behind(self, commit: TaskCommit) -> None:
        try:
            late_tasks.discard_if_ended(self._spec, commit)
        except BaseException:
            self._move("aborted")
            raise

    def _committed(self, commit: TaskCommit) -> TaskCommit:
        self._commit = commit
        self._move("committed")
        told = (self.job_id, self.id, commit.files, commit.bytes)
        _LOGGER.info("job %s: task %s is committed: %d files, %d bytes", *told)
        if self._on_commit is not None and self._process == os.getpid():
            self._on_commit(commit)
        return commit

    def _tell(self, call: Call[TaskCommit], interruption: BaseException) -> None:
        """Say in an interruption of the commit what has become of the task. If stopped, it is aborted."""
        if call.succeeded:
            self._committed(call.result())
            interruption.add_note(f"task {self.id} is committed anyway")
        elif not call.ended:
            self._state = "committing"
            interruption.add_note(
                f"task {self.id} is still being committed by this process; abort its job, or run it again"
            )
        elif not isinstance(call.error, CommitOutcomeUnknown):
            self._abort_after(interruption)

    @property
    def began_commit(self) -> bool:
        """Whether ``commit`` was called and got as far as the store."""
        return self._began_commit

    @property
    def committed(self) -> TaskCommit | None:
        """What ``commit`` returned; None before."""
        return self._commit

    def abort(self) -> None:
        """Discard the files of the attempt. A second call does nothing.

        Raises:
            ProtocolViolation: The task is committed.
            StoreError: Something could not be discarded; the job's cleanup tries again.
        """
        if self._state in {"new", "aborted"}:
            return
        if self._state == "committed":
            raise ProtocolViolation(f"task {self.id} is committed; leave its commit out of job.commit")
        self._move("aborted")
        _LOGGER.info("job %s: task %s is aborted", self.job_id, self.id)
        abort = partial(self._spec.make_committer().abort_task, self._require_attempt())
        waiting = (
            f"task {self.id} is being aborted, waiting for it to finish; interrupt again to stop waiting"
        )
        with watchers.work("task abort", **self._facts):
            Call(self._spec.loop, abort, whole=True, waiting=waiting).run()

    asetup: Final = awaitable(setup)
    acommit: Final = awaitable(commit)
    aabort: Final = awaitable(abort)

    def __enter__(self) -> Self:
        return self.setup()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state != "open" or self._process != os.getpid():  # a fork leaves the task to its parent
            return
        if exc is None:
            self.commit()
        else:
            self._abort_after(exc)

    def _abort_after(self, error: BaseException) -> None:
        try:
            self.abort()
        except Exception as second:  # noqa: BLE001 - the first error must not be hidden
            error.add_note(f"and task {self.id} could not be fully aborted: {second}")
        self._move("aborted", "failed")

    def _move(self, state: Literal["open", "committed", "aborted"], noted: _State | None = None) -> None:
        self._state = state
        if self._on_state is not None:
            self._on_state(self._require_attempt(), noted or state)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), is_elsewhere=True), (self._spec, self.id)

    def __repr__(self) -> str:
        return f"<Task {self.id} of job {self.job_id}, {self._state}>"

    def _place(self) -> WorkPlace:
        attempt = self._require_attempt()
        if self._work_place is None or self._process != os.getpid():
            # Of a forked process, which needs connections of its own.
            return self._spec.work_place(self.id, attempt)
        return self._work_place

    def _place_in(self, directory: str) -> WorkPlace:
        """Where to write for a directory in an extra destination."""
        place = self._spec.work_place(self.id, self._require_attempt(), directory)
        if place.prefix == "file://" and self._state == "open":
            Path(place.path).mkdir(parents=True, exist_ok=True)
        return place

    def _require_attempt(self) -> AttemptId:
        if self._attempt is None:
            raise ProtocolViolation(
                f"task {self.id} is not set up; call setup() where it runs, or use a with block"
            )
        return self._attempt

    def _require_job(self, call: str) -> None:
        if self._check is not None:
            self._check(f"task.{call}")


def not_repeatable(committer: str, task: str, problem: str) -> CommitFailed:
    """What to raise when a task commit that cannot be repeated has failed, or may have died."""
    return CommitFailed(
        f"task {task} failed, or may have failed, to commit: {problem}. committer={committer!r} publishes "
        "when a task commits and cannot repeat that, so a part of the task may be visible and the job has "
        "failed; abort it, remove its visible files, and run it again under another job id",
        failed=[task],
    )
