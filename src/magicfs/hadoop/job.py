"""A job of Hadoop's that has not ended, whichever committer began it: how it is finished, or discarded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from shlex import quote

from magicfs.committers.staging.cluster import ClusterSets
from magicfs.datasets.connection import context_of, was_published
from magicfs.datasets.finders import DeadJob
from magicfs.engine import Engine
from magicfs.errors import CommitFailed, MagicError, PermissionDenied, Unsupported, UsageError
from magicfs.formats.job_options import Hadoop
from magicfs.hadoop.fates import Fates, fates_of, open_uploads, refuse_gone, refuse_published
from magicfs.protocol import paths
from magicfs.protocol.job_state import Wish
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.report import Advice, ForeignJob, RecoveredJob
from magicfs.transaction import output as job_output
from magicfs.transaction.attempt_output import delete_keys
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.outcome import JobOutcome, ended
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import read_record
from magicfs.transaction.setup import is_published
from magicfs.transaction.sweep import plan_sweep


@dataclass(frozen=True, slots=True)
class HadoopJob(DeadJob):
    """A job of Hadoop's that has not ended."""

    listed: JobOutput  # what its tasks have committed in the last job attempt
    fates: Fates  # of these files
    cluster: ClusterSets | None = None  # where a staging committer keeps its sets
    look: Callable[[], Awaitable[Fates]] | None = None
    """Looks at the files once more, where they are no uploads."""

    @classmethod
    def of(
        cls, engine: Engine, context: JobContext, seen: ForeignJob, output: JobOutput, fates: Fates, at: float
    ) -> HadoopJob:
        """A job of which ``seen`` has what neither its output nor the fates of its files say."""
        report = replace(
            seen,
            attempt=context.layout.attempt,
            tasks=output.tasks,
            files=output.files,
            bytes=output.bytes,
            published=len(fates.published),
            gone=len(fates.gone),
            doubtful=len(fates.doubtful),
        )
        return cls("hadoop", engine, context, report, at, output, fates)

    def promise_missing(self, url: str = "") -> UsageError:
        seen = self.report
        published = f", of which {seen.published} are already published" if seen.published else ""
        how = "pass driver_is_dead=True (--driver-is-dead)"
        if url:
            how = f"run magicfs recover {url} --driver-is-dead, with --commit or --abort"
        return UsageError(
            f"job {self.context.job} belongs to Hadoop's {seen.committer} committer: {seen.tasks} tasks "
            f"have committed {seen.files} files{published}; nothing was changed; magicfs cannot stop its "
            "driver from committing or aborting at the same time, so make sure that no process of the job "
            f"is running, then {how}"
        )

    async def output(self, *, driver_is_dead: bool) -> JobOutput:
        """As the base says. Sets are read once more, for their errors."""
        url, job, output = self.context.url, self.context.job, self.listed
        if self.report.committer != "manifest":
            output = await job_output.load_listed(self.engine, self.context, self.cluster)
            if output.without_write_id == 0 < output.files or await is_published(self.engine, self.context):
                raise ended(url, job)
        if self.report.problem:
            raise CommitFailed(f"job {job} cannot be committed: {self.report.problem}")
        if not driver_is_dead:
            raise self.promise_missing()
        refuse_gone(url, job, self.fates)
        return output

    async def take_over(self) -> str | None:
        """As the base says. Its files are looked at again: a command may have ended it meanwhile."""
        engine, context = self.engine, self.context
        driver = await JobTransaction(engine, context).take_over(may_create=True)
        try:
            refuse_gone(context.url, context.job, await self._looked())
        except CommitFailed:
            record, version = await read_record(engine.store, context.layout, probe=True, url=context.url)
            if version is not None and version.job.driver == driver:
                await record.remove(version)
            raise
        return driver

    async def _looked(self) -> Fates:
        if self.look is not None:
            return await self.look()
        there = await open_uploads(self.engine, self.context.layout.destination)
        return await fates_of(self.engine, self.listed.pendings(), there)

    async def discard(self, location: Location, *, driver_is_dead: bool, dry_run: bool) -> RecoveredJob:
        """As the base says. It has a job object from then on, so that nobody commits it meanwhile."""
        if not (driver_is_dead or dry_run):
            raise self.promise_missing()
        refuse_published(self.context.url, self.context.job, self.fates)
        is_published = False
        if dry_run:
            done = await self._would_discard()
        else:
            transaction = JobTransaction(self.engine, self.context)
            driver = await transaction.take_over(may_create=True)
            # by another command, just now
            is_published = await was_published(self.engine, location, self.context.job)
            done = await self._discarded(transaction, driver, is_published=is_published)
            if done.unlisted is not None:
                done.warnings.append(f"unrecorded uploads could not be listed: {done.unlisted}")
        return replace(
            self.as_left(),
            action="would abort" if dry_run else "ended elsewhere" if is_published else "aborted",
            files=0,
            uploads=done.aborted,
            reason="it is published, and its files stay" if is_published else "",
            warnings=tuple(done.warnings),
        )

    async def _would_discard(self) -> JobOutcome:
        done = JobOutcome(aborted=self.report.uploads)
        with suppress(PermissionDenied, Unsupported):  # as the abort does, which only warns
            if self.report.committer == "magic":
                ended = {upload for _, upload in (await plan_sweep(self.engine, self.context)).uploads}
                done = JobOutcome(aborted=len(ended), warnings=await self._left_open(ended))
        return done

    async def _left_open(self, ended: Collection[str] = ()) -> list[str]:
        """Names of Spark's files do not hold the job's id: what a task was writing may be anybody's."""
        url, job = self.context.url, self.context.job
        there = await open_uploads(self.engine, self.context.layout.destination)
        if not (left := there.ids.difference(ended)):
            return []
        said = f"open uploads that no record of job {job} names stay open: {len(left)}"
        return [Advice(f"{said}; magicfs uploads {quote(url)} shows whose they are")]

    async def _discarded(
        self, transaction: JobTransaction, driver: str | None, *, is_published: bool
    ) -> JobOutcome:
        """End the job, which has been taken over."""
        if self.cluster is None:
            done = await transaction.finish(Wish.ABORT, reason="its driver in a JVM is dead") or JobOutcome()
            done.warnings += [str(error) for error in await remove_marker(self.engine, self.context.layout)]
            done.warnings += await self._left_open() if self.report.committer == "magic" else []
            return done
        # Nothing in the store records its uploads.
        await transaction.abort([] if is_published else list(self.listed.pendings()), driver, given=False)
        await self.cluster.clear()
        return JobOutcome(aborted=self.report.uploads)


def context_begun(location: Location, layout: WorkLayout, begun_by: str, committer: str) -> JobContext:
    """The facts of a job that a committer of Hadoop's began. Its names are the user's own: they need not hold
    the job, nor differ from names that are taken.
    """
    hadoop = Hadoop(layout=layout.name, begun_by=begun_by)
    return context_of(location, layout).asked(committer=committer, unique_names=False, hadoop=hadoop)


def marker_of(layout: WorkLayout) -> str | None:
    """The directory marker that S3A's ``mkdirs`` makes at a job's setup; None where it is for all jobs."""
    return paths.prefix_of(layout.magic_directory) if layout.name == "__magic_job" else None


async def remove_marker(engine: Engine, layout: WorkLayout) -> list[MagicError]:
    """Remove the marker next to a job's work; a second call does nothing."""
    marker = marker_of(layout)
    return [] if marker is None else await delete_keys(engine.for_cleanup(), [marker])
