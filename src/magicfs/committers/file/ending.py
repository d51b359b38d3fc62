"""Ending a job of the file committer, by committing or by aborting it: who may, and once only."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from magicfs.committers.classic import ClassicCommitter, Published, counted
from magicfs.committers.file import markers
from magicfs.committers.file.algorithm import Algorithm, FileWork
from magicfs.committers.file.documents import JobFile, Mark
from magicfs.committers.file.markers import Marks
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    ProtocolViolation,
    StoreError,
)
from magicfs.formats.statistics import Statistics
from magicfs.formats.task_commit import TaskCommit
from magicfs.report import JobReport
from magicfs.transaction.driver import IsCurrentDriver, require_current_driver

__all__ = ["JobEnding"]


class JobEnding:
    """The end of one job, by one driver.

    Args:
        committer: Counts the tasks, writes ``_SUCCESS`` and reports.
        work: What it works with.
        how: The algorithm.
        is_current_driver: Asked before anything is changed; see ``Committer.commit_job``.
    """

    def __init__(
        self,
        committer: ClassicCommitter,
        work: FileWork,
        how: Algorithm,
        is_current_driver: IsCurrentDriver | None,
    ) -> None:
        self._committer = committer
        self._work = work
        self._how = how
        self._is_current_driver = is_current_driver
        self._context = work.context
        self._records = work.records
        self._markers = work.markers
        self._attempt = work.context.layout.attempt

    # -- the commit ----------------------------------------------------------------------------------------

    async def commit(
        self, commits: Sequence[TaskCommit] | None, driver: str | None, tasks: int | None
    ) -> JobReport:
        """See ``FileCommitter.commit_job``."""
        if commits is not None:
            self._committer.check_commits(commits, tasks)
        marks, job = await self._markers.read(), await self._records.job()
        if marks.success is not None:
            return await self._published_before(marks.success)
        try:
            if job is None:
                raise markers.ended(self._context)
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
        markers.require_not_given_up(marks)
        markers.require_same_way(job, self._context, self._work.algorithm)
        if marks.started is None:
            markers.require_driver(job, driver, self._attempt)
        started = marks.started or await self._begin(job, commits, driver, tasks)
        markers.require_heir(started, job, driver, self._attempt)
        self._committer.check_number(len(started.tasks), tasks)
        warnings = markers.same_tasks(started, commits)
        published = Published(warnings=warnings, statistics=counted(commits))
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
        published.warnings += await self._cleaned()
        return self._committer.report(published, begun)

    async def _begin(
        self, job: JobFile, commits: Sequence[TaskCommit] | None, driver: str | None, tasks: int | None
    ) -> Mark:
        """Choose what is published and write it down, if nobody is faster."""
        try:
            chosen, replaced = await self._how.choose(commits)
        except CommitFailed:
            # What is missing may have been published and removed by another driver.
            await self._require_driver(driver)
            raise
        self._committer.check_number(len(chosen), tasks)
        await require_current_driver(self._is_current_driver, job.job)
        mark = Mark.new(job.job, "commit", job.driver, self._attempt, chosen, replaced)
        found = await self._start(mark)
        rival = found.driver != driver and found.attempt >= self._attempt
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
                await self._work.tree.delete(self._markers.key("COMMIT_STARTED"))
                await self._work.prune()
                raise markers.ended(self._context)
            markers.require_driver(job, None, mark.attempt)
        return found

    async def _publish(self, started: Mark, published: Published) -> None:
        missing = await self._how.publish(started, published)
        # A driver that was cut off for long must not write over what others have written since.
        await self._require_driver(None)
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
        await self._committer.write_success(published)
        await self._markers.succeed(started)

    async def _published_before(self, success: Mark | None) -> JobReport:
        """The report of a job that was published by an earlier call, whose work is removed if need be."""
        context, warnings = self._context, await self._cleaned()
        report = JobReport.before(context.job, context.url, self._committer.name, context.conflict)
        files, size = (success.files, success.bytes) if success is not None else (0, 0)
        return replace(report, files=files, bytes=size, warnings=tuple(warnings))

    async def _cleaned(self) -> list[str]:
        """Remove the work of the published job; returns what to tell the caller if that fails."""
        try:
            await self._work.clean("COMMIT_SUCCESS")
        except StoreError as error:
            return [f"the job is published, and its work could not be removed whole: {error}"]
        return []

    async def _require_driver(self, driver: str | None) -> None:
        """Refuse a driver whose job has ended, or was taken over meanwhile."""
        now = await self._records.job()
        if now is None:
            raise markers.ended(self._context)
        markers.require_driver(now, driver, self._attempt)

    # -- the abort -----------------------------------------------------------------------------------------

    async def abort(self, commits: Sequence[TaskCommit], driver: str | None) -> None:
        """See ``FileCommitter.abort_job``."""
        marks, job, published = await self._work.look()
        if published:
            if commits:
                raise ProtocolViolation(
                    f"job {self._context.job} is published; it cannot be aborted any more"
                )
            await self._work.clean("COMMIT_SUCCESS")
            return
        if job is not None:
            markers.require_driver(job, driver, self._attempt)
            await require_current_driver(self._is_current_driver, job.job)
            if marks.failed is None:
                await self._give_up(job, marks.started)
            await self._tell_what_stays(job)
        await self._work.clean("COMMIT_FAIL")

    async def _give_up(self, job: JobFile, started: Mark | None) -> None:
        mark = Mark.new(job.job, "abort", job.driver, self._attempt)
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
                self._context.url,
                job.job,
                visible,
            )
