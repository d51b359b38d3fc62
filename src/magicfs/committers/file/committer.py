"""The file committer: the calls of drivers and of tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from magicfs.committers.classic import ClassicCommitter, Published, counted
from magicfs.committers.file import markers
from magicfs.committers.file.algorithm import Algorithm, FileWork, chosen_of
from magicfs.committers.file.algorithm1 import MovedAside
from magicfs.committers.file.algorithm2 import MovedAtOnce
from magicfs.committers.file.markers import Marks
from magicfs.committers.file.merge import walk
from magicfs.committers.file.records import new_job_file
from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    ProtocolViolation,
    StoreError,
    UsageError,
)
from magicfs.formats.commit_marker import Chosen, Mark
from magicfs.formats.file_job import JobFile
from magicfs.formats.statistics import Statistics
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.report import JobReport
from magicfs.stores.conditions import remembered
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.current_driver import IsCurrentDriver, require_current_driver
from magicfs.transaction.record import new_token
from magicfs.transaction.setup import check_destination

__all__ = ["FileCommitter"]


class FileCommitter(ClassicCommitter):
    """See ``Committer``, and ``guarantees`` for what each algorithm promises."""

    name = "file"

    def __init__(self, context: JobContext, engine: Engine) -> None:
        super().__init__(context, engine)
        self._work = FileWork(context, engine, self.final_key)
        self.algorithm = self._work.algorithm
        self._attempt = context.layout.attempt
        self._records = self._work.records
        self._markers = self._work.markers
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

        A second call, from any process, takes the job over: only the newest driver may commit it. With a
        greater number of the job attempt earlier drivers count as dead: a driver may carry on what they
        began. If the job is published already, it learns so. Raises UsageError also if the job was begun in
        another way, or the store ignores conditional writes; CommitDenied also if its commit has begun or a
        later attempt has taken it over.
        """
        attempt, driver = self._attempt, new_token()
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
        if self._attempt == 0:
            raise CommitDenied(
                f"job {self.context.job} is published already; nothing was changed; use another job id "
                "for new data"
            )
        return JobSetup(driver=driver, published=self.context.job)

    def _job_file(self, attempt: int, driver: str) -> JobFile:
        return new_job_file(self.context.job, self.algorithm, self.context.unique_names, attempt, driver)

    async def _require_conditions(self, job: JobFile) -> None:
        """Find out, once in a process, whether of several writers of one name one wins."""
        known = remembered(self.engine.store)
        honoured = known.put_if_absent if known is not None else not await self._records.set_up(job)
        if honoured or self.context.single_driver:
            return
        await self._work.clean("COMMIT_FAIL")
        raise UsageError(
            f"the store {self.engine.store.name!r} ignores conditional writes, so two drivers of one job "
            "could not be distinguished; use another store, or pass single_driver=True if nothing else will "
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

        A second call goes on where the first one stopped, and returns the same. Raises CommitDenied if the
        job has ended, a later attempt of it has begun, or with algorithm 2 another attempt has committed the
        task; nothing of this one is visible then, and its files were removed. CommitFailed: a name is kept
        for committers, or with algorithm 2 a part of the task's files may be visible and the job must be
        aborted.
        """
        job = await self._records.job()
        try:
            if job is None:
                raise markers.ended(self.context)
            if job.attempt > self._attempt:
                raise CommitDenied(
                    f"attempt {job.attempt} of job {job.job} has begun, and {attempt} belongs to attempt "
                    f"{self._attempt}; nothing of it is published"
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

        What it has committed stays where it is: the job does not publish it unless a commit names it, and
        removes it at its end. With algorithm 2 it is visible.
        """
        await self._work.tree.delete_tree(self._work.layout.task_attempt_directory(attempt))
        if await self._records.job() is None:
            await self._work.prune()

    async def committed_tasks(self) -> list[TaskId]:
        return await self._how.tasks()

    async def recover_tasks(self) -> list[TaskCommit]:
        """What earlier attempts of the job have committed, as commits of this one.

        Where an earlier attempt has begun to commit the job it is exactly what that one was publishing.
        Raises UsageError for attempt 0; CommitFailed if a task's files are gone, or with algorithm 2 a task
        commit began and did not end; CommitDenied if the job has ended.
        """
        if self._attempt == 0:
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

    # -- the job commit ------------------------------------------------------------------------------------

    async def commit_job(
        self,
        commits: Sequence[TaskCommit] | None,
        driver: str | None = None,
        tasks: int | None = None,
        *,
        is_current_driver: IsCurrentDriver | None = None,
    ) -> JobReport:
        """Publish the given commits, or those that a listing of the job attempt shows.

        A second call publishes what the first one was publishing; after the end it returns that the job is
        published. Nothing is taken back. CommitFailed means that an accepted attempt has not committed, or
        with algorithm 2 something else than the accepted attempts is visible: nothing was changed; or that
        files were removed while the job committed: it can only be aborted. CommitOutcomeUnknown: it stopped
        half-way; call again. After any other error nothing was changed here.
        """
        if commits is not None:
            self.check_commits(commits, tasks)
        marks, job = await self._markers.read(), await self._records.job()
        if marks.success is not None:
            return await self._published_before(marks.success)
        try:
            if job is None:
                raise markers.ended(self.context)
            return await self._commit_open(marks, job, commits, driver, tasks, is_current_driver)
        except CommitDenied:
            # Perhaps because another driver has published the job, now or long ago.
            if await self._records.job() is None and await self._records.is_published():
                return await self._published_before(None)
            raise

    async def _commit_open(
        self,
        marks: Marks,
        job: JobFile,
        commits: Sequence[TaskCommit] | None,
        driver: str | None,
        tasks: int | None,
        is_current_driver: IsCurrentDriver | None,
    ) -> JobReport:
        begun = time.monotonic()
        markers.require_not_given_up(marks)
        markers.require_same_way(job, self.context, self._work.algorithm)
        if marks.started is None:
            markers.require_driver(job, driver, self._attempt)
        started = marks.started or await self._begin_commit(job, commits, driver, tasks, is_current_driver)
        markers.require_heir(started, job, driver, self._attempt)
        self.check_number(len(started.tasks), tasks)
        warnings = markers.same_tasks(started, commits)
        published = Published(warnings=warnings, statistics=counted(commits))
        if started.replaced:
            published.warnings.append(
                f"{started.replaced} of the files had the same names as files of other tasks, which replaced "
                "them, because of unique_names=False"
            )
        try:
            await self._publish_chosen(started, published)
        except StoreError as error:
            raise CommitOutcomeUnknown(
                f"job {job.job}: stopped on its way to publish {started.files} files; nothing was removed; "
                f"commit again, which does the rest: {error}",
                done=published.keys,
            ) from error
        published.warnings += await self._work.clean_published()
        return self.report(published, begun)

    async def _begin_commit(
        self,
        job: JobFile,
        commits: Sequence[TaskCommit] | None,
        driver: str | None,
        tasks: int | None,
        is_current_driver: IsCurrentDriver | None,
    ) -> Mark:
        """Choose what is published and write it down, if nobody is faster."""
        try:
            chosen, replaced = await self._how.choose(commits)
        except CommitFailed:
            # What is missing may have been published and removed by another driver.
            await self._work.require_driver(driver)
            raise
        self.check_number(len(chosen), tasks)
        await require_current_driver(is_current_driver, job.job)
        mark = markers.new_mark(job.job, "commit", job.driver, self._attempt, chosen, replaced)
        found = await self._work.start(mark)
        rival = found.driver != driver and found.attempt >= self._attempt
        if found.nonce != mark.nonce and (found.action == "abort" or rival):
            raise CommitDenied(
                f"job {job.job}: a driver on {found.host} began to {found.action} it at the same moment; "
                "nothing was changed here; leave the job to it"
            )
        return found

    async def _publish_chosen(self, started: Mark, published: Published) -> None:
        missing = await self._how.publish(started, published)
        # A driver that was cut off for long must not write over what others have written since.
        await self._work.require_driver(None)
        if missing:
            reason = f"{len(missing)} of {started.files} files are nowhere, such as {missing[0]}"
            await self._markers.fail(started, reason)
            raise CommitFailed(
                f"job {started.job}: {reason}: somebody removed them while the job committed; the others are "
                "visible; abort the job, remove what it has made visible, and run it again",
                failed=missing,
            )
        published.tasks, published.bytes = len(started.tasks), started.bytes
        published.files = started.files - started.replaced
        published.keys = list(dict.fromkeys(published.keys))
        published.statistics += Statistics(
            counters={
                "committer_bytes_committed": started.bytes,
                "committer_commits_completed": started.files,
                "committer_jobs_completed": 1,
                "committer_tasks_completed": len(started.tasks),
                "files_copied_bytes": sum(one.copied for one in started.tasks),
                "op_rename": sum(one.renames for one in started.tasks),
            }
        )
        await self.write_success(published)
        await self._markers.succeed(started)

    async def _published_before(self, success: Mark | None) -> JobReport:
        """The report of a job that was published by an earlier call, whose work is removed if need be."""
        context, warnings = self.context, await self._work.clean_published()
        report = JobReport.before(context.job, context.url, self.name, context.conflict)
        files, size = (success.files, success.bytes) if success is not None else (0, 0)
        return replace(report, files=files, bytes=size, warnings=tuple(warnings))

    # -- the abort -----------------------------------------------------------------------------------------

    async def abort_job(
        self,
        commits: Sequence[TaskCommit],
        driver: str | None = None,
        *,
        is_current_driver: IsCurrentDriver | None = None,
    ) -> None:
        """Discard everything of the job that is not visible, of all its attempts.

        With algorithm 2 what tasks have committed is visible and stays so; the log ``magicfs`` says how much.
        Once a job commit has begun it raises ProtocolViolation and removes nothing: whoever commits again
        finishes it.
        """
        marks, job, published = await self._work.look()
        if published:
            if commits:
                raise ProtocolViolation(f"job {self.context.job} is published; it cannot be aborted any more")
            await self._work.clean("COMMIT_SUCCESS")
            return
        if job is not None:
            markers.require_driver(job, driver, self._attempt)
            await require_current_driver(is_current_driver, job.job)
            if marks.failed is None:
                await self._give_up(job, marks.started)
            await self._warn_of_visible_files(job)
        await self._work.clean("COMMIT_FAIL")

    async def _give_up(self, job: JobFile, started: Mark | None) -> None:
        mark = markers.new_mark(job.job, "abort", job.driver, self._attempt)
        found = started or await self._work.start(mark)
        if found.action == "commit":
            raise ProtocolViolation(
                f"the commit of job {job.job} has begun, on {found.host}, and some of its {found.files} "
                "files may be visible; nothing was removed; commit it again, which publishes the rest"
            )
        await self._markers.fail(found, "aborted")

    async def _warn_of_visible_files(self, job: JobFile) -> None:
        try:
            visible = await self._how.visible_files()
        except FormatError:
            return  # nobody can say
        if visible:
            logging.getLogger("magicfs").warning(
                "%s: job %s is aborted, and up to %d files of its tasks stay visible; remove them by hand",
                self.context.url,
                job.job,
                visible,
            )
