"""Publishing an earlier state again: one job more, whose files are old ones that are still there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from os import PathLike
from typing import Any
from uuid import UUID, uuid4

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.commit_or_abort import commit_or_abort
from magicfs.datasets.connection import on_destination, told_as_newest
from magicfs.datasets.history import job_as_of
from magicfs.engine import Engine
from magicfs.manifests.chain import READING
from magicfs.protocol import ids
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.protocol.period import kept_for
from magicfs.report import JobReport
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.output import JobOutput
from magicfs.transaction.version_copies import copy_what_is_gone

__all__ = ["roll_back", "rollback"]


def rollback(
    url: str | PathLike[str],
    *,
    to: str | datetime,
    keep_replaced: str | timedelta | None = None,
    keep_in_place: bool = False,
    run_id: str | None = None,
    job_id: UUID | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> JobReport:
    """Publish the dataset as it was when a job had been published, as a new job, all or nothing.

    No file is copied that is still there, as ``keep_replaced`` of the jobs since has kept it. Of one that is
    kept by its version the store makes a copy, under another name. What was published since is replaced, as
    by a job with ``conflict="replace"``. If this process dies, ``magicfs recover`` brings the rollback to its
    end. A second call is one more job that shows the same;
    with the same ``run_id`` it changes nothing.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        to: The publication: a job id, a run id, a tag or a time, as for ``magicfs.dataset(url, as_of=…)``.
        keep_replaced: For how long what was published since stays where it is, such as ``"7d"``, so that this
            rollback can be rolled back. By default it is deleted.
        keep_in_place: Whether it stays there on a bucket with versions, too, for readers who know names and
            no versions, such as those of Iceberg and Delta tables.
        run_id: Name of the run: a second rollback of it finds the first.
        job_id: An id for the new job, never used again; by default a random UUID.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Raises:
        ObjectNotFound: No such publication, or files of then were deleted or written over since; nothing was
            changed.
        UsageError: ``to`` means several publications, or it cannot be told what readers saw then; or
            ``keep_in_place`` came without ``keep_replaced``. Nothing was changed.
        CommitDenied: Another job is changing the destination; nothing was changed.
        CommitOutcomeUnknown: The store did not answer; run ``magicfs recover URL``.
        CommitUnfinished: It is published, but readers may not see that; run ``magicfs recover URL``.
        StoreError: The store refused, or did not answer; nothing was changed.
    """
    how = {
        "to": to,
        "keep_replaced_ms": kept_for(keep_replaced, keep_in_place=keep_in_place),
        "keep_in_place": keep_in_place,
        "run_id": run_id,
        "job": ids.job_id(uuid4() if job_id is None else job_id),
    }
    return on_destination(roll_back, url, storage_options, filesystem, **how)


async def roll_back(
    engine: Engine,
    location: Location,
    *,
    to: str | datetime,
    keep_replaced_ms: int | None = None,
    keep_in_place: bool = False,
    run_id: str | None = None,
    job: ids.JobId,
) -> JobReport:
    """``rollback``, on the store's loop."""
    context = JobContext(
        url=location.url,
        layout=WorkLayout(location.key, job),
        conflict="replace",
        unique_names=True,
        tracking="store",
        etag_format="string",
        run_id=run_id,
        keep_replaced_ms=keep_replaced_ms,
        keep_in_place=keep_in_place,
        restores=await job_as_of(engine, location, to),
    )
    transaction = JobTransaction(await told_as_newest(engine, location), context)
    found = await transaction.set_up()
    if found.published is not None:
        await transaction.abort((), found.driver, given=False)
        return JobReport.before(found.published, location.url, context.committer, context.conflict)

    async def load() -> JobOutput:
        return await copy_what_is_gone(transaction.engine, context, READING)

    return await commit_or_abort(transaction, load, found.driver)
