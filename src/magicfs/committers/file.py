"""The file committer: Hadoop's ``FileOutputCommitter``, algorithms 1 and 2, on anything with a rename.

Tasks write plain files below ``_temporary``, and the files are renamed to where they belong: once when their
task commits, and with algorithm 1 once more when the job does. On a filesystem a rename is one step; an
object store copies every byte and deletes the original, each time.

It differs from Hadoop's where that loses data or publishes it twice: two jobs at one destination do not meet,
an attempt cannot touch what another has committed, what is published is written down before the first file
moves, and so a job commit that died is carried on by whoever comes next. Reasons stand in the modules
``file_moved_aside`` (algorithm 1), ``file_moved_at_once`` (algorithm 2) and ``commit_markers``.
"""

from __future__ import annotations

from magicfs.committers import file_checks
from magicfs.committers.commit_markers import Chosen
from magicfs.committers.file_algorithms import chosen_of
from magicfs.committers.file_cleaning import prune
from magicfs.committers.file_job import FileJob
from magicfs.committers.file_merge import walk
from magicfs.errors import CommitDenied, UsageError
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.task_commit import TaskCommit

__all__ = ["FileCommitter"]


class FileCommitter(FileJob):
    """See ``Committer``, and ``guarantees`` for what each algorithm promises."""

    @property
    def guarantees(self) -> Guarantees:  # noqa: D102
        return self._how.guarantees

    @property
    def is_recovery_supported(self) -> bool:  # noqa: D102
        return True

    @property
    def is_commit_job_repeatable(self) -> bool:
        """True for both; Hadoop's algorithm 1 forgets which attempts it was publishing, and says false."""
        return True

    @property
    def is_task_commit_repeatable(self) -> bool:  # noqa: D102
        return self._how.is_task_commit_repeatable

    # -- tasks ---------------------------------------------------------------------------------------------

    async def needs_task_commit(self, attempt: AttemptId) -> bool:  # noqa: D102
        async for _ in walk(self.engine.store, self._layout.task_attempt_directory(attempt)):
            return True
        return False

    async def commit_task(self, task: TaskId, attempt: AttemptId) -> TaskCommit:
        """Move what an attempt wrote: aside with algorithm 1, to the destination with algorithm 2.

        A second call for the same attempt goes on where the first one stopped, and returns the same.

        Raises:
            CommitDenied: The job has ended, or a later attempt of it has begun, or with algorithm 2 another
                attempt has committed the task; nothing of this one is visible, and its files were removed.
            CommitFailed: A file bears a name that is kept for committers. Or, with algorithm 2, a part of the
                task's files may be visible: the job must be aborted.
            CommitOutcomeUnknown: The store did not say whether the commit took place; call again.
            StoreError: The store refused or failed; the attempt has not committed.
        """
        job = await self._records.job()
        try:
            if job is None:
                raise file_checks.ended(self.context)
            if job.attempt > self.context.layout.attempt:
                raise CommitDenied(
                    f"attempt {job.attempt} of job {job.job} has begun, and {attempt} belongs to attempt "
                    f"{self.context.layout.attempt}; nothing of it is published"
                )
            file_checks.require_same_way(job, self.context, self.algorithm)
            record = await self._how.commit_task(task, attempt)
        except CommitDenied:
            await self.abort_task(attempt)
            raise
        return self._commit_of(chosen_of(record))

    def _commit_of(self, one: Chosen) -> TaskCommit:
        key = self._records.key(one.task, one.attempt) if self.algorithm == 1 else None
        return self.commit_of(one.task, one.attempt, one.files, one.bytes, key, None)

    async def abort_task(self, attempt: AttemptId) -> None:
        """Discard what an attempt wrote and has not committed. A second call does nothing.

        What it has committed stays where it is: the job does not publish it unless it is told to, and removes
        it at its end. With algorithm 2 it is visible.
        """
        await self._tree.delete_tree(self._layout.task_attempt_directory(attempt))
        if await self._records.job() is None:
            await prune(self._tree, self._layout)

    async def committed_tasks(self) -> list[TaskId]:  # noqa: D102
        return await self._how.tasks()

    async def recover_tasks(self) -> list[TaskCommit]:
        """What earlier attempts of the job have committed, as commits of this one.

        Where an earlier attempt has begun to commit the job it is exactly what that one was publishing.
        A second call returns the same.

        Raises:
            UsageError: This is attempt 0, so there is no earlier one.
            CommitFailed: A task's files are gone, or with algorithm 2 a task commit began and did not end.
            CommitDenied: The job has ended.
            FormatError: Something committed cannot be believed; nothing was changed.
        """
        if self.context.layout.attempt == 0:
            raise UsageError("this is attempt 0 of the job, so no earlier one has committed anything")
        marks, job = await self._markers.read(), await self._records.job()
        if marks.success is not None or (job is None and await self._records.is_published()):
            return []
        if job is None:
            raise file_checks.ended(self.context)
        file_checks.require_not_given_up(marks)
        if marks.started is not None:
            return [self._commit_of(one) for one in marks.started.tasks]
        return [self._commit_of(one) for one in await self._how.recover()]
