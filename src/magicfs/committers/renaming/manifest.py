"""The manifest committer: tasks write files below ``_temporary`` and leave manifests, the job renames them.

Hadoop's ``ManifestCommitter``, under a job object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from magicfs.committers import registry
from magicfs.committers.registry import ManifestOptions
from magicfs.committers.renaming.base import RenamingCommitter
from magicfs.committers.renaming.summaries import own_key, save_summary, summary_of
from magicfs.engine import Engine
from magicfs.errors import CommitDenied
from magicfs.formats.task_commit import TaskCommit
from magicfs.report import JobReport
from magicfs.transaction.context import JobContext, JobSetup, RenameSettings

__all__ = ["ManifestCommitter"]


class ManifestCommitter(RenamingCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract.
    Raises UsageError if the store does not rename in one step.
    """

    name = "manifest"

    def __init__(self, context: JobContext, engine: Engine) -> None:
        registry.check_store(self.name, engine.store)
        given = context.committer_options
        self._options = given if isinstance(given, ManifestOptions) else ManifestOptions()
        super().__init__(replace(context, renames=_settings(engine, context, self._options)), engine)
        self.save_attempts: int = self._options.save_attempts
        self.deletes_obstacles: bool = self._options.delete_obstacles

    # -- the job ---------------------------------------------------------------------------------------

    async def setup_job(self) -> JobSetup:
        if not await self.tree.is_atomic():
            raise registry.without_folders(self.name, self.engine.store)
        return await super().setup_job()

    async def _commit(
        self, commits: Sequence[TaskCommit] | None, driver: str | None, tasks: int | None
    ) -> JobReport:
        directory = self._options.summary_report_directory
        try:
            report = await super()._commit(commits, driver, tasks)
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

    async def _abort_job(self, commits: Sequence[TaskCommit], driver: str | None) -> None:
        await super()._abort_job(commits, driver)
        summary = summary_of(self.context, self.engine, None, more={"aborted": "yes"})
        directory = self._options.summary_report_directory
        await save_summary(self.engine, self.context, directory, summary, overwrite=False)


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
