"""What this process knows of jobs and their files, looked at and forgotten."""

from __future__ import annotations

from magicfs.filesystem.job_settings import known_jobs
from magicfs.filesystem.tracking import PlaceName, Scope, name_in, tracker
from magicfs.job.job import Job
from magicfs.job.task import Task

__all__ = ["all_ended", "files_of", "forget_files", "forget_job"]


def all_ended() -> None:
    """Wait until every file that was closed in this process has come to its end."""
    for closing in tracker().closing():
        closing.ended.result()


def forget_job(job: Job) -> None:
    """Forget a job, as a process does not know it in which neither the job nor a task was set up."""
    layout = job.spec.work_layout
    known_jobs().forget(name_in(job.spec.store(), f"{job.spec.location.bucket}/{layout.job_directory}"))


def files_of(task: Task) -> Scope:
    """The files of a task's attempt."""
    all_ended()
    return tracker().snapshot(_scope(task))


def forget_files(task: Task) -> None:
    """Forget the files of a task's attempt, as a process does not know them that did not write them."""
    all_ended()
    tracker().take(_scope(task))


def _scope(task: Task) -> PlaceName:
    path = task.path.removesuffix("/__base")
    return name_in(task.filesystem.store(path.partition("/")[0]), path)
