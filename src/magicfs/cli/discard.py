"""``magicfs discard PATH``: drop what was written below a magic path that no job owns."""

from __future__ import annotations

import argparse

from magicfs.cli.own_path import add_path, tell
from magicfs.cli.storage import add_storage_options, parse_storage_options

__all__ = ["HELP", "configure", "run"]

HELP = "drop what was written below a magic path of your own; what is published stays"
_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_path(parser)
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Discard, and print the report. Returns 0; 1 if ``--dry-run`` found something to do."""
    from magicfs.datasets import own_paths

    options = parse_storage_options(arguments.storage_options)
    report = own_paths.discard(arguments.path, storage_options=options, dry_run=arguments.dry_run)
    tell(report, as_json=arguments.json)
    return _FOUND if arguments.dry_run and report.files else 0
