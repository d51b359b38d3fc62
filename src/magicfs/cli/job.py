"""``magicfs job setup|task|commit|abort``: a job whose tasks are commands, with no program to drive it.

``magicfs job publish|discard`` is for magic paths of your own, which no job has set up.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from magicfs.cli.printing import (
    print_job_report,
    print_json,
    print_recovered,
    print_report,
    printable,
    write_line,
)
from magicfs.cli.statuses import Status
from magicfs.cli.storage import add_storage_options
from magicfs.errors import CommitDenied, UsageError
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.datasets.array_job import ArrayJob

HELP = "publish what array jobs, shell scripts or your own programs write, all or nothing"
PLACE = ("publish", 2)
_WAS_RUN = "the run is already published; nothing to do"
_TASK = (
    "Options come before JOB. With PATHs, uploads these files and everything below these directories. With "
    "a COMMAND, runs it with $MAGICFS_TASK set to NUMBER, and if it succeeds uploads what it wrote below "
    "the directory $MAGICFS_OUTPUT. Symbolic links in a directory are refused. A task may run any number of "
    "times, even at the same time: one attempt counts."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the parts."""
    parts = parser.add_subparsers(dest="part", metavar="PART", title="parts", required=True)

    def part(
        name: str,
        text: str,
        run_part: Callable[[argparse.Namespace], int],
        *configure_part: Callable[[argparse.ArgumentParser], None],
        dry_run: bool = False,
        epilog: str = "",
    ) -> None:
        one = parts.add_parser(name, help=text, description=text, epilog=epilog)
        for add in configure_part:
            add(one)
        add_storage_options(one, dry_run=dry_run)
        one.set_defaults(run_part=run_part)

    part("setup", "start a job, and print the name to pass to its tasks", _set_up, _setup_options)
    part("task", "upload the files of one task", _task, _name, _task_options, epilog=_TASK)
    part("commit", "publish what the tasks uploaded", _commit, _name, _commit_options)
    part("abort", "discard the job", _abort, _name)
    part("publish", "publish files that you wrote below a magic path", run_on_path, add_publish, dry_run=True)
    part("discard", "discard unpublished files below a magic path", run_on_path, add_path, dry_run=True)


def run(arguments: argparse.Namespace) -> int:
    """Run a part. Returns its exit status."""
    code: int = arguments.run_part(arguments)
    return code


def _name(part: argparse.ArgumentParser) -> None:
    part.add_argument("job", metavar="JOB", help="the name that magicfs job setup printed")


def _setup_options(part: argparse.ArgumentParser) -> None:
    from magicfs.protocol.modes import WRITE_MODES

    part.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    part.add_argument(
        "--mode",
        choices=WRITE_MODES,
        default="error",
        help="what to do about existing data (error)",
    )
    part.add_argument("--run-id", metavar="RUN", help="name of the run; it is published once")


def _task_options(part: argparse.ArgumentParser) -> None:
    # The number among them: argparse would take a -- that follows an argument of its own for its own.
    part.add_argument(
        "rest",
        metavar="NUMBER PATH... | NUMBER -- COMMAND",
        nargs=argparse.REMAINDER,
        help="the task's number, such as $SLURM_ARRAY_TASK_ID, and its files, or the command that makes them",
    )


def _commit_options(part: argparse.ArgumentParser) -> None:
    part.add_argument(
        "--tasks",
        metavar="N",
        type=int,
        help="how many tasks must have committed; with another number nothing is changed",
    )
    part.add_argument(
        "--allow-empty",
        action="store_true",
        help="let a job without files replace (delete) existing data",
    )


def _set_up(arguments: argparse.Namespace) -> int:
    from magicfs.datasets import array_job

    job = array_job.set_up(
        arguments.url,
        mode=arguments.mode,
        run_id=arguments.run_id,
        storage_options=arguments.storage_options,
    )
    if arguments.json:
        print_json({"job": str(job), "url": job.url, "published": job.was_run})
    else:
        write_line(str(job))
    return 0


def _task(arguments: argparse.Namespace) -> int:
    from magicfs.cli.task_files import from_command, from_paths
    from magicfs.datasets import array_job

    job = _job(arguments)
    number, command, paths = _split(arguments.rest)
    if job.was_run:
        return _print(arguments, {"task": number, "skipped": True}, _WAS_RUN)
    task = array_job.open_task(job, number, arguments.storage_options)
    if command:
        status = from_command(task, str(job), command)
        if status:
            text = f"the command of task {task.id} ended with status {status}; nothing was uploaded"
            return _print(arguments, {"task": task.id, "status": status}, text, Status.TASK_FAILED)
    else:
        from_paths(task, paths)
    commit = task.committed
    assert commit is not None
    array_job.check_open(job, commit, arguments.storage_options)
    text = f"task {task.id}: {commit.files} files uploaded; they are published when the job is committed"
    return _print(arguments, {"task": task.id, "files": commit.files, "bytes": commit.bytes}, text)


def _commit(arguments: argparse.Namespace) -> int:
    from magicfs import datasets
    from magicfs.datasets import array_job

    job = _job(arguments)
    if job.was_run:
        return _print(arguments, {"job_id": job.job, "skipped": True}, _WAS_RUN)
    how = {"allow_empty": arguments.allow_empty, "tasks": arguments.tasks}
    try:
        report = datasets.commit(job.url, job.job, storage_options=arguments.storage_options, **how)
    except CommitDenied:
        if not array_job.is_published(job, arguments.storage_options):
            raise
        # It is run again after a lost answer: all is well.
        return _print(
            arguments, {"job_id": job.job, "published": True}, f"job {job.job} is already published"
        )
    return print_job_report(report, as_json=arguments.json)


def _abort(arguments: argparse.Namespace) -> int:
    from magicfs.datasets import abort

    job = _job(arguments)
    if job.was_run:
        return _print(arguments, {"job_id": job.job, "skipped": True}, _WAS_RUN)
    report = abort(job.url, job=job.job, storage_options=arguments.storage_options)
    nothing = f"job {job.job} left nothing under {report.url}; nothing was changed"
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
            "nothing was changed; give the number of the task, then its files and directories, or -- and "
            "the command that creates them; options come before JOB"
        )
    return int(number) if number.isdecimal() else number, command, [] if command else what


def _print(
    arguments: argparse.Namespace, fields: Mapping[str, object], text: str, status: Status = Status.FINE
) -> int:
    if arguments.json:
        print_json(fields)
    else:
        write_line(printable(text))
    return status


def add_publish(part: argparse.ArgumentParser) -> None:
    """Add the arguments of ``publish``."""
    from magicfs.protocol.modes import WRITE_MODES

    add_path(part)
    part.add_argument(
        "--mode", choices=WRITE_MODES, default="append", help="what to do about existing data (append)"
    )


def add_path(part: argparse.ArgumentParser) -> None:
    """Add the path."""
    part.add_argument(
        "path",
        metavar="PATH",
        help="a file or directory below a magic directory, such as s3://bucket/sales/__magic/mine",
    )


def run_on_path(arguments: argparse.Namespace) -> int:
    """Publish or discard, and print the report."""
    from magicfs.datasets import own_paths

    how = {"dry_run": arguments.dry_run, "storage_options": arguments.storage_options}
    if arguments.part == "publish":
        report = own_paths.publish(arguments.path, mode=arguments.mode, **how)
    else:
        report = own_paths.discard(arguments.path, **how)
    fields = [
        ("path", report.path),
        ("destination", report.destination),
        ("done", report.action),
        ("files", f"{report.files} ({human_bytes(report.bytes)})"),
    ]
    if report.action == "published before":
        fields.append(("why", "another call already published these files; nothing was replaced"))
    status = print_report(arguments, report, fields, done=report.files > 0)
    for url in () if arguments.json else report.filenames:
        write_line(f"  {printable(url)}")
    return status
