"""``magicfs expire URL``: delete replaced files whose time is over."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import human_moment, print_fields, print_json
from magicfs.cli.storage import add_storage_options, parse_storage_options

__all__ = ["HELP", "PLACE", "configure", "run"]

HELP = "delete the replaced files that jobs kept with keep, as soon as their time is over"
PLACE = 170


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Delete them. Returns 0, also if there was nothing to do."""
    from magicfs.past.expire import expire
    from magicfs.report import human_bytes

    report = expire(
        arguments.url,
        dry_run=arguments.dry_run,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    if arguments.json:
        print_json(report.to_dict())
        return 0
    done = "would delete" if arguments.dry_run else "deleted"
    print_fields(
        [
            ("dataset", report.url),
            (
                done,
                f"{report.files} files ({human_bytes(report.bytes)}) that {len(report.jobs)} jobs replaced",
            ),
            *(("stays", f"{key} was written anew by somebody else") for key in report.altered),
            ("still kept", f"by {report.keeping} jobs" if report.keeping else ""),
            ("until", human_moment(report.next_ms or 0)),
        ]
    )
    return 0
