"""``magicfs doctor URL``: what is right and what is not about a destination, and what to do."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_json, printable, write_line
from magicfs.cli.statuses import Status
from magicfs.cli.storage import add_destination

HELP = "check credentials, permissions, the store and leftovers, and suggest fixes"
PLACE = ("look", 1)
_SIGNS = {"ok": "ok   ", "look": "look ", "wrong": "WRONG"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser)
    parser.add_argument(
        "--read-only", action="store_true", help="write no probe, so write permissions are not checked"
    )


def run(arguments: argparse.Namespace) -> int:
    """Look, and print what was seen. Returns 0 if nothing is to be done; 3 if the store refused something; 1
    for anything else that somebody should look at.
    """
    from magicfs.operate.checkup import doctor

    report = doctor(arguments.url, read_only=arguments.read_only, storage_options=arguments.storage_options)
    if arguments.json:
        print_json(report.to_dict())
    else:
        width = max(len(one.subject) for one in report.findings)
        for one in report.findings:
            write_line(f"{_SIGNS[one.verdict]}  {one.subject.ljust(width)}  {printable(one.told)}")
            if one.advice:
                write_line(f"       {' ' * width}  -> {printable(one.advice)}")
    if any(one.error for one in report.findings):
        return Status.STORE
    return Status.FINE if report.ok else Status.FOUND
