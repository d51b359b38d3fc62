"""``magicfs rewrite URL``: put small files together."""

from __future__ import annotations

import argparse
import re

from magicfs.cli.printing import print_fields, print_json, write_line
from magicfs.cli.storage import add_storage_options, parse_storage_options
from magicfs.past.commands.keeping import add_keeping

__all__ = ["HELP", "PLACE", "configure", "run"]

HELP = "put small Parquet files together, as a job, all or nothing; rows and their order stay"
PLACE = 160

_SIZE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument(
        "--target-size",
        metavar="SIZE",
        type=_bytes,
        default="128M",
        help="of the largest files that are made, such as 64M or 1G (128M)",
    )
    parser.add_argument(
        "--partition",
        metavar="DIRECTORY",
        action="append",
        help="only this directory relative to URL, such as day=2026-01-01; may be given several times",
    )
    add_keeping(parser, "keep the old files for so long, such as 7d; by default they are deleted")
    parser.add_argument("--run-id", metavar="ID", help="name of the run: a second rewrite of it does nothing")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    add_storage_options(parser)


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it as 64M or 1G")
    return int(match[1]) * _UNITS[match[2].lower()]


def run(arguments: argparse.Namespace) -> int:
    """Rewrite, and print what. Returns 0, also if there was nothing to rewrite."""
    from magicfs.report import human_bytes
    from magicfs.tables.rewrite import rewrite

    report = rewrite(
        arguments.url,
        target_size=arguments.target_size,
        partitions=arguments.partition,
        dry_run=arguments.dry_run,
        keep=arguments.keep,
        keep_in_place=arguments.keep_in_place,
        run_id=arguments.run_id,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    left = f"{report.left} small files, whose schema pyarrow cannot write" if report.left else ""
    if arguments.json:
        print_json(report.to_dict())
    elif report.published_before:
        write_line(f"this run was rewritten before, by job {report.job_id}; nothing was changed")
    elif not report.files:
        write_line(f"nothing to rewrite at {report.url}; nothing was changed")
        print_fields([("left", left)])
    else:
        print_fields(
            [
                ("dataset", report.url),
                (
                    "would rewrite" if arguments.dry_run else "rewrote",
                    f"{report.files} files ({human_bytes(report.bytes)})",
                ),
                ("into", f"{report.new_files} ({human_bytes(report.new_bytes)})"),
                ("rows", "" if report.rows is None else report.rows),
                ("left", left),
                ("kept", f"the old files, for {arguments.keep}" if report.kept else ""),
                ("job", report.job_id or ""),
                *(("warning", one) for one in report.warnings),
            ]
        )
    return 0
