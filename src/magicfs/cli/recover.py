"""``magicfs recover URL``: bring a job whose driver died to its end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from magicfs.cli.cluster import add_cluster, parse_cluster
from magicfs.cli.guests import Mended
from magicfs.cli.printing import print_recovered, printable
from magicfs.cli.storage import add_storage_options, parse_storage_options
from magicfs.errors import UsageError
from magicfs.runtime import registered

__all__ = ["HELP", "configure", "run"]

_GROUP: Final = "magicfs.recover"
HELP = "bring a job that has died to its end: exactly the new files, or exactly the old ones"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument("--job", metavar="ID", help="which job, if several are unfinished")
    back = parser.add_mutually_exclusive_group()
    back.add_argument(
        "--rollback",
        action="store_true",
        help="restore the old files; possible until every new one is visible",
    )
    back.add_argument(
        "--abort",
        action="store_true",
        help="discard a job that is still open; its driver can no longer commit",
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    for name in registered.names(_GROUP):
        with suppress(UsageError):  # run says so
            registered.load(_GROUP, name, "configure", "run").configure(parser)
    add_cluster(parser)
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Recover, and print what was found and done. Returns 0 if nothing is left to decide; 1 if a job was left
    open, something could not be finished or registered, or ``--dry-run`` found something to do.
    """
    from magicfs.datasets import recover

    report = recover(
        arguments.url,
        job=arguments.job,
        rollback=arguments.rollback,
        abort=arguments.abort,
        dry_run=arguments.dry_run,
        cluster=parse_cluster(arguments),
        storage_options=parse_storage_options(arguments.storage_options),
    )
    mended = list(_mended(arguments))
    nothing = f"no unfinished job under {report.url}; nothing was changed"
    if report.below:
        commands = "\n".join(f"  magicfs recover {one}" for one in report.below)
        nothing = f"{nothing}; but work of jobs lies below:\n{commands}"
    return print_recovered(report, nothing, mended, as_json=arguments.json)


def _mended(arguments: argparse.Namespace) -> Iterator[Mended]:
    """What guests mend. Of one that cannot be loaded a line on stderr says so, and somebody has to look."""
    for name in registered.names(_GROUP):
        try:
            guest = registered.load(_GROUP, name, "configure", "run")
        except UsageError as error:
            sys.stderr.write(f"magicfs: {printable(str(error))}\n")
            yield Mended("", undecided=True)
        else:
            yield guest.run(arguments)
