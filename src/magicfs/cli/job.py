"""``magicfs job setup|task|commit|abort``: a job whose tasks are commands, with no program to drive it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from magicfs.cli.printing import print_json, print_recovered, printable, write_line
from magicfs.cli.storage import add_storage_options, parse_storage_options
from magicfs.errors import CommitDenied, UsageError

if TYPE_CHECKING:
    from magicfs.datasets.array_job import ArrayJob

__all__ = ["HELP", "configure", "run"]

HELP = "publish what the commands of an array job or a shell script write, all or nothing"
_FOUND: Final = 1
_WAS_RUN = "the run is published already; there is nothing to do"
_TASK = (
    "Options come before JOB. With PATHs, files and what lies below directories are uploaded. With a "
    "COMMAND, it is run, and what it writes below the directory $MAGICFS_OUTPUT is uploaded if it succeeds; "
    "$MAGICFS_TASK is the NUMBER. A link in a directory is refused. A task may run any number of times, also "
    "at the same time: one counts."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the four parts."""
    parts = parser.add_subparsers(dest="part", metavar="PART", title="parts", required=True)
    _part(parts, "setup", "begin a job, and print the name that its tasks are given", _set_up, _setup_options)
    _part(parts, "task", "upload what one task has made", _task, _task_options, epilog=_TASK)
    _part(parts, "commit", "publish what the tasks have uploaded", _commit, _commit_options)
    _part(parts, "abort", "discard the job", _abort, _name)


def run(arguments: argparse.Namespace) -> int:
    """Run a part. Returns 0; 1 if the command of a task failed, or something could not be finished."""
    code: int = arguments.run_part(arguments, parse_storage_options(arguments.storage_options))
    return code


def _part(
    parts: Any,
    name: str,
    text: str,
    function: Callable[[argparse.Namespace, dict[str, Any]], int],
    configure_part: Callable[[argparse.ArgumentParser], None],
    **more: Any,
) -> None:
    part = parts.add_parser(name, help=text, description=text, allow_abbrev=False, **more)
    part.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one compact JSON line"
    )
    add_storage_options(part)
    configure_part(part)
    part.set_defaults(run_part=function)


def _name(part: argparse.ArgumentParser) -> None:
    part.add_argument("job", metavar="JOB", help="what magicfs job setup has printed")


def _setup_options(part: argparse.ArgumentParser) -> None:
    from magicfs.protocol.modes import WRITE_MODES

    part.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    part.add_argument(
        "--mode",
        choices=WRITE_MODES,
        default="error",
        help="what to do about data that is there already; by default fail",
    )
    part.add_argument(
        "--run-id", metavar="RUN", help="name of the run: it is published once, however often run"
    )


def _task_options(part: argparse.ArgumentParser) -> None:
    _name(part)
    # The number among them: argparse would take a -- that follows an argument of its own for its own.
    part.add_argument(
        "rest",
        metavar="NUMBER PATH... | NUMBER -- COMMAND",
        nargs=argparse.REMAINDER,
        help="the task's number, such as $SLURM_ARRAY_TASK_ID, and its files, or the command that makes them",
    )


def _commit_options(part: argparse.ArgumentParser) -> None:
    _name(part)
    part.add_argument(
        "--tasks", metavar="N", type=int, help="how many tasks there must be; else nothing is changed"
    )
    part.add_argument(
        "--allow-empty",
        action="store_true",
        help="let a job that has no files replace what is there, that is, delete it",
    )


def _set_up(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    from magicfs.datasets import array_job

    job = array_job.set_up(
        arguments.url, mode=arguments.mode, run_id=arguments.run_id, storage_options=options
    )
    if arguments.json:
        print_json({"job": str(job), "url": job.url, "published": job.was_run})
    else:
        write_line(str(job))
    return 0


def _task(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    from magicfs.cli.task_files import from_command, from_paths
    from magicfs.datasets import array_job

    job = _job(arguments)
    number, command, paths = _split(arguments.rest)
    if job.was_run:
        return _tell(arguments, {"task": number, "skipped": True}, _WAS_RUN)
    task = array_job.open_task(job, number, options)
    if command:
        status = from_command(task, str(job), command)
        if status:
            text = f"the command of task {task.id} ended with status {status}; nothing of it was uploaded"
            _tell(arguments, {"task": task.id, "status": status}, text)
            return _FOUND
    else:
        from_paths(task, paths)
    commit = task.committed
    assert commit is not None
    array_job.check_open(job, commit, options)
    text = f"task {task.id}: {commit.files} files uploaded; they are published when the job is committed"
    return _tell(arguments, {"task": task.id, "files": commit.files, "bytes": commit.bytes}, text)


def _commit(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    from magicfs import datasets
    from magicfs.datasets import array_job

    job = _job(arguments)
    if job.was_run:
        return _tell(arguments, {"job_id": job.job, "skipped": True}, _WAS_RUN)
    how = {"allow_empty": arguments.allow_empty, "tasks": arguments.tasks}
    try:
        report = datasets.commit(job.url, job.job, storage_options=options, **how)
    except CommitDenied:
        if not array_job.is_published(job, options):
            raise
        # Whoever runs this again after a lost answer wants to hear that all is well.
        return _tell(arguments, {"job_id": job.job, "published": True}, f"job {job.job} is published already")
    _tell(arguments, report.to_dict(), str(report))
    return _FOUND if report.warnings else 0


def _abort(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    from magicfs.datasets import abort

    job = _job(arguments)
    if job.was_run:
        return _tell(arguments, {"job_id": job.job, "skipped": True}, _WAS_RUN)
    report = abort(job.url, job=job.job, storage_options=options)
    nothing = f"nothing of job {job.job} is left under {report.url}; nothing was changed"
    return print_recovered(report, nothing, as_json=arguments.json)


def _job(arguments: argparse.Namespace) -> ArrayJob:
    from magicfs.datasets.array_job import ArrayJob

    return ArrayJob.parse(arguments.job)


def _split(rest: Sequence[str]) -> tuple[int | str, list[str], list[str]]:
    """The task, and the command after ``--`` or the paths. Raises UsageError unless there is one of them."""
    number, *what = rest or [""]
    command = what[1:] if what[:1] == ["--"] else []
    if not command and (not what or any(one.startswith("-") for one in rest)):
        raise UsageError(
            "give the number of the task, and its files and directories, or -- and the command that makes "
            "them, and options before JOB; nothing was changed"
        )
    return int(number) if number.isdecimal() else number, command, [] if command else what


def _tell(arguments: argparse.Namespace, fields: dict[str, Any], text: str) -> int:
    if arguments.json:
        print_json(fields)
    else:
        for line in text.splitlines():
            write_line(printable(line))
    return 0
