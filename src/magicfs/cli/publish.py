"""``magicfs publish PATH``: make visible what was written below a magic path that no job owns."""

from __future__ import annotations

import argparse

from magicfs.cli.own_path import add_path, tell
from magicfs.cli.storage import add_storage_options, parse_storage_options

__all__ = ["HELP", "configure", "run"]

HELP = "publish what was written below a magic path of your own, all or nothing"
_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    from magicfs.protocol.modes import WRITE_MODES

    add_path(parser)
    parser.add_argument(
        "--mode", choices=WRITE_MODES, default="append", help="what to do about data that is there (append)"
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Publish, and print the report. Returns 0 if all is published; 1 after a warning, or if ``--dry-run``
    found something to do.
    """
    from magicfs.datasets import own_paths

    options = parse_storage_options(arguments.storage_options)
    how = {"mode": arguments.mode, "dry_run": arguments.dry_run}
    report = own_paths.publish(arguments.path, storage_options=options, **how)
    tell(report, as_json=arguments.json)
    return _FOUND if report.warnings or (arguments.dry_run and report.files) else 0
