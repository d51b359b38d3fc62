"""The options of jobs that keep what they replace."""

from __future__ import annotations

import argparse

__all__ = ["add_asked_keeping", "add_keeping"]


def add_keeping(parser: argparse.ArgumentParser, text: str) -> None:
    """Add ``--keep``, of which ``text`` is the help, and ``--keep-in-place``."""
    parser.add_argument("--keep", metavar="PERIOD", help=text)
    _add_in_place(parser)


def add_asked_keeping(parser: argparse.ArgumentParser, text: str) -> None:
    """Add ``--keep``, of which ``text`` is the help, and ``--no-keep``: one is needed where files would be
    deleted for good. And ``--keep-in-place``.
    """
    from magicfs.protocol.period import NOT_SAID

    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--keep", "--keep", metavar="PERIOD", dest="keep", default=NOT_SAID, help=text)
    choice.add_argument(
        "--no-keep",
        dest="keep",
        action="store_const",
        const=None,
        help="delete for good what nothing else keeps",
    )
    _add_in_place(parser)


def _add_in_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep-in-place",
        action="store_true",
        help="with a period: keep it where it is in a bucket with versions, too, for readers who know "
        "names alone, such as those of Iceberg and Delta tables",
    )
