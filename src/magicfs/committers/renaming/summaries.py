"""The summary that is kept of every job, failed ones too, as Hadoop's manifest committer does."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Mapping
from dataclasses import replace

from magicfs.engine import Engine
from magicfs.formats.statistics import Statistics
from magicfs.formats.success import SuccessData, manifest_success
from magicfs.protocol import paths
from magicfs.report import JobReport
from magicfs.stores.trees import tree_of
from magicfs.transaction.context import JobContext
from magicfs.transaction.publish import as_manifest_committer
from magicfs.transaction.record import now_ms

__all__ = ["own_key", "save_summary", "summary_of"]


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
