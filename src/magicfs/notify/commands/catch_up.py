"""A part of ``magicfs recover`` and ``magicfs maintain``: notifications that a dead driver did not send."""

from __future__ import annotations

import argparse
import os

from magicfs.cli.guests import Part
from magicfs.cli.statuses import status_of

PLACE = 6


def configure(parser: argparse.ArgumentParser) -> None:
    """Add ``--notify``."""
    parser.add_argument(
        "--notify",
        metavar="FILE",
        default=os.environ.get("MAGICFS_NOTIFY"),
        help="TOML file of your webhooks, OpenLineage servers and functions, for notifications that a job "
        "owes; default: the environment variable MAGICFS_NOTIFY; magicfs sends to no other address",
    )


def run(arguments: argparse.Namespace) -> Part | None:
    """Send what jobs that have ended owe. Returns None if nothing is owed, and no receivers are named."""
    from magicfs.notify import catch_up, configured

    after = configured(arguments.notify) if arguments.notify else ()
    owed = catch_up(
        arguments.url, after, dry_run=arguments.dry_run, storage_options=arguments.storage_options
    )
    found = [one for one in owed if one.done != "forgotten"]
    if not found and not arguments.notify:
        return None
    blocks = [
        [
            ("notification", f"{one.kind} {one.name}"),
            ("of job", one.job_id),
            ("done", one.done),
            ("reason", one.problem),
        ]
        for one in found
    ]
    line = f"{len(found)} notifications were owed" if found else "no notification is owed"
    status = status_of(found=any(one.done != "sent" for one in found))
    return Part(line, [one.to_dict() for one in found], blocks, status)
