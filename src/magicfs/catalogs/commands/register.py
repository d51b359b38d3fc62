"""``magicfs register URL CATALOG``: let a table of a catalog show what is published."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from magicfs.cli.printing import print_fields, print_json
from magicfs.cli.storage import add_storage_options, parse_storage_options
from magicfs.errors import UsageError

if TYPE_CHECKING:
    from magicfs.catalogs.port import Catalog

__all__ = ["HELP", "PLACE", "configure", "run"]

HELP = "let a table of a catalog show the dataset as it is published now"
PLACE = 180


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument(
        "catalog",
        metavar="CATALOG",
        choices=("delta", "iceberg", "glue", "hive", "symlink"),
        help="delta, a table of Delta Lake at the destination; iceberg; glue; hive; or symlink, lists of "
        "files for Athena, Trino and Hive",
    )
    parser.add_argument(
        "--table", metavar="NAME", help="the table of an iceberg, glue or hive catalog, such as db.sales"
    )
    parser.add_argument(
        "--catalog-name",
        metavar="NAME",
        default="default",
        help="which catalog of .pyiceberg.yaml; by default the one called default",
    )
    parser.add_argument(
        "--metastore", metavar="URI", help="of hive: where its metastore is, such as thrift://host:9083"
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="of hive: let readers go by lists of files, as Trino and Presto can, Hive and Spark cannot",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="also if others have changed the table: what they did to it is undone",
    )
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Register, and print what the table shows. Returns 0."""
    from magicfs.catalogs import register

    report = register(
        arguments.url,
        _catalog(arguments),
        force=arguments.force,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    if arguments.json:
        print_json(report.to_dict())
        return 0
    done = f"{report.added} files added, {report.removed} removed" if report.changed else "nothing to do"
    print_fields(
        [
            ("dataset", report.url),
            ("catalog", f"{report.catalog} {report.table}".rstrip()),
            ("shows job", report.job_id),
            ("changed", done),
            ("files", report.files),
        ]
    )
    return 0


def _catalog(arguments: argparse.Namespace) -> Catalog:
    from magicfs.catalogs import Delta, SymlinkManifest
    from magicfs.catalogs.described import glue_named, hive_named, iceberg_named

    if arguments.catalog in {"delta", "symlink"}:
        if arguments.table is not None:
            raise UsageError(
                f"--table is for iceberg, glue and hive; a {arguments.catalog} table is at the destination "
                "itself"
            )
        return Delta() if arguments.catalog == "delta" else SymlinkManifest()
    if arguments.table is None:
        raise UsageError(f"name the table of the {arguments.catalog} catalog: --table db.sales")
    if arguments.catalog == "hive":
        return hive_named(arguments.table, arguments.metastore, exact=arguments.exact)
    if arguments.catalog == "glue":
        return glue_named(arguments.table)
    return iceberg_named(arguments.table, arguments.catalog_name)
