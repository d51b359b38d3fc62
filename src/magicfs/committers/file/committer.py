"""The file committer: the calls of drivers and of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from magicfs.committers.classic import ClassicCommitter
from magicfs.committers.file import markers
from magicfs.committers.file.algorithm import Algorithm, FileWork, chosen_of
from magicfs.committers.file.algorithm1 import MovedAside
from magicfs.committers.file.algorithm2 import MovedAtOnce
from magicfs.committers.file.documents import Chosen, JobFile
from magicfs.committers.file.ending import JobEnding
from magicfs.committers.file.merge import walk
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, UsageError
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.report import JobReport
from magicfs.stores.conditions import remembered
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.driver import IsCurrentDriver
from magicfs.transaction.record import new_token
from magicfs.transaction.setup import check_destination

__all__ = ["FileCommitter"]


class FileCommitter(ClassicCommitter):
    """See ``Committer``, and ``guarantees`` for what each algorithm promises.

    Attributes:
        algorithm: 1 or 2.
    """

    name = "file"

    def __init__(self, context: JobContext, engine: Engine) -> None:
        super().__init__(context, engine)
        self._work = FileWork(context, engine, self.final_key)
        self.algorithm = self._work.algorithm
        self._records = self._work.records
        self._how: Algorithm = MovedAside(self._work) if self.algorithm == 1 else MovedAtOnce(self._work)

    @property
    def guarantees(self) -> Guarantees:
        return self._how.guarantees

    @property
    def is_recovery_supported(self) -> bool:
        return True

    @property
    def is_commit_job_repeatable(self) -> bool:
        """True for both; Hadoop's algorithm 1 forgets which attempts it was publishing, and says false."""
        return True

    @property
    def is_task_commit_repeatable(self) -> bool:
        return self._how.is_task_commit_repeatable

    # -- setting up ----------------------------------------------------------------------------------------

    async def setup_job(self) -> JobSetup:
        """Check the destination and write whose the job is; nothing else is changed.

        A second call, by whomever, takes the job over: only the newest driver may commit it. A driver with a
        greater number of the job attempt vouches that earlier ones are dead, and may carry on what they
        began. If the job is published already, it learns so.

        Raises:
            UsageError: The destination is a file, or a table of Delta Lake or Apache Iceberg; or the job was
                begun in another way; or the store ignores conditional writes.
            OutputExists: ``conflict="fail"``, and data was there when the job began.
            CommitDenied: The job has ended, or its commit has begun, or a later attempt has taken it over.
            ObjectNotFound: No such bucket.
        """
        attempt, driver = self.context.layout.attempt, new_token()
        marks, job, published = await self._work.look()
        if published:
            return self._found_published(driver)
        if job is None:
            if attempt > 0:
                raise markers.ended(self.context)
            await check_destination(self.engine, replace(self.context, run_id=None))
            new = self._job_file(attempt, driver)
            if await self._records.set_up(new):
                await self._require_conditions(new)
                return JobSetup(driver=driver)
            # Another driver of the same job was faster, and is taken over.
            job = await self._records.job()
            if job is None:
                await self._records.require_place()
                raise markers.ended(self.context)
        await check_destination(self.engine, replace(self.context, conflict="append"))
        markers.require_not_over(job, marks, self.context, self.algorithm)
        if not await self._records.take_over(self._job_file(attempt, driver)):
            await self._work.prune()
            if await self._records.is_published():
                return self._found_published(driver)
            raise markers.ended(self.context)
        return JobSetup(driver=driver)

    def _found_published(self, driver: str) -> JobSetup:
        if self.context.layout.attempt == 0:
            raise CommitDenied(
                f"job {self.context.job} is published already; nothing was changed; use another job id "
                "for new data"
            )
        return JobSetup(driver=driver, published=self.context.job)

    def _job_file(self, attempt: int, driver: str) -> JobFile:
        return JobFile.new(self.context.job, self.algorithm, self.context.unique_names, attempt, driver)

    async def _require_conditions(self, job: JobFile) -> None:
        """Find out, once in a process, whether of several writers of one name one wins."""
        known = remembered(self.engine.store)
        honoured = known.put_if_absent if known is not None else not await self._records.set_up(job)
        if honoured or self.context.single_driver:
            return
        await self._work.clean("COMMIT_FAIL")
        raise UsageError(
            f"the store {self.engine.store.name!r} ignores conditional writes, so two drivers of one job "
            "could not be told apart; use another store, or pass single_driver=True if nothing else will "
            "ever move this job at the same time"
        )

    # -- tasks ---------------------------------------------------------------------------------------------

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        async for _ in walk(self.engine.store, self._work.layout.task_attempt_directory(attempt)):
            return True
        return False

    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
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
                raise markers.ended(self.context)
            if job.attempt > self.context.layout.attempt:
                raise CommitDenied(
                    f"attempt {job.attempt} of job {job.job} has begun, and {attempt} belongs to attempt "
                    f"{self.context.layout.attempt}; nothing of it is published"
                )
            markers.require_same_way(job, self.context, self.algorithm)
            record = await self._how.commit_task(task, attempt)
        except CommitDenied:
            await self.abort_task(attempt)
            raise
        return self._commit_of(chosen_of(record), counters)

    def _commit_of(self, one: Chosen, counters: Counters | None = None) -> TaskCommit:
        key = self._records.key(one.task, one.attempt) if self.algorithm == 1 else None
        return self.commit_of(one.task, one.attempt, one.files, one.bytes, key, None, counters)

    async def abort_task(self, attempt: AttemptId) -> None:
        """Discard what an attempt wrote and has not committed. A second call does nothing.

        What it has committed stays where it is: the job does not publish it unless it is told to, and removes
        it at its end. With algorithm 2 it is visible.
        """
        await self._work.tree.delete_tree(self._work.layout.task_attempt_directory(attempt))
        if await self._records.job() is None:
            await self._work.prune()

    async def committed_tasks(self) -> list[TaskId]:
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
        marks, job, published = await self._work.look()
        if published:
            return []
        if job is None:
            raise markers.ended(self.context)
        markers.require_not_given_up(marks)
        if marks.started is not None:
            return [self._commit_of(one) for one in marks.started.tasks]
        return [self._commit_of(one) for one in await self._how.recover()]

    # -- the end -------------------------------------------------------------------------------------------

    async def commit_job(
        self,
        commits: Sequence[TaskCommit] | None,
        driver: str | None = None,
        tasks: int | None = None,
        *,
        is_current_driver: IsCurrentDriver | None = None,
    ) -> JobReport:
        """Publish the given commits, or those that a listing of the job attempt shows.

        A second call goes on where the first one stopped, by whatever it was stopped, and publishes what the
        first one was publishing; after the end it returns that the job is published.

        Raises:
            ProtocolViolation: The commits do not belong together; nothing was changed.
            CommitDenied: Another driver has taken the job over or was faster, the engine does not want this
                one any more, or the job has ended; nothing was changed here.
            CommitFailed: An accepted attempt has not committed, or with algorithm 2 something else than the
                accepted attempts is visible; nothing was changed. Or files were removed while the job
                committed: it can only be aborted.
            CommitOutcomeUnknown: It stopped half-way; nothing was removed; call again.
            StoreError: The commits could not be read; nothing was changed; call again or abort.
        """
        return await self._ending(is_current_driver).commit(commits, driver, tasks)

    async def abort_job(
        self,
        commits: Sequence[TaskCommit],
        driver: str | None = None,
        *,
        is_current_driver: IsCurrentDriver | None = None,
    ) -> None:
        """Discard everything of the job that is not visible, of all its attempts.

        With algorithm 2 what tasks have committed is visible and stays so; the log ``magicfs`` tells how
        much. Once a job commit has begun the job is not aborted: whoever commits it again finishes it. A
        second call does nothing; for a job that has ended it removes what attempts have left since.

        Raises:
            ProtocolViolation: The job is published, or its commit has begun; nothing was removed.
            CommitDenied: Another driver has taken the job over, or the engine does not want this one any
                more; nothing was removed.
            StoreError: Something could not be removed; call again.
        """
        await self._ending(is_current_driver).abort(commits, driver)

    def _ending(self, is_current_driver: IsCurrentDriver | None) -> JobEnding:
        return JobEnding(self, self._work, self._how, is_current_driver)
