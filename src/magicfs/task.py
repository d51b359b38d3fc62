"""``Task``: what an engine runs, possibly more than once, possibly elsewhere."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

from fsspec.asyn import sync

from magicfs.errors import CommitOutcomeUnknown, ProtocolViolation, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.job_spec import JobSpec
from magicfs.protocol import ids
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.task_commit import TaskCommit

__all__ = ["Task"]


class Task:
    """One task of a job. As a context manager it sets itself up, commits, and aborts if the body raises.

    A task may be pickled before it is set up, and may run more than once, even at the same time: each
    ``setup`` makes an attempt of its own. What is pickled is the task, never an attempt.

    Args:
        spec: The job.
        task: The task's id.
        on_commit: Told what ``commit`` persisted; forgotten by pickling.
        check: Called with the name of each call that needs its job open; forgotten by pickling.

    Attributes:
        id: The task's id.
    """

    def __init__(
        self,
        spec: JobSpec,
        task: TaskId,
        *,
        on_commit: Callable[[TaskCommit], None] | None = None,
        check: Callable[[str], None] | None = None,
    ) -> None:
        self.id = task
        self._spec = spec
        self._on_commit = on_commit
        self._check = check
        self._attempt: AttemptId | None = None
        self._process: int | None = None
        self._state: Literal["new", "open", "committed", "aborted"] = "new"
        self._commit: TaskCommit | None = None

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
        """Where to write, without a scheme: ``bucket/…/__base``. Relative paths become the destination's."""
        work = self._spec.work_layout.work_directory(self._require_attempt())
        return f"{self._spec.location.bucket}/{work}"

    def url(self, name: str = "") -> str:
        """A chained URL for a file of the given relative name, to go with ``storage_options``."""
        scheme = self._spec.location.scheme
        return f"magic::{scheme}://{self.path}" + (f"/{name}" if name else "")

    @property
    def storage_options(self) -> dict[str, Any]:
        """What ``pandas`` and ``fsspec`` need beside ``url``. May hold secrets.

        Raises:
            UsageError: The job was given a filesystem instance, whose options are not known.
        """
        if self._spec.filesystem is not None:
            raise UsageError("this job was given a filesystem; write through task.filesystem")
        options = self._spec.magic_options()
        if self._spec.storage_options:
            options[self._spec.location.scheme] = dict(self._spec.storage_options)
        return options

    @property
    def filesystem(self) -> MagicFileSystem:
        """The filesystem to write through; the same instance for all tasks of a process."""
        return self._spec.magic_filesystem()

    def setup(self, suffix: str | None = None) -> Self:
        """Start an attempt, here and now. No request is made.

        Args:
            suffix: What tells this attempt from others of the task, in lower-case letters and digits, if
                the engine has a number that does; by default random.

        Raises:
            ProtocolViolation: The task was set up already, or its job has ended.
        """
        if self._state != "new":
            raise ProtocolViolation(
                f"task {self.id} is {self._state}; use a new job.task({self.id!r}) for another attempt"
            )
        self._require_job("setup")
        self._attempt = ids.attempt_id(self.id, suffix or secrets.token_hex(6))
        self._process = os.getpid()
        self._state = "open"
        return self

    def needs_commit(self) -> bool:
        """Whether the attempt wrote anything; a task that did not may be aborted without loss."""
        attempt = self._require_attempt()
        found: bool = sync(self._spec.loop, self._spec.make_committer().needs_task_commit, attempt)
        return found

    def commit(self) -> TaskCommit:
        """Persist what the attempt wrote; nothing becomes visible.

        Raises:
            ProtocolViolation: The task was committed or aborted already, or its job has ended, or with
                ``tracking="memory"`` it was set up in another process, which alone knows its files.
            CommitFailed: A file is unreadable or still open; the attempt's uploads are aborted.
            CommitOutcomeUnknown: The store fell silent; commit again, or run the task again.
            StoreError: The store refused or failed; the attempt's uploads are aborted as far as possible.
        """
        attempt = self._require_attempt()
        if self._state != "open":
            raise ProtocolViolation(
                f"task {self.id} is {self._state} already; use a new job.task({self.id!r}) to run it again"
            )
        self._require_job("commit")
        if self._spec.tracking == "memory" and self._process != os.getpid():
            raise ProtocolViolation(
                f"task {self.id} was set up in another process, and with tracking='memory' only that one "
                "knows its files; set it up and commit it where it writes, or use tracking='store'"
            )
        try:
            self._commit = sync(self._spec.loop, self._spec.make_committer().commit_task, self.id, attempt)
        except CommitOutcomeUnknown:
            raise
        except BaseException:
            self._state = "aborted"  # a failed commit leaves nothing to commit again
            raise
        assert self._commit is not None
        self._state = "committed"
        if self._on_commit is not None:
            self._on_commit(self._commit)
        return self._commit

    @property
    def committed(self) -> TaskCommit | None:
        """What ``commit`` returned; None before."""
        return self._commit

    def abort(self) -> None:
        """Discard what the attempt wrote. A second call does nothing.

        Raises:
            ProtocolViolation: The task was committed.
            StoreError: Something could not be discarded; the job's cleanup tries again.
        """
        if self._state in {"new", "aborted"}:
            return
        if self._state == "committed":
            raise ProtocolViolation(
                f"task {self.id} is committed; leave its commit out of job.commit instead"
            )
        self._state = "aborted"
        sync(self._spec.loop, self._spec.make_committer().abort_task, self._require_attempt())

    def __enter__(self) -> Self:
        return self.setup()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state != "open":
            return
        if exc is None:
            self.commit()
            return
        try:
            self.abort()
        except Exception as second:  # noqa: BLE001 - the first error must not be hidden
            exc.add_note(f"and task {self.id} could not be aborted whole: {second}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._spec, self.id)

    def __repr__(self) -> str:
        return f"<Task {self.id} of job {self.job_id}, {self._state}>"

    def _require_attempt(self) -> AttemptId:
        if self._attempt is None:
            raise ProtocolViolation(
                f"task {self.id} is not set up; call setup() where it runs, or use a with block"
            )
        return self._attempt

    def _require_job(self, call: str) -> None:
        if self._check is not None:
            self._check(f"task.{call}")
