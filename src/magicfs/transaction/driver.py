"""One job's life, from open to ended: setting up, committing, bringing to an end, aborting.

Its driver, a recovery, a newer run of the same, a stream's replay: all act through ``JobTransaction``. The
job object decides which of them may do what.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitUnfinished,
    FormatError,
    MagicError,
    StoreError,
    Unavailable,
    UsageError,
)
from magicfs.formats.job_object import JobObject
from magicfs.formats.manifest import Manifest
from magicfs.formats.pending import Pending
from magicfs.formats.success import SuccessData
from magicfs.manifests import chain
from magicfs.protocol.job_state import BEFORE_COMMIT, Decision, JobState, Wish, decide
from magicfs.protocol.steps import Abort, Batch
from magicfs.report import JobReport, job_report
from magicfs.runtime.interrupt import held
from magicfs.runtime.parallel import raise_first
from magicfs.stores.conditions import Conditions
from magicfs.transaction import late_driver, outcome, publish, setup
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.execute import Executor
from magicfs.transaction.extension import Extension, Prepared, extensions_of
from magicfs.transaction.late_driver import Committed
from magicfs.transaction.others import OtherJob, of_run
from magicfs.transaction.outcome import JobEnd, JobOutcome
from magicfs.transaction.output import JobOutput
from magicfs.transaction.prepare import prepare
from magicfs.transaction.record import (
    JobMoved,
    JobRecord,
    JobVersion,
    believed,
    check_driver,
    opened,
    read_record,
    taking_over,
)
from magicfs.transaction.sweep import remove_work, sweep
from magicfs.transaction.taken_back import run_in_effect


def published(context: JobContext, done: JobOutcome, started: float) -> JobReport:
    """Of a job that this process has published. Raises CommitUnfinished if readers may not see that."""
    output = done.output
    report = _report(
        context,
        started=started,
        tasks=output.tasks,
        files=output.files + len(output.restored),
        size=output.bytes + sum(one.size for one in output.restored.values()),
        keys=output.shown_keys(context.layout.destination),
        warnings=done.warnings,
        statistics=publish.job_statistics(output),
        uploads_aborted=done.aborted,
        files_deleted=done.deleted,
    )
    if done.unsettled is not None:
        raise CommitUnfinished(outcome.unfinished(context, done.unsettled), report) from done.unsettled
    return report


async def ended_elsewhere(
    engine: Engine, context: JobContext, record: JobRecord, started: float, expected: Committed | None
) -> JobReport:
    """Of a job that another process has ended. Raises CommitDenied if it was not published, or not whole."""
    success = await late_driver.seen_of_jvm(engine, context.layout.destination, context.job)
    if success is not None:
        return await adopted_report(engine, context, success, expected, started)
    manifests = await late_driver.manifests_of(engine, context, record)
    if not manifests:
        raise CommitDenied(
            f"job {context.job} was not published: another process aborted it or rolled it back; run the "
            "job again"
        )
    return _late_report(context, manifests, expected, started, [outcome.ENDED_ELSEWHERE])


async def adopted_report(
    engine: Engine, context: JobContext, success: SuccessData, expected: Committed | None, started: float
) -> JobReport:
    """Of a job that a JVM has committed, once it has a manifest."""
    found = await late_driver.adopt_of_jvm(engine, context, success, expected)
    return _late_report(context, [found.manifest], expected, started, found.warnings)


def _late_report(
    context: JobContext,
    manifests: Sequence[Manifest],
    expected: Committed | None,
    started: float,
    warnings: Sequence[str],
) -> JobReport:
    shown = late_driver.published_by_manifests(manifests)
    sizes = [one.size for each in manifests for one in each.files]
    warnings = [*warnings, *late_driver.compare(context, expected, shown)]
    figures = {"files": len(sizes), "size": sum(sizes), "keys": shown, "warnings": warnings}
    return _report(context, started=started, tasks=0, **figures)


def _report(context: JobContext, **figures: Any) -> JobReport:
    key = chain.manifest_key(context.layout.destination, context.job)
    how = (context.options.committer, context.options.mode)
    return job_report(context.job, context.url, *how, manifest_key=key, **figures)


class JobTransaction:
    """One job's life. Any process may have one, several at once; the job object decides."""

    def __init__(self, engine: Engine, context: JobContext) -> None:
        self.engine: Engine = engine
        self.context = context
        self._cleanup = engine.for_cleanup()

    # -- setting up ------------------------------------------------------------------------------------

    async def set_up(self) -> JobSetup:
        """See ``Committer.setup_job``."""
        engine, context = self.engine, self.context
        await setup.check_destination(engine, context)
        # A job that has ended looks like one that never was; only its first attempt may begin it.
        may_create = context.layout.attempt == 0
        record, version, published = await setup.claim(engine, context, may_create=may_create)
        try:
            if await setup.is_published(engine, context) if published is None else published:
                await setup.refuse_published(context, record, version)
            return await self._look_around(record, version)
        except (asyncio.CancelledError, FormatError, StoreError, UsageError) as error:
            # One that was taken over stays for the next driver. A silent store is not asked more.
            if record.created and not isinstance(error, Unavailable):
                with suppress(MagicError):
                    await self.abort((), version.job.driver, given=False)
            raise

    async def _look_around(self, record: JobRecord, version: JobVersion) -> JobSetup:
        """What is at the destination of a job that has just been claimed."""
        engine, context = self.engine, self.context
        others, uploads = await setup.look_around(engine, context)
        try:
            published = await self._finish_earlier_jobs_of_run(record.conditions, others)
        except (CommitDenied, CommitUnfinished):
            # Somebody has moved one at this moment, or it is published; the caller begins again, with a new
            # job.
            if record.created:
                await setup.withdraw(engine, context, record, version)
            raise
        published = await setup.run_again(context, record, version, published)
        await setup.refuse_data_of_other_runs(engine, context, record, version, published)
        return JobSetup(
            driver=version.job.driver,
            jobs=tuple(one.found() for one in others if one.job_id != context.job),
            uploads=uploads
            if context.options.run_id is None
            else await setup.pending_uploads(engine, context),
            published=published,
            created=record.created,
            keeps_versions=record.keeps_versions,
        )

    async def _finish_earlier_jobs_of_run(
        self, conditions: Conditions, others: Sequence[OtherJob]
    ) -> str | None:
        """Finish or abort earlier jobs of the same run; returns the one that has published it, if any.

        One that had reached its commit point is finished; one that had not is aborted, whether or not its
        driver is alive: the newer run counts. It is called once this job's own object is set: of two that
        start at once at least one sees the other.
        """
        context = self.context
        if context.options.run_id is None:
            return None
        published = await self._end_of_run(of_run(others, self.context))
        if published is not None:
            return published
        return await run_in_effect(self.engine.store, self._destination, conditions, context.options.run_id)

    async def _end_of_run(self, earlier: Sequence[OtherJob]) -> str | None:
        context, published = self.context, None
        for other in earlier:
            if other.job is None:
                assert other.problem is not None
                raise other.problem
            one = JobTransaction(self.engine, context.of(other.job))
            done = await one.finish(Wish.SUPERSEDE, reason=f"run again by job {context.job}")
            if done is None:
                continue
            if done.unsettled is not None:
                how = (context.url, context.options.committer, context.options.mode)
                raise CommitUnfinished(
                    f"the run {context.options.run_id!a} was already published, so nothing was published "
                    f"now: {outcome.unfinished(one.context, done.unsettled)}",
                    JobReport.before(other.job_id, *how),
                ) from done.unsettled
            if done.end is JobEnd.PUBLISHED:
                published = other.job_id
            elif done.end is JobEnd.ELSEWHERE:
                raise CommitDenied(
                    f"job {other.job_id} of the same run {context.options.run_id!r} was just ended by "
                    "another process; nothing was published here; run again"
                )
        return published

    async def take_over(self, *, may_create: bool = False) -> str | None:
        """Become the job's driver: from then on only this one may commit it.

        Returns its token; None if the job is past its commit point, and needs no driver any more. With
        ``may_create`` a job without a job object, one of Hadoop's, gets one.
        """
        if may_create:
            return (await setup.claim(self.engine, self.context))[1].job.driver
        record, version = await self._read(self.engine)
        if version is None:
            raise outcome.ended(self.context.url, self.context.job)
        if version.job.state not in BEFORE_COMMIT:
            return None
        for one in extensions_of(version.job.needs()):
            one.at_setup(self.context, version.job)
        news = taking_over(opened(self.context, self.engine), version.job)
        return (await record.move(version, JobState.OPEN, **news)).job.driver

    # -- committing ------------------------------------------------------------------------------------

    async def commit(
        self,
        load: Callable[[], Awaitable[JobOutput]],
        driver: str | None,
        committed: Callable[[], Awaitable[Committed]] | None = None,
        given: Sequence[Extension] = (),
    ) -> JobReport:
        """See ``Committer.commit_job``.

        ``load`` finds and checks what is to be published. ``driver`` is what ``set_up`` returned; None
        commits whoever set the job up. ``committed`` tells what has to be among what is published if another
        process has decided that. ``given`` are extensions that the caller has made itself.
        """
        started = time.monotonic()
        record, version = await self._read(self.engine)
        executor = self._executor(self.engine, record)
        try:
            if version is not None:
                check_driver(self.context, version, driver)
                if version.job.state in BEFORE_COMMIT:
                    extensions = self._asked(version.job, driver, given)
                    output = await self._loaded(load, record, version)
                    if not output.names and (success := await self._seen_of_jvm()) is not None:
                        # A staging committer of Hadoop's, which leaves our job object.
                        adopted = await adopted_report(self.engine, self.context, success, None, started)
                        version = await record.move(version, JobState.ABORTING, reason="a JVM committed it")
                        await executor.run(version)
                        return adopted
                    work = (self.engine, self.context, record)
                    prepared = Prepared(*work, version, output, partial(self._discard, record))
                    for one in extensions:
                        await one.on_output(prepared)
                    try:
                        version = await prepare(*work, version, output, executor.so_far.warnings)
                        executor.begin(version, output)
                    except JobMoved:
                        # Perhaps by our own request, whose reply was lost, and by a recovery after it.
                        version = await self._moved(record, driver)
            expected = None if executor.fresh or committed is None else await committed()
            done = await executor.run(version)
        except MagicError as error:
            if executor.so_far.end is JobEnd.REVERTED:
                raise outcome.not_undone(self.context, executor.so_far, error) from error
            before = version is not None and version.job.state in BEFORE_COMMIT
            if before or not isinstance(error, Unavailable):
                raise
            raise outcome.undecided(self.context, error) from error
        if done.end is JobEnd.ELSEWHERE:
            return await ended_elsewhere(self.engine, self.context, record, started, expected)
        if done.end is not JobEnd.PUBLISHED:
            raise outcome.not_published(self.context, done)
        if expected is not None:
            done.warnings += await late_driver.check(self.engine, self.context, record, expected, done.output)
        return published(self.context, done, started)

    def _asked(self, job: JobObject, driver: str | None, given: Sequence[Extension]) -> tuple[Extension, ...]:
        """The extensions of an open job, none of which keeps this driver from committing it."""
        extensions = extensions_of(job.needs(), given)
        for one in extensions:
            one.at_commit(self.context, job, driver)
        return extensions

    async def _moved(self, record: JobRecord, driver: str | None) -> JobVersion | None:
        version = await record.read()
        if version is not None:
            check_driver(self.context, version, driver)
            if version.job.state in BEFORE_COMMIT:
                raise CommitDenied(
                    f"job {self.context.job} was changed by another process, and is {version.job.state}; "
                    "nothing was published; commit again"
                )
        return version

    async def _loaded(
        self, load: Callable[[], Awaitable[JobOutput]], record: JobRecord, version: JobVersion
    ) -> JobOutput:
        """What is to be published. A malformed set fails the job and discards the others."""
        try:
            return await load()
        except CommitFailed as error:
            if isinstance(error.__cause__, FormatError):
                try:
                    await self._discard(record, version, str(error))
                except MagicError as second:
                    error.add_note(f"and job {self.context.job} could not be fully aborted: {second}")
            raise

    async def _discard(self, record: JobRecord, version: JobVersion, reason: str) -> None:
        """Abort an open job whose output cannot be published."""
        moved = await record.move(version, JobState.ABORTING, reason=reason)
        await self._executor(self._cleanup, record).run(moved)

    # -- bringing to an end ----------------------------------------------------------------------------

    async def finish(
        self,
        wish: Wish = Wish.FINISH,
        *,
        reason: str = "",
        dry_run: bool = False,
        settled: Collection[str] = (),
    ) -> JobOutcome | None:
        """Bring the job to its end, as its state and the wish say; None if it has ended before.

        An open job is left to its driver, unless the wish is to abort it. Calling it again, from any process,
        finds the job ended. The job's other facts are taken from its job object. ``dry_run`` changes nothing,
        and only raises what would keep the job from being taken back. ``settled`` are ids of uploads that are
        known to be completed or aborted.

        Raises what ``Executor.run`` does, and ``CommitDenied`` if the job is past the point where the wish
        could be fulfilled; then nothing was changed.
        """
        record, version = await self._read(self.engine, probe=not dry_run)
        if version is None:
            return None
        context = await believed(self.engine, self.context, version.job)
        executor = self._executor(self.engine, record, context)
        executor.settled.update(settled)
        if decide(version.job.state, wish) is Decision.LEAVE:
            return JobOutcome(JobEnd.LEFT)
        with held():  # this job is brought to its end; an interruption comes before the next one
            version = await self._take(executor, version, wish, reason, dry_run=dry_run)
            return JobOutcome(JobEnd.LEFT) if dry_run else await executor.run(version)

    async def _take(
        self, executor: Executor, version: JobVersion, wish: Wish, reason: str, *, dry_run: bool = False
    ) -> JobVersion:
        """Move the job's state to where the wish leads, before anything is touched."""
        match decide(version.job.state, wish):
            case Decision.REFUSE:
                raise outcome.refusal(version.job.job_id, version.job.state)
            case Decision.MOVE_TO_REVERTING:
                return await executor.take_back(version, reason, dry_run=dry_run)
            case Decision.MOVE_TO_ABORTING if not dry_run:
                return await executor.record.move(version, JobState.ABORTING, reason=reason)
            case _:
                return version

    async def abort(self, pendings: Sequence[Pending], driver: str | None, *, given: bool) -> None:
        """See ``Committer.abort_job``; ``given`` says whether any commits were handed over."""
        record, version = await self._read(self._cleanup)
        if version is None:
            if given:
                await self._refuse_if_published(record)
            await self._sweep_ended(record, pendings)
            return
        check_driver(self.context, version, driver)
        executor = self._executor(self._cleanup, record)
        wish = Wish.ROLLBACK if version.job.state is JobState.COMMITTING else Wish.ABORT
        if decide(version.job.state, wish) is Decision.REFUSE:
            raise outcome.published(self.context)
        version = await self._take(executor, version, wish, "aborted by its driver")
        await self._abort_uploads(pendings)
        executor.settled.update(pending.upload_id for pending in pendings)
        done = await executor.run(version)
        if done.end is JobEnd.PUBLISHED:
            raise outcome.published(self.context)
        if done.unlisted is not None:
            raise done.unlisted

    async def state(self) -> JobState | None:
        """The job's state; None if it has ended, or never began."""
        return None if (job := await self.job()) is None else job.state

    async def job(self) -> JobObject | None:
        """What the job object says; None if the job has ended, or never began."""
        _, version = await self._read(self._cleanup, probe=False)
        return None if version is None else version.job

    # -- what all of them need -------------------------------------------------------------------------

    @property
    def _destination(self) -> str:
        return self.context.layout.destination

    async def _read(self, engine: Engine, *, probe: bool = True) -> tuple[JobRecord, JobVersion | None]:
        """The job's object. From here on its objects are written as it was told, whatever we were given."""
        record, version = await read_record(
            engine.store, self.context.layout, probe=probe, url=self.context.url
        )
        if version is not None:
            told = version.job.object_settings
            self.engine, self._cleanup = self.engine.told(told), self._cleanup.told(told)
        return record, version

    def _executor(self, engine: Engine, record: JobRecord, context: JobContext | None = None) -> Executor:
        return Executor(engine, self._cleanup, context or self.context, record)

    async def _abort_uploads(self, pendings: Sequence[Pending]) -> None:
        steps = [Abort(one.destination_key, one.upload_id) for one in pendings if one.is_upload]
        result = await self._cleanup.run(Batch("abort", steps), stop_on_failure=False)
        raise_first([failure.error for failure in result.failures])

    async def _sweep_ended(self, record: JobRecord, pendings: Sequence[Pending]) -> None:
        """Discard what is left of a job that has ended, or was never set up: uploads and work objects."""
        await self._abort_uploads(pendings)
        swept = await sweep(self._cleanup, self.context, read_documents=True)
        await record.clear()
        swept.problems += await remove_work(self._cleanup, self.context)
        raise_first([*swept.problems, *([swept.unlisted] if swept.unlisted else [])])

    async def _refuse_if_published(self, record: JobRecord) -> None:
        """Raise ProtocolViolation if a job that has ended was published, by us or by a JVM."""
        store = self._cleanup.store
        if await chain.read(store, self._destination, self.context.job, record.conditions) is not None:
            raise outcome.published(self.context)
        if await self._seen_of_jvm() is not None:
            raise outcome.published_by_jvm(self.context.url, self.context.job)

    async def _seen_of_jvm(self) -> SuccessData | None:
        return await late_driver.seen_of_jvm(self.engine, self._destination, self.context.job)
