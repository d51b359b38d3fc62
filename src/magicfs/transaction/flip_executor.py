"""Doing what the object of a job that flips says: exchanging the directories, or discarding the new one."""

from __future__ import annotations

from contextlib import suppress

from magicfs.errors import CommitFailed, MagicError, ObjectNotFound, PermissionDenied, Unsupported
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState
from magicfs.stores.interrupt import hold
from magicfs.transaction import flip, flip_remains, outcome
from magicfs.transaction.execute import Executor
from magicfs.transaction.outcome import JobEnd, JobOutcome
from magicfs.transaction.record import JobMoved, JobVersion
from magicfs.transaction.sweep import sweep

__all__ = ["FlipExecutor"]


class FlipExecutor(Executor):
    """Runs the outer job of a flip from any state after ``prepared`` to its end.

    The commit point is ``committing``, as ever; until the exchange it may be rolled back, for nothing at the
    destination was touched. With the exchange the job object leaves the destination, and the job has ended
    there: what is left is to clear the old dataset away.
    """

    async def run(self, version: JobVersion | None) -> JobOutcome:
        hold()
        while version is not None:
            try:
                match version.job.state:
                    case JobState.COMMITTING:
                        return await self._flip(version)
                    case JobState.REVERTING:
                        return await self._discard(version)
                    case JobState.ABORTING:
                        return await self._discard(version)
                    case _:
                        raise JobMoved(
                            f"job {self.context.job} is {version.job.state} again; nothing was done"
                        )
            except JobMoved:
                version = await self.record.read()
                if version is not None and version.job.state in BEFORE_COMMIT:
                    raise
        done = await self._clear()
        with suppress(MagicError):  # what this process has written since the job ended
            await sweep(self.cleaner, self.context)
        return done

    async def _flip(self, version: JobVersion) -> JobOutcome:
        context = self.context
        try:
            await flip.join(self.engine, context, self.record.conditions, version.job)
            if not await self._is_unmoved(version):
                raise JobMoved(f"job {context.job} was moved by another process meanwhile")
            done = await flip.exchange(self.engine, context, self.record.conditions)
        except ObjectNotFound as error:
            if await self._is_unmoved(version):
                raise CommitFailed(
                    f"the new dataset of job {context.job}, which was made in {context.new}, is gone: "
                    f"{error}; nothing was changed at {context.url}; abort the job and run it again"
                ) from error
            raise JobMoved(f"job {context.job} was moved by another process meanwhile") from error
        except CommitFailed as error:
            if await self._is_unmoved(version):
                raise
            raise JobMoved(f"job {context.job} was moved by another process meanwhile") from error
        if not done and await self._is_unmoved(version):
            raise CommitFailed(
                f"the record of the flip of job {context.job} is gone, so that nobody can tell whether it "
                f"has taken place; nothing was changed at {context.url}; run magicfs recover --rollback "
                f"{context.url}, then run the job again"
            )
        if not done:
            raise JobMoved(f"job {context.job} was published, or called back, by another process")
        self._done.end = JobEnd.PUBLISHED
        return await self._clear()

    async def _discard(self, version: JobVersion) -> JobOutcome:
        context = self.context
        assert context.new is not None
        if not await flip.forbid_exchange(self.cleaner, context):
            await flip.exchange(self.cleaner, context, self.record.conditions)
            self._done.end = JobEnd.PUBLISHED
            return await self._clear()
        is_reverting = version.job.state is JobState.REVERTING
        self._done.end = JobEnd.REVERTED if is_reverting else JobEnd.ABORTED
        try:
            self._done.aborted += await flip_remains.discard(self.cleaner, context.new)
        except (PermissionDenied, Unsupported) as error:
            self._done.unlisted = error
        problems = await self._end(version, read_documents=True)
        if problems:
            raise problems[0]
        return self._done

    async def _clear(self) -> JobOutcome:
        """Clear away what the flip has left. No trouble raises: the dataset is published."""
        try:
            deleted, warnings = await flip_remains.clear_old(
                self.cleaner, self.context, self.record.conditions
            )
        except MagicError as error:
            self._done.is_unfinished = True
            self._done.warnings.append(outcome.not_cleared(self.context, error))
            return self._done
        self._done.deleted += deleted
        self._done.warnings += warnings
        return self._done
