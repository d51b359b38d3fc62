"""What ``magicfs recover`` does about catalogs: tables that a dead driver did not register."""

from __future__ import annotations

import argparse

from magicfs.cli.guests import Mended
from magicfs.cli.storage import parse_storage_options

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add ``--metastore``."""
    parser.add_argument(
        "--metastore",
        metavar="URI",
        action="append",
        default=[],
        help="a metastore of Hive that is yours, such as thrift://host:9083, in addition to those in "
        "PyIceberg's configuration; recover connects to no other",
    )


def run(arguments: argparse.Namespace) -> Mended:
    """Register what jobs that have ended have left."""
    from magicfs.catalogs import catch_up

    tables = catch_up(
        arguments.url,
        dry_run=arguments.dry_run,
        metastores=arguments.metastore,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    found = [one for one in tables if one.done != "forgotten"]
    return Mended(
        "tables",
        [one.to_dict() for one in found],
        [
            [
                ("catalog", f"{one.catalog} {one.table}".rstrip()),
                ("lacked job", one.job_id),
                ("done", one.done),
                ("reason", one.problem),
                ("next", one.line if one.done == "not registered" else ""),
            ]
            for one in found
        ],
        undecided=any(one.done != "registered" for one in found),
    )
