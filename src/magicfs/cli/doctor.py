"""``magicfs doctor URL``: what is right and what is not about a destination, and what to do."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_json, printable, write_line
from magicfs.cli.storage import add_storage_options, parse_storage_options

__all__ = ["HELP", "configure", "run"]

HELP = "look at credentials, permissions, the store, leftovers and unfinished jobs, and say what to do"
_FOUND, _REFUSED = 1, 3
_SIGNS = {"ok": "ok   ", "look": "look ", "wrong": "WRONG"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument(
        "--read-only", action="store_true", help="write no probe: permissions to write are not tried"
    )
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look, and print what was seen. Returns 0 if nothing is to be done; 3 if the store refused something; 1
    for anything else that somebody should look at.
    """
    from magicfs.datasets.checkup import doctor

    options = parse_storage_options(arguments.storage_options)
    report = doctor(arguments.url, read_only=arguments.read_only, storage_options=options)
    if arguments.json:
        print_json(report.to_dict())
    else:
        width = max(len(one.subject) for one in report.findings)
        for one in report.findings:
            write_line(f"{_SIGNS[one.verdict]}  {one.subject.ljust(width)}  {printable(one.told)}")
            if one.advice:
                write_line(f"       {' ' * width}  -> {printable(one.advice)}")
    if any(one.error for one in report.findings):
        return _REFUSED
    return 0 if report.ok else _FOUND
