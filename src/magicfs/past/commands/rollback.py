"""``magicfs rollback URL --to WHICH``: publish an earlier state again."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_job_report
from magicfs.cli.storage import add_storage_options, parse_storage_options
from magicfs.past.commands.keeping import add_asked_keeping

__all__ = ["HELP", "PLACE", "configure", "run"]

HELP = "publish a dataset as it was when a job had been published, as a new job, all or nothing"
PLACE = 140


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
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
        help="only this directory relative to it goes back, such as day=2026-01-01, with all below; may be "
        "given several times",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing; print what would go and what would come back"
    )
    add_asked_keeping(parser, "keep what was published since for so long, such as 7d")
    parser.add_argument(
        "--run-id", metavar="ID", help="name of the run: a second rollback of it does nothing"
    )
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Roll back, and print what was published and what that changed. Returns 0."""
    from magicfs.past.rollback import rollback

    report = rollback(
        arguments.url,
        to=arguments.to,
        partitions=arguments.partition,
        dry_run=arguments.dry_run,
        keep=arguments.keep,
        keep_in_place=arguments.keep_in_place,
        run_id=arguments.run_id,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    print_job_report(report, as_json=arguments.json)
    return 0
