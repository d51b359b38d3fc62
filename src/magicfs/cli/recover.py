"""``magicfs recover URL``: bring a job whose driver died to its end."""

from __future__ import annotations

import argparse
from shlex import quote
from typing import TYPE_CHECKING, Any

from magicfs.cli import guests
from magicfs.cli.printing import (
    print_job_report,
    print_json,
    print_recovered,
    print_report,
    printable,
    write_line,
)
from magicfs.cli.statuses import Status
from magicfs.cli.storage import add_cluster, add_destination, check_there, parse_cluster
from magicfs.errors import UsageError
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.datasets.commit import ListedJob

POINTS = "magicfs.recover"
HELP = "finish, publish, discard or roll back a job whose driver died"
PLACE = ("repair", 1)
_OF_COMMIT = ("tasks", "allow_empty", "accept")
_NEEDS = dict.fromkeys(_OF_COMMIT, ("commit",)) | {
    "driver_is_dead": ("commit", "abort"),
    "reason": ("abort", "rollback"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser, dry_run=True)
    parser.add_argument(
        "--job",
        metavar="ID",
        help="which job; needed with --commit, and with --rollback or --abort of several",
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        "--commit", action="store_true", help="publish the committed tasks of an open job; needs --job"
    )
    end.add_argument(
        "--abort",
        action="store_true",
        help="discard an open job, so that its driver can no longer commit it; with --job, also leftovers of "
        "an ended job",
    )
    end.add_argument(
        "--rollback",
        action="store_true",
        help="restore the old files; possible until all new files are visible",
    )
    parser.add_argument(
        "--tasks", type=int, metavar="N", help="with --commit: how many tasks must have committed"
    )
    parser.add_argument(
        "--allow-empty",
        action="store_true",
        help="with --commit: let a job without files replace (delete) existing data",
    )
    parser.add_argument(
        "--accept",
        metavar="REASON",
        help="with --commit: publish a job whose audit failed or did not run; REASON is recorded",
    )
    parser.add_argument("--reason", default="", help="with --abort or --rollback: why; recorded")
    parser.add_argument(
        "--driver-is-dead",
        action="store_true",
        help="with --commit or --abort, for Hadoop jobs: confirm that no process of the job is running",
    )
    guests.configure(POINTS, parser)
    add_cluster(parser)


def run(arguments: argparse.Namespace) -> int:
    """Recover, and print what was found and done. Returns the exit status."""
    from magicfs import datasets

    _check(arguments)
    options, cluster = arguments.storage_options, parse_cluster(arguments)
    how: dict[str, Any] = {"job": arguments.job, "cluster": cluster, "storage_options": options}
    promise = {"driver_is_dead": arguments.driver_is_dead}
    if arguments.commit:
        asked = {name: getattr(arguments, name) for name in _OF_COMMIT}
        if arguments.dry_run:
            return _print_listed(arguments, datasets.preview_commit(arguments.url, **how, **asked, **promise))
        report = datasets.commit(arguments.url, **how, **asked, **promise)
        return print_job_report(report, as_json=arguments.json)
    if arguments.abort:
        how["reason"] = arguments.reason
        done = datasets.abort(arguments.url, dry_run=arguments.dry_run, **how, **promise)
        if not done.jobs:
            check_there(arguments)
        nothing = f"job {arguments.job} left nothing under {done.url}; nothing was changed"
        return print_recovered(done, nothing, as_json=arguments.json)
    asked = {"rollback": arguments.rollback, "dry_run": arguments.dry_run, "reason": arguments.reason}
    done = datasets.recover(arguments.url, **asked, **how)
    if not done.jobs:
        check_there(arguments)
    nothing = f"no unfinished job under {done.url}; nothing was changed"
    if done.below:
        commands = "\n".join(f"  magicfs recover {quote(one)}" for one in done.below)
        nothing = f"{nothing}; there are unfinished jobs below it:\n{commands}"
    return print_recovered(done, nothing, guests.run(POINTS, arguments), as_json=arguments.json)


def _check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that make no sense together."""
    if arguments.commit and arguments.job is None:
        raise UsageError(
            f"--commit needs --job ID; nothing was changed; magicfs recover {arguments.url} lists the jobs"
        )
    for name, ends in _NEEDS.items():
        if getattr(arguments, name) not in (None, False, "") and not any(
            getattr(arguments, one) for one in ends
        ):
            needed = " or ".join(f"--{one}" for one in ends)
            raise UsageError(f"--{name.replace('_', '-')} requires {needed}; nothing was changed; add it")


def _print_listed(arguments: argparse.Namespace, listed: ListedJob) -> int:
    fields = [
        ("job", listed.job_id),
        ("found", "a job of Hadoop's" if listed.found == "hadoop" else listed.found),
        ("done", "would commit"),
        ("mode", listed.mode),
        ("attempt", listed.attempt),
        ("tasks", f"{listed.tasks}: check the number"),
        ("files", f"{listed.files} ({human_bytes(listed.bytes)})"),
        ("published", f"{listed.published} of them already by its driver" if listed.published else None),
        ("would delete", f"{listed.replaced} old files" if listed.replaced else None),
    ]
    if arguments.json:
        print_json({"action": "would commit", **listed.to_dict()})
        return Status.FOUND
    status = print_report(arguments, listed, fields)
    for url in listed.filenames:
        write_line(f"  {printable(url)}")
    return status
