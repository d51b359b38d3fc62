"""Catalogs that are found again by their names: by another process, with connections of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from magicfs.catalogs.delta import Delta
from magicfs.catalogs.glue import Glue
from magicfs.catalogs.hive import Hive
from magicfs.catalogs.iceberg import Iceberg
from magicfs.catalogs.port import Catalog
from magicfs.catalogs.symlinks import SymlinkManifest
from magicfs.errors import UsageError
from magicfs.formats.registration import Registration

__all__ = ["catalog_of", "glue_named", "hive_named", "iceberg_named"]


def catalog_of(one: Registration) -> Catalog:
    """The catalog that a job meant.

    Raises UsageError if this process does not find it, or finds another one under its name.
    """
    make = _KINDS.get(one.catalog)
    if make is None or one.options is None:
        raise UsageError(f"a catalog of kind {one.catalog!r} cannot be found by name; register it by hand")
    return make(one)


def iceberg_named(table: str, name: str) -> Iceberg:
    """A table of the catalog of this name in the configuration of PyIceberg."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise UsageError("iceberg needs pyiceberg; pip install 'magicfs[iceberg]'") from error
    try:
        return Iceberg(load_catalog(name), table)
    except ValueError as error:
        raise UsageError(
            f"pyiceberg knows no catalog {name!r} ({error}); describe it in .pyiceberg.yaml"
        ) from error


def glue_named(table: str, *, region: str | None = None, exact: bool = True) -> Glue:
    """A table of Glue, by a client that takes credentials from the environment, and a region if need be."""
    database, name = _database_and_name(table, "Glue")
    try:
        import botocore.session
    except ImportError as error:
        raise UsageError("glue needs botocore; pip install 'magicfs[s3]'") from error
    try:
        client = botocore.session.get_session().create_client("glue", region_name=region)
    except botocore.exceptions.NoRegionError as error:
        raise UsageError("glue needs a region; set AWS_DEFAULT_REGION") from error
    return Glue(client, database, name, exact=exact)


def hive_named(table: str, uri: str | None, *, exact: bool = False) -> Hive:
    """A table of the metastore of Hive at an address."""
    if uri is None:
        raise UsageError("hive needs the address of its metastore: --metastore thrift://host:9083")
    return Hive(uri, *_database_and_name(table, "Hive"), exact=exact)


def _database_and_name(table: str, keeper: str) -> tuple[str, str]:
    database, dot, name = table.partition(".")
    if not (database and dot and name):
        raise UsageError(f"--table {table!r} names no database of {keeper}; write it as db.sales")
    return database, name


def _iceberg(one: Registration) -> Catalog:
    assert one.options is not None
    found = iceberg_named(one.table, one.options.get("catalog", "default"))
    _check(one, found.options())
    return found


def _glue(one: Registration) -> Catalog:
    assert one.options is not None
    found = glue_named(
        one.table, region=one.options.get("region"), exact=one.options.get("exact", "true") == "true"
    )
    _check(one, found.options())
    return found


def _hive(one: Registration) -> Catalog:
    assert one.options is not None
    return hive_named(one.table, one.options.get("uri"), exact=one.options.get("exact") == "true")


def _check(one: Registration, found: Any) -> None:
    if found != one.options:
        raise UsageError(
            f"what is found here as the {one.catalog} catalog of table {one.table} is not the one that job "
            f"{one.job_id} meant; nothing was changed; register it where its configuration is: {one.line}"
        )


_KINDS: Final[dict[str, Callable[[Registration], Catalog]]] = {
    "delta": lambda _: Delta(),
    "symlink": lambda _: SymlinkManifest(),
    "iceberg": _iceberg,
    "glue": _glue,
    "hive": _hive,
}
