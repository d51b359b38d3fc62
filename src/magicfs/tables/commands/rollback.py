"""``magicfs rollback URL --to WHICH``: publish an earlier state again."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_job_report
from magicfs.cli.statuses import Status
from magicfs.cli.storage import add_destination
from magicfs.errors import UsageError
from magicfs.past.commands.keeping import add_asked_of_job, asked_of_job

HELP = "publish an earlier state again, atomically, as a new job"
PLACE = ("past", 1)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser, dry_run=True)
    parser.add_argument(
        "--to",
        metavar="WHICH",
        required=True,
        help="the publication: a job id, a run id, a tag, or a time such as 2026-03-31T12:00Z; magicfs log "
        "shows them",
    )
    parser.add_argument(
        "--partition",
        metavar="DIRECTORY",
        action="append",
        help="roll back only this directory relative to URL, such as day=2026-01-01; may be repeated",
    )
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        help="roll back only the partitions that meet this condition, such as \"day >= '2026-01-01'\"",
    )
    parser.add_argument(
        "--cherry-pick",
        action="store_true",
        help="add the files that this publication itself added, next to today's, instead of going back",
    )
    add_asked_of_job(parser, "rollback", "how long to keep the files published since; default: 7d")


def run(arguments: argparse.Namespace) -> int:
    """Roll back, and print what was published and what that changed."""
    from magicfs.tables.dataset import Dataset

    dataset = Dataset(arguments.url, storage_options=arguments.storage_options)
    if arguments.cherry_pick:
        if arguments.partition or arguments.where:
            raise UsageError("--cherry-pick adds all files of a publication: omit --partition and --where")
        report = dataset.cherry_pick(arguments.to, dry_run=arguments.dry_run, run_id=arguments.run_id)
    else:
        chosen = {"partitions": arguments.partition, "where": arguments.where}
        report = dataset.rollback(arguments.to, **chosen, **asked_of_job(arguments))
    status = print_job_report(report, as_json=arguments.json)
    return Status.FOUND if arguments.dry_run else status
