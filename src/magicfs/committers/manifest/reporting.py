"""Reports of jobs: what ``_SUCCESS`` says, and the summary that is kept of every job, failed ones too."""

from __future__ import annotations

import asyncio
import getpass
import socket
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from magicfs.committers.classic import Published
from magicfs.committers.manifest.stage import StageConfig
from magicfs.errors import StoreError
from magicfs.formats.document import iso_text
from magicfs.formats.statistics import Statistics
from magicfs.formats.success import SuccessData, manifest_success
from magicfs.protocol import paths
from magicfs.transaction.record import now_ms

__all__ = ["failed", "save_summary", "success_of"]

JOB_COMMIT = "committer_commit_job"


def success_of(
    config: StageConfig, published: Published, statistics: Statistics, committer: str
) -> SuccessData:
    """What ``_SUCCESS`` says of a job, with what its tasks counted."""
    diagnostics = {"mapreduce.manifest.committer.io.threads": str(config.concurrency), "stage": JOB_COMMIT}
    with suppress(OSError, KeyError, ImportError):
        diagnostics["principal"] = getpass.getuser()
    totals = Statistics(
        counters={
            "committer_bytes_committed": published.bytes,
            "committer_files_committed": published.files,
            "committer_tasks_completed": published.tasks,
        }
    )
    now = now_ms()
    success = SuccessData.of_job(
        config.context.job,
        committer,
        config.context.conflict,
        hostname=socket.gethostname(),
        ended_ms=now,
        filenames=(config.places.uri(key) for key in published.keys),
        statistics=statistics + config.counts.statistics() + totals,
        diagnostics=diagnostics,
    )
    return replace(success, date=iso_text(now))


def failed(success: SuccessData, error: BaseException | None, stage: str) -> SuccessData:
    """The same of a job that did not succeed. No error means an abort; ``stage`` was begun last."""
    diagnostics = {**success.diagnostics, "stage": stage}
    if error is not None:
        diagnostics["exception"] = f"{type(error).__name__}: {error}"
        diagnostics["stacktrace"] = "".join(traceback.format_exception(error))
    return replace(success, success=False, diagnostics=diagnostics)


async def save_summary(
    config: StageConfig, success: SuccessData, more: Mapping[str, str], *, overwrite: bool = True
) -> str | None:
    """Keep a report in the directory for them, if the options name one, as ``summary-<job>.json``.

    It returns what went wrong, or None, and never raises. With ``overwrite=False`` an earlier report of the
    job stays.
    """
    directory = config.options.summary_report_directory
    if not directory:
        return None
    name = f"summary-{config.context.job}.json"
    try:
        raw = manifest_success(replace(success, diagnostics={**success.diagnostics, **more}))
        if (key := own_key(config, directory)) is None:
            await asyncio.to_thread(_write_elsewhere, directory.rstrip("/"), name, raw, overwrite)
        elif overwrite or await config.tree.look(paths.join(key, name)) is None:
            await config.tree.write(paths.join(key, name), raw)
    except Exception as error:  # noqa: BLE001 - of any filesystem
        return f"the report {name} could not be kept in {directory}: {error}"
    return None


def own_key(config: StageConfig, directory: str) -> str | None:
    """The key of a directory that is named by URL or by key; None if it lies in another store."""
    if "://" not in directory:
        return directory.strip("/")
    prefix = f"{config.places.scheme}://{config.places.bucket}/"
    return directory[len(prefix) :].strip("/") if directory.startswith(prefix) else None


async def move_manifests(config: StageConfig) -> str:
    """Move the manifests of a published job to the directory for them, in place of an earlier job's; returns
    the URI of where they are. After a StoreError they are where they were.
    """
    named = config.options.diagnostics_manifest_directory
    directory = own_key(config, named)
    if directory is None:
        raise StoreError("rename", named, "it lies in another store", hint="name a directory of this one")
    target = paths.join(directory, config.context.job)
    await config.tree.make_directory(directory)
    await config.tree.delete_tree(target)
    await config.tree.rename(config.places.published_manifests, target)
    return config.places.uri(target)


def _write_elsewhere(directory: str, name: str, raw: bytes, overwrite: bool) -> None:
    from fsspec.core import url_to_fs

    filesystem, path = url_to_fs(directory)
    target = f"{path}/{name}"
    if not overwrite and filesystem.exists(target):
        return
    filesystem.makedirs(path, exist_ok=True)
    filesystem.pipe_file(target, raw)
