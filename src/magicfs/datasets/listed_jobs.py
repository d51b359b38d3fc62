"""Finding a job to commit from its pending sets: one of ours that is open, or one of another program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from magicfs.datasets.connection import context_of, was_published
from magicfs.datasets.finders import Cluster, DeadJob, find_one, finder_of, finders
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, UsageError
from magicfs.formats.job_object import JobObject
from magicfs.manifests.chain import READING
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import BEFORE_COMMIT, PUBLISHES
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.modes import REMOVALS
from magicfs.protocol.paths import Location
from magicfs.transaction import facts, late_driver
from magicfs.transaction import output as job_output
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import OtherJob, find_unfinished_jobs
from magicfs.transaction.outcome import ended
from magicfs.transaction.output import JobOutput
from magicfs.transaction.planning import Look, planner_of
from magicfs.transaction.record import JobRecord, believed
from magicfs.transaction.taken_back import run_in_effect
from magicfs.transaction.task_manifests import TaskManifests

__all__ = ["Found", "find", "work_of"]

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
