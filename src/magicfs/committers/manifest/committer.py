"""The manifest committer: tasks persist lists of files, the job renames them.

Hadoop's ``ManifestCommitter``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from magicfs.committers import registry
from magicfs.committers.classic import ClassicCommitter, Published
from magicfs.committers.manifest.commit import CleanupJob, CommitJob, Committed, Wanted
from magicfs.committers.manifest.places import Places
from magicfs.committers.manifest.reporting import failed, save_summary, success_of
from magicfs.committers.manifest.setup import SetupJob, own_success
from magicfs.committers.manifest.stage import StageConfig
from magicfs.committers.manifest.tasks import AbortTask, CommitTask
from magicfs.committers.options import ManifestOptions
from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    ObjectNotFound,
    ProtocolViolation,
    UsageError,
)
from magicfs.formats.statistics import Statistics
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.protocol import paths
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.report import JobReport
from magicfs.stores.object_tree import tree_of
from magicfs.stores.tree_port import Tree
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.current_driver import IsCurrentDriver, require_current_driver

__all__ = ["ManifestCommitter"]

_NAME_BYTES_MAX = 255


class ManifestCommitter(ClassicCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract, and ``guarantees`` for what it is worth.
    Raises UsageError if the store does not rename in one step.
    """

    name = "manifest"
    pause_s = 0.5  # after the n-th failure to save a file it waits n times so long

    def __init__(self, context: JobContext, engine: Engine, tree: Tree | None = None) -> None:
        super().__init__(context, engine)
        registry.check_store(self.name, engine.store)
        self.tree = tree or tree_of(engine.store)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            speculative_tasks=True,
            recoverable_job=False,
            abortable_task=True,
            # Before the job commit has begun. Afterwards what has been renamed stays.
            abortable_job=True,
            uncommitted_output_observable=False,
            committed_task_output_observable=False,
            atomic_task_commit=True,
            atomic_job_commit_list=False,
            atomic_job_commit_manifest=False,
            # There is one manifest a task: a lost attempt that commits late, but before the job does, makes
            # the commit of the given attempts fail, or is what a listing shows.
            partitioned_executor_resilience=False,
            # The first driver claims the manifests; ETags show what it has renamed.
            repeatable_job_commit=True,
            survives_driver_loss=True,
        )

    @property
    def is_commit_job_repeatable(self) -> bool:
        return True

    # -- setting up ------------------------------------------------------------------------------------

    async def setup_job(self) -> JobSetup:
        """Check the destination, and make the directories of the job attempt. ``_SUCCESS`` stays as it is.

        A second call for the same attempt raises CommitDenied, as it does when a later attempt has been set
        up, or an earlier one has begun to publish. Setting up a later attempt shuts earlier ones: their tasks
        and their drivers can commit no more.
        """
        if not await self.tree.is_atomic():
            raise registry.without_folders(self.name, self.engine.store)
        setup = await super().setup_job()
        await SetupJob(self.config()).run(None)
        return setup

    def config(self) -> StageConfig:
        """What the stages of one call work with, made anew for each call."""
        place = paths.parse_url(self.context.url)
        options = self.context.options
        return StageConfig(
            context=self.context,
            places=Places(place.scheme, self.engine.store.bucket, self.context.temporary),
            tree=self.tree,
            options=options if isinstance(options, ManifestOptions) else ManifestOptions(),
            concurrency=self.engine.concurrency,
            final_key=self.final_key,
            name_bytes_max=_NAME_BYTES_MAX if self.engine.store.capabilities.directories else 0,
            tell=self.engine.tell,
            pause_s=self.pause_s,
        )

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

        A second call does the same again: the attempt is then the last of its task to commit. Once the job
        commit has begun it returns what the first has saved. Raises CommitDenied if the job is being
        committed, or has ended. An error deletes the attempt's files, a StoreError as far as possible;
        CommitOutcomeUnknown deletes nothing: call again.
        """
        config = self.config()
        for name, number in (counters or {}).items():
            config.counts.add(name, number)
        manifest = await CommitTask(config).run((task, attempt))
        key = self.context.temporary.manifest_key(task)
        return self.commit_of(task, attempt, len(manifest.files), manifest.size, key, None, counters)

    async def abort_task(self, attempt: AttemptId) -> None:
        """Delete what an attempt wrote, and its manifest if it is its task's. A second call does nothing.
        Raises ProtocolViolation if the attempt is being published; nothing was deleted.
        """
        await AbortTask(self.config()).run(attempt)

    async def committed_tasks(self) -> list[TaskId]:
        places = self.config().places
        for directory in (places.open_manifests, places.claimed_manifests, places.published_manifests):
            found = []
            try:
                async for entry in self.tree.entries(directory):
                    with suppress(UsageError):
                        task = places.task_of(paths.relative_to(entry.path, directory))
                        if task is not None:
                            found.append(task)
                return found
            except ObjectNotFound:
                continue
        return []

    # -- the job ---------------------------------------------------------------------------------------

    async def commit_job(
        self,
        commits: Sequence[TaskCommit] | None,
        driver: str | None = None,  # noqa: ARG002 - who claims the manifests is the driver
        tasks: int | None = None,
        *,
        is_current_driver: IsCurrentDriver | None = None,
    ) -> JobReport:
        """Publish the given commits, exactly these, or all manifests that are there.

        The first call shuts the job attempt: no task can commit any more, unless the call fails before
        anything was changed. A second call goes on where the first stopped, in whatever process; give it the
        same commits, or none. For a job that is published it removes what is left of its work.

        Raises OutputExists for ``target_directories="fail"`` and old data; CommitDenied if the job attempt
        was aborted, superseded, or never set up; CommitFailed if a commit's manifest is another attempt's by
        now, is gone, or is malformed, or two tasks write one file: nothing was changed. If a file could not
        be renamed, CommitFailed names in ``done`` what has been renamed, and that stays: call again, or
        abort; with CommitOutcomeUnknown it may yet be renamed: call again.
        """
        await require_current_driver(is_current_driver, self.context.job)
        started = time.monotonic()
        attempts = None
        if commits is not None:
            self.check_commits(commits, tasks)
            attempts = {commit.task_id: commit.attempt_id for commit in commits}
            self._check_manifests(commits)
        config = self.config()
        wanted = Wanted(attempts, lambda found: self.check_number(found, tasks), self.name)
        try:
            committed = await CommitJob(config).run(wanted)
        except Exception as error:
            report = failed(success_of(config, Published(), Statistics(), self.name), error, config.entered)
            # One that was denied knows less than whoever was faster.
            trouble = await save_summary(config, report, {}, overwrite=not isinstance(error, CommitDenied))
            if trouble is not None:
                error.add_note(trouble)
            raise
        await self._keep_summary(config, committed)
        return self.report(committed.published, started)

    async def _keep_summary(self, config: StageConfig, committed: Committed) -> None:
        if committed.success is None:
            return
        trouble = await save_summary(config, committed.success, committed.diagnostics)
        if trouble is not None:
            committed.published.warnings.append(trouble)

    def _check_manifests(self, commits: Sequence[TaskCommit]) -> None:
        for commit in commits:
            if commit.set_key != self.context.temporary.manifest_key(commit.task_id):
                raise ProtocolViolation(
                    f"the commit of task {commit.task_id} names {commit.set_key!r}, which is no manifest of "
                    f"attempt {self.context.layout.attempt} of job {self.context.job}; nothing was "
                    "published; pass what task.commit returned in this attempt"
                )

    async def abort_job(
        self,
        commits: Sequence[TaskCommit],
        driver: str | None = None,  # noqa: ARG002 - the attempts' numbers tell drivers apart
        *,
        is_current_driver: IsCurrentDriver | None = None,
    ) -> None:
        """Remove all work of the job, of all its attempts; no task and no driver of it can commit any more.

        What a job commit that failed has renamed stays at the destination: the error of that commit names it.
        Raises CommitDenied if a later attempt of the job has been set up; nothing was removed. With
        ``cleanup_failures_ignored`` it does not raise if the work could not be removed.
        """
        await require_current_driver(is_current_driver, self.context.job)
        config = self.config()
        marked = await self.tree.look(config.places.published_manifests) is not None
        if marked or (commits and await own_success(config) is not None):
            raise ProtocolViolation(
                f"job {self.context.job} is published; nothing was removed; commit it again if its driver "
                "died before it had cleaned up"
            )
        if await self.tree.look(config.places.superseded_manifests(self.context.layout.attempt)) is not None:
            raise CommitDenied(
                f"a later attempt of job {self.context.job} has been set up, and works in the same "
                "directory; nothing was removed; abort that attempt"
            )
        config.entered = "job_stage_abort"
        try:
            with config.counts.timed(config.entered):
                await CleanupJob(config).run(None)
        finally:
            report = failed(success_of(config, Published(), Statistics(), self.name), None, "job_stage_abort")
            await save_summary(config, report, {"aborted": "yes"}, overwrite=False)
