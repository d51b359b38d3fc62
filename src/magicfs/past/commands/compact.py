"""``magicfs compact URL``: one manifest in place of many."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_fields, print_json, write_line
from magicfs.cli.storage import add_storage_options, parse_storage_options

__all__ = ["HELP", "PLACE", "configure", "run"]

HELP = "sum the manifests of a dataset up, so that readers start faster; jobs and readers go on meanwhile"
PLACE = 190


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Publish the sum; the dataset stays what it is. Returns 0, also if there was nothing to do."""
    from magicfs.past.compact import compact
    from magicfs.report import human_bytes

    report = compact(
        arguments.url,
        dry_run=arguments.dry_run,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    if arguments.json:
        print_json(report.to_dict())
    elif report.manifest is None:
        write_line(f"nothing to sum up at {report.url}; nothing was changed")
    else:
        print_fields(
            [
                ("dataset", report.url),
                ("would sum up" if arguments.dry_run else "summed up", f"{report.manifests} manifests"),
                ("files", f"{report.files} ({human_bytes(report.bytes)})"),
                ("runs", report.runs),
                ("manifest", report.manifest),
            ]
        )
    return 0
