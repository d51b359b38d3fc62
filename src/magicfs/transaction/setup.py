"""Setting a job up: a look at the destination, the job object, a look at who else is there."""

from __future__ import annotations

from contextlib import suppress

from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    MagicError,
    ObjectExists,
    ObjectNotFound,
    OutputExists,
    PermissionDenied,
    Unsupported,
    UsageError,
)
from magicfs.formats.job_object import JobObject
from magicfs.manifests import chain
from magicfs.protocol import conflict, paths
from magicfs.protocol.job_state import JobState
from magicfs.stores.conditions import Conditions, conditions_of, remembered
from magicfs.transaction import signposts
from magicfs.transaction.attempt_output import delete_keys
from magicfs.transaction.context import FoundUpload, JobContext, JobSetup
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.transaction.prepare import refuse_data
from magicfs.transaction.record import JobRecord, JobVersion, new_token, opened, taking_over
from magicfs.transaction.reruns import finish_earlier_jobs_of_run

__all__ = ["check_destination", "claim", "set_up"]

_LOOKED_AT = 1000


async def set_up(engine: Engine, cleaner: Engine, context: JobContext, committer: str) -> JobSetup:
    """See ``Committer.setup_job``.

    Args:
        engine: Bound to the job's bucket.
        cleaner: The same, giving a silent store up.
        context: The job.
        committer: Name of the committer.
    """
    await check_destination(engine, context)
    for extra in context.extra_destinations:
        await _check_place(engine, extra)
    destination = context.layout.destination
    # A job that has ended looks like one that never was; only its first attempt may begin it.
    record, held = await claim(engine, context, committer, may_create=context.layout.attempt == 0)
    await _refuse_published(engine, context, record, held)
    others = await find_unfinished_jobs(engine, destination)
    published = await finish_earlier_jobs_of_run(engine, cleaner, context, record.conditions, others)
    if _must_be_empty(context) and context.run_id is not None and published is None:
        # What is there may have been the run's own, so it is minded only now.
        try:
            await refuse_data(engine, context, None)
        except OutputExists:
            await record.remove(held)
            raise
    return JobSetup(
        driver=held.job.driver,
        jobs=tuple(one.found() for one in others if one.job_id != context.job),
        uploads=await _pending_uploads(engine, context),
        published=published,
    )


async def claim(
    engine: Engine, context: JobContext, committer: str, *, may_create: bool = True
) -> tuple[JobRecord, JobVersion]:
    """Create the job object, or take it over from another driver, and find out what the store honours.

    Either way the object is moved once before anybody works under it, to another driver's token: a copy of
    the request that created it may land when the job has long ended, and brings nobody's job back.

    Raises:
        CommitDenied: The job is past its commit point, or has ended, or is not there and may not be created.
        UsageError: The store ignores conditional writes.
    """
    store, layout = engine.store, context.layout
    known = remembered(store)
    record = JobRecord(store, layout, known or Conditions())
    created = None
    if may_create:
        with suppress(ObjectExists):
            created = await record.create(opened(context, engine, committer), tried=known is not None)
    held = created or _to_take_over(context, await record.read())
    _check_extra_destinations(context, held.job)
    if known is None:
        # Only now: the leavings of a trial that is cut are found by way of the job object.
        record.use(await conditions_of(store, layout.job_directory))
    if not record.conditions.put_if_absent and not context.single_driver:
        if created is not None:
            await record.remove(created)
        raise UsageError(
            f"the store {store.name!r} ignores conditional writes, so two drivers of one job could not be "
            "told apart; use another store, or pass single_driver=True if nothing else will ever move this "
            "job or publish here at the same time"
        )
    if context.extra_destinations:
        await _put_signposts(engine, context, record, created)
    if created is not None:
        return record, await record.move(created, JobState.OPEN, driver=new_token())
    news = taking_over(opened(context, engine, committer), held.job)
    return record, await record.move(held, JobState.OPEN, **news)


async def _put_signposts(
    engine: Engine, context: JobContext, record: JobRecord, created: JobVersion | None
) -> None:
    try:
        await signposts.put(engine, context)
    except MagicError:
        if created is not None:
            await delete_keys(engine, signposts.keys_of(context))
            await record.remove(created)
        raise


def _check_extra_destinations(context: JobContext, job: JobObject) -> None:
    """Whoever takes a job over must know of all directories that it publishes to."""
    known = tuple(one.key for one in job.extra_destinations)
    if known != context.extra_destinations:
        raise UsageError(
            f"job {context.job} was set up with extra_destinations {list(known)}, and not with "
            f"{list(context.extra_destinations)}; nothing was changed; give the same in every attempt"
        )


def _to_take_over(context: JobContext, held: JobVersion | None) -> JobVersion:
    if held is None or held.job.state not in {JobState.OPEN, JobState.PREPARED}:
        raise CommitDenied(
            f"job {context.job} {'has ended, or never began' if held is None else f'is {held.job.state}'}; "
            f"nothing was changed; run magicfs recover {context.url}, or use another job id"
        )
    return held


async def _refuse_published(engine: Engine, context: JobContext, record: JobRecord, held: JobVersion) -> None:
    """A job that is published is not published again. It looks after its object is set."""
    try:
        await engine.store.head(chain.manifest_key(context.layout.destination, context.job))
    except ObjectNotFound:
        return
    await record.remove(held)
    raise CommitDenied(
        f"job {context.job} is published already; nothing was changed; use another job id for new data"
    )


async def check_destination(engine: Engine, context: JobContext) -> None:
    """Refuse a destination that is a file, belongs to a table format, or holds data that the mode forbids.

    Raises:
        UsageError: It is a file, or a table format's.
        OutputExists: ``conflict="fail"`` and data is there.
        ObjectNotFound: No such bucket.
    """
    await _check_place(engine, context.layout.destination)
    if _must_be_empty(context) and context.run_id is None:
        await refuse_data(engine, context, None)


async def _check_place(engine: Engine, directory: str) -> None:
    """Refuse a directory that belongs to a table format, or is a file."""
    store = engine.store
    path = paths.Location("", store.bucket, directory).path
    for place in conflict.TABLE_DIRECTORIES:
        prefix = paths.prefix_of(paths.join(directory, place))
        async for info in store.list(prefix, limit=_LOOKED_AT):
            if (table := conflict.table_format_of(info.key, directory)) is not None:
                raise UsageError(
                    f"{path} is a table of {table}, as {info.key} shows; files published here would "
                    "bypass its catalogue; write through the table format, or choose another destination"
                )
    if not directory:
        return
    try:
        await store.head(directory)
    except ObjectNotFound:
        return
    raise UsageError(f"{path} is a file; choose a directory, or remove the file first")


def _must_be_empty(context: JobContext) -> bool:
    """Whether no data may be there at all; which partitions a job writes to is not known yet."""
    return context.conflict == "fail" and not context.is_partition_scoped


async def _pending_uploads(engine: Engine, context: JobContext) -> tuple[FoundUpload, ...] | None:
    """Uploads that are pending under a destination already; None where listing them is not allowed."""
    prefix = paths.prefix_of(context.layout.destination)
    try:
        return tuple(
            [
                FoundUpload(upload.key, upload.upload_id, upload.initiated)
                async for upload in engine.store.list_uploads(prefix)
            ]
        )
    except (PermissionDenied, Unsupported):
        return None
