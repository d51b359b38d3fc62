"""The beginning and the end of a job of the file committer: who may commit it, and once only."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from magicfs.committers import file_checks
from magicfs.committers.base import JobContext, JobSetup
from magicfs.committers.classic import ClassicCommitter, Published
from magicfs.committers.commit_markers import CommitMarkers, Mark, Marks, require_wanted
from magicfs.committers.file_algorithms import Algorithm, FileWork
from magicfs.committers.file_cleaning import clean, prune
from magicfs.committers.file_documents import JobFile
from magicfs.committers.file_moved_aside import MovedAside
from magicfs.committers.file_moved_at_once import MovedAtOnce
from magicfs.committers.file_records import Records
from magicfs.committers.job_record import mint
from magicfs.committers.options import FileOptions
from magicfs.committers.setting_up import check_destination
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
from magicfs.formats.statistics import Statistics
from magicfs.report import JobReport
from magicfs.stores.conditions import remembered
from magicfs.stores.tree import tree_of
from magicfs.task_commit import TaskCommit

__all__ = ["FileJob"]


class FileJob(ClassicCommitter):
    """See ``Committer``; the part that drivers call.

    Attributes:
        algorithm: 1 or 2.
        still_wanted: Asked before a job commit or an abort changes anything: whether the engine still wants
            this driver to end the job. None asks nobody.
    """

    name = "file"

    def __init__(self, context: JobContext, engine: Engine) -> None:
        super().__init__(context, engine)
        options = context.options if isinstance(context.options, FileOptions) else FileOptions()
        self.algorithm = options.algorithm
        self.still_wanted: Callable[[], bool] | None = None
        self._layout = context.temporary
        self._tree = tree_of(engine.store)
        self._records = Records(self._tree, engine, self._layout)
        self._markers = CommitMarkers(self._tree, context.job, self._layout.job_directory)
        work = FileWork(context, engine, self._tree, self._records, self.final_key)
        self._how: Algorithm = MovedAside(work) if self.algorithm == 1 else MovedAtOnce(work)

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
        attempt, driver = self.context.layout.attempt, mint()
        marks, job = await self._markers.read(), await self._records.job()
        if marks.success is not None or (job is None and await self._records.is_published()):
            return self._found_published(driver)
        if job is None:
            if attempt > 0:
                raise file_checks.ended(self.context)
            await check_destination(self.engine, replace(self.context, run_id=None))
            new = self._job_file(attempt, driver)
            if await self._records.set_up(new):
                await self._require_conditions(new)
                return JobSetup(driver=driver)
            # Another driver of the same job was faster, and is taken over.
            job = await self._records.job()
            if job is None:
                await self._records.require_place()
                raise file_checks.ended(self.context)
        await check_destination(self.engine, replace(self.context, conflict="append"))
        file_checks.require_not_over(job, marks, self.context, self.algorithm)
        if not await self._records.take_over(self._job_file(attempt, driver)):
            await prune(self._tree, self._layout)
            if await self._records.is_published():
                return self._found_published(driver)
            raise file_checks.ended(self.context)
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
        await self._clean(self._markers.key("COMMIT_FAIL"))
        raise UsageError(
            f"the store {self.engine.store.name!r} ignores conditional writes, so two drivers of one job "
            "could not be told apart; use another store, or pass single_driver=True if nothing else will "
            "ever move this job at the same time"
        )

    # -- the job commit ------------------------------------------------------------------------------------

    async def commit_job(
        self, commits: Sequence[TaskCommit] | None, driver: str | None = None, tasks: int | None = None
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
        if commits is not None:
            self.check_commits(commits, tasks)
        marks, job = await self._markers.read(), await self._records.job()
        if marks.success is not None:
            return await self._published_before(marks.success)
        try:
            if job is None:
                raise file_checks.ended(self.context)
            return await self._commit_job(marks, job, commits, driver, tasks)
        except CommitDenied:
            # Perhaps because another driver has published the job, now or long ago.
            if await self._records.job() is None and await self._records.is_published():
                return await self._published_before(None)
            raise

    async def _commit_job(
        self,
        marks: Marks,
        job: JobFile,
        commits: Sequence[TaskCommit] | None,
        driver: str | None,
        tasks: int | None,
    ) -> JobReport:
        begun = time.monotonic()
        file_checks.require_not_given_up(marks)
        file_checks.require_same_way(job, self.context, self.algorithm)
        attempt = self.context.layout.attempt
        if marks.started is None:
            file_checks.require_driver(job, driver, attempt)
        started = marks.started or await self._begin(job, commits, driver, tasks)
        file_checks.require_heir(started, job, driver, attempt)
        self.check_number(len(started.tasks), tasks)
        published = Published(warnings=file_checks.same_tasks(started, commits))
        if started.replaced:
            published.warnings.append(
                f"{started.replaced} of the files had the same names as files of other tasks, which replaced "
                "them, because of unique_names=False"
            )
        try:
            await self._publish(started, published)
        except StoreError as error:
            raise CommitOutcomeUnknown(
                f"job {job.job}: stopped on its way to publish {started.files} files; nothing was removed; "
                f"commit again, which does the rest: {error}",
                done=published.keys,
            ) from error
        try:
            await self._clean(self._markers.key("COMMIT_SUCCESS"))
        except StoreError as error:
            published.warnings.append(
                f"the job is published, and its work could not be removed whole: {error}"
            )
        return self.report(published, begun)

    async def _begin(
        self, job: JobFile, commits: Sequence[TaskCommit] | None, driver: str | None, tasks: int | None
    ) -> Mark:
        """Choose what is published and write it down, if nobody is faster."""
        try:
            chosen, replaced = await self._how.choose(commits)
        except CommitFailed as error:
            # What is missing may have been published and removed by another driver.
            now = await self._records.job()
            if now is None:
                raise file_checks.ended(self.context) from error
            file_checks.require_driver(now, driver, self.context.layout.attempt)
            raise
        self.check_number(len(chosen), tasks)
        await require_wanted(self.still_wanted, job.job)
        attempt = self.context.layout.attempt
        mark = Mark.new(job.job, "commit", job.driver, attempt, chosen, replaced)
        found = await self._start(mark)
        rival = found.driver != driver and found.attempt >= attempt
        if found.nonce != mark.nonce and (found.action == "abort" or rival):
            raise CommitDenied(
                f"job {job.job}: a driver on {found.host} began to {found.action} it at the same moment; "
                "nothing was changed here; leave the job to it"
            )
        return found

    async def _start(self, mark: Mark) -> Mark:
        """Write ``COMMIT_STARTED`` into a job that has not ended meanwhile; returns what it says then.

        Raises:
            CommitDenied: It has ended, or a later attempt has taken it over, which carries on.
        """
        found = await self._markers.start(mark)
        if found.nonce == mark.nonce:
            try:
                job = await self._records.job()
            except StoreError as error:
                raise self._markers.unknown(error) from error
            if job is None:
                await self._tree.delete(self._markers.key("COMMIT_STARTED"))
                await prune(self._tree, self._layout)
                raise file_checks.ended(self.context)
            file_checks.require_driver(job, None, mark.attempt)
        return found

    async def _publish(self, started: Mark, published: Published) -> None:
        missing = await self._how.publish(started, published)
        # A driver that was cut off for long must not write over what others have written since.
        now = await self._records.job()
        if now is None:
            raise file_checks.ended(self.context)
        file_checks.require_driver(now, None, self.context.layout.attempt)
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
        context, warnings = self.context, []
        try:
            await self._clean(self._markers.key("COMMIT_SUCCESS"))
        except StoreError as error:
            warnings.append(f"the job is published, and its work could not be removed whole: {error}")
        report = JobReport.before(context.job, context.url, self.name, context.conflict)
        files, size = (success.files, success.bytes) if success is not None else (0, 0)
        return replace(report, files=files, bytes=size, warnings=tuple(warnings))

    # -- the end -------------------------------------------------------------------------------------------

    async def abort_job(self, commits: Sequence[TaskCommit], driver: str | None = None) -> None:
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
        marks, job = await self._markers.read(), await self._records.job()
        if marks.success is not None or (job is None and await self._records.is_published()):
            if commits:
                raise ProtocolViolation(f"job {self.context.job} is published; it cannot be aborted any more")
            await self._clean(self._markers.key("COMMIT_SUCCESS"))
            return
        last = self._markers.key("COMMIT_FAIL")
        if job is not None:
            file_checks.require_driver(job, driver, self.context.layout.attempt)
            await require_wanted(self.still_wanted, job.job)
            if marks.failed is None:
                await self._give_up(job, marks.started)
            await self._tell_what_stays(job)
        await self._clean(last)

    async def _give_up(self, job: JobFile, started: Mark | None) -> None:
        mark = Mark.new(job.job, "abort", job.driver, self.context.layout.attempt)
        found = started or await self._start(mark)
        if found.action == "commit":
            raise ProtocolViolation(
                f"the commit of job {job.job} has begun, on {found.host}, and some of its {found.files} "
                "files may be visible; nothing was removed; commit it again, which publishes the rest"
            )
        await self._markers.fail(found, "aborted")

    async def _tell_what_stays(self, job: JobFile) -> None:
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

    async def _clean(self, last: str) -> None:
        await clean(self._tree, self.engine, self._layout, self._records.job_key, last)
