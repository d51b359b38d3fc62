"""``magicfs log URL``: what was published to a destination, the newest first."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from magicfs.cli.printing import human_moment, print_json, print_report, print_table, write_line
from magicfs.cli.storage import add_destination, check_there

if TYPE_CHECKING:
    from magicfs.watch.operations import Operation

HELP = "list what was published, newest first"
PLACE = ("look", 4)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser)
    parser.add_argument("--limit", metavar="N", type=int, help="only the newest N")
    parser.add_argument(
        "--diff",
        nargs=2,
        metavar=("A", "B"),
        help="show what differs between two publications instead: job ids, run ids, tags or times",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also who aborted, accepted, rolled back, dropped and adopted, and why",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show it; nothing is changed. Returns 0, also if nothing was published, but other files are there."""
    from magicfs.past.history import history
    from magicfs.watch.operations import operations

    if arguments.diff:
        return _show_difference(arguments)
    found = history(arguments.url, limit=arguments.limit, storage_options=arguments.storage_options)
    asked = partial(operations, arguments.url, storage_options=arguments.storage_options)
    done = asked(limit=arguments.limit) if arguments.all else []
    if not (*found, *done):
        check_there(arguments)
    if arguments.json:
        listed = {"operations": [one.to_dict() for one in done]} if arguments.all else {}
        print_json({"url": arguments.url, "publications": [one.to_dict() for one in found], **listed})
        return 0
    if not found:
        write_line(f"nothing is published at {arguments.url}")
    else:
        print_table(found.HEADER, found.rows(lambda moment: human_moment(moment.timestamp() * 1000)))
    if done:
        write_line("")
        print_table(("DONE", "WHAT", "JOB", "WHO", "WHY"), map(_row, done))
    return 0


def _row(one: Operation) -> tuple[str, ...]:
    return human_moment(one.when_ms), one.verb, one.job_id, f"{one.user}@{one.host}", one.reason


def _show_difference(arguments: argparse.Namespace) -> int:
    from magicfs.datasets.connection import on_destination
    from magicfs.past.difference import difference

    a, b = arguments.diff
    report = on_destination(difference, arguments.url, storage_options=arguments.storage_options, a=a, b=b)
    return print_report(arguments, report, report.lines())
