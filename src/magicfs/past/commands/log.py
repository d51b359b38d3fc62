"""``magicfs log URL``: what was published to a destination, the newest first."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_json, print_table, write_line
from magicfs.cli.storage import add_storage_options, parse_storage_options

__all__ = ["HELP", "PLACE", "configure", "run"]

HELP = "show what was published to a destination, the newest first"
PLACE = 120


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument("--limit", metavar="N", type=int, help="only the newest N; by default all")
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show it; nothing is changed. Returns 0, also if nothing was published."""
    from magicfs.past.history import history
    from magicfs.report import human_bytes

    found = history(
        arguments.url,
        limit=arguments.limit,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    if arguments.json:
        print_json({"url": arguments.url, "publications": [one.to_dict() for one in found]})
    elif not found:
        write_line(f"nothing was published to {arguments.url}")
    else:
        print_table(
            ("PUBLISHED", "JOB", "MODE", "FILES", "SIZE", "KEEPS UNTIL", "TAGS", "RUN"),
            [
                (
                    f"{one.published:%Y-%m-%d %H:%M:%S} UTC",
                    one.job_id,
                    one.mode if one.restores is None else "rollback",
                    str(one.files),
                    human_bytes(one.bytes),
                    f"{one.kept_until:%Y-%m-%d %H:%M:%S} UTC" if one.kept_until else "",
                    " ".join(one.tags),
                    one.run_id or "",
                )
                for one in found
            ],
        )
    return 0
