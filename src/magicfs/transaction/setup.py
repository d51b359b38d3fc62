"""The steps of setting a job up: the destination is checked, the job object is written or taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    MagicError,
    ObjectExists,
    OutputExists,
    PermissionDenied,
    StoreError,
    Unavailable,
    Unsupported,
    UsageError,
)
from magicfs.formats.job_object import JobObject
from magicfs.manifests import chain
from magicfs.protocol import modes, paths
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState
from magicfs.runtime.interrupt import held
from magicfs.runtime.parallel import at_once
from magicfs.stores import object_settings
from magicfs.stores.conditions import Conditions, conditions_of, remembered
from magicfs.stores.object_settings import ObjectSettings
from magicfs.stores.register import is_there
from magicfs.stores.trees import tree_of
from magicfs.transaction import others
from magicfs.transaction.attempt_output import delete_keys
from magicfs.transaction.context import FoundUpload, JobContext
from magicfs.transaction.extension import extensions_of
from magicfs.transaction.others import OtherJob, find_unfinished_jobs, is_kept_by_magicfs
from magicfs.transaction.outcome import run_is_published
from magicfs.transaction.planning import refuse_data
from magicfs.transaction.record import (
    JobRecord,
    JobVersion,
    location_keys,
    new_token,
    opened,
    put_locations,
    taking_over,
)

_LOOKED_AT = 1000


async def claim(
    engine: Engine, context: JobContext, *, may_create: bool = True
) -> tuple[JobRecord, JobVersion, bool | None]:
    """Create the job object, or take it over from another driver, and find out what the store honours.

    Also says whether the job is published already; None if that could not be seen. It is looked at during
    the move: a job that was published had no object any more when this one was created, and its manifest
    stood before.

    Either way the object is moved once before anybody works under it, to another driver's token. A late copy
    of the request that created it may arrive after the job has ended; because of this swap it then has no
    effect.

    Raises CommitDenied if the job is past its commit point, has ended, or may not be created; UsageError if
    the store ignores conditional writes. StoreError if it refuses what a job needs; one that keeps every
    object keeps those of the job, too, and the message names them.
    """
    store, layout = engine.store, context.layout
    known = remembered(store)
    record = JobRecord(store, layout, known or Conditions(), context.url)
    created = None
    if may_create:
        with suppress(ObjectExists):
            created = await record.create(opened(context, engine), tried=known is not None)
    try:
        return record, *await _claimed(engine, context, record, created, tried=known is not None)
    except (asyncio.CancelledError, UsageError):
        if created is not None:
            await withdraw(engine, context, record, created)
        raise
    except StoreError as error:
        # A silent store is not asked more.
        if created is None or isinstance(error, Unavailable):
            raise
        if left := await _take_back(engine, context, record, created):
            raise _refused(context, error, left) from error
        raise


async def withdraw(engine: Engine, context: JobContext, record: JobRecord, created: JobVersion) -> None:
    """Remove what a job has written that cannot be set up."""
    with suppress(MagicError):
        await delete_keys(engine, location_keys(context))
        await record.remove(created)


async def _take_back(
    engine: Engine, context: JobContext, record: JobRecord, created: JobVersion
) -> list[str]:
    """Remove what a job has written that could not be set up; returns what the store keeps of it."""
    await withdraw(engine, context, record, created)
    with suppress(MagicError):
        prefix = paths.prefix_of(context.layout.job_directory)
        return [info.key async for info in engine.store.list(prefix)]
    return []


def _refused(context: JobContext, error: StoreError, left: Sequence[str]) -> StoreError:
    problem = (
        f"{error.problem}; a job has to overwrite and delete its own objects, so job {context.job} was not "
        f"set up; nothing else was changed, and these of its objects stay: {', '.join(left)}"
    )
    command = f"magicfs recover {context.url} --job {context.job} --abort"
    hint = f"{error.hint}; once you have the permissions, remove the rest with {command}"
    return type(error)(error.operation, error.key, problem, hint=hint)


async def _claimed(
    engine: Engine, context: JobContext, record: JobRecord, created: JobVersion | None, *, tried: bool
) -> tuple[JobVersion, bool | None]:
    """The job object in its driver's hands: the one that was created, or one that is there. And whether the
    job is published already.
    """
    version = created or _to_take_over(context, await record.read())
    for one in extensions_of({*version.job.needs(), *context.options.needs()}):
        one.at_setup(context, version.job)
    _check_extra_destinations(context, version.job)
    _check_settings(context, version.job)
    _check_object_settings(engine, version.job)
    if not tried:
        # Only now: the leavings of a trial that is cut are found by way of the job object.
        record.use(await conditions_of(engine.store, context.layout.job_directory))
    if not record.conditions.put_if_absent and not context.options.single_driver:
        if created is not None:
            await record.remove(created)
        raise UsageError(
            f"the store {engine.store.name!r} ignores conditional writes, so it cannot keep two drivers of a "
            "job apart; use another store, or pass options={'single_driver': True} if no other process will "
            "change this job or publish here at the same time"
        )
    if context.options.places.extra or context.options.needs():
        await _mark_places(engine, context, record, created)
    news: dict[str, Any] = {"driver": new_token()}
    if created is None:
        news = taking_over(opened(context, engine), version.job)

    async def look() -> bool | None:
        try:
            return await is_published(engine, context)
        except StoreError:
            return None

    with held():  # whoever undoes a setup has to know the version that is there
        moved, published = await at_once(record.move(version, JobState.OPEN, **news), look())
    return moved, published


async def _mark_places(
    engine: Engine, context: JobContext, record: JobRecord, created: JobVersion | None
) -> None:
    try:
        await put_locations(engine, context)
        for one in extensions_of(context.options.needs()):
            await one.mark_places(engine, context, record.conditions)
    except MagicError:
        if created is not None:
            await delete_keys(engine, location_keys(context))
            await record.remove(created)
        raise


def _check_extra_destinations(context: JobContext, job: JobObject) -> None:
    """Whoever takes a job over must know of all directories that it publishes to."""
    known = job.options.places.extra
    if known != context.options.places.extra:
        raise UsageError(
            f"job {context.job} was set up with extra_destinations {list(known)}, not with "
            f"{list(context.options.places.extra)}; nothing was changed; give the same in every attempt"
        )


def _check_settings(context: JobContext, job: JobObject) -> None:
    """What tasks have followed already cannot change: it says how the job's uploads are named and found."""
    for name, old, new in (
        ("unique_names", job.options.unique_names, context.options.unique_names),
        ("tracking", job.options.tracking, context.options.tracking),
        ("small_files", job.options.small_files, context.options.small_files),
        ("restores", job.options.rollback.job, context.options.rollback.job),
        ("partitions", job.options.rollback.partitions, context.options.rollback.partitions),
    ):
        if old != new:
            raise UsageError(
                f"job {context.job} was set up with {name}={old!r}, not with {new!r}; nothing was changed; "
                f"give {name}={old!r} in every attempt, or use another job id"
            )


def _check_object_settings(engine: Engine, job: JobObject) -> None:
    """Half of a job must not be written otherwise than the other half."""
    known, told = job.object_settings, object_settings.of_store(engine.store)
    if known and known != told:
        raise UsageError(
            f"job {job.job_id} was set up to write objects with {_listed(known)}, not with {_listed(told)}; "
            "nothing was changed; give the same s3_additional_kwargs in every attempt, or use another job "
            "id"
        )


def _listed(settings: ObjectSettings) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(settings.items())) or "no settings"


def _to_take_over(context: JobContext, version: JobVersion | None) -> JobVersion:
    if version is None or version.job.state not in BEFORE_COMMIT:
        how = "has ended or never started" if version is None else f"is {version.job.state}"
        raise CommitDenied(
            f"job {context.job} {how}; nothing was changed; run magicfs recover {context.url}, or use "
            "another job id"
        )
    return version


async def look_around(
    engine: Engine, context: JobContext
) -> tuple[list[OtherJob], tuple[FoundUpload, ...] | None]:
    """Which unfinished jobs there are, and which uploads.

    A job looks after its object is set: of two that start at once at least one sees the other. Uploads are
    left out where the job has a run: earlier jobs of it may be aborted before.
    """
    looks: list[Coroutine[Any, Any, Any]] = [
        find_unfinished_jobs(engine, context.layout.destination, but=context.job)
    ]
    if context.options.run_id is None:
        looks.append(pending_uploads(engine, context))
    others, *uploads = await at_once(*looks)
    return others, uploads[0] if uploads else ()


async def is_published(engine: Engine, context: JobContext) -> bool:
    """Whether the job has a manifest."""
    return await is_there(engine.store, chain.manifest_key(context.layout.destination, context.job))


async def refuse_published(context: JobContext, record: JobRecord, version: JobVersion) -> None:
    """A job that is published is not published again."""
    await record.remove(version)
    raise CommitDenied(
        f"job {context.job} is already published; nothing was changed; use another job id for new data"
    )


async def run_again(
    context: JobContext, record: JobRecord, version: JobVersion, published: str | None
) -> str | None:
    """The job that keeps this one from publishing its run, given the one that has published it.

    Raises OutputExists where a run must not be begun again; the job is removed.
    """
    if published is None or context.options.rerun == "overwrite":
        return None
    if context.options.rerun == "error":
        await record.remove(version)
        raise run_is_published(context, published)
    return published


async def refuse_data_of_other_runs(
    engine: Engine, context: JobContext, record: JobRecord, version: JobVersion, published: str | None
) -> None:
    """Refuse data where none may be. What is there may have been the run's own, so it is looked at late."""
    if not context.must_be_empty or context.options.run_id is None or published is not None:
        return
    try:
        await refuse_data(engine, context, None)
    except OutputExists:
        await record.remove(version)
        raise


async def check_destination(engine: Engine, context: JobContext) -> None:
    """Refuse a destination that is a file, a table of a table format, or holds data that the mode forbids; or
    where the job would delete what is another's. Of extra destinations only the first two.
    """
    looks = [check_place(engine, context.layout.destination)]
    if context.must_be_empty and context.options.run_id is None:
        looks.append(refuse_data(engine, context, None))
    looks.append(others.refuse_at_setup(engine, context))
    looks += [check_place(engine, extra) for extra in context.options.places.extra]
    await at_once(*looks)


async def check_place(engine: Engine, directory: str) -> None:
    """Refuse a directory that belongs to a table format, or is a file."""
    looks = [_refuse_table(engine, directory, place) for place in modes.TABLE_DIRECTORIES]
    if directory:
        looks.append(_refuse_file(engine, directory))
    await at_once(*looks)


async def _refuse_table(engine: Engine, directory: str, place: str) -> None:
    store = engine.store
    prefix = paths.prefix_of(paths.join(directory, place))
    async for info in store.list(prefix, limit=_LOOKED_AT):
        if (table := modes.table_format_of(info.key, directory)) is not None:
            if await is_kept_by_magicfs(store, directory, info.key):
                return
            path = paths.Location("", store.bucket, directory).path
            raise UsageError(
                f"{path} is a table of {table}, as {info.key} shows; files published here would bypass its "
                "catalog; write through the table format, or choose another destination"
            )


async def _refuse_file(engine: Engine, directory: str) -> None:
    store = engine.store
    if not await is_there(store, directory):
        return
    there = await tree_of(store).look(directory)
    if there is None or there.kind == "directory":  # behind a symbolic link
        return
    path = paths.Location("", store.bucket, directory).path
    raise UsageError(f"{path} is a file; choose a directory, or remove the file first")


async def pending_uploads(engine: Engine, context: JobContext) -> tuple[FoundUpload, ...] | None:
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
