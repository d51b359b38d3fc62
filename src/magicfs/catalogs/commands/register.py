"""A part of ``magicfs maintain``: let a table of a catalog show what is published."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from magicfs.cli.guests import Part
from magicfs.cli.statuses import Status
from magicfs.errors import UsageError

if TYPE_CHECKING:
    from magicfs.catalogs.port import Catalog

PLACE = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument(
        "--register",
        metavar="CATALOG",
        choices=("delta", "iceberg", "glue", "hive", "symlink"),
        help="register the dataset as a table: delta, at the destination itself; iceberg, glue or hive; or "
        "symlink, file lists for Athena, Trino and Hive",
    )
    parser.add_argument(
        "--table", metavar="NAME", help="with --register: the iceberg, glue or hive table, such as db.sales"
    )
    parser.add_argument(
        "--catalog-name",
        metavar="NAME",
        default="default",
        help="with --register iceberg: which catalog of .pyiceberg.yaml (default)",
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="with --register hive: readers use file lists (works in Trino and Presto, not Hive or Spark)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="with --register: overwrite changes that others made to the table",
    )


def check(arguments: argparse.Namespace) -> None:
    """Raise UsageError if arguments lack that need others."""
    kind, only = arguments.register, "register" in (arguments.only or ())
    if kind is None and any((only, arguments.table, arguments.exact, arguments.force)):
        raise UsageError("no catalog was given; add --register, such as --register delta")
    if kind in {"delta", "symlink"} and arguments.table is not None:
        raise UsageError(
            f"--table is for iceberg, glue and hive; a {kind} table is stored at the destination itself"
        )
    if kind in {"iceberg", "glue", "hive"} and arguments.table is None:
        raise UsageError(f"name the table of the {kind} catalog: --table db.sales")
    if kind == "hive" and len(arguments.metastore) != 1:
        raise UsageError("give the address of the metastore once: --metastore thrift://host:9083")


def run(arguments: argparse.Namespace) -> Part | None:
    """Register, if that is asked for."""
    if arguments.register is None:
        return None
    catalog = _catalog(arguments)
    if arguments.dry_run:
        said = f"would let {arguments.register} {arguments.table or ''}".rstrip()
        return Part(
            f"{said} show the dataset",
            {"catalog": arguments.register, "table": arguments.table},
            (),
            Status.FOUND,
        )
    from magicfs.catalogs.register import register

    report = register(
        arguments.url, catalog, force=arguments.force, storage_options=arguments.storage_options
    )
    done = f"{report.added} files added, {report.removed} removed" if report.changed else "nothing to do"
    table = f"{report.catalog} {report.table}".rstrip()
    return Part(f"{table}: {done}; it shows {report.files} files, of job {report.job_id}", report.to_dict())


def _catalog(arguments: argparse.Namespace) -> Catalog:
    from magicfs.catalogs import Delta, SymlinkManifest
    from magicfs.catalogs.described import glue_named, hive_named, iceberg_named

    match arguments.register:
        case "delta":
            return Delta()
        case "symlink":
            return SymlinkManifest()
        case "hive":
            return hive_named(arguments.table, arguments.metastore[0], exact=arguments.exact)
        case "glue":
            return glue_named(arguments.table)
        case _:
            return iceberg_named(arguments.table, arguments.catalog_name)
