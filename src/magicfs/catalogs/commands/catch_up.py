"""A part of ``magicfs recover`` and ``magicfs maintain``: tables that a dead driver did not register."""

from __future__ import annotations

import argparse

from magicfs.cli.guests import Part
from magicfs.cli.statuses import status_of
from magicfs.past.commands.settings import texts

PLACE = 4
POLICY = {"metastores": ("metastore", texts)}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add ``--metastore``."""
    parser.add_argument(
        "--metastore",
        metavar="URI",
        action="append",
        default=[],
        help="a Hive metastore that you trust, such as thrift://host:9083, in addition to those in "
        "PyIceberg's configuration; magicfs connects to no other",
    )


def run(arguments: argparse.Namespace) -> Part:
    """Register what jobs that have ended have left."""
    from magicfs.catalogs import catch_up

    tables = catch_up(
        arguments.url,
        dry_run=arguments.dry_run,
        metastores=arguments.metastore,
        storage_options=arguments.storage_options,
    )
    found = [one for one in tables if one.done != "forgotten"]
    blocks = [
        [
            ("catalog", f"{one.catalog} {one.table}".rstrip()),
            ("lacked job", one.job_id),
            ("done", one.done),
            ("reason", one.problem),
            ("next", one.line if one.done == "not registered" else ""),
        ]
        for one in found
    ]
    line = f"{len(found)} tables lagged behind" if found else "no table lags behind"
    status = status_of(found=any(one.done != "registered" for one in found))
    return Part(line, [one.to_dict() for one in found], blocks, status)
