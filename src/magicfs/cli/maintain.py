"""``magicfs maintain URL``: what a dataset needs now and then. Its parts are guests."""

from __future__ import annotations

import argparse

from magicfs.cli import guests
from magicfs.cli.printing import AGAIN, print_json, print_shown
from magicfs.cli.statuses import Status, worst
from magicfs.cli.storage import add_destination
from magicfs.runtime import registered

__all__ = ["HELP", "PLACE", "POINTS", "configure", "run"]

POINTS = "magicfs.maintain"
HELP = "delete expired files, compact manifests, bring catalogs up to date; safe at any time"
PLACE = ("maintain", 1)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser, dry_run=True)
    parser.add_argument(
        "--only",
        metavar="PART",
        action="append",
        choices=registered.names(POINTS),
        help=f"run only this part: {', '.join(registered.names(POINTS))}; may be repeated",
    )
    guests.configure(POINTS, parser)


def run(arguments: argparse.Namespace) -> int:
    """Do the parts, and print a line for each. Of several errors the first one decides the exit status."""
    parts = guests.run(POINTS, arguments, arguments.only or ())
    status = worst(one.status for one in parts)
    if arguments.json:
        print_json({"url": arguments.url, **{one.name: one.document for one in parts}})
    else:
        again = AGAIN if arguments.dry_run and status == Status.FOUND else ""
        lines = ("dataset", arguments.url), *((one.name, one.line) for one in parts), ("next", again)
        print_shown([lines, *(block for one in parts for block in one.blocks)])
    return status
