"""The stage that removes a job's work, of all its attempts, and nothing of other jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import ObjectNotFound, StoreError
from magicfs.parallel import drained

__all__ = ["CleanedUp", "CleanupJob", "CleanupOutcome"]


class CleanupOutcome(Enum):
    """How a cleanup ended, in Hadoop's words (``CleanupJobStage.Outcome``)."""

    DISABLED = "Disabled"
    NOTHING_TO_CLEAN_UP = "Nothing to clean up"
    PARALLEL_DELETE = "Parallel Delete of Task Attempt Directories"
    DELETED = "Delete of job directory"
    FAILURE = "Delete failed"


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """What a cleanup did.

    Attributes:
        outcome: How it ended.
        directory: The job's directory.
        deletes: How many directories it tried to delete.
        error: Why the job's directory could not be deleted; None if it could, or was not to be.
    """

    outcome: CleanupOutcome
    directory: str
    deletes: int = 0
    error: StoreError | None = None


class CleanupJob(Stage[None, CleanedUp]):
    """Delete the job's directory, as the options say; then ``_temporary``, if nothing is left in it.

    Hadoop's deletes all of ``_temporary``, the work of other jobs too.

    Raises:
        StoreError: The job's directory could not be deleted, and ``cleanup_failures_ignored`` is not set.
    """

    name = "job_stage_cleanup"

    def __init__(self, config: StageConfig) -> None:
        super().__init__(config)
        self._deletes = 0

    async def _run(self, argument: None) -> CleanedUp:  # noqa: ARG002 - there is nothing to say
        options, directory = self.config.options, self.config.places.layout.job_directory
        if options.cleanup_skipped:
            return CleanedUp(CleanupOutcome.DISABLED, directory)
        if await self.config.tree.look(directory) is None:
            await self._delete_what_is_shared()
            return CleanedUp(CleanupOutcome.NOTHING_TO_CLEAN_UP, directory)
        outcome = CleanupOutcome.DELETED
        error: StoreError | None = None
        if options.cleanup_parallel_delete:
            base_first = options.cleanup_parallel_delete_base_first
            if not base_first or await self._delete(directory) is not None:
                outcome = await self._delete_attempts()
                error = await self._delete(directory)
        else:
            error = await self._delete(directory)
        if error is not None:
            if not options.cleanup_failures_ignored:
                raise error
            return CleanedUp(CleanupOutcome.FAILURE, directory, self._deletes, error)
        await self._delete_what_is_shared()
        return CleanedUp(outcome, directory, self._deletes)

    async def _delete_what_is_shared(self) -> None:
        with suppress(StoreError):  # other jobs are at work here
            await self.config.tree.delete(self.config.places.layout.temporary)

    async def _delete(self, directory: str) -> StoreError | None:
        self._deletes += 1
        try:
            with self.config.counts.timed("op_delete_dir"):
                await self.config.tree.delete_tree(directory)
        except StoreError as error:
            return error
        return None

    async def _delete_attempts(self) -> CleanupOutcome:
        """Delete the directories of task attempts; one that cannot be deleted does not keep the others."""
        found, failed = 0, False

        async def one(directory: str) -> bool:
            nonlocal found, failed
            found += 1
            if await self._delete(directory) is not None:
                failed = True
            return True

        try:
            await drained(self._attempts(), one, self.config.concurrency)
        except StoreError:
            failed = True
        return CleanupOutcome.PARALLEL_DELETE if found and not failed else CleanupOutcome.DELETED

    async def _attempts(self) -> AsyncIterator[str]:
        tree = self.config.tree
        async for attempt in tree.entries(self.config.places.layout.job_directory):
            try:
                async for entry in tree.entries(f"{attempt.path}/tasks"):
                    if entry.kind == "directory":
                        yield entry.path
            except ObjectNotFound:
                await asyncio.sleep(0)  # nobody of this attempt wrote anything
