"""The options of jobs that keep what they replace."""

from __future__ import annotations

import argparse
from typing import Any


def asked_of_job(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a command that publishes a job passes on to its verb."""
    from magicfs.past.retention import Keep

    asked = {name: getattr(arguments, name) for name in ("dry_run", "keep", "keep_in_place", "run_id")}
    return {**asked, "keep": Keep.or_period("--keep", arguments.keep)}


def add_keeping(parser: argparse.ArgumentParser, text: str) -> None:
    """Add ``--keep``, of which ``text`` is the help, and ``--keep-in-place``."""
    parser.add_argument("--keep", metavar="PERIOD", dest="keep", help=text)
    _add_in_place(parser)


def add_asked_of_job(parser: argparse.ArgumentParser, what: str, text: str) -> None:
    """Add what ``asked_of_job`` passes on. ``text`` is the help of ``--keep``. ``what``: a drop, or a
    rollback.
    """
    from magicfs.protocol.period import NOT_SAID

    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--keep", metavar="PERIOD", dest="keep", default=NOT_SAID, help=text)
    choice.add_argument(
        "--no-keep",
        dest="keep",
        action="store_const",
        const=None,
        help="delete files at once unless another job keeps them",
    )
    _add_in_place(parser)
    repeated = f"name of the run: a second {what} with this name does nothing"
    parser.add_argument("--run-id", metavar="ID", help=repeated)


def _add_in_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep-in-place",
        action="store_true",
        help="keep them where they are, for readers that know only names, such as those of Iceberg and Delta "
        "tables",
    )
