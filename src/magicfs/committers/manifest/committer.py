"""The manifest committer: tasks write files below ``_temporary`` and leave manifests, the job renames them.

Hadoop's ``ManifestCommitter``, under a job object.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from magicfs.committers import registry
from magicfs.committers.driven import DrivenCommitter
from magicfs.committers.manifest.reporting import own_key, save_summary, summary_of
from magicfs.committers.manifest.save import save
from magicfs.committers.manifest.scan import scan
from magicfs.committers.options import ManifestOptions
from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    MagicError,
    ObjectNotFound,
    ProtocolViolation,
    StoreError,
    Unavailable,
)
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.protocol import ids, paths
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.job_state import BEFORE_COMMIT
from magicfs.report import JobReport
from magicfs.stores.interrupt import hold
from magicfs.stores.object_tree import tree_of
from magicfs.transaction.context import JobContext, JobSetup, RenameSettings
from magicfs.transaction.output import JobOutput
from magicfs.transaction.task_manifests import TaskManifests

if TYPE_CHECKING:
    from magicfs.transaction.delegate import CompleteRemotely

__all__ = ["ManifestCommitter"]

_NAME_BYTES_MAX = 255
_TRIES = 5


class ManifestCommitter(DrivenCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract.
    Raises UsageError if the store does not rename in one step.
    """

    name = "manifest"
    pause_s = 0.5  # after the n-th failure to save a manifest it waits n times so long

    def __init__(self, context: JobContext, engine: Engine) -> None:
        registry.check_store(self.name, engine.store)
        given = context.options
        self._options = given if isinstance(given, ManifestOptions) else ManifestOptions()
        super().__init__(replace(context, renames=_settings(engine, context, self._options)), engine)
        self.tree = tree_of(engine.store)
        self._sets = self._manifests = TaskManifests(engine, self.context)

    # -- the job ---------------------------------------------------------------------------------------

    async def setup_job(self) -> JobSetup:
        """As ``Committer.setup_job``; makes the directory of manifests, without which no task can commit."""
        if not await self.tree.is_atomic():
            raise registry.without_folders(self.name, self.engine.store)
        setup = await super().setup_job()
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
            raise
        return setup

    async def _commit(
        self,
        commits: Sequence[TaskCommit] | None,
        driver: str | None,
        tasks: int | None,
        complete_remotely: CompleteRemotely | None,
    ) -> JobReport:
        directory = self._options.summary_report_directory
        try:
            report = await super()._commit(commits, driver, tasks, complete_remotely)
        except Exception as error:
            summary = summary_of(self.context, self.engine, None, error)
            # One that was denied knows less than whoever was faster.
            overwrite = not isinstance(error, CommitDenied)
            trouble = await save_summary(self.engine, self.context, directory, summary, overwrite=overwrite)
            if trouble is not None:
                error.add_note(trouble)
            raise
        summary = summary_of(self.context, self.engine, report)
        trouble = await save_summary(self.engine, self.context, directory, summary)
        return report if trouble is None else replace(report, warnings=(*report.warnings, trouble))

    async def _load(self, commits: Sequence[TaskCommit] | None, tasks: int | None) -> JobOutput:
        output = await super()._load(commits, tasks)
        _refuse_file_and_directory(output)
        output.obstacles = [key for key in sorted(self._manifests.obstacles) if await self._is_file(key)]
        if output.obstacles and not (self.context.is_replacing or self._options.delete_obstacles):
            key = output.obstacles[0]
            raise CommitFailed(
                f"{key} is a file that was there before, and the job has a directory of that name; nothing "
                "was published; move it away and commit again, or use other names; committer_options="
                "{'delete_obstacles': True} has it deleted, as by Hadoop",
                failed=[key],
            )
        return output

    async def _is_file(self, key: str) -> bool:
        # Somebody may have made a directory of it since its task committed.
        entry = await self.tree.look(key)
        return entry is not None and entry.kind == "file"

    async def _abort_job(self, commits: Sequence[TaskCommit], driver: str | None) -> None:
        await super()._abort_job(commits, driver)
        summary = summary_of(self.context, self.engine, None, more={"aborted": "yes"})
        directory = self._options.summary_report_directory
        await save_summary(self.engine, self.context, directory, summary, overwrite=False)

    # -- tasks -----------------------------------------------------------------------------------------

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        """Whether an attempt wrote anything. Hadoop's says yes of every attempt."""
        with suppress(ObjectNotFound):
            async for _ in self.tree.entries(self.context.temporary.task_attempt_directory(attempt)):
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
            manifest = await scan(
                self.tree,
                self.context,
                self._manifests.places,
                task,
                attempt,
                final_key=self._final_key,
                name_bytes_max=_NAME_BYTES_MAX if self.engine.store.capabilities.directories else 0,
                counters=counters,
            )
            hold()  # from here on the manifest may be there, and count
            return await save(self._manifests, manifest, self._options.save_attempts, self.pause_s)
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
                    f"task attempt {attempt} may be among what job {self.context.job} publishes; nothing was "
                    "deleted; leave it to the job commit"
                )
            await self.tree.delete(self.context.temporary.manifest_key(attempt))
        await self._discard(attempt)

    async def _discard(self, attempt: AttemptId) -> None:
        await self.tree.delete(self._manifests.places.temporary_manifest(attempt))
        await self.tree.delete_tree(self.context.temporary.task_attempt_directory(attempt))

    async def _remove_empty(self) -> None:
        """Remove the directories that a task has made again whose job has ended, as far as they are empty."""
        temporary = self.context.temporary
        names = (temporary.tasks_directory, temporary.attempt_directory(), temporary.job_directory)
        for directory in (*names, temporary.temporary):
            with suppress(StoreError):
                await self.tree.delete(directory)

    def _final_key(self, relative: str, task: TaskId) -> str:
        elements = paths.elements(relative)
        if self.context.unique_names:
            elements = unique_name(elements, task, self.context.job)
        return paths.join(self.context.layout.destination, *elements)


def _settings(engine: Engine, context: JobContext, options: ManifestOptions) -> RenameSettings:
    directory = options.diagnostics_manifest_directory
    return RenameSettings(
        verify=options.validate_output,
        per_second=options.renames_per_second,
        overwrites=options.delete_target_files or options.delete_obstacles,
        removes_work=not options.cleanup_skipped,
        must_remove_work=not options.cleanup_failures_ignored,
        keeps_manifests_at=(own_key(engine, context, directory) or "") if directory else None,
    )


def _refuse_file_and_directory(output: JobOutput) -> None:
    """Raise CommitFailed if a file has the name of a directory that another needs."""
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
