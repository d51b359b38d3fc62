"""Jobs whose setup, tasks and commit are processes that share nothing: what each of them is told is a name.

The name is the URL of the job's directory; all else that a task must know is in the job object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicfs.committers.registry import committer_info
from magicfs.datasets.connection import on_destination, was_published
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, UsageError
from magicfs.formats.job_object import JobObject
from magicfs.formats.job_options import JobOptions
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.spec import JobSpec, destination_of
from magicfs.job.task import Task
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import WriteMode
from magicfs.protocol.paths import Location
from magicfs.transaction.record import read_record

_ELEMENT: Final = "/__magic_job-"
_PUBLISHED: Final = "#published"


@dataclass(frozen=True, slots=True)
class ArrayJob:
    """A job by its name, such as ``s3://bucket/sales/__magic_job-<id>``."""

    url: str  # the destination
    job: JobId
    was_run: bool = False  # whether its run is published already, and there is nothing left to do

    def __str__(self) -> str:
        return f"{self.url}{_ELEMENT}{self.job}{_PUBLISHED if self.was_run else ''}"

    @classmethod
    def parse(cls, text: str) -> ArrayJob:
        """From what ``str`` gave. Raises UsageError for anything else."""
        url, found, job = text.removesuffix(_PUBLISHED).rpartition(_ELEMENT)
        if not found or not url or not job or "/" in job:
            raise UsageError(
                f"{text!a} does not name a job; give the name that magicfs job setup printed, such as "
                f"s3://bucket/sales{_ELEMENT}<id>; nothing was changed"
            )
        return cls(url, ids.job_id(job), text.endswith(_PUBLISHED))


def set_up(
    url: str, *, mode: WriteMode, run_id: str | None, storage_options: Mapping[str, Any] | None
) -> ArrayJob:
    """Set a job up for tasks that run elsewhere. If its run is published already, no job is left behind.

    Raises as ``Job.setup`` does.
    """
    job = Job(url, mode=mode, run_id=run_id, storage_options=storage_options).setup()
    if job.found.published is None:
        return ArrayJob(job.url, ids.job_id(job.id))
    job.abort()
    return ArrayJob(job.url, ids.job_id(job.found.published), was_run=True)


def open_task(name: ArrayJob, task: int | str, storage_options: Mapping[str, Any] | None) -> Task:
    """A task of a job that is open, which makes an attempt here.

    Raises UsageError if there is no such job, or one whose tasks cannot run so; CommitDenied if it is open no
    more. Nothing was changed.
    """
    told: JobObject = on_destination(_read, name.url, storage_options, None, name=name)
    if not committer_info(told.options.committer).driven or told.options.tracking != "store":
        raise UsageError(
            f"job {name.job} was set up by a program, which has to run its tasks itself; nothing was "
            "changed; set up a job with magicfs job setup"
        )
    location, options = destination_of(name.url, storage_options, None)
    spec = JobSpec(
        location=location,
        job=told.job_id,
        options=_for_tasks(told.options),
        attempt=told.attempt,
        storage_options=options,
        object_settings=told.object_settings or None,
    )
    return Task(spec, ids.task_id(task))


def _for_tasks(asked: JobOptions) -> JobOptions:
    """What a task has to know of its job; what is replaced is the concern of the process that commits."""
    return JobOptions(
        committer=asked.committer,
        mode="append",
        unique_names=asked.unique_names,
        part_size=asked.part_size,
        collect=asked.collect,
        hadoop=asked.hadoop,
    )


def check_open(name: ArrayJob, commit: TaskCommit, storage_options: Mapping[str, Any] | None) -> None:
    """Raise CommitDenied if the job was not open any more when a task had committed: it may be left out."""
    try:
        on_destination(_read, name.url, storage_options, None, name=name)
    except (CommitDenied, UsageError) as error:
        raise CommitDenied(
            f"task {commit.task_id} is committed, but its job has ended meanwhile, perhaps without it: "
            f"{error}; check what was published"
        ) from error


def is_published(name: ArrayJob, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether the job has been published."""
    found: bool = on_destination(was_published, name.url, storage_options, None, job=name.job)
    return found


async def _read(engine: Engine, location: Location, name: ArrayJob) -> JobObject:
    layout = WorkLayout(location.key, name.job)
    _, version = await read_record(engine.store, layout, probe=False)
    if version is not None and version.job.state is JobState.OPEN:
        return version.job
    if version is not None:
        raise CommitDenied(
            f"job {name.job} is {version.job.state}, and accepts no more tasks; this task changed nothing"
        )
    if await was_published(engine, location, name.job):
        raise CommitDenied(
            f"job {name.job} is already published, and accepts no more tasks; this task changed nothing"
        )
    raise UsageError(
        f"there is no job {name.job} at {location.url}, or it was aborted; nothing was changed; set one up "
        "with magicfs job setup"
    )
