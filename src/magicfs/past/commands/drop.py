"""``magicfs drop URL``: take partitions or other files out of a dataset."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_fields, print_json, write_line
from magicfs.cli.storage import add_storage_options, parse_storage_options
from magicfs.past.commands.keeping import add_asked_keeping

__all__ = ["HELP", "PLACE", "configure", "run"]

HELP = "take partitions, or files that a condition means, out of a dataset, as a job, all or nothing"
PLACE = 150


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument(
        "--partition",
        metavar="DIRECTORY",
        action="append",
        help="a directory relative to it, such as day=2026-01-01, with all below; may be given several times",
    )
    parser.add_argument(
        "--published-by",
        metavar="WHICH",
        action="append",
        help="what a publication brought: a job id, a run id or a tag; may be given several times",
    )
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        help="a condition on partition values and on what manifests know, such as \"day < '2026-01-01'\"",
    )
    add_asked_keeping(parser, "keep what is dropped for so long, such as 7d")
    parser.add_argument("--run-id", metavar="ID", help="name of the run: a second drop of it does nothing")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Drop, and print what. Returns 0, also if there was nothing to drop."""
    from magicfs.past.drop import drop
    from magicfs.report import human_bytes

    report = drop(
        arguments.url,
        partitions=arguments.partition,
        jobs=arguments.published_by,
        where=arguments.where,
        dry_run=arguments.dry_run,
        keep=arguments.keep,
        keep_in_place=arguments.keep_in_place,
        run_id=arguments.run_id,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    if arguments.json:
        print_json(report.to_dict())
    elif report.published_before:
        write_line(f"this run was dropped before, by job {report.job_id}; nothing was changed")
    elif not report.files:
        write_line(f"nothing to drop at {report.url}; nothing was changed")
    else:
        done = "would drop" if arguments.dry_run else "dropped"
        print_fields(
            [
                ("dataset", report.url),
                (done, f"{report.files} files ({human_bytes(report.bytes)}), such as {report.keys[0]}"),
                ("kept", f"for {arguments.keep}" if report.kept else ""),
                ("of", report.effects.said_publications),
                ("deleted", f"for good: {report.effects.lost}" if report.effects.lost.files else ""),
                ("job", report.job_id or ""),
                *(("warning", one) for one in report.warnings),
            ]
        )
    return 0
