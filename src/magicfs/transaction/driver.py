"""What the driver of a job does: set it up, bring it to its end, or abort it. The same for all committers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    MagicError,
    ProtocolViolation,
    StoreError,
    Unavailable,
)
from magicfs.formats.manifest import Manifest
from magicfs.formats.pending import Pending
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT
from magicfs.manifests import chain
from magicfs.parallel import raise_first
from magicfs.protocol import paths
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.job_state import Decision, JobState, Wish, decide
from magicfs.protocol.plan import Abort, Stage
from magicfs.report import JobReport
from magicfs.stores.conditions import Conditions, conditions_of, remembered
from magicfs.stores.stall_timeout import STALL_TIMEOUT_S, StallTimeoutStore
from magicfs.transaction import publish
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.delegate import Spread
from magicfs.transaction.execute import Executor
from magicfs.transaction.executed import JobEnd, JobOutcome
from magicfs.transaction.output import JobOutput
from magicfs.transaction.prepare import prepare
from magicfs.transaction.record import JobMoved, JobRecord, JobVersion
from magicfs.transaction.setup import set_up
from magicfs.transaction.sweep import sweep

__all__ = ["DRIVEN", "Driver"]

DRIVEN = Guarantees(
    speculative_tasks=True,
    recoverable_job=True,
    abortable_task=True,
    abortable_job=True,
    uncommitted_output_observable=False,
    committed_task_output_observable=False,
    atomic_task_commit=True,
    atomic_job_commit_list=False,
    atomic_job_commit_manifest=True,
    partitioned_executor_resilience=True,
    repeatable_job_commit=True,
    survives_driver_loss=True,
)
"""What delayed uploads and a job object give to every committer that is driven by them."""

_BEFORE = frozenset({JobState.OPEN, JobState.PREPARED})


@dataclass
class Driver:
    """Moves one job.

    Attributes:
        context: The job.
        engine: Bound to its bucket.
        committer: Name of the committer.
    """

    context: JobContext
    engine: Engine
    committer: str
    _cleaner: Engine = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # For cleaning up, which is for the store's good: no failed job may be held by a silent store.
        self._cleaner = Engine(StallTimeoutStore(self.engine.store, STALL_TIMEOUT_S), self.engine.concurrency)

    async def setup(self) -> JobSetup:
        """See ``Committer.setup_job``."""
        return await set_up(self.engine, self._cleaner, self.context, self.committer)

    async def commit(
        self, load: Callable[[], Awaitable[JobOutput]], driver: str | None, spread: Spread | None = None
    ) -> JobReport:
        """See ``Committer.commit_job``.

        Args:
            load: Finds and checks what is to be published.
            driver: What ``setup`` returned; None commits whoever set the job up.
            spread: How other processes complete the files; None completes them in this one.
        """
        started = time.monotonic()
        record, held = await self._read(self.engine)
        executor = Executor(self.engine, self._cleaner, self.context, record)
        executor.spread = spread
        try:
            if held is not None:
                self._check_driver(held, driver)
            if held is not None and held.job.state in _BEFORE:
                output = await self._loaded(load, record, held)
                try:
                    held = await prepare(self.engine, self.context, record, held, output)
                    executor.fresh = True
                except JobMoved:
                    # Perhaps by our own request, whose reply was lost, and by a recovery after it.
                    held = await self._moved(record, driver)
            executed = await executor.run(held)
        except MagicError as error:
            if executor.so_far.ending is JobEnd.REVERTED:
                raise self._not_undone(executor.so_far, error) from error
            if not isinstance(error, Unavailable) or (held is not None and held.job.state in _BEFORE):
                raise
            raise self._undecided(error) from error
        if executed.ending is JobEnd.ELSEWHERE:
            return await self._ended_elsewhere(record, started)
        if executed.ending is not JobEnd.PUBLISHED:
            raise self._not_published(executed)
        return self._report(executed, started)

    async def _moved(self, record: JobRecord, driver: str | None) -> JobVersion | None:
        held = await record.read()
        if held is not None:
            self._check_driver(held, driver)
            if held.job.state in _BEFORE:
                raise CommitDenied(
                    f"job {self.context.job} was moved by another process, and is {held.job.state}; nothing "
                    "was published; commit again"
                )
        return held

    async def abort(self, pendings: Sequence[Pending], driver: str | None, *, given: bool) -> None:
        """See ``Committer.abort_job``.

        Args:
            pendings: Uploads that commits known here carry.
            driver: What ``setup`` returned; None aborts whoever set the job up.
            given: Whether any commits were handed over.
        """
        record, held = await self._read(self._cleaner)
        if held is None:
            if given and await self._manifest(self._cleaner, record) is not None:
                raise self._published()
            await self._sweep_ended(record, pendings)
            return
        self._check_driver(held, driver)
        executor = Executor(self._cleaner, self._cleaner, self.context, record)
        wish = Wish.ROLLBACK if held.job.state is JobState.COMMITTING else Wish.ABORT
        match decide(held.job.state, wish):
            case Decision.REFUSE:
                raise self._published()
            case Decision.MOVE_TO_ABORTING:
                held = await record.move(held, JobState.ABORTING, reason="aborted by its driver")
            case Decision.MOVE_TO_REVERTING:
                held = await executor.take_back(held, "aborted by its driver")
            case _:
                pass
        await self._abort_uploads(pendings)
        executor.settled.update(pending.upload_id for pending in pendings)
        executed = await executor.run(held)
        if executed.ending is JobEnd.PUBLISHED:
            raise self._published()
        if executed.unlisted is not None:
            raise executed.unlisted

    async def state(self) -> JobState | None:
        """The job's state; None if it has ended, or never began.

        Raises:
            StoreError: The store failed.
        """
        _, held = await self._read(self._cleaner)
        return None if held is None else held.job.state

    # -- what both need --------------------------------------------------------------------------------

    @property
    def _destination(self) -> str:
        return self.context.layout.destination

    async def _conditions(self, engine: Engine) -> Conditions:
        return await conditions_of(engine.store, self.context.layout.job_directory)

    async def _read(self, engine: Engine) -> tuple[JobRecord, JobVersion | None]:
        """The job's object; what the store honours is tried only where there is one."""
        known = remembered(engine.store)
        record = JobRecord(engine.store, self.context.layout, known or Conditions())
        held = await record.read()
        if known is None and held is not None:
            record.use(await self._conditions(engine))
        return record, held

    def _check_driver(self, held: JobVersion, driver: str | None) -> None:
        if driver is not None and held.job.driver != driver:
            raise CommitDenied(
                f"job {self.context.job} was taken over by another driver, attempt {held.job.attempt} on "
                f"{held.job.host}; nothing was changed; leave it to that one"
            )

    async def _loaded(
        self, load: Callable[[], Awaitable[JobOutput]], record: JobRecord, held: JobVersion
    ) -> JobOutput:
        """What is to be published. A set that cannot be believed fails the job and discards the others."""
        try:
            return await load()
        except CommitFailed as error:
            if isinstance(error.__cause__, FormatError):
                try:
                    moved = await record.move(held, JobState.ABORTING, reason=str(error))
                    await Executor(self._cleaner, self._cleaner, self.context, record).run(moved)
                except MagicError as second:
                    error.add_note(f"and job {self.context.job} could not be aborted whole: {second}")
            raise

    async def _abort_uploads(self, pendings: Sequence[Pending]) -> None:
        steps = [Abort(pending.destination_key, pending.upload_id) for pending in pendings]
        result = await self._cleaner.run(Stage("abort", steps), stop_on_failure=False)
        raise_first([failure.error for failure in result.failures])

    async def _sweep_ended(self, record: JobRecord, pendings: Sequence[Pending]) -> None:
        """Discard what is left of a job that has ended, or was never set up: uploads and work objects."""
        await self._abort_uploads(pendings)
        swept = await sweep(self._cleaner, self.context, read_documents=True)
        await record.clear()
        raise_first([*swept.problems, *([swept.unlisted] if swept.unlisted else [])])

    # -- how it ended ----------------------------------------------------------------------------------

    def _undecided(self, error: StoreError) -> CommitOutcomeUnknown:
        return CommitOutcomeUnknown(
            f"the store fell silent while job {self.context.job} was being committed; nothing was removed; "
            f"commit again, or run magicfs recover {self.context.url}: {error}"
        )

    def _published(self) -> ProtocolViolation:
        return ProtocolViolation(
            f"job {self.context.job} is published; nothing was removed; run magicfs recover "
            f"{self.context.url} if its driver died before it had cleaned up"
        )

    def _not_published(self, executed: JobOutcome) -> CommitFailed | CommitDenied:
        if executed.failure is None:
            how = executed.ending.value
            return CommitDenied(f"job {self.context.job} was {how} by another process; run the job again")
        done, failed = executed.lists["done"], executed.lists["failed"]
        error = CommitFailed(
            f"{failed[0]} could not be published; the {len(done)} files that had become visible were removed "
            f"again and the rest discarded; run the job again: {executed.failure}",
            **executed.lists,
        )
        error.__cause__ = executed.failure
        return error

    def _not_undone(self, executed: JobOutcome, error: MagicError) -> CommitFailed:
        why = executed.failure or "another process is taking it back"
        failed = CommitFailed(
            f"job {self.context.job} is not published, and not all could be undone: {why}; call job.abort, "
            f"or run magicfs recover {self.context.url}",
            **executed.lists,
        )
        failed.add_note(f"and undoing it failed: {error}")
        return failed

    async def _manifest(self, engine: Engine, record: JobRecord) -> Manifest | None:
        return await chain.read(engine.store, self._destination, self.context.job, record.conditions)

    async def _ended_elsewhere(self, record: JobRecord, started: float) -> JobReport:
        manifest = await self._manifest(self.engine, record)
        if manifest is None:
            raise CommitDenied(
                f"job {self.context.job} has ended without being published: another process aborted it or "
                "rolled it back; run the job again"
            )
        others = [
            await chain.read(self.engine.store, extra, self.context.job, record.conditions)
            for extra in self.context.extra_destinations
        ]
        published = [manifest, *(one for one in others if one is not None)]
        keys = [paths.join(each.destination, one.key) for each in published for one in each.files]
        return JobReport(
            job_id=self.context.job,
            destination=self.context.url,
            committer=self.committer,
            conflict=self.context.conflict,
            tasks=0,
            files=len(keys),
            bytes=sum(one.size for each in published for one in each.files),
            seconds=time.monotonic() - started,
            filenames=self._urls(keys),
            warnings=("another process finished the job",),
            manifest=self._manifest_url(),
        )

    def _report(self, executed: JobOutcome, started: float) -> JobReport:
        output = executed.output
        keys = [p.destination_key for p in islice(output.pendings(), SUCCESS_MARKER_FILE_LIMIT)]
        return JobReport(
            job_id=self.context.job,
            destination=self.context.url,
            committer=self.committer,
            conflict=self.context.conflict,
            tasks=output.tasks,
            files=output.files,
            bytes=output.bytes,
            seconds=time.monotonic() - started,
            uploads_aborted=executed.aborted,
            files_deleted=executed.deleted,
            filenames=self._urls(keys),
            warnings=tuple(executed.warnings),
            statistics=publish.job_statistics(output),
            manifest=self._manifest_url(),
        )

    def _manifest_url(self) -> str:
        return self._url(chain.manifest_key(self._destination, self.context.job))

    def _urls(self, keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(self._url(key) for key in keys[:SUCCESS_MARKER_FILE_LIMIT])

    def _url(self, key: str) -> str:
        return paths.Location(paths.parse_url(self.context.url).scheme, self.engine.store.bucket, key).url
