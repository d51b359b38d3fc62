"""``magicfs commit URL --job ID``: publish what the tasks of a job committed, in its dead driver's place."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from magicfs.cli.cluster import add_cluster, parse_cluster
from magicfs.cli.printing import print_fields, print_job_report, print_json, printable, write_line
from magicfs.cli.storage import add_storage_options, parse_storage_options

if TYPE_CHECKING:
    from magicfs.datasets import ListedJob

__all__ = ["HELP", "configure", "run"]

HELP = "publish what the tasks of an open job have committed, in the place of its driver"
_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument("--job", metavar="ID", required=True, help="the job; magicfs recover lists them")
    parser.add_argument(
        "--tasks", type=int, metavar="N", help="how many tasks must have committed, if that is known"
    )
    parser.add_argument(
        "--driver-is-dead",
        action="store_true",
        help="promise that no process of the job lives: for jobs of Hadoop's",
    )
    parser.add_argument(
        "--allow-empty",
        action="store_true",
        help="let a job that has no files replace what is there, that is, delete it",
    )
    parser.add_argument(
        "--accept",
        metavar="REASON",
        help="publish a job in quarantine, or one that was not judged, all the same; the manifest names the "
        "reason",
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    add_cluster(parser)
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Commit, and print the job's report. Returns 0 if the job is published; 1 if something could not be
    finished, or ``--dry-run`` found something to do.
    """
    from magicfs import datasets

    options = parse_storage_options(arguments.storage_options)
    how: dict[str, Any] = {"driver_is_dead": arguments.driver_is_dead, "allow_empty": arguments.allow_empty}
    how |= {"tasks": arguments.tasks, "cluster": parse_cluster(arguments), "accept": arguments.accept}
    if arguments.dry_run:
        listed = datasets.preview_commit(arguments.url, arguments.job, storage_options=options, **how)
        _tell_listed(listed, as_json=arguments.json)
        return _FOUND
    report = datasets.commit(arguments.url, arguments.job, storage_options=options, **how)
    print_job_report(report, as_json=arguments.json)
    return _FOUND if report.warnings else 0


def _tell_listed(listed: ListedJob, *, as_json: bool) -> None:
    from magicfs.report import human_bytes

    if as_json:
        print_json({"action": "would commit", **listed.to_dict()})
        return
    print_fields(
        [
            ("job", listed.job_id),
            ("found", "a job of Hadoop's" if listed.found == "hadoop" else listed.found),
            ("done", "would commit"),
            ("mode", listed.mode),
            ("attempt", listed.attempt),
            ("tasks", listed.tasks),
            ("files", f"{listed.files} ({human_bytes(listed.bytes)})"),
            ("published", f"{listed.published} of them by its driver already" if listed.published else None),
            ("would delete", f"{listed.replaced} old files" if listed.replaced else None),
            ("next", "nothing was changed; check the number of tasks, then leave --dry-run out to do it"),
        ]
    )
    for url in listed.filenames:
        write_line(f"  {printable(url)}")
