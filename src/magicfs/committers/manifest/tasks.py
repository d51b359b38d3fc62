"""Stages that commit and abort a task attempt."""

from __future__ import annotations

from contextlib import suppress

from magicfs.committers.manifest.claim import read_whole
from magicfs.committers.manifest.save import SaveTaskManifest
from magicfs.committers.manifest.scan import ScanTaskAttempt
from magicfs.committers.manifest.setup import SetupTask
from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import (
    CommitDenied,
    CommitOutcomeUnknown,
    FormatError,
    MagicError,
    ObjectNotFound,
    ProtocolViolation,
    Unavailable,
    UsageError,
)
from magicfs.formats.task_manifest import TASK_MANIFEST_SIZE_LIMIT, TaskManifest
from magicfs.protocol import ids
from magicfs.protocol.ids import AttemptId, TaskId

__all__ = ["AbortTask", "CommitTask"]


class CommitTask(Stage[tuple[TaskId, AttemptId], TaskManifest]):
    """Scan what an attempt wrote, and save its manifest. A failure deletes the attempt's files.

    Raises:
        CommitFailed: A file cannot be published under its name, or two have one final name.
        CommitDenied: The job is being committed, or has ended.
        CommitOutcomeUnknown: The store did not say whether the manifest was saved; nothing is deleted.
        StoreError: The store refused or failed.
    """

    name = "task_stage_commit"

    async def _run(self, argument: tuple[TaskId, AttemptId]) -> TaskManifest:
        config, (task, attempt) = self.config, argument
        try:
            if await self._wrote_nothing(attempt):
                await SetupTask(config).run(attempt)
            manifest = await ScanTaskAttempt(config).run(argument)
            return (await SaveTaskManifest(config).run(manifest)).manifest
        except Unavailable as error:
            raise CommitOutcomeUnknown(
                f"the store did not say whether task {task} was committed; nothing was deleted; commit the "
                f"task again: {error}"
            ) from error
        except MagicError as error:
            if isinstance(error, CommitDenied):
                # Only the first call of this attempt was in time, and that is what is published.
                claimed = await _claimed_manifest(config, attempt)
                if claimed is not None:
                    return claimed
            try:
                await AbortTask(config).run(attempt)
            except MagicError as second:
                error.add_note(f"and its files could not be deleted: {second}")
            raise

    async def _wrote_nothing(self, attempt: AttemptId) -> bool:
        """Whether an attempt of a job that is open has no directory, for it wrote nothing."""
        tree, places = self.config.tree, self.config.places
        return (
            await tree.look(places.layout.task_attempt_directory(attempt)) is None
            and await tree.look(places.open_manifests) is not None
        )


class AbortTask(Stage[AttemptId, None]):
    """Delete what an attempt wrote, and the manifest that it may have saved; no other attempt's.

    Raises:
        ProtocolViolation: The attempt is being published; nothing was deleted.
        StoreError: Something could not be deleted.
    """

    name = "task_stage_abort_task"

    async def _run(self, argument: AttemptId) -> None:
        config, tree = self.config, self.config.tree
        with suppress(UsageError):
            await self._take_back(config.places.manifest_name(ids.task_of_attempt(argument)), argument)
        if await _claimed_manifest(config, argument) is not None:
            raise ProtocolViolation(
                f"task attempt {argument} is being published by job {config.context.job}; nothing was "
                "deleted; leave it to the job commit"
            )
        await tree.delete(config.places.temporary_manifest(argument))
        await tree.delete_tree(config.places.layout.task_attempt_directory(argument))

    async def _take_back(self, name: str, attempt: AttemptId) -> None:
        tree, key = self.config.tree, f"{self.config.places.open_manifests}/{name}"
        if await _manifest_of(self.config, key, attempt) is None:
            return
        # Another attempt may save its own at any moment; so first aside, then a second look.
        aside = f"{self.config.places.temporary_manifest(attempt)}-aborted"
        try:
            await tree.rename(key, aside)
        except ObjectNotFound:
            return  # the job commit has begun
        if await _manifest_of(self.config, aside, attempt) is None and await tree.look(key) is None:
            await tree.rename(aside, key)
        else:
            await tree.delete(aside)


async def _claimed_manifest(config: StageConfig, attempt: AttemptId) -> TaskManifest | None:
    """The manifest of an attempt among those that are being published; None if it is not there."""
    try:
        name = config.places.manifest_name(ids.task_of_attempt(attempt))
    except UsageError:
        return None
    return await _manifest_of(config, f"{config.places.claimed_manifests}/{name}", attempt)


async def _manifest_of(config: StageConfig, key: str, attempt: AttemptId) -> TaskManifest | None:
    """The manifest at a key, if it is the attempt's."""
    raw = await read_whole(config, key, TASK_MANIFEST_SIZE_LIMIT)
    if raw is None:
        return None
    try:
        manifest = TaskManifest.from_bytes(key, raw)
    except FormatError:
        return None
    return manifest if manifest.attempt_id == attempt else None
