"""Doing what a job object says, whoever does it: the driver, a recovery, or both at once.

Every step may be repeated, by another process, at any time: files are completed under their upload's
identity, deleted by their ETag, and the state is moved by compare-and-swap. Who loses a swap reads the job
again.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from magicfs.engine import BatchResult, Engine, Failure
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    MagicError,
    ObjectNotFound,
    PermissionDenied,
    StoreError,
    Unsupported,
)
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Publication, Put
from magicfs.runtime.interrupt import hold
from magicfs.runtime.parallel import at_once, raise_first
from magicfs.transaction import facts, outcome, publish, revert
from magicfs.transaction.context import JobContext
from magicfs.transaction.extension import Settling, extensions_of, warnings_at_end
from magicfs.transaction.outcome import JobEnd, JobOutcome
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobMoved, JobRecord, JobVersion
from magicfs.transaction.spool import ETags
from magicfs.transaction.sweep import (
    Looked,
    delete_recorded_obstacles,
    delete_records,
    end_work,
    look,
    sweep,
    tell_of_visible,
)
from magicfs.transaction.visible import (
    Bundles,
    Pace,
    Wanted,
    comes_last,
    lists_of,
    make_visible,
    must_be_absent,
)


class Executor:
    """Runs one job from any state after ``prepared`` to its end.

    ``engine`` completes files; ``cleaner`` is the same engine for cleanup, which gives a silent store up.
    """

    def __init__(self, engine: Engine, cleaner: Engine, context: JobContext, record: JobRecord) -> None:
        self.engine = engine
        self.cleaner = cleaner
        self.context = context
        self.record = record
        self.fresh: bool = False
        """Whether no other process has completed a file yet, as a driver knows that has just reached the
        commit point; otherwise every file is looked at."""
        self.settled: set[str] = set()
        """Ids of uploads that are known to be completed or aborted."""
        self._written: facts.Written | None = None  # the job's facts, if this process has written them
        self._published: JobOutput | None = None  # whose files this process has seen completed
        self._etags = ETags()
        self._success: str | None = None  # the ETag of the _SUCCESS that this process wrote
        self._ahead = publish.Ahead()
        self._done = JobOutcome()

    def begin(self, version: JobVersion, output: JobOutput) -> None:
        """This process has just moved the job past its commit point, with these files."""
        self.fresh, self._written = True, facts.Written(version.job.chunks, output)

    @property
    def so_far(self) -> JobOutcome:
        """What has been done, also when ``run`` raised: its ending is the one that the job is bound for."""
        return self._done

    async def run(self, version: JobVersion | None) -> JobOutcome:
        """Do what the job object says until the job has ended.

        Raises CommitOutcomeUnknown if the store did not say what became of a file: nothing was removed.
        CommitFailed if files could not be published and the job cannot be taken back. FormatError if a fact
        was altered: nothing was done. StoreError if the store failed before the job's fate was settled.
        """
        hold()
        while version is not None:
            try:
                match version.job.state:
                    case JobState.COMMITTING:
                        version = await self._complete(version)
                    case JobState.COMPLETED:
                        return await self._finish(version)
                    case JobState.REVERTING:
                        return await self._revert(version)
                    case JobState.ABORTING:
                        return await self._abort(version)
                    case _:
                        raise JobMoved(
                            f"job {self.context.job} is {version.job.state} again; nothing was done"
                        )
            except JobMoved:
                self.fresh = False
                version = await self.record.read()
                if version is not None and version.job.state in BEFORE_COMMIT:
                    raise
            except ObjectNotFound as error:
                # A fact is gone: with the job, if another process ended it in the meantime.
                version = await self._still_there(version, error)
        with suppress(MagicError):  # facts that this process has written since the job ended
            await sweep(self.cleaner, self.context)
        return self._done

    async def take_back(self, version: JobVersion, reason: str, *, dry_run: bool = False) -> JobVersion:
        """Move a committing job to ``reverting``, if it can be taken back; ``dry_run`` only checks that.

        Raises CommitDenied if it can only go forward, CommitFailed if a fact is gone; nothing was changed.
        """
        try:
            output = await facts.read_output(self.cleaner, self.context, version.job)
        except ObjectNotFound as error:
            await self._still_there(version, error)
            raise JobMoved(f"job {self.context.job} was changed by another process meanwhile") from error
        no_way_back = await revert.no_way_back(
            self.cleaner, self.context, version.job, output, dry_run=dry_run
        )
        if no_way_back is not None:
            raise CommitDenied(
                f"job {self.context.job} can no longer be rolled back: {no_way_back}; nothing was changed; "
                f"run magicfs recover {self.context.url} to finish it"
            )
        return version if dry_run else await self.record.move(version, JobState.REVERTING, reason=reason)

    async def _still_there(self, version: JobVersion, error: ObjectNotFound) -> JobVersion | None:
        if await self._is_unmoved(version):
            raise CommitFailed(
                f"a fact of job {self.context.job}, which is {version.job.state}, is missing: {error}; "
                "nothing was done with the job; restore the object, or check the files and remove the job "
                "by hand"
            ) from error
        return await self.record.read()

    async def _is_unmoved(self, version: JobVersion) -> bool:
        now = await self.record.read()
        return now is not None and now.job.nonce == version.job.nonce

    # -- committing ------------------------------------------------------------------------------------

    async def _complete(self, version: JobVersion) -> JobVersion:
        job = version.job
        extensions_of(job.needs())  # one that lacks is refused while a magicfs that has it can still do all
        looks = [] if job.irreversible else [publish.seen_success(self.engine, self.context)]
        reading = facts.read_output(self.engine, self.context, job, self._written)
        output, *success = await at_once(reading, *looks)
        self._done.output = output
        if success:
            version = await publish.hide_success(self.engine, self.context, self.record, version, *success)
        last = set(job.equal_keys)
        self._etags = ETags(output.files)
        # A rename that succeeds proves itself.
        verify = self.context.renames.verify if output.renames else not self.fresh

        def comes_first(step: Publication) -> bool:
            return not isinstance(step, Put) and not comes_last(step.key, last)

        result = await self._run(output, comes_first, verify=verify)
        if result.ok and last and not job.irreversible:
            result = await revert.looked_at(self.engine, self.context, output, last)
        if result.ok and (last or output.bundles):
            if not job.irreversible:
                version = await self.record.move(version, JobState.COMMITTING, irreversible=True)
            if output.renames:
                work = (self.engine, self.context, self.record)
                await delete_recorded_obstacles(*work, version, output)
            bodies = Bundles(self.engine.store, partial(self.record.confirm, version))
            result = await self._run(
                output,
                lambda step: isinstance(step, Put) or comes_last(step.key, last),
                verify=verify,
                bodies=bodies,
            )
        if not result.ok:
            return await self._failed(version, output, result)
        self._published = output
        completed, self._ahead = await at_once(
            self.record.move(version, JobState.COMPLETED),
            publish.look_ahead(self.cleaner, self.context, self.record.conditions, version.job),
        )
        return completed  # type: ignore[no-any-return]

    async def _run(
        self, output: JobOutput, wanted: Wanted, *, verify: bool, bodies: Bundles | None = None
    ) -> BatchResult:
        return await make_visible(
            *(self.engine, self.record.conditions, output, self._etags, wanted),
            if_absent=must_be_absent(self.context, self.record.conditions),
            verify=verify,
            bodies=bodies,
            pace=Pace(self.context.renames.per_second),
            looks_first=self.context.renames.at_task_commit,
        )

    async def _failed(self, version: JobVersion, output: JobOutput, result: BatchResult) -> JobVersion:
        lists = lists_of(output, self._etags, result)
        undecided = next((one for one in result.failures if not self._is_definite(one)), None)
        if undecided is not None:
            with suppress(StoreError):
                if not await self._is_unmoved(version):
                    raise JobMoved(f"job {self.context.job} was changed meanwhile") from undecided.error
            raise outcome.undecided_file(self.context, undecided, output.files, lists) from undecided.error
        first = result.failures[0].error
        no_way_back = await revert.no_way_back(self.cleaner, self.context, version.job, output)
        if no_way_back is not None:
            raise outcome.stuck(self.context, no_way_back, first, lists) from first
        self._done.failure, self._done.lists = first, lists
        return await self.record.move(version, JobState.REVERTING, reason=str(first))

    def _is_definite(self, failure: Failure) -> bool:
        """Whether a file is known not to come; a recovery that may not write proves nothing."""
        known = failure.outcome is not Outcome.UNKNOWN
        return known and (self.fresh or not isinstance(failure.error, (PermissionDenied, Unsupported)))

    # -- the three ends --------------------------------------------------------------------------------

    async def _finish(self, version: JobVersion) -> JobOutcome:
        """From ``completed`` to the end. No trouble raises: the files are published. The outcome has it."""
        done = self._done
        done.end = JobEnd.PUBLISHED
        try:
            # What the cleanup begins with is looked at meanwhile.
            _, looked = await at_once(self._settle(version), look(self.cleaner, self.context))
        except Exception as error:
            gone = isinstance(error, ObjectNotFound) and not await self._is_unmoved(version)
            if gone or isinstance(error, JobMoved):
                raise  # perhaps the job has ended: see run
            done.is_unfinished, done.unsettled = True, error
            done.warnings.append(outcome.unfinished(self.context, error))
            return done
        left = await delete_records(self.cleaner, self.context, done.output)
        left += await self._end(version, looked=looked)
        done.is_unfinished = bool(left)
        done.warnings += [f"the files are published but cleaning up failed: {one}" for one in left]
        if done.unlisted is not None:
            done.warnings.append(
                "uploads of attempts that left no record could not be listed, and a lifecycle rule has to "
                f"collect them: {done.unlisted}"
            )
        return done

    async def _settle(self, version: JobVersion) -> None:
        """Manifest, pointer, deletions and ``_SUCCESS``."""
        job, context, conditions, done = version.job, self.context, self.record.conditions, self._done
        extensions = extensions_of(job.needs())
        try:
            if job.chunks and not done.output.files:
                done.output = await facts.read_output(self.cleaner, context, job)
            ahead, self._ahead = self._ahead, publish.Ahead()
            old = await facts.read_deletions(self.cleaner, context, job) if ahead.old is None else ahead.old
            settling = Settling(self.cleaner, context, conditions, job, done.output, old, old)
            for one in extensions:
                await one.settle(settling)
            left = await facts.read_old(self.cleaner, context, job.hidden, context.layout.destination)
        except ObjectNotFound:
            # Facts go after everything else: if the manifest is there, only cleaning up was left.
            if not await publish.republish(self.cleaner, context, conditions):
                raise
            return
        pointer = await publish.publish_manifest(
            *(self.cleaner, context, conditions, job, done.output, [*settling.old, *left], self._etags),
            said=settling.manifest,
            looked=ahead.pointer,
        )
        done.warnings += done.output.left_out
        check = partial(self.record.confirm, version)
        altered = await publish.delete_old(self.cleaner, conditions, settling.deleted, done.output, check)
        done.deleted = len(settling.deleted) - len(altered)
        done.warnings += [f"{key} was rewritten by another program and stays" for key in altered]
        if job.options.success_marker:
            self._success = await publish.write_success(self.cleaner, context, conditions, job, done.output)
        await publish.delete_parts_left(self.cleaner, context, conditions, done.output)
        done.warnings += await warnings_at_end(extensions, settling, pointer.follows)

    async def _revert(self, version: JobVersion) -> JobOutcome:
        self._done.end = JobEnd.REVERTED
        job = version.job
        output = JobOutput()
        if job.chunks or job.old_success:
            output = await facts.read_output(self.cleaner, self.context, job)
            raise_first(
                await revert.revert_files(self.cleaner, self.context, self.record.conditions, job, output)
            )
            raise_first(await delete_records(self.cleaner, self.context, output))
            # From here on nothing but work objects is left, and the facts may go.
            version = await self.record.move(
                version, JobState.REVERTING, chunks=(), deletions=(), hidden=(), old_success=None
            )
        raise_first(await self._end(version, read_documents=True, look_again=output))
        return self._done

    async def _abort(self, version: JobVersion) -> JobOutcome:
        await tell_of_visible(self.cleaner, self.context)
        raise_first(await self._end(version, read_documents=True))
        self._done.end = JobEnd.ABORTED
        return self._done

    async def _end(
        self,
        version: JobVersion,
        *,
        read_documents: bool = False,
        look_again: JobOutput | None = None,
        looked: Looked | None = None,
    ) -> list[MagicError]:
        """Remove the job's work, and its object last; returns what could not be done."""
        try:
            swept = await sweep(
                self.cleaner,
                self.context,
                settled=self.settled,
                published=self._published,
                read_documents=read_documents,
                check=partial(self.record.confirm, version, may_have_ended=True),
                looked=looked,
            )
            self._done.aborted += swept.aborted
            self._done.unlisted = swept.unlisted
            problems = swept.problems or await end_work(self.cleaner, self.context, self._done)
            if swept.ended and self._success is not None:
                conditions = self.record.conditions
                await publish.withdraw_late_success(self.cleaner, self.context, conditions, self._success)
            if not problems and look_again is not None:
                problems = await revert.remove_files(self.cleaner, self.record.conditions, look_again)
            if not problems:
                await self.record.remove(version)
        except JobMoved:
            raise
        except MagicError as error:
            return [error]
        return problems
