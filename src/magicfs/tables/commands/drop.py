"""``magicfs drop URL``: remove partitions or other files from a dataset."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_report
from magicfs.cli.storage import add_destination
from magicfs.past.commands.keeping import add_asked_of_job, asked_of_job
from magicfs.report import human_bytes

HELP = "remove partitions or matching files, atomically, as a new job"
PLACE = ("past", 2)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser, dry_run=True)
    parser.add_argument(
        "--partition",
        metavar="DIRECTORY",
        action="append",
        help="a directory relative to URL, such as day=2026-01-01, with everything below it; may be repeated",
    )
    parser.add_argument(
        "--published-by",
        metavar="WHICH",
        action="append",
        help="the files that a publication added: a job id, a run id or a tag; may be repeated",
    )
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        help="a condition on partition values and file facts, such as \"day < '2026-01-01'\"",
    )
    add_asked_of_job(parser, "drop", "how long to keep the dropped files; default: 7d")


def run(arguments: argparse.Namespace) -> int:
    """Drop, and print what."""
    from magicfs.tables.dataset import Dataset

    asked = {"partitions": arguments.partition, "jobs": arguments.published_by, "where": arguments.where}
    dataset = Dataset(arguments.url, storage_options=arguments.storage_options)
    report = dataset.drop(**asked, **asked_of_job(arguments))
    nothing = "" if report.files else f"nothing to drop at {report.url}; nothing was changed"
    if report.published_before:
        nothing = f"job {report.job_id} already made this drop; nothing was changed"
    done = "would drop" if arguments.dry_run else "dropped"
    first = f", such as {report.keys[0]}" if report.keys else ""
    fields = [
        ("dataset", report.url),
        (done, f"{report.files} files ({human_bytes(report.bytes)}){first}"),
        ("of", report.effects.said_publications),
        *(line for line in report.effects.lines() if line[0] in {"kept", "deleted"}),
        ("job", report.job_id),
    ]
    return print_report(arguments, report, fields, nothing=nothing)
