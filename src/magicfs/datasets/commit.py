"""Committing a job whose driver is gone, from the pending sets that its tasks left in the store.

Nobody knows here which tasks there should be, so this is for people who do: everything that was committed in
the job's last attempt is published, of each task the last commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from typing import Final, TypedDict, Unpack, get_args

from magicfs.datasets.connection import Way, context_of, on_destination, was_published
from magicfs.datasets.finders import Cluster, DeadJob, find_one, finder_of, finders
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitOutcomeUnknown, CommitUnfinished, MagicError, UsageError
from magicfs.formats.job_object import JobObject
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT
from magicfs.manifests.chain import READING
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import BEFORE_COMMIT, PUBLISHES, Wish
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.modes import REMOVALS
from magicfs.protocol.paths import Location
from magicfs.report import JobReport, Report
from magicfs.transaction import facts, late_driver, planning
from magicfs.transaction import output as job_output
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.extension import Accepted, Prepared, extensions_of
from magicfs.transaction.others import OtherJob, find_unfinished_jobs
from magicfs.transaction.outcome import ended
from magicfs.transaction.output import JobOutput
from magicfs.transaction.planning import Look, planner_of
from magicfs.transaction.prepare import leave_landed
from magicfs.transaction.record import JobRecord, JobVersion, believed
from magicfs.transaction.taken_back import run_in_effect
from magicfs.transaction.task_manifests import TaskManifests

_STAGED: Final = frozenset({"directory", "partitioned"})


@dataclass(frozen=True, slots=True)
class Found:
    """A job that can be committed."""

    context: JobContext
    job: JobObject | None  # None for a job of another program
    output: JobOutput | None  # what was listed; None past the commit point: the job's own facts name it
    foreign: DeadJob | None = None


async def find(
    engine: Engine,
    location: Location,
    job: str,
    *,
    driver_is_dead: bool,
    allow_empty: bool,
    cluster: Cluster | None = None,
) -> Found:
    """Find a job and what its tasks have committed; raises as ``datasets.commit`` does."""
    name = ids.job_id(job)
    others = await find_unfinished_jobs(engine, location.key)
    one = next((each for each in others if each.job_id == name), None)
    if one is None:
        return await _find_foreign(engine, location, name, cluster, driver_is_dead=driver_is_dead)
    if one.job is None:
        assert one.problem is not None
        raise one.problem
    _refuse_removal(location, one.job)
    context = await believed(engine, context_of(location, one.layout), one.job)
    context = context.asked(allow_empty=allow_empty)
    if one.job.state in PUBLISHES:
        return Found(context, one.job, None)
    if one.job.state not in BEFORE_COMMIT:
        raise CommitDenied(
            f"job {name} is {one.job.state} and cannot be committed any more; nothing was changed; run "
            f"magicfs recover {location.url}, then the job again"
        )
    if await was_published(engine, location, name):
        raise ended(location.url, name)
    await _check_run(engine, location, one.job, others)
    if await TaskManifests(engine, context).claims():  # what its tasks have published is in nobody's way
        context = replace(context, renames=replace(context.renames, at_task_commit=True))
    if one.job.audit is not None:  # what was judged is what is published
        return Found(context, one.job, await facts.read_output(engine, context, one.job))
    return Found(context, one.job, await _listed(engine, location, context, cluster))


def _refuse_removal(location: Location, job: JobObject) -> None:
    mode = job.options.mode
    if mode in REMOVALS and job.state in BEFORE_COMMIT:
        raise UsageError(
            f"job {job.job_id} is a {mode}, and only its own process knew which files to replace; nothing "
            f"was changed; run magicfs recover {location.url} --job {job.job_id} --abort, then the {mode} "
            "again"
        )


async def _listed(
    engine: Engine, location: Location, context: JobContext, cluster: Cluster | None
) -> JobOutput:
    """What the tasks of an open job have committed, if that is all."""
    job, options = context.job, context.options
    if options.tracking == "memory":
        raise UsageError(
            f"job {job} was run with tracking='memory': only its driver knows what its tasks committed; "
            f"nothing was changed; run magicfs recover {location.url} --job {job} --abort, then the job "
            "again"
        )
    finder = finder_of(options)
    output = await (
        job_output.load_listed(engine, context) if finder is None else finder.load(engine, context, cluster)
    )
    if options.rollback.job is None:  # a rollback has no tasks
        if not output.names and not options.allow_empty:
            raise _no_tasks(location, context.layout, options.committer)
        planner_of(Look(engine, context, JobRecord(engine.store, context.layout, READING), output)).check()
    if output.without_write_id and not output.renames:
        for other in finders().values():
            await other.refuse_gone(engine, context, output)
    return output


async def _check_run(engine: Engine, location: Location, job: JobObject, others: Sequence[OtherJob]) -> None:
    """Refuse to publish a run for a second time."""
    if job.options.run_id is None:
        return
    rival = next(
        (
            one.job
            for one in others
            if one.job and one.job_id != job.job_id and one.job.options.run_id == job.options.run_id
        ),
        None,
    )
    if rival is not None:
        raise CommitDenied(
            f"job {rival.job_id} of the same run {job.options.run_id!r} is {rival.state}; nothing was "
            f"changed; run magicfs recover {location.url} --job {rival.job_id} first, or with --abort if "
            "you want to keep this job"
        )
    before = await run_in_effect(engine.store, location.key, READING, job.options.run_id)
    if before is not None:
        raise CommitDenied(
            f"run {job.options.run_id!r} was published by job {before} already; nothing was changed; run "
            f"magicfs recover {location.url} --job {job.job_id} --abort"
        )


async def _find_foreign(
    engine: Engine, location: Location, job: JobId, cluster: Cluster | None, *, driver_is_dead: bool
) -> Found:
    """A job without a job object: one of another program, or one that has ended."""
    if await was_published(engine, location, job):
        raise ended(location.url, job)
    if (one := await find_one(engine, location, job, cluster)) is None:
        for name in get_args(LayoutName):
            if (await work_of(engine, location, job, name))[1]:
                raise ended(location.url, job)
        if await late_driver.seen_of_jvm(engine, location.key, job) is not None:
            raise CommitDenied(
                f"job {job} is published: a committer of Hadoop's has committed it, as "
                f"{location.url}/_SUCCESS says; nothing was changed; run magicfs adopt {location.url} while "
                "no job writes there, to add its files to the dataset; do not run the job again"
            )
        raise UsageError(
            f"no trace of a job {job!r} was found under {location.url}; nothing was changed; check the id, "
            "and that the URL is the job's destination"
        )
    if not one.report.tasks and not one.report.problem:
        raise _no_tasks(location, one.context.layout, vow=" --driver-is-dead")
    return Found(one.context, None, await one.output(driver_is_dead=driver_is_dead), one)


async def work_of(
    engine: Engine, location: Location, job: JobId, name: LayoutName
) -> tuple[WorkLayout, list[str]]:
    """Every key of a job's work in one of the layouts."""
    layout = WorkLayout(location.key, job, 0, name)
    prefix = paths.prefix_of(layout.job_directory)
    return layout, [info.key async for info in engine.store.list(prefix)]


def _no_tasks(location: Location, layout: WorkLayout, committer: str = "", vow: str = "") -> UsageError:
    elsewhere = ""
    if committer in _STAGED:
        elsewhere = (
            "; if the job had a cluster_directory, its tasks' commits are there: create the Job again with "
            "its job_id and a higher attempt, and call setup, recover_tasks and commit; otherwise"
        )
    return UsageError(
        f"no task of job {layout.job}, attempt {layout.attempt}, has committed; nothing was changed"
        f"{elsewhere or ';'} run magicfs recover {location.url} --job {layout.job} --abort{vow}, then the "
        "job again"
    )


async def commit_or_abort(
    transaction: JobTransaction, load: Callable[[], Awaitable[JobOutput]], driver: str | None
) -> JobReport:
    """Commit a job that was set up; abort it if that raises before its commit point, then raise.

    Uploads that are not the job's own stay. If it is not known what became of the commit, nothing is aborted.
    """
    try:
        return await transaction.commit(load, driver)
    except (CommitOutcomeUnknown, CommitUnfinished):
        raise
    except (MagicError, asyncio.CancelledError) as error:
        try:
            if await transaction.state() in BEFORE_COMMIT:
                await transaction.finish(Wish.ABORT, reason=str(error))
        except MagicError as second:
            context = transaction.context
            error.add_note(
                f"and job {context.job} could not be ended: {second}; run magicfs recover {context.url}"
            )
        raise


class _Wanted(TypedDict, total=False):
    """What ``commit`` is asked."""

    tasks: int | None
    driver_is_dead: bool
    allow_empty: bool
    accept: str | None


class _Way(_Wanted, Way, total=False):
    """The same with the way to the store."""


class Asked(_Wanted, total=False):
    """The same on the store's loop."""

    cluster: Cluster | None


@dataclass(frozen=True, slots=True)
class ListedJob(Report):
    """What committing a job from a listing would publish.

    Attributes:
        job_id: The job.
        destination: URL of the dataset.
        found: Its state; ``hadoop`` for a job of Hadoop's S3A magic committer, which has none.
        mode: Its mode.
        attempt: The job attempt whose pending sets count.
        tasks: Tasks that committed.
        files: Their files.
        bytes: Size of these.
        filenames: URLs of the first 100.
        replaced: How many old files would be deleted, or moved aside.
        published: How many files the driver of a job of Hadoop's has published already.
    """

    job_id: str
    destination: str
    found: str
    mode: str
    attempt: int
    tasks: int
    files: int
    bytes: int
    filenames: tuple[str, ...] = ()
    replaced: int = 0
    published: int = 0


def commit(
    url: str | PathLike[str],
    job: str,
    *,
    cluster: Cluster | str | None = None,
    **asked: Unpack[_Way],
) -> JobReport:
    """Publish what the tasks of an open job have committed, in the place of its driver.

    The job is taken over first: its own driver, if it lives, can no longer commit it. A second call goes on
    where the first one stopped; for a job that has ended it is refused.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        job: The job's id.
        tasks: How many tasks must have committed, if that is known.
        driver_is_dead: Promise that no driver of the job lives. Needed for jobs of Hadoop's,
            whose drivers know no job object and so cannot be kept from committing or aborting at
            the same time. They are published as ``mode="append"``.
        allow_empty: Let a job that has no files replace what is there, that is, delete it.
        cluster: Where a job of Hadoop's staging committers keeps what its tasks have committed, a URL or a
            ``Cluster``; it is published as ``append``, too.
        accept: Why a job in quarantine, whose audit has failed, is published all the same, or one whose
            driver died before it was judged. Exactly what was judged is published, or in the second case
            what its tasks have committed, and the reason stands in the manifest.

    Raises:
        UsageError: No such job, no committed task or another number of them, a job with
            ``tracking="memory"``, or a job of Hadoop's and ``driver_is_dead`` is not given; or a job in
            quarantine, or to be judged, and no ``accept``, or ``accept`` for another one. Nothing was
            changed.
        OutputExists: The mode forbids to publish onto what is there; no file was changed.
        CommitDenied: The job has ended or is being taken back, or another process was faster.
        CommitFailed: A pending set is malformed, and nothing was changed; or a file could not be
            published, and what had become visible was removed again.
        CommitOutcomeUnknown: The store did not answer; nothing was removed; call again.
        CommitUnfinished: Every file is visible, but readers of manifests may not see them; call again.
        FormatError: The job object is malformed; nothing was changed.
        StoreError: The store refused or failed; call again.
    """
    return on_destination(commit_listed, url, verb="commit", job=job, cluster=Cluster.of(cluster), **asked)


def preview_commit(
    url: str | PathLike[str], job: str, *, cluster: Cluster | str | None = None, **asked: Unpack[_Way]
) -> ListedJob:
    """What ``commit`` would publish; raises the same, but needs no ``driver_is_dead``. Changes nothing."""
    return on_destination(preview_listed, url, job=job, cluster=Cluster.of(cluster), **asked)


async def preview_listed(engine: Engine, location: Location, job: str, **asked: Unpack[Asked]) -> ListedJob:
    """``preview_commit``, on the store's loop."""
    asked["driver_is_dead"] = True  # a look changes nothing
    found = await _checked(engine, location, job, **asked)
    output = found.output or JobOutput()
    keys = list(islice(output.final_keys(), SUCCESS_MARKER_FILE_LIMIT))
    decided, foreign = found.job if found.output is None else None, found.foreign
    tasks, files = output.tasks, output.files + len(output.restored)
    size = output.bytes + sum(one.size for one in output.restored.values())
    if decided:
        tasks, files, size = decided.tasks, decided.files, decided.size
    return ListedJob(
        job_id=found.context.job,
        destination=location.url,
        found=found.job.shown_state if found.job else foreign.finder if foreign else "",
        mode=found.context.options.mode,
        attempt=found.context.layout.attempt,
        tasks=tasks,
        files=files,
        bytes=size,
        filenames=tuple(Location(location.scheme, location.bucket, key).url for key in keys),
        replaced=await _replaced(engine, found, output),
        published=foreign.report.published if foreign else 0,
    )


async def _checked(
    engine: Engine,
    location: Location,
    job: str,
    *,
    tasks: int | None = None,
    driver_is_dead: bool = False,
    allow_empty: bool = False,
    cluster: Cluster | None = None,
    accept: str | None = None,
) -> Found:
    """A job that may be committed as it is asked."""
    how = {"driver_is_dead": driver_is_dead, "allow_empty": allow_empty}
    found = await find(engine, location, job, cluster=cluster, **how)
    _check_tasks(found, tasks)
    _check_accepted(location, found, accept)
    return found


def _check_tasks(found: Found, tasks: int | None) -> None:
    """Refuse another number of tasks than the caller knows of; past the commit point it is settled."""
    if tasks is not None and found.output is not None and found.output.tasks != tasks:
        raise UsageError(
            f"{found.output.tasks} tasks of job {found.context.job} have committed, but {tasks} were "
            "expected; nothing was changed; wait for the others, or run them again"
        )


def _check_accepted(location: Location, found: Found, accept: str | None) -> None:
    """Refuse a job that nobody accepts whose audit has failed or is to come; and to accept another."""
    job = found.job
    said = job.audit if job is not None else None
    if accept is not None and not accept.strip():
        raise UsageError("accept needs a reason, which is recorded in the manifest; nothing was changed")
    if job is not None and job.is_quarantined and accept is None:
        raise UsageError(
            f"job {job.job_id} is in quarantine: {said}; nothing was changed; to publish it anyway, pass "
            f"accept= (--accept REASON); to discard it, run magicfs recover {location.url} --job "
            f"{job.job_id} --abort"
        )
    if job is not None and job.is_unjudged:
        if accept is not None:
            return
        raise UsageError(
            f"job {job.job_id} has to pass {'; '.join(job.options.audit.rules)} before it is published, and "
            f"the audit has not run; nothing was changed; create its Job again with job_id={job.job_id!r}, "
            f"options={{'attempt': {job.attempt}}} and these rules, and call setup() and commit() to run "
            "the audit; or pass accept= (--accept REASON) to publish it without the audit; or run "
            f"magicfs recover {location.url} --job {job.job_id} --abort"
        )
    if accept is not None and (said is None or said.passed):
        raise UsageError(
            f"job {found.context.job} is not in quarantine; nothing was changed; leave out accept (--accept)"
        )


async def _replaced(engine: Engine, found: Found, output: JobOutput) -> int:
    """How many old files a job will delete. Adds to the output what a rollback shows again."""
    if found.job is None:
        return 0
    context, record = found.context, JobRecord(engine.store, found.context.layout, READING)
    version = await record.read()
    if found.output is None or version is None:
        stay = context.options.keep.ms is not None and context.options.keep.in_place
        return 0 if stay else sum(chunk.files for chunk in found.job.deletions)
    for one in extensions_of(context.options.rollback.needs()):
        await one.on_output(Prepared(engine, context, record, version, output, _leave))
    plan = await planning.look(engine, context, record, output)
    await leave_landed(plan)
    plan.planner.refuse(plan.replacement)
    return sum(not plan.replacement.stays(one.key) for one in plan.deleted)


async def _leave(_version: JobVersion, _reason: str) -> None:
    """Discard nothing, for this is a dry run."""


async def commit_listed(engine: Engine, location: Location, job: str, **asked: Unpack[Asked]) -> JobReport:
    """``commit``, on the store's loop."""
    found = await _checked(engine, location, job, **asked)
    transaction = JobTransaction(engine, found.context)
    finder, driver = finder_of(found.context.options), None
    if found.foreign is not None:
        driver = await found.foreign.take_over()
    elif found.output is not None:
        driver = await _driver(transaction, found, asked.get("accept"))

    async def load() -> JobOutput:
        return found.output or JobOutput()

    report = await transaction.commit(load, driver)
    if finder is not None:
        await finder.clean_up(engine, found.context, asked.get("cluster"))
    return report


async def _driver(transaction: JobTransaction, found: Found, accept: str | None) -> str | None:
    """Take the job over; None where it needs no driver any more."""
    if found.output is None:
        return None
    if found.job is not None:
        accepted = Accepted(transaction.engine, transaction.context, found.job, found.output, accept or "")
        for one in extensions_of(found.job.needs()):
            if (driver := await one.accept(accepted)) is not None:
                return driver
    return await transaction.take_over()
