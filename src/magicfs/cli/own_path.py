"""``magicfs job publish|discard PATH``: for what you wrote below a magic path that no job owns."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_report, printable, write_line
from magicfs.report import human_bytes

__all__ = ["add_path", "add_publish", "run_on_path"]


def add_publish(part: argparse.ArgumentParser) -> None:
    """Add the arguments of ``publish``."""
    from magicfs.protocol.modes import WRITE_MODES

    add_path(part)
    part.add_argument(
        "--mode", choices=WRITE_MODES, default="append", help="what to do about existing data (append)"
    )


def add_path(part: argparse.ArgumentParser) -> None:
    """Add the path."""
    part.add_argument(
        "path",
        metavar="PATH",
        help="a file or directory below a magic directory, such as s3://bucket/sales/__magic/mine",
    )


def run_on_path(arguments: argparse.Namespace) -> int:
    """Publish or discard, and print the report."""
    from magicfs.datasets import own_paths

    how = {"dry_run": arguments.dry_run, "storage_options": arguments.storage_options}
    if arguments.part == "publish":
        report = own_paths.publish(arguments.path, mode=arguments.mode, **how)
    else:
        report = own_paths.discard(arguments.path, **how)
    fields = [
        ("path", report.path),
        ("destination", report.destination),
        ("done", report.action),
        ("files", f"{report.files} ({human_bytes(report.bytes)})"),
    ]
    if report.action == "published before":
        fields.append(("why", "another call already published these files; nothing was replaced"))
    status = print_report(arguments, report, fields, done=report.files > 0)
    for url in () if arguments.json else report.filenames:
        write_line(f"  {printable(url)}")
    return status
