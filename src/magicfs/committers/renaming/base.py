"""A committer whose tasks leave files and a manifest of them, under a job object."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from magicfs.committers.driven import DrivenCommitter
from magicfs.committers.renaming.scan import NameCheck, scan, scan_objects
from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    MagicError,
    ObjectExists,
    ObjectNotFound,
    ProtocolViolation,
    StoreError,
    Unavailable,
    UsageError,
)
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.formats.task_manifest import TaskManifest
from magicfs.protocol import ids, paths
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.job_state import BEFORE_COMMIT
from magicfs.runtime.interrupt import hold
from magicfs.stores.tree_port import Tree
from magicfs.stores.trees import tree_of
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.output import JobOutput
from magicfs.transaction.task_manifests import TaskManifests

_SAVING = "task_stage_save_task_manifest"
_NAME_BYTES_MAX = 255
_TRIES = 5


class RenamingCommitter(DrivenCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract."""

    save_attempts: int = 1  # how often saving a manifest is tried
    pause_s: float = 0.5  # after the n-th failure to save a manifest it waits n times so long
    deletes_obstacles: bool = False  # whether old files in the places of directories go
    skips_success = False  # whether a task's own ``_SUCCESS`` is left out

    def __init__(self, context: JobContext, engine: Engine) -> None:
        super().__init__(context, engine)
        self.tree: Tree = tree_of(engine.store)
        self._sets = self._manifests = TaskManifests(engine, self.context)

    # -- the job ---------------------------------------------------------------------------------------

    async def setup_job(self) -> JobSetup:
        """As ``Committer.setup_job``. Where directories are real it makes that of the manifests, without
        which no task can commit.
        """
        setup = await super().setup_job()
        if not await self.tree.is_atomic():
            return setup
        try:
            for left in reversed(range(_TRIES)):
                try:
                    await self.tree.make_directory(self.context.temporary.manifests_directory)
                    break
                except ObjectNotFound:
                    # The last of the other jobs at this destination has removed what they shared.
                    if not left:
                        raise
        except MagicError as error:
            if setup.created and not isinstance(error, Unavailable):
                with suppress(MagicError):
                    await self._transaction.abort((), setup.driver, given=False)
            if isinstance(error, ObjectExists):
                raise UsageError(
                    "a file has the name of a directory that the job needs below "
                    f"{self.context.temporary.temporary}: {error}; nothing was changed; remove the file, or "
                    "choose another destination"
                ) from error
            raise
        return setup

    async def _load(self, commits: Sequence[TaskCommit] | None, tasks: int | None) -> JobOutput:
        output = await super()._load(commits, tasks)
        if not await self.tree.is_atomic():
            return output
        _refuse_file_and_directory(output)
        output.obstacles = [key for key in sorted(self._manifests.obstacles) if await self._is_file(key)]
        if output.obstacles and not (self.context.is_replacing or self.deletes_obstacles):
            raise in_the_way(output.obstacles[0], "directory")
        return output

    async def _is_file(self, key: str) -> bool:
        # Somebody may have made a directory of it since its task committed.
        entry = await self.tree.look(key)
        return entry is not None and entry.kind == "file"

    # -- tasks -----------------------------------------------------------------------------------------

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        """Whether an attempt wrote anything. Hadoop's says yes of every attempt."""
        directory = self.context.temporary.task_attempt_directory(attempt)
        if not await self.tree.is_atomic():
            return [one async for one in self.engine.store.list(paths.prefix_of(directory), limit=1)] != []
        with suppress(ObjectNotFound):
            async for _ in self.tree.entries(directory):
                return True
        return False

    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
        """Look through what an attempt wrote, and save its manifest; no file is moved.

        A second call returns what the first has saved. Raises CommitDenied if the job has ended. An error
        deletes the attempt's files, a StoreError as far as possible; CommitOutcomeUnknown deletes nothing:
        call again.
        """
        try:
            earlier = await self._manifests.find(task, attempt)
            if earlier is not None:
                return earlier
            manifest = await self._scanned(task, attempt, counters)
            hold()  # from here on the manifest may be there, and count
            return await self._save(manifest)
        except Unavailable as error:
            raise CommitOutcomeUnknown(
                f"the store did not say whether task {task} was committed; nothing was deleted; commit the "
                f"task again: {error}"
            ) from error
        except CommitOutcomeUnknown:
            raise
        except MagicError as error:
            try:
                await self._discard(attempt)
                if isinstance(error, CommitDenied):
                    await self._remove_empty()
            except MagicError as second:
                error.add_note(f"and its files could not be deleted: {second}")
            raise

    async def _scanned(self, task: TaskId, attempt: AttemptId, counters: Counters | None) -> TaskManifest:
        longest = _NAME_BYTES_MAX if self.engine.store.capabilities.directories else 0
        names = NameCheck(
            self._manifests.places, task, self._final_key, longest, skips_success=self.skips_success
        )
        if await self.tree.is_atomic():
            return await scan(self.tree, self.context, names, attempt, counters=counters)
        return await scan_objects(self.engine, self.context, names, attempt, counters=counters)

    async def _save(self, manifest: TaskManifest) -> TaskCommit:
        """Save a manifest, and count in it how often that was tried. Raises what the last attempt met."""
        failures = 0
        while True:
            counted = {**manifest.statistics.counters, _SAVING: failures + 1}
            if failures:
                counted[f"{_SAVING}.failures"] = failures
            made = replace(manifest, statistics=replace(manifest.statistics, counters=counted))
            raw = made.to_bytes()
            try:
                return await self._manifests.save(made, raw)
            except ObjectNotFound:
                raise
            except StoreError as error:
                failures += 1
                if failures >= self.save_attempts:
                    error.add_note(f"the same happened in each of {failures} attempts to save the manifest")
                    raise
            await asyncio.sleep(self.pause_s * failures)

    async def abort_task(self, attempt: AttemptId) -> None:
        """Delete what an attempt wrote, and its manifest. A second call does nothing. Raises
        ProtocolViolation if the attempt has committed and its job is being published; nothing was deleted.
        """
        try:
            task = ids.task_of_attempt(attempt)
        except MagicError:
            task = None
        if task is not None and await self._manifests.find(task, attempt) is not None:
            state = await self._transaction.state()
            if state is not None and state not in BEFORE_COMMIT:
                raise ProtocolViolation(
                    f"task attempt {attempt} may be published by job {self.context.job}; nothing was "
                    "deleted; leave it to the job commit"
                )
            await self.tree.delete(self.context.temporary.manifest_key(attempt))
        await self._discard(attempt)

    async def _discard(self, attempt: AttemptId) -> None:
        if await self.tree.is_atomic():
            await self.tree.delete(self._manifests.places.temporary_manifest(attempt))
        await self.tree.delete_tree(self.context.temporary.task_attempt_directory(attempt))

    async def _remove_empty(self) -> None:
        """Remove the directories that a task has made again whose job has ended, as far as they are empty."""
        if not await self.tree.is_atomic():
            return
        temporary = self.context.temporary
        names = (temporary.tasks_directory, temporary.attempt_directory(), temporary.job_directory)
        for directory in (*names, temporary.temporary):
            with suppress(StoreError):
                await self.tree.delete(directory)

    def _final_key(self, relative: str, task: TaskId) -> str:
        elements = paths.elements(relative)
        if self.context.options.unique_names:
            elements = unique_name(elements, task, self.context.job)
        return paths.join(self.context.layout.destination, *elements)


def in_the_way(key: str, wanted: str, there: str = "file") -> CommitFailed:
    """Why a job may not publish: old data lies where it has a file or a directory."""
    how = "; or pass options={'delete_obstacles': True} to delete it, as Hadoop does"
    return CommitFailed(
        f"{key} already exists as a {there}, and the job has a {wanted} of that name; nothing was "
        f"published; move it away and commit again, or use other names{how if there == 'file' else ''}",
        failed=[key],
    )


def _refuse_file_and_directory(output: JobOutput) -> None:
    parents: set[str] = set()
    for key in output.final_keys():
        parent = key.rpartition("/")[0]
        while parent and parent not in parents:
            parents.add(parent)
            parent = parent.rpartition("/")[0]
    for key in output.final_keys():
        if key in parents:
            raise CommitFailed(
                f"{key} is a file of one task and a directory of another; nothing was published; use other "
                "file names",
                failed=[key],
            )
