"""The options of jobs that keep what they replace."""

from __future__ import annotations

import argparse

__all__ = ["add_keeping"]


def add_keeping(parser: argparse.ArgumentParser, text: str) -> None:
    """Add ``--keep-replaced``, of which ``text`` is the help, and ``--keep-in-place``."""
    parser.add_argument("--keep-replaced", metavar="PERIOD", help=text)
    parser.add_argument(
        "--keep-in-place",
        action="store_true",
        help="with --keep-replaced: keep it where it is in a bucket with versions, too, for readers who know "
        "names alone, such as those of Iceberg and Delta tables",
    )
