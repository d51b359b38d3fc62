"""The manifest committer: tasks write files below ``_temporary`` and leave manifests, the job renames them.

Hadoop's ``ManifestCommitter``, under a job object.
"""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace

from magicfs.committers import registry
from magicfs.committers.registry import ManifestOptions
from magicfs.committers.renaming.base import RenamingCommitter
from magicfs.engine import Engine
from magicfs.errors import CommitDenied
from magicfs.formats.statistics import Statistics
from magicfs.formats.success import SuccessData, manifest_success
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import paths
from magicfs.report import JobReport
from magicfs.stores.trees import tree_of
from magicfs.transaction.context import JobContext, JobSetup, RenameSettings
from magicfs.transaction.publish import as_manifest_committer
from magicfs.transaction.record import now_ms


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


def summary_of(
    context: JobContext,
    engine: Engine,
    report: JobReport | None,
    error: BaseException | None = None,
    more: Mapping[str, str] | None = None,
) -> SuccessData:
    """What a summary says of a job: of one that is published its report, of another why not. Neither is an
    abort.
    """
    success = SuccessData.of_job(
        context.job,
        context.options.committer,
        context.options.mode,
        hostname=socket.gethostname(),
        ended_ms=now_ms(),
        filenames=report.filenames if report else (),
        statistics=report.statistics if report else Statistics(),
        diagnostics=more or {},
    )
    files, tasks = (report.files, report.tasks) if report else (0, 0)
    success = as_manifest_committer(success, engine.concurrency, files=files, tasks=tasks)
    if report is not None:
        return success
    diagnostics = {**success.diagnostics}
    if error is None:
        diagnostics["stage"] = "job_stage_abort"
    else:
        diagnostics["exception"] = f"{type(error).__name__}: {error}"
        diagnostics["stacktrace"] = "".join(traceback.format_exception(error))
    return replace(success, success=False, diagnostics=diagnostics)


async def save_summary(
    engine: Engine, context: JobContext, directory: str, success: SuccessData, *, overwrite: bool = True
) -> str | None:
    """Keep a report in a directory, if one is named, as ``summary-<job>.json``.

    It returns what went wrong, or None, and never raises. With ``overwrite=False`` an earlier report of the
    job stays.
    """
    if not directory:
        return None
    name, tree = f"summary-{context.job}.json", tree_of(engine.store)
    try:
        raw = manifest_success(success)
        if (key := own_key(engine, context, directory)) is None:
            await asyncio.to_thread(_write_elsewhere, directory.rstrip("/"), name, raw, overwrite)
        elif overwrite or await tree.look(paths.join(key, name)) is None:
            await tree.write(paths.join(key, name), raw)
    except Exception as error:  # noqa: BLE001 - of any filesystem
        return f"the report {name} could not be kept in {directory}: {error}"
    return None


def own_key(engine: Engine, context: JobContext, directory: str) -> str | None:
    """The key of a directory that is named by URL or by key; None if it lies in another store."""
    if "://" not in directory:
        return directory.strip("/")
    prefix = f"{paths.parse_url(context.url).scheme}://{engine.store.bucket}/"
    return directory[len(prefix) :].strip("/") if directory.startswith(prefix) else None


def _write_elsewhere(directory: str, name: str, raw: bytes, overwrite: bool) -> None:
    from fsspec.core import url_to_fs

    filesystem, path = url_to_fs(directory)
    target = f"{path}/{name}"
    if not overwrite and filesystem.exists(target):
        return
    filesystem.makedirs(path, exist_ok=True)
    filesystem.pipe_file(target, raw)
