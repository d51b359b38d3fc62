"""``magicfs abort URL``: discard a job that is not committed, or what is left of one that has ended."""

from __future__ import annotations

import argparse

from magicfs.cli.cluster import add_cluster, parse_cluster
from magicfs.cli.printing import print_recovered
from magicfs.cli.storage import add_storage_options, parse_storage_options

__all__ = ["HELP", "configure", "run"]

HELP = "discard a job that is not committed, or what tasks of an ended job have left since"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument(
        "--job", metavar="ID", help="which job: needed if several are unfinished, or if it has ended"
    )
    parser.add_argument(
        "--driver-is-dead",
        action="store_true",
        help="promise that no process of the job lives: for jobs of Hadoop's",
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    add_cluster(parser)
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Abort, and print what was found and done. Returns 0 if nothing is left to decide; 1 if something could
    not be finished, or ``--dry-run`` found something to do.
    """
    from magicfs.datasets import abort

    report = abort(
        arguments.url,
        job=arguments.job,
        driver_is_dead=arguments.driver_is_dead,
        dry_run=arguments.dry_run,
        cluster=parse_cluster(arguments),
        storage_options=parse_storage_options(arguments.storage_options),
    )
    nothing = f"nothing of job {arguments.job} is left under {report.url}; nothing was changed"
    return print_recovered(report, nothing, as_json=arguments.json)
