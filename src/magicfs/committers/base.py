"""What every committer is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magicfs.engine import Engine
    from magicfs.formats.task_commit import Counters, TaskCommit
    from magicfs.protocol.guarantees import Guarantees
    from magicfs.protocol.ids import AttemptId, TaskId
    from magicfs.report import JobReport
    from magicfs.transaction.context import JobContext, JobSetup
    from magicfs.transaction.record import IsCurrentDriver


class Committer(ABC):
    """One commit protocol, bound to a job and its store. Coroutines on the store's loop.

    All facts come from the context and the store, so any process may call any method.
    """

    name = ""

    def __init__(self, context: JobContext, engine: Engine) -> None:
        self.context = context
        self.engine = engine

    @property
    @abstractmethod
    def guarantees(self) -> Guarantees:
        """What it promises on this store."""

    @property
    @abstractmethod
    def is_recovery_supported(self) -> bool:
        """Whether ``recover_tasks`` works (Hadoop's ``isRecoverySupported``)."""

    @property
    def is_task_commit_repeatable(self) -> bool:
        """Whether a task may be run and committed again after its commit died; if not, the job has failed."""
        return True

    @abstractmethod
    async def setup_job(self) -> JobSetup:
        """Check the destination and write the job object. Old data and ``_SUCCESS`` stay as they are.

        A second call, from any process, takes the job over: only the newest driver may commit it.

        Raises:
            UsageError: The destination is a file, or a table of Delta Lake or Apache Iceberg.
            OutputExists: ``mode="error"``, and data is there.
            CommitDenied: The job is past its commit point, or has ended.
            ObjectNotFound: No such bucket.
            PermissionDenied: The credentials do not work.
        """

    @abstractmethod
    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        """Whether an attempt wrote anything."""

    @abstractmethod
    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
        """Persist what an attempt wrote, in one atomic write; nothing becomes visible.

        A second call for the same attempt returns what the first persisted; where that is nothing
        (``tracking="memory"`` and a small set), it returns an empty commit, so engines must not ask twice.

        Args:
            task: The task.
            attempt: The attempt.
            counters: What the task has counted, for the job's statistics.

        Raises:
            CommitFailed: A file is unreadable, incomplete or still open, or two have one final name; the
                attempt's uploads are aborted.
            CommitOutcomeUnknown: The store did not say whether the write took place; nothing is aborted;
                call again.
            StoreError: The store refused or failed before that write; the attempt's uploads are aborted as
                far as the store lets us.
        """

    @abstractmethod
    async def abort_task(self, attempt: AttemptId) -> None:
        """Discard what an attempt wrote. A second call, or one for an unknown attempt, does nothing.

        Raises:
            StoreError: Something could not be discarded, or the store has been silent for a minute; the
                job's cleanup tries again.
        """

    async def commit_job(
        self,
        commits: Sequence[TaskCommit] | None,
        driver: str | None = None,
        tasks: int | None = None,
        *,
        is_current_driver: IsCurrentDriver | None = None,
    ) -> JobReport:
        """Publish the given commits, or those that a listing of the job attempt shows.

        A second call goes on where the first one stopped, whatever stopped it.

        Args:
            commits: Those that an engine accepted.
            driver: What ``setup_job`` returned; None commits whoever set the job up.
            tasks: How many tasks there must be, if that is known.
            is_current_driver: Asked before anything is changed: whether the engine still wants this driver to
                end the job. None asks nobody.

        Raises:
            ProtocolViolation: The commits do not belong together; nothing was changed.
            OutputExists: The mode forbids to publish onto what is there; nothing was changed.
            CommitDenied: Another driver or another job was faster, or the engine wants another driver;
                nothing of this one is visible.
            CommitFailed: Known not to have succeeded; what had become visible was removed again.
            CommitOutcomeUnknown: Nothing was removed; call again, or recover.
            CommitUnfinished: Every file is visible, but readers of manifests may not see them; call again, or
                recover.
            StoreError: The commits could not be read; nothing was changed; call again or abort.
        """
        from magicfs.transaction.record import require_current_driver

        await require_current_driver(is_current_driver, self.context.job)
        return await self._commit(commits, driver, tasks)

    @abstractmethod
    async def _commit(
        self, commits: Sequence[TaskCommit] | None, driver: str | None, tasks: int | None
    ) -> JobReport:
        """Commit the job, as the driver that the engine wants: one that it does not want touches nothing."""

    @abstractmethod
    async def committed_tasks(self) -> list[TaskId]:
        """The tasks whose pending sets a listing of the job attempt shows, once for each set."""

    @abstractmethod
    async def recover_tasks(self) -> list[TaskCommit]:
        """What earlier attempts of the job have committed, as commits of this one (``recoverTask``).

        The last committed attempt of each task. A second call returns the same.

        Raises:
            UsageError: ``is_recovery_supported`` is false; run the tasks again.
            FormatError: Something committed is malformed; nothing was changed.
        """

    async def abort_job(
        self,
        commits: Sequence[TaskCommit],
        driver: str | None = None,
        *,
        is_current_driver: IsCurrentDriver | None = None,
    ) -> None:
        """Discard everything of the job: uploads of all attempts, work objects, and what had become visible.

        A second call does nothing. For a job that has ended it removes, if no commits are given, what
        attempts have left since.

        Args:
            commits: Commits that are known here, belonging together or not; others are found in the store.
            driver: What ``setup_job`` returned; None aborts whoever set the job up.
            is_current_driver: As for ``commit_job``.

        Raises:
            ProtocolViolation: The job is published; nothing was removed.
            CommitDenied: Another driver took the job over, or the engine wants another one; nothing was
                removed.
            StoreError: Something could not be discarded, or the store has been silent for a minute; call
                again.
        """
        from magicfs.transaction.record import require_current_driver

        await require_current_driver(is_current_driver, self.context.job)
        await self._abort_job(commits, driver)

    @abstractmethod
    async def _abort_job(self, commits: Sequence[TaskCommit], driver: str | None) -> None:
        """Abort the job, as the driver that the engine wants."""
