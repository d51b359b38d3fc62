"""Discarding a job from any process: one that has not been committed, or what is left of one that has ended.

Only the job's own: uploads whose ids its documents record, uploads whose names hold its random id, and its
work objects.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Unpack, get_args

from magicfs.datasets.commit import work_of
from magicfs.datasets.connection import Way, context_of, on_destination
from magicfs.datasets.finders import Cluster, find_one, finder_of, finders
from magicfs.datasets.recover import recover_jobs
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, ObjectNotFound, PermissionDenied, UsageError
from magicfs.manifests import chain
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.other_datasets import ancestors
from magicfs.protocol.paths import Location
from magicfs.protocol.temporary import TemporaryLayout
from magicfs.report import RecoveredJob, RecoverReport
from magicfs.runtime.parallel import drained, raise_first
from magicfs.stores.conditions import conditions_of
from magicfs.stores.trees import tree_of
from magicfs.transaction import late_driver
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.transaction.record import JobRecord, location_of
from magicfs.transaction.sweep import SweepPlan, plan_sweep

_ROUNDS = 100
"""Enough for 100,000 uploads on a server that lists one page of 1,000."""


def abort(
    url: str | PathLike[str],
    *,
    job: str | None = None,
    driver_is_dead: bool = False,
    dry_run: bool = False,
    reason: str | None = None,
    cluster: Cluster | str | None = None,
    **way: Unpack[Way],
) -> RecoverReport:
    """Discard a job that is not committed; its driver, if it lives, can no longer commit it.

    For a job that has ended it removes what tasks of it that were still alive have left since: its pending
    uploads and its work objects. So does it remove versions of its job object that a driver which died left.
    What it has published stays, and the report says so. So do uploads that are named after it and that it has
    not recorded, while another job may have opened them: one that has not ended and has
    ``unique_names=False``. A second call finds nothing to do.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        job: The job's id; may be left out if one job is unfinished.
        driver_is_dead: Promise that no process of the job lives: needed for jobs of Hadoop's, whose drivers
            know no job object.
        dry_run: Change nothing; report what would be done.
        reason: Why; if it is given, the log of operations has it.
        cluster: Where a job of Hadoop's staging committers keeps what its tasks have committed, a URL or a
            ``Cluster``.

    Raises:
        UsageError: No job is named, and there is none or are several; or the job is at work in a directory
            further down; or it is Hadoop's and ``driver_is_dead`` is not given. Nothing was changed.
        CommitDenied: The job has begun to publish, or was set up in this moment; nothing was changed. So it
            is where the driver of a job of Hadoop's has published files, which ``commit`` can complete.
        FormatError: The job object is malformed; nothing was changed.
        StoreError: Something could not be discarded; call again.
    """
    how = {"job": job, "driver_is_dead": driver_is_dead, "dry_run": dry_run, "reason": reason}
    return on_destination(abort_job, url, **way, verb="abort", **how, cluster=Cluster.of(cluster))


async def abort_job(
    engine: Engine,
    location: Location,
    *,
    job: str | None = None,
    driver_is_dead: bool = False,
    dry_run: bool = False,
    reason: str | None = None,
    cluster: Cluster | None = None,
) -> RecoverReport:
    """``abort``, on the store's loop."""
    end = partial(recover_jobs, engine, location, abort=True, dry_run=dry_run, reason=reason)
    if job is None:
        return await end(cluster=cluster)
    name = ids.job_id(job)
    there = await find_unfinished_jobs(engine, location.key)
    if (begun := next((one for one in there if one.job_id == name), None)) is not None:
        finder = None if begun.job is None else finder_of(begun.job.options)
        theirs = None if finder is None else await finder.find_begun(engine, location, begun, cluster)
        if theirs is None:
            return await end(job=name)
    elif any(one.job_id.startswith(name) for one in there):
        return await end(job=name)  # a part of an id, which is refused
    else:
        await _refuse_extra_destination(engine, location, name)
        theirs = await find_one(engine, location, name, cluster)
    if theirs is not None:
        how = {"driver_is_dead": driver_is_dead or begun is not None, "dry_run": dry_run}
        return RecoverReport(location.url, (await theirs.discard(location, **how),))
    swept = await _sweep(engine, location, name, driver_is_dead=driver_is_dead, dry_run=dry_run)
    for finder in () if dry_run else finders().values():
        await finder.clean_up(engine, context_of(location, WorkLayout(location.key, name)), cluster)
    return RecoverReport(location.url, () if swept is None else (swept,))


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of a job that has no job object."""

    plans: Sequence[SweepPlan]  # of each layout in which it worked
    warnings: tuple[str, ...]
    versions: Sequence[str]  # of its job object, whose first is gone
    work: str | None  # the directory of work files
    directories: Sequence[str]  # where files of writers may lie that died: keys with which they go
    is_published: bool

    @property
    def uploads(self) -> set[tuple[str, str]]:
        return {upload for plan in self.plans for upload in plan.uploads}

    @property
    def shows_job(self) -> bool:
        """Whether more than the names of uploads shows whose it is."""
        return bool(any(plan.keys for plan in self.plans) or self.versions or self.is_published)

    def __bool__(self) -> bool:
        found = self.uploads or self.shows_job or self.warnings or self.directories
        return bool(found or self.work is not None)

    async def remove(self, engine: Engine) -> None:
        for plan in self.plans:
            await _carry_out(engine, plan)
        if self.versions:
            await _clear(engine, [plan.context.layout for plan in self.plans])
        if self.directories:
            await engine.for_cleanup().store.delete(self.directories)
        if self.work is not None:
            await tree_of(engine.for_cleanup().store).delete_tree(self.work)


async def _sweep(
    engine: Engine, location: Location, job: JobId, *, driver_is_dead: bool, dry_run: bool
) -> RecoveredJob | None:
    """Remove what is left of a job that has no job object; None if there is nothing."""
    works = [await work_of(engine, location, job, name) for name in get_args(LayoutName)]
    for finder in () if driver_is_dead else finders().values():
        finder.refuse_sweep(job, works)
    left = await _left(engine, location, job, works)
    if not left:
        return None
    uploads = left.uploads
    await _refuse_deeper(engine, location, job, {key for key, _ in uploads})
    if uploads and not left.shows_job and not driver_is_dead:
        raise UsageError(
            f"{len(uploads)} uploads are named after job {job}, and {location.url} has no other record of "
            "it. It may be a job of Hadoop's staging committer, which keeps its records in the cluster's "
            "filesystem, and its driver may be running; nothing was changed; make sure that no process of "
            "the job is running, then pass driver_is_dead=True (--driver-is-dead), and cluster= "
            "(--cluster-directory) if there is one"
        )
    if not dry_run:
        await left.remove(engine)
    return RecoveredJob(
        job_id=job,
        found="ended",
        action="would sweep" if dry_run else "swept",
        age_s=0.0,
        host="",
        uploads=len(uploads),
        reason="it is published, and its files stay" if left.is_published else "",
        warnings=left.warnings,
    )


async def _left(
    engine: Engine, location: Location, job: JobId, works: Sequence[tuple[WorkLayout, Sequence[str]]]
) -> _Left:
    layouts = [layout for layout, keys in works if keys] or [WorkLayout(location.key, job)]
    plans, warnings = zip(*[await _plan(engine, context_of(location, one)) for one in layouts], strict=True)
    published = await _is_published(engine, location, job)
    return _Left(
        plans=plans,
        warnings=tuple(dict.fromkeys(filter(None, warnings))),
        versions=[key for layout, keys in works for key in keys if layout.is_job_object(key)],
        work=await _work_files(engine, location, job, published=published),
        directories=[layout.job_object_key for layout, _ in works if await _is_directory(engine, layout)],
        is_published=published,
    )


async def _is_directory(engine: Engine, layout: WorkLayout) -> bool:
    """Whether the directory of a job is there, where those are real."""
    if not engine.store.capabilities.directories:
        return False
    listed = engine.store.list_directories(layout.job_directory)
    return f"{layout.job_directory}/" in [one async for one in listed]


async def _plan(engine: Engine, context: JobContext) -> tuple[SweepPlan, str]:
    """What a sweep would remove now, and a warning about uploads that it leaves.

    A name of the job's does not tell whose an upload is where another job writes files under the names that
    they have. That job is looked for after its uploads were listed, and its object came before them.
    """
    plan = await plan_sweep(engine, context)
    work = context.layout.job_directory
    named = {one for one in plan.uploads - plan.recorded if not paths.is_under(one[0], work)}
    others = await _keeping_names(engine, context, {key for key, _ in named})
    if not others:
        return plan, ""
    warning = (
        f"uploads named after job {context.job} were left ({len(named)}), such as {min(named)[0]}: they may "
        f"be those of job {others[0]}, which has not ended and keeps the names of files "
        "(unique_names=False); after it has ended, abort this job again"
    )
    return replace(plan, uploads=plan.uploads - named), warning


async def _keeping_names(engine: Engine, context: JobContext, keys: Collection[str]) -> list[JobId]:
    """The other unfinished jobs that may have opened uploads of keys, and put no id of theirs into names."""
    found = set[JobId]()

    async def look(directory: str) -> bool:
        with suppress(PermissionDenied):  # where one may not list one does not work
            for one in await find_unfinished_jobs(engine, directory, but=context.job):
                if one.job is None or not one.job.options.unique_names:
                    found.add(one.job_id)
        return True

    directories = {directory for key in keys for directory in ancestors(key)}
    await drained(sorted(directories), look, engine.concurrency)
    return sorted(found)


async def _work_files(engine: Engine, location: Location, job: JobId, *, published: bool) -> str | None:
    """The directory of work files that tasks have left which came too late; None if there is none."""
    if not published and engine.store.capabilities.rename != "copy":
        return None  # it may be that of a job of Hadoop's
    directory = TemporaryLayout(location.key, job).job_directory
    found = [info async for info in engine.store.list(paths.prefix_of(directory), limit=1)]
    return directory if found else None


async def _carry_out(engine: Engine, plan: SweepPlan) -> None:
    """Sweep until nothing is left; some servers list only one page of uploads."""
    context = plan.context
    for _ in range(_ROUNDS):
        # What a job writes comes after its object: so nothing in the plan is of a job set up since.
        there = await find_unfinished_jobs(engine, context.layout.destination)
        if any(one.job_id == context.job for one in there):
            raise CommitDenied(
                f"job {context.job} was set up again while its leftovers were being listed; nothing of it "
                "was removed; abort it again if you want that"
            )
        raise_first(await plan.carry_out(engine.for_cleanup()))
        plan, _ = await _plan(engine, context)
        if not plan.uploads and not plan.keys:
            return


async def _clear(engine: Engine, layouts: Sequence[WorkLayout]) -> None:
    """Delete the versions of a job object whose first is gone."""
    store = engine.for_cleanup().store
    for layout in layouts:
        honoured = await conditions_of(store, layout.job_directory)
        await JobRecord(store, layout, honoured).clear(tried=True)


async def _is_published(engine: Engine, location: Location, job: JobId) -> bool:
    try:
        await engine.store.head(chain.manifest_key(location.key, job))
    except (ObjectNotFound, UsageError):
        return await late_driver.seen_of_jvm(engine, location.key, job) is not None
    return True


async def _refuse_extra_destination(engine: Engine, location: Location, job: JobId) -> None:
    """Refuse if the directory is one of a living job's extra destinations."""
    destination = await location_of(engine, location.key, job)
    if destination is None:
        return
    if any(one.job_id == job for one in await find_unfinished_jobs(engine, destination)):
        url = Location(location.scheme, location.bucket, destination).url
        raise UsageError(
            f"{location.url} is an extra destination of job {job}, which has not ended; nothing was changed; "
            f"give its destination, {url}"
        )


async def _refuse_deeper(engine: Engine, location: Location, job: JobId, keys: Collection[str]) -> None:
    """Refuse if the job works further down: it has not ended, and the URL is not its destination."""
    top = len(paths.elements(location.key))
    places = {
        "/".join(elements[:depth])
        for elements in (key.split("/") for key in keys)
        for depth in range(top + 1, len(elements))
    }

    async def check(place: str) -> bool:
        for name in get_args(LayoutName):
            prefix = paths.prefix_of(WorkLayout(place, job, 0, name).job_directory)
            async for info in engine.store.list(prefix, limit=1):
                raise UsageError(
                    f"job {job} works in a directory below {location.url}, as {info.key} shows; nothing was "
                    f"changed; give its destination, {Location(location.scheme, location.bucket, place).url}"
                )
        return True

    await drained(sorted(places), check, engine.concurrency)
