"""``magicfs seal URL``: seal the records of a dataset that is published already, or rotate its keys."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_report
from magicfs.cli.storage import add_destination

HELP = "seal the records of a dataset with the key of MAGICFS_CONNECT_SEAL"
PLACE = ("maintain", 2)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser, dry_run=True)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--rotate", action="store_true", help="only seal again what an older key has sealed; for key rotation"
    )
    which.add_argument(
        "--accept",
        action="store_true",
        help="seal also what has no seal or a wrong one, after you have looked at it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Seal, and print what."""
    from magicfs.seal.take_in import seal

    report = seal(
        arguments.url,
        rotate=arguments.rotate,
        accept=arguments.accept,
        dry_run=arguments.dry_run,
        storage_options=arguments.storage_options,
    )
    nothing = "" if report.sealed else f"all {report.records} records at {report.url} are sealed already"
    done = "would seal" if arguments.dry_run else "sealed"
    old = f", {report.rotated} of them under an older key" if report.rotated else ""
    fields = [
        ("dataset", report.url),
        (done, f"{len(report.sealed)} of {report.records} records{old}"),
        ("key", report.key),
    ]
    return print_report(arguments, report, fields, nothing=nothing)
