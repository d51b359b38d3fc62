"""The job commit: its stages, one after the other; and the cleanup, which an abort runs alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from magicfs.committers.classic import Published
from magicfs.committers.manifest.directories import (
    CreateDirectories,
    DeleteOldData,
    FindOldData,
    leaves_of,
    refuse_obstacles,
)
from magicfs.committers.manifest.load import Loaded, LoadManifests, ToLoad
from magicfs.committers.manifest.rename import RenameFiles, ToRename, ValidateFiles
from magicfs.committers.manifest.reporting import move_manifests, success_of
from magicfs.committers.manifest.save import SaveSuccess
from magicfs.committers.manifest.setup import Claim, ClaimManifests, give_back, own_success
from magicfs.committers.manifest.spill import Spill
from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import CommitFailed, MagicError, ObjectNotFound, StoreError
from magicfs.formats.success import SuccessData
from magicfs.formats.task_manifest import EntryStatus
from magicfs.parallel import drained
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.transaction.outcome import ENDED_ELSEWHERE

__all__ = ["CleanedUp", "CleanupJob", "CleanupOutcome", "CommitJob", "Committed", "Wanted"]


class CleanupOutcome(Enum):
    """How a cleanup ended, in Hadoop's words (``CleanupJobStage.Outcome``)."""

    DISABLED = "Disabled"
    NOTHING_TO_CLEAN_UP = "Nothing to clean up"
    PARALLEL_DELETE = "Parallel Delete of Task Attempt Directories"
    DELETED = "Delete of job directory"
    FAILURE = "Delete failed"


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """What a cleanup did."""

    outcome: CleanupOutcome
    directory: str
    deletes: int = 0  # directories that it tried to delete
    # Why the directory could not be deleted; None if it could, or was not to be.
    error: StoreError | None = None


class CleanupJob(Stage[None, CleanedUp]):
    """Delete the job's directory, as the options say; then ``_temporary``, if nothing is left in it.

    Hadoop's deletes all of ``_temporary``, the work of other jobs too. With ``cleanup_failures_ignored`` it
    does not raise if the job's directory could not be deleted.
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be published."""

    # The attempt of each task that counts; None for all that are committed.
    attempts: Mapping[TaskId, AttemptId] | None
    # Given the number of tasks; raises ``ProtocolViolation`` if it must be another.
    check: Callable[[int], None]
    committer: str  # its name, for ``_SUCCESS``


@dataclass(slots=True)
class Committed:
    """What was published."""

    published: Published
    success: SuccessData | None  # what ``_SUCCESS`` says; None if that is not known any more
    cleaned_up: CleanedUp | None = None
    diagnostics: dict[str, str] = field(default_factory=dict)  # more for the job's report


class CommitJob(Stage[Wanted, Committed]):
    """Publish what tasks have committed.

    Until the manifests are checked nothing is changed. A second stage, in whatever process, goes on where a
    dead one stopped, with the manifests that were chosen by the first. Raises CommitDenied if the job attempt
    cannot be published any more, ProtocolViolation for a wrong number of tasks, OutputExists for
    ``target_directories="fail"`` and old data: nothing was changed. CommitFailed: nothing was changed before
    the first rename; after it, and for CommitOutcomeUnknown, see ``RenameFiles``. After a StoreError nothing
    was removed; call again.
    """

    name = "committer_commit_job"

    async def _run(self, argument: Wanted) -> Committed:
        config = self.config
        claim = await ClaimManifests(config).run(None)
        if claim is Claim.PUBLISHED:
            committed = await self._published_before()
        else:
            committed = await self._publish(argument, new=claim is Claim.NEW)
            try:
                await config.tree.rename(config.places.claimed_manifests, config.places.published_manifests)
            except StoreError as error:
                committed.published.warnings.append(f"the job is published, but not marked so: {error}")
        await self._move_manifests(committed)
        try:
            committed.cleaned_up = await CleanupJob(config).run(None)
        except StoreError as error:
            error.add_note(
                f"job {config.context.job} is published, and only its work could not be removed; commit it "
                "again, which tries that again, or set cleanup_failures_ignored"
            )
            raise
        if (ignored := committed.cleaned_up.error) is not None:
            committed.published.warnings.append(f"the work of the job could not be removed: {ignored}")
        config.entered = self.name
        return committed

    async def _publish(self, wanted: Wanted, *, new: bool) -> Committed:
        config = self.config
        async with Spill(config.options.writer_queue_capacity) as spill:
            try:
                loaded = await self._load(wanted, spill)
                await refuse_obstacles(config, loaded.directories, spill, new=new)
                old = await self._find_old(loaded, spill)
            except MagicError as error:
                if new:
                    await self._give_back(error)
                raise
            await self._begin(loaded)
            created = await CreateDirectories(config).run(loaded.directories)
            published = await RenameFiles(config).run(ToRename(spill, loaded.files, created.created))
            published.tasks = loaded.tasks
            if old:
                await self._delete_old(spill, published)
            if config.options.validate_output:
                await ValidateFiles(config).run(spill)
        success = success_of(config, published, loaded.statistics, wanted.committer)
        await SaveSuccess(config).run(success)
        published.statistics = success.statistics
        return Committed(published, success)

    async def _load(self, wanted: Wanted, spill: Spill) -> Loaded:
        loaded = await LoadManifests(self.config).run(
            ToLoad(self.config.places.claimed_manifests, wanted.attempts, spill)
        )
        wanted.check(loaded.tasks)
        if (twice := await spill.written_twice()) is not None:
            key, *tasks = twice
            raise CommitFailed(
                f"{key} is written by two tasks, {' and '.join(tasks)}; nothing was published; use "
                "unique_names=True or other file names",
                failed=[key],
            )
        if (both := await spill.file_and_directory()) is not None:
            raise CommitFailed(
                f"{both[0]} is a file of task {both[1]} and a directory of another; nothing was published; "
                "use other file names",
                failed=[both[0]],
            )
        return loaded

    async def _find_old(self, loaded: Loaded, spill: Spill) -> int:
        if self.config.options.target_directories == "leave":
            return 0
        known = loaded.directories
        there = [key for key in leaves_of(known) if known[key].status is not EntryStatus.CREATED_DIR]
        return await FindOldData(self.config).run((there, spill))

    async def _give_back(self, error: MagicError) -> None:
        try:
            await give_back(self.config)
        except StoreError as second:
            error.add_note(f"and tasks of the job cannot commit any more: {second}")

    async def _begin(self, loaded: Loaded) -> None:
        """Settle what is published, and take the old ``_SUCCESS`` away: its readers wait."""
        config = self.config
        for name in loaded.others:
            await config.tree.delete_tree(f"{config.places.claimed_manifests}/{name}")
        there = await config.tree.look(config.context.layout.success_key)
        if there is not None and there.kind == "file":
            await config.tree.delete(config.context.layout.success_key)

    async def _delete_old(self, spill: Spill, published: Published) -> None:
        try:
            await DeleteOldData(self.config).run(spill)
        except StoreError as error:
            done = [file.key async for file in spill.files()]
            raise CommitFailed(
                f"all {published.files} files of job {self.config.context.job} are published, but old data "
                f"beside them could not be deleted: {error}; commit the job again, which tries that again",
                done=done,
            ) from error

    async def _move_manifests(self, committed: Committed) -> None:
        if not self.config.options.diagnostics_manifest_directory:
            return
        if await self.config.tree.look(self.config.places.published_manifests) is None:
            return
        try:
            committed.diagnostics["manifests"] = await move_manifests(self.config)
        except StoreError as error:
            committed.published.warnings.append(f"the manifests could not be kept: {error}")

    async def _published_before(self) -> Committed:
        """What ``_SUCCESS`` still says of a job that a dead driver has published."""
        success = await own_success(self.config)
        published = Published(warnings=[ENDED_ELSEWHERE])
        if success is not None:
            counters = success.statistics.counters
            published.tasks = counters.get("committer_tasks_completed", 0)
            published.files = counters.get("committer_files_committed", 0)
            published.bytes = counters.get("committer_bytes_committed", 0)
            published.statistics = success.statistics
            for uri in success.filenames:
                with suppress(ValueError):
                    published.keys.append(self.config.places.key(uri))
        return Committed(published, success)
